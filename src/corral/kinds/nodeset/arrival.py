"""Whether a slurmd is about to register, and may then be given a job at any moment. Pure.

Between the start of a slurmd and its registration Slurm has no record of the node, or one of an earlier life: of the
pod that had the name before, or of the same container before it ended. Such a record proves nothing about the slurmd
that comes: forgotten together with its drain, it is made anew by the registration, and without a drain. So whoever is
to go in this time is waited for, until it has registered or has had enough time for it.

A record tells whose it is by the time at which its slurmd was started. One that has none, and answers, is of a slurmd
that is just being told to register: slurmctld has read its files anew, and so do its slurmds, within a second; one that
cannot be told does not answer. When the present slurmd was started is known from what kubelet tells, which is never
before it:

    its container runs             since that start; not before it was told its line, for which it waits
    its container is to be made    since whatever kubelet told last. After a reboot, and between crashes, the pod is
                                   running all the same
    its image cannot be had        never, unless it has run before

The pod of a worker whose record has vanished says since when (`shown.MISSING`). Its slurmd runs, and may be told to
register anew at any moment, by the Controller or by a person: it has its time from then on.
"""

from datetime import UTC, datetime, timedelta

from corral.kinds import names
from corral.kinds.nodeset.registration import CONTAINER, asks_its_machine, said_by
from corral.kinds.nodeset.shown import FOR_EVER, PREFIX, missing_since
from corral.kube.models.core_v1 import ContainerStatus, Pod
from corral.slurm.states import Base, Flag
from corral.slurm.values import Node

REGISTERED_WITHIN_S = 120.0  # a slurmd that runs beside a slurmctld that answers has registered by then, or never will
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
LIVES = ("Pending", "Running", "Unknown")
LONG_AGO = datetime.min.replace(tzinfo=UTC)
SILENT = frozenset({Flag.NOT_RESPONDING, Flag.POWERING_DOWN, Flag.POWERED_DOWN})  # nobody is there to be told


def settled_since(now: datetime, answers_since: datetime | None) -> datetime:
    """A slurmd that began to run after it may still register: not all of that time has Slurm answered."""
    settled = now - timedelta(seconds=REGISTERED_WITHIN_S)
    return settled if answers_since is not None and answers_since <= settled else LONG_AGO


def runs(pod: Pod) -> bool:
    """Whether its slurmd runs, by kubelet's word."""
    told = _told(pod)
    return told.state.running is not None if told is not None else pod.status.phase == "Running"


def is_about_to_register(pod: Pod, record: Node | None, since: datetime) -> bool:
    """Whether a slurmd that was started after that moment, or may have been, is not the one on record."""
    begun = _begun(pod) if pod.status.phase in LIVES else None
    if record is None:
        moments = (begun, missing_since(pod)) if pod.status.phase in LIVES else ()
        return any(at is not None and at > since for at in moments)
    if begun is None:
        return False
    if record.registered_at is None:
        drained_at = record.reason_at or LONG_AGO
        return is_being_told(record) or begun > since or drained_at > since
    return begun > since and record.registered_at < begun


def is_being_told(record: Node) -> bool:
    """Whether slurmctld tells its slurmd to register in this very moment, whatever else the record says."""
    is_away = record.state.base is Base.DOWN or not record.state.flags.isdisjoint(SILENT)
    return record.registered_at is None and not is_away


def _begun(pod: Pod) -> datetime | None:
    """The moment since when its present slurmd may run; None if there is none, and none comes.

    One without a Kubernetes node is safe to delete, and so is one that waits for its line: the pod's version is the
    condition, and to be bound or told changes it.
    """
    told = _told(pod)
    if asks_its_machine(said_by(pod)):
        return None
    if told is not None and told.state.running is not None:
        return max(told.state.running.started_at or _made_at(pod), _told_its_line(pod))
    is_bound = bool(pod.spec.node_name) or pod.status.phase == "Running"
    return _heard(pod, told) if is_bound and (told is None or not _cannot_start(told)) else None


def _cannot_start(told: ContainerStatus) -> bool:
    has_run = told.restart_count > 0 or told.last_state.terminated is not None
    return told.state.waiting is not None and told.state.waiting.reason in NO_IMAGE and not has_run


def _heard(pod: Pod, told: ContainerStatus | None) -> datetime:
    """When kubelet told something of it last."""
    moments = [one.last_transition_time for one in pod.status.conditions if not one.type.startswith(PREFIX)]
    ends = [one.terminated for one in (told.state, told.last_state)] if told is not None else []
    moments += [one.finished_at for one in ends if one is not None]
    return max([_made_at(pod), *(at for at in moments if at is not None)])


def _told_its_line(pod: Pod) -> datetime:
    try:
        return datetime.fromisoformat(pod.metadata.annotations.get(names.NODE_CONF_AT, "")).astimezone(UTC)
    except ValueError:
        return LONG_AGO


def _made_at(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or FOR_EVER


def _told(pod: Pod) -> ContainerStatus | None:
    for one in pod.status.container_statuses:
        if one.name == CONTAINER:
            return one
    return None
