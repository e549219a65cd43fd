"""What follows from a worker's pod alone, found in one go. Pure.

Pods change rarely, and their nodes in Slurm often. So this is found once for a pod, and is good until the pod changes.
"""

from datetime import datetime, timedelta

import msgspec

from corral.kinds.identity import NSLCD
from corral.kinds.nodeset.fitting import STAYS
from corral.kinds.nodeset.registration import CONTAINER, asks_its_machine, given_to, said_by
from corral.kinds.nodeset.revision import Make, make_of
from corral.kinds.nodeset.shown import PREFIX, missing_since
from corral.kinds.nodeset.started import begun, runs, told_of_slurmd
from corral.kube.models.core_v1 import Pod, PodCondition

ENDED = ("Failed", "Succeeded")
# Whoever deletes a worker's pod, its jobs end first: it waits for them itself (`slurmd-leave`), and goes without any.
GRACE_S = 365 * 24 * 3600
SHORT_GRACE_S = 30  # for one that is not to wait
OURS = (CONTAINER, NSLCD)  # these hear their TERM


class Body(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The defaults are those of a worker without a pod."""

    phase: str = ""
    is_live: bool = False  # it runs, or will run: neither being deleted nor ended
    is_leaving: bool = False
    waits_since: datetime | None = None  # when it was deleted, if it may wait for its jobs (see `ending.waits`)
    is_cut: bool = False  # it was deleted with less time than it has by itself, then or since
    ends_by: datetime | None = None  # when it is to have ended, if it was deleted
    may_be_deaf: bool = False  # it has containers of others, and the time of one that waits for its jobs
    is_ready: bool = False
    runs: bool = False  # its slurmd, according to kubelet
    begun: datetime | None = None  # since when its slurmd may run
    make: Make | None = None
    line: str = ""  # what its slurmd registers with
    given: str | None = None  # the line that was written to it once it had a Kubernetes node
    is_unfilled: bool = False  # its slurmd waits for what its Kubernetes node says
    can_be_driven_out: bool = False  # a taint of its Kubernetes node would delete it at once
    shown: tuple[PodCondition, ...] = ()  # what it shows of Slurm

    @property
    def has_ended(self) -> bool:
        """All its processes have ended for good: removing it kills nothing."""
        return self.phase in ENDED

    @property
    def missing_since(self) -> datetime | None:
        """When Slurm was seen to have lost it; None if it never had a record."""
        return missing_since(self.shown)


NO_BODY = Body()


def body_of(pod: Pod) -> Body:
    told, line, phase = told_of_slurmd(pod), said_by(pod), pod.status.phase
    is_leaving, is_unfilled = pod.metadata.deletion_timestamp is not None, asks_its_machine(line)
    is_ready, shown = _conditions(pod)
    return Body(
        phase=phase,
        is_live=not is_leaving and phase not in ENDED,
        is_leaving=is_leaving,
        waits_since=_waits_since(pod),
        is_cut=is_leaving and pod.metadata.deletion_grace_period_seconds != GRACE_S,
        ends_by=pod.metadata.deletion_timestamp,
        may_be_deaf=_may_be_deaf(pod),
        is_ready=is_ready,
        runs=runs(pod, told),
        begun=begun(pod, told, is_unfilled=is_unfilled),
        make=make_of(pod),
        line=line,
        given=given_to(pod),
        is_unfilled=is_unfilled,
        can_be_driven_out=bool(pod.spec.node_name) and STAYS not in pod.spec.tolerations,
        shown=shown,
    )


def _waits_since(pod: Pod) -> datetime | None:
    """The time of a deletion is the one at which the grace period ends. Where that was made shorter later, so that it
    would have ended already, an older Kubernetes still tells the first deletion so, a newer one the second.

    One whose own time is another than ours waits for as long as people chose for it.
    """
    at, grace_s = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds or 0
    has_our_time = pod.spec.termination_grace_period_seconds == GRACE_S
    return at - timedelta(seconds=grace_s) if at is not None and has_our_time else None


def _may_be_deaf(pod: Pod) -> bool:
    """Kubelet waits for a container that does not hear its TERM for all of the pod's time, and for nothing less."""
    running = (*pod.spec.containers, *(one for one in pod.spec.init_containers if one.restart_policy == "Always"))
    has_others = any(one.name not in OURS for one in running)
    return has_others and pod.spec.termination_grace_period_seconds == GRACE_S


def _conditions(pod: Pod) -> tuple[bool, tuple[PodCondition, ...]]:
    """Whether it is ready, and what it shows of Slurm."""
    is_ready, shown = False, []
    for one in pod.status.conditions:
        if one.type == "Ready":
            is_ready = one.status == "True"
        elif one.type.startswith(PREFIX):
            shown.append(one)
    return is_ready, tuple(shown)
