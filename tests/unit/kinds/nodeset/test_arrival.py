"""Whether a slurmd may register at any moment, from what kubelet and Slurm have told."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from corral.kinds import names
from corral.kinds.nodeset.arrival import is_about_to_register, settled_since
from corral.kinds.nodeset.body import body_of
from corral.kinds.nodeset.started import LONG_AGO
from corral.kube.meta import EMPTY, ObjectMeta
from corral.kube.models.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    EnvVar,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from corral.slurm.states import node_state
from corral.slurm.values import Node
from tests.unit.kinds.nodeset.builders import NOW

MINUTE = timedelta(minutes=1)
SINCE = NOW - 2 * MINUTE


def a_pod(
    phase: str,
    state: ContainerState | None,
    *,
    made_at: datetime = NOW - MINUTE,
    node: str = "n1",
    last: ContainerState | None = None,
    line: str = "",
    told: Mapping[str, str] = EMPTY,
    conditions: Mapping[str, datetime] = EMPTY,
) -> Pod:
    """`line`: what it is to register with; `told`: its annotations; `conditions`: those that hold, and since when."""
    about = ContainerStatus(name="slurmd", image="", image_id="", ready=False, restart_count=0)
    said = (replace(about, state=state, last_state=last or ContainerState()),) if state is not None else ()
    slurmd = Container(name="slurmd", env=(EnvVar(name="SLURM_NODE_CONF", value=line),))
    held = tuple(PodCondition(type=kind, status="True", last_transition_time=at) for kind, at in conditions.items())
    return Pod(
        metadata=ObjectMeta(name="gpu-0", namespace="lab", creation_timestamp=made_at, annotations=told),
        spec=PodSpec(containers=(slurmd,), node_name=node),
        status=PodStatus(phase=phase, container_statuses=said, conditions=held),
    )


def a_record(started_at: datetime | None) -> Node:
    return Node(name="gpu-0", state=node_state(["IDLE", "DRAIN"]), registered_at=started_at)


def running(at: datetime) -> ContainerState:
    return ContainerState(running=ContainerStateRunning(started_at=at))


def ended(at: datetime) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(exit_code=1, finished_at=at))


def waiting(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


HOUR_AGO = NOW - 60 * MINUTE
ASKING = "Feature=gpu Topology=default:{rack}"


def told_its_line(at: datetime) -> dict[str, str]:
    return {names.NODE_CONF: "Feature=gpu Topology=default:r7", names.NODE_CONF_AT: f"{at:%Y-%m-%dT%H:%M:%SZ}"}


STARTING = {
    "kubelet has told nothing": a_pod("Pending", None),
    "its container is being made": a_pod("Pending", waiting("ContainerCreating")),
    "it has just begun": a_pod("Running", running(NOW - MINUTE)),
    "it has just been started again": a_pod("Running", running(NOW - MINUTE), made_at=NOW - 60 * MINUTE),
    "it has ended and is started again": a_pod("Running", ended(NOW - MINUTE), made_at=NOW - 60 * MINUTE),
    "it has just been told what it waited for": a_pod(
        "Running", running(HOUR_AGO), made_at=HOUR_AGO, line=ASKING, told=told_its_line(NOW - MINUTE)
    ),
    "its Kubernetes node has just booted": a_pod(
        "Running",
        waiting("ContainerCreating"),
        made_at=HOUR_AGO,
        conditions={"Ready": HOUR_AGO, "PodReadyToStartContainers": NOW - MINUTE},
    ),
    "it has crashed and is started again soon": a_pod(
        "Running", waiting("CrashLoopBackOff"), made_at=HOUR_AGO, last=ended(NOW - MINUTE)
    ),
    "it has run, and its image cannot be had again": a_pod(
        "Running", waiting("ImagePullBackOff"), made_at=HOUR_AGO, last=ended(NOW - MINUTE)
    ),
}


@pytest.mark.parametrize("pod", STARTING.values(), ids=STARTING)
def test_whoever_is_not_the_one_on_record_may_register(pod: Pod) -> None:
    earlier, unsaid, itself = a_record(NOW - 2 * MINUTE), a_record(None), a_record(NOW - MINUTE + timedelta(seconds=1))
    assert [is_about_to_register(body_of(pod), one, SINCE) for one in (None, earlier, unsaid, itself)] == [True] * 3 + [
        False
    ]


NOT_STARTING = {
    "it has had its time": a_pod("Running", running(NOW - 3 * MINUTE)),
    "it was made long ago and never began": a_pod("Pending", None, made_at=NOW - 3 * MINUTE),
    "kubelet has given up on it": a_pod("Pending", waiting("ImagePullBackOff")),
    "kubelet waits for long before it starts it again": a_pod(
        "Running", waiting("CrashLoopBackOff"), made_at=HOUR_AGO, last=ended(NOW - 3 * MINUTE)
    ),
    "it waits to be told its line": a_pod("Running", running(NOW - MINUTE), line=ASKING),
    "it has had its time since it was told its line": a_pod(
        "Running", running(HOUR_AGO), made_at=HOUR_AGO, line=ASKING, told=told_its_line(NOW - 3 * MINUTE)
    ),
    "nonsense tells when it was told": a_pod(
        "Running", running(HOUR_AGO), made_at=HOUR_AGO, told={names.NODE_CONF_AT: "soon"}
    ),
    "it is on no Kubernetes node": a_pod("Pending", None, node=""),
    "it has ended for good": a_pod("Failed", ended(NOW - MINUTE)),
}


@pytest.mark.parametrize("pod", NOT_STARTING.values(), ids=NOT_STARTING)
def test_who_does_not_start_does_not_register(pod: Pod) -> None:
    assert not any(is_about_to_register(body_of(pod), record, SINCE) for record in (None, a_record(NOW - 9 * MINUTE)))


def test_kubelets_word_counts_for_whether_it_runs() -> None:
    assert body_of(a_pod("Running", running(NOW))).runs
    assert body_of(a_pod("Running", None)).runs
    assert not body_of(a_pod("Pending", None)).runs
    assert not body_of(a_pod("Running", ended(NOW))).runs


def test_the_time_for_it_counts_from_when_slurm_began_to_answer() -> None:
    assert settled_since(NOW, NOW - 60 * MINUTE) == NOW - 2 * MINUTE
    assert settled_since(NOW, NOW - MINUTE) == settled_since(NOW, None) == LONG_AGO


@pytest.mark.parametrize(
    ("conditions", "may_register"),
    [
        ({}, False),
        ({"SlurmNodeStateIdle": HOUR_AGO}, True),
        ({"SlurmNodeStateMissing": NOW - MINUTE}, True),
        ({"SlurmNodeStateMissing": NOW - 3 * MINUTE}, False),
        ({"SlurmNodeStateMissing": NOW - 3 * MINUTE, "SlurmNodeStateIdle": HOUR_AGO}, True),
    ],
    ids=["never seen", "seen a moment ago", "missed for a minute", "missed for long", "seen again and lost again"],
)
def test_who_has_lost_its_record_may_be_told_to_register_anew_for_a_while(
    conditions: dict[str, datetime], may_register: bool
) -> None:
    pod = a_pod("Running", running(HOUR_AGO), made_at=HOUR_AGO, conditions=conditions)
    assert is_about_to_register(body_of(pod), None, SINCE) is may_register
    assert not is_about_to_register(body_of(pod), a_record(HOUR_AGO + MINUTE), SINCE)


@pytest.mark.parametrize(
    ("state", "drained_at", "may_register"),
    [
        ("IDLE+DRAIN", HOUR_AGO, True),
        ("IDLE+DRAIN", None, True),
        ("IDLE+DRAIN+NOT_RESPONDING", HOUR_AGO, False),
        ("IDLE+DRAIN+NOT_RESPONDING", NOW - MINUTE, True),
        ("DOWN+DRAIN", HOUR_AGO, False),
        ("IDLE+DRAIN+POWERED_DOWN", HOUR_AGO, False),
        ("IDLE+DRAIN+POWERING_DOWN", HOUR_AGO, False),
    ],
)
def test_a_record_without_a_slurmd_is_of_one_that_is_being_told_to_register_unless_it_does_not_answer(
    state: str, drained_at: datetime | None, may_register: bool
) -> None:
    """As in the second after `scontrol reconfigure`, however long it has been drained; one that is dead is not told."""
    pod = a_pod("Running", running(HOUR_AGO), made_at=HOUR_AGO)
    record = replace(a_record(None), state=node_state(state.split("+")), reason_at=drained_at)
    assert is_about_to_register(body_of(pod), record, SINCE) is may_register
    assert not is_about_to_register(body_of(pod), replace(record, registered_at=HOUR_AGO), SINCE)
