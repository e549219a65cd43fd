"""Whether a slurmd is about to register, and may then be given a job at any moment. Pure.

Between the start of a slurmd and its registration Slurm has no record of the node, or one of an earlier life: of the
pod that had the name before, or of the same container before it ended. Such a record proves nothing about the slurmd
that comes: forgotten together with its drain, it is made anew by the registration, and without a drain. So whoever is
to go in this time is waited for, until it has registered or has had enough time for it.

A record tells whose it is by the time at which its slurmd was started.
"""

from datetime import UTC, datetime, timedelta

from corral.kinds.nodeset.registration import CONTAINER
from corral.kube.models.core_v1 import ContainerState, Pod
from corral.slurm.values import Node

REGISTERED_WITHIN_S = 120.0  # a slurmd that runs beside a slurmctld that answers has registered by then, or never will
STARTS_SOON = ("", "ContainerCreating", "PodInitializing")  # not one that kubelet has given up on, as for its image
LONG_AGO = datetime.min.replace(tzinfo=UTC)


def settled_since(now: datetime, answers_since: datetime | None) -> datetime:
    """A slurmd that began to run after it may still register: not all of that time has Slurm answered."""
    settled = now - timedelta(seconds=REGISTERED_WITHIN_S)
    return settled if answers_since is not None and answers_since <= settled else LONG_AGO


def runs(pod: Pod) -> bool:
    """Whether its slurmd runs, by kubelet's word."""
    told = _told(pod)
    return told.running is not None if told is not None else pod.status.phase == "Running"


def is_about_to_register(pod: Pod, record: Node | None, since: datetime) -> bool:
    """Whether a slurmd that was started after that moment, or may have been, is not the one on record."""
    begun = _begun(pod)
    if begun is None or begun <= since:
        return False
    return record is None or record.registered_at is None or record.registered_at < begun


def _begun(pod: Pod) -> datetime | None:
    """The moment since when its present slurmd may run; None if there is none. Kubelet tells of a start after it.

    One without a Kubernetes node is safe to delete: the pod's version is the condition, and to be bound changes it.
    """
    told, made_at = _told(pod), pod.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    if told is not None and told.running is not None:
        return told.running.started_at or made_at
    if told is not None and told.terminated is not None and pod.status.phase in ("Pending", "Running"):
        return told.terminated.finished_at or made_at  # it is started again
    if told is None and pod.status.phase == "Running":
        return made_at
    is_bound = pod.status.phase == "Pending" and bool(pod.spec.node_name)
    starts = told is None or told.waiting is None or told.waiting.reason in STARTS_SOON
    return made_at if is_bound and starts else None


def _told(pod: Pod) -> ContainerState | None:
    return next((one.state for one in pod.status.container_statuses if one.name == CONTAINER), None)
