"""Whether a slurmd is about to register, and may then be given a job at any moment. Pure.

Between the start of a slurmd and its registration Slurm has no record of the node, or one of an earlier life: of the
pod that had the name before, or of the same container before it ended. Such a record proves nothing about the slurmd
that comes: forgotten together with its drain, it is made anew by the registration, and without a drain. So whoever is
to go in this time is waited for, until it has registered or has had enough time for it.

A record tells whose it is by the time at which its slurmd was started. One that has none, and answers, is of a slurmd
that is just being told to register: slurmctld has read its files anew, and so do its slurmds, within a second; one that
cannot be told does not answer. When the present slurmd was started, kubelet tells (see `started`).

A slurmctld that is killed loses its last seconds, and with them who has just registered: what it has on record then is
an earlier life, without a start, at an address where nobody is. No slurmd registers again by itself.

The pod of a worker whose record has vanished says since when (`shown.MISSING`). Its slurmd runs, and may be told to
register anew at any moment, by the Controller or by a person: it has its time from then on.
"""

from datetime import datetime, timedelta

from corral.kinds.nodeset.body import Body
from corral.kinds.nodeset.started import LONG_AGO
from corral.slurm.states import Base, Flag
from corral.slurm.values import Node

REGISTERED_WITHIN_S = 120.0  # a slurmd that runs beside a slurmctld that answers has registered by then, or never will
LIVES = ("Pending", "Running", "Unknown")
POWERED = frozenset({Flag.POWERING_DOWN, Flag.POWERED_DOWN})
SILENT = POWERED | {Flag.NOT_RESPONDING}  # nobody is there to be told


def settled_since(now: datetime, answers_since: datetime | None) -> datetime:
    """A slurmd that began to run after it may still register: not all of that time has Slurm answered."""
    settled = now - timedelta(seconds=REGISTERED_WITHIN_S)
    return settled if answers_since is not None and answers_since <= settled else LONG_AGO


def is_about_to_register(body: Body, record: Node | None, since: datetime) -> bool:
    """Whether a slurmd that was started after that moment, or may have been, is not the one on record."""
    if body.phase not in LIVES:
        return False
    begun = body.begun
    if record is None:
        return any(at is not None and at > since for at in (begun, body.missing_since))
    if begun is None:
        return False
    if record.registered_at is None:
        drained_at = record.reason_at or LONG_AGO
        return is_being_told(record) or begun > since or drained_at > since
    return begun > since and record.registered_at < begun


def is_missed(body: Body, record: Node | None) -> bool:
    """Whether slurmctld has given it up, and knows only an earlier life of it: then it looks for it elsewhere.

    One that it asks answers within seconds. (It may still register by itself, in its time.)
    """
    if record is None or record.state.base is not Base.DOWN or not record.state.flags.isdisjoint(POWERED):
        return False
    is_of_another = record.registered_at is None or (body.begun is not None and record.registered_at < body.begun)
    return body.is_ready and is_of_another


def is_being_told(record: Node) -> bool:
    """Whether slurmctld tells its slurmd to register in this very moment, whatever else the record says."""
    is_away = record.state.base is Base.DOWN or not record.state.flags.isdisjoint(SILENT)
    return record.registered_at is None and not is_away
