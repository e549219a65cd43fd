"""After slurmctld was killed: jobs and records about which it and the others differ are brought to an end. Pure.

Killed, slurmctld loses its last seconds. What follows from that does not heal by itself, or only after minutes:

    a job that ended in these seconds   is RUNNING again; it ends when its slurmd registers and does not name it. By
                                        itself a slurmd does so every few minutes, and slurmctld listens only once it
                                        has known a job for a while
    a job that began in them            is not known any more; its record in slurmdbd would stay RUNNING for ever

So workers that hold jobs from before are told to register again as soon as they are believed, and such records are
closed. All of it follows from what slurmctld, slurmd and slurmdbd say; nothing is remembered.
"""

from datetime import datetime, timedelta

from corral.engine import NOTHING, Action, EmitEvent, Outside, Plan, target
from corral.kinds.controller.snapshot import (
    CloseRecords,
    Holder,
    RegisterAnew,
    Revival,
    Snapshot,
    is_ready,
    pod_name,
    slurmdbd,
    some,
)

BELIEVED_AFTER = timedelta(seconds=25)  # slurmctld's own: BatchStartTimeout (10 s) and MessageTimeout (10 s)
HEALED_AFTER = timedelta(minutes=10)  # by then every slurmd has registered without being told
ASK_AGAIN_S = 60.0  # slurmdbd, that says it is up
REGISTERED_MAX = 200  # workers in one pass
SLURMD = "slurmd"


def plan(snapshot: Snapshot) -> Plan:
    revival = snapshot.running.revival if snapshot.running else None
    if revival is None:
        return NOTHING
    if snapshot.now < believed_at(revival):
        return Plan(again_after_s=(believed_at(revival) - snapshot.now).total_seconds())
    actions = (*_registered(snapshot, revival), *_closed(snapshot, revival))
    unasked = revival.lost is None and _records_exist(snapshot)
    return Plan(actions=actions, again_after_s=ASK_AGAIN_S if unasked else None)


def is_unfinished(revival: Revival, now: datetime, as_of: datetime) -> bool:
    """Whether what was said at `as_of` has to be asked for again: slurmctld and the others may agree by now."""
    if now < believed_at(revival):
        return False
    return as_of < believed_at(revival) or bool(unsure(revival, now)) or revival.lost is None or bool(revival.lost)


def believed_at(revival: Revival) -> datetime:
    return max(revival.at, revival.loaded) + BELIEVED_AFTER


def unsure(revival: Revival, now: datetime) -> frozenset[str]:
    """Nodes with jobs from before that have not registered since slurmctld would believe them."""
    if now >= revival.at + HEALED_AFTER:
        return frozenset()
    return frozenset(node for node, registered in revival.holding.items() if registered < believed_at(revival))


def _registered(snapshot: Snapshot, revival: Revival) -> tuple[Action, ...]:
    names = unsure(revival, snapshot.now)
    found = (holder.pod.metadata.name for holder in snapshot.holders if _is_slurmd(holder))
    pods = tuple(pod for pod in found if pod in names)[:REGISTERED_MAX]
    if not pods:
        return ()
    back = f"slurmctld came back at {revival.at:%H:%M:%S} and may not know which of its jobs have ended"
    message = f"{back}: {some(pods)} register{'s' if len(pods) == 1 else ''} anew"
    return _done(snapshot, some(pods), RegisterAnew(pods=pods), "WorkersRegister", message)


def _closed(snapshot: Snapshot, revival: Revival) -> tuple[Action, ...]:
    if not revival.lost or not _records_exist(snapshot):
        return ()
    jobs = f"job{'s' if len(revival.lost) > 1 else ''} {some(revival.lost)}"
    message = f"slurmctld came back at {revival.at:%H:%M:%S} without {jobs}: the open records are closed"
    return _done(snapshot, jobs, CloseRecords(pod=pod_name(snapshot.object)), "RecordsClosed", message)


def _done(
    snapshot: Snapshot, subject: str, call: RegisterAnew | CloseRecords, reason: str, message: str
) -> tuple[Action, ...]:
    meta = snapshot.object.metadata
    system = f"Slurm {meta.namespace}/{meta.name}"
    return (
        Outside(system=system, subject=subject, call=call, reason=reason, message=message),
        EmitEvent(regarding=target(snapshot.object), reason=reason, message=message, action="Recover"),
    )


def _is_slurmd(holder: Holder) -> bool:
    return holder.daemon == SLURMD and is_ready(holder.pod)


def _records_exist(snapshot: Snapshot) -> bool:
    return snapshot.accounting is not None and bool(slurmdbd(snapshot.accounting).yes)
