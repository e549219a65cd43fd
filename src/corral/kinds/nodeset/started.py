"""Since when a worker's present slurmd may run, according to kubelet. Pure.

Kubelet's times are never before the start itself:

    its container runs                since that start; not before it was given its line, for which it waits
    its container is to be created    since kubelet's last news. After a reboot, and between crashes, the pod is Running
                                      all the same
    its image cannot be pulled        never, unless it has run before
"""

from datetime import UTC, datetime

from corral.kinds import names
from corral.kinds.nodeset.registration import CONTAINER
from corral.kinds.nodeset.shown import FOR_EVER, PREFIX
from corral.kube.models.core_v1 import ContainerStatus, Pod

NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
LONG_AGO = datetime.min.replace(tzinfo=UTC)


def told_of_slurmd(pod: Pod) -> ContainerStatus | None:
    for one in pod.status.container_statuses:
        if one.name == CONTAINER:
            return one
    return None


def runs(pod: Pod, told: ContainerStatus | None) -> bool:
    """Whether its slurmd runs."""
    return told.state.running is not None if told is not None else pod.status.phase == "Running"


def begun(pod: Pod, told: ContainerStatus | None, *, is_unfilled: bool) -> datetime | None:
    """The moment since when its present slurmd may run; None if there is none, and none comes.

    One without a Kubernetes node is safe to delete, and so is one that waits for its line: the pod's version is the
    condition, and to be bound or told changes it.
    """
    if is_unfilled:
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
    said = pod.metadata.annotations.get(names.NODE_CONF_AT)
    try:
        return datetime.fromisoformat(said).astimezone(UTC) if said else LONG_AGO
    except ValueError:
        return LONG_AGO


def _made_at(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or FOR_EVER
