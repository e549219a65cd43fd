"""Whether a slurmd may register at any moment, from what kubelet and Slurm have told."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from corral.kinds.nodeset.arrival import LONG_AGO, is_about_to_register, runs, settled_since
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from corral.slurm.states import node_state
from corral.slurm.values import Node
from tests.unit.kinds.nodeset.builders import NOW

MINUTE = timedelta(minutes=1)
SINCE = NOW - 2 * MINUTE


def a_pod(phase: str, state: ContainerState | None, *, made_at: datetime = NOW - MINUTE, node: str = "n1") -> Pod:
    about = ContainerStatus(name="slurmd", image="", image_id="", ready=False, restart_count=0)
    told = (replace(about, state=state),) if state is not None else ()
    return Pod(
        metadata=ObjectMeta(name="gpu-0", namespace="lab", creation_timestamp=made_at),
        spec=PodSpec(containers=(Container(name="slurmd"),), node_name=node),
        status=PodStatus(phase=phase, container_statuses=told),
    )


def a_record(started_at: datetime | None) -> Node:
    return Node(name="gpu-0", state=node_state(["IDLE", "DRAIN"]), registered_at=started_at)


def running(at: datetime) -> ContainerState:
    return ContainerState(running=ContainerStateRunning(started_at=at))


def ended(at: datetime) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(exit_code=1, finished_at=at))


def waiting(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


STARTING = {
    "kubelet has told nothing": a_pod("Pending", None),
    "its container is being made": a_pod("Pending", waiting("ContainerCreating")),
    "it has just begun": a_pod("Running", running(NOW - MINUTE)),
    "it has just been started again": a_pod("Running", running(NOW - MINUTE), made_at=NOW - 60 * MINUTE),
    "it has ended and is started again": a_pod("Running", ended(NOW - MINUTE), made_at=NOW - 60 * MINUTE),
}


@pytest.mark.parametrize("pod", STARTING.values(), ids=STARTING)
def test_whoever_is_not_the_one_on_record_may_register(pod: Pod) -> None:
    earlier, unsaid, itself = a_record(NOW - 2 * MINUTE), a_record(None), a_record(NOW - MINUTE + timedelta(seconds=1))
    assert [is_about_to_register(pod, one, SINCE) for one in (None, earlier, unsaid, itself)] == [True] * 3 + [False]


NOT_STARTING = {
    "it has had its time": a_pod("Running", running(NOW - 3 * MINUTE)),
    "it was made long ago and never began": a_pod("Pending", None, made_at=NOW - 3 * MINUTE),
    "kubelet has given up on it": a_pod("Pending", waiting("ImagePullBackOff")),
    "kubelet waits before it starts it again": a_pod("Running", waiting("CrashLoopBackOff")),
    "it is on no Kubernetes node": a_pod("Pending", None, node=""),
    "it has ended for good": a_pod("Failed", ended(NOW - MINUTE)),
}


@pytest.mark.parametrize("pod", NOT_STARTING.values(), ids=NOT_STARTING)
def test_who_does_not_start_does_not_register(pod: Pod) -> None:
    assert not any(is_about_to_register(pod, record, SINCE) for record in (None, a_record(NOW - 9 * MINUTE)))


def test_kubelets_word_counts_for_whether_it_runs() -> None:
    assert runs(a_pod("Running", running(NOW)))
    assert runs(a_pod("Running", None))
    assert not runs(a_pod("Pending", None))
    assert not runs(a_pod("Running", ended(NOW)))


def test_the_time_for_it_counts_from_when_slurm_began_to_answer() -> None:
    assert settled_since(NOW, NOW - 60 * MINUTE) == NOW - 2 * MINUTE
    assert settled_since(NOW, NOW - MINUTE) == settled_since(NOW, None) == LONG_AGO
