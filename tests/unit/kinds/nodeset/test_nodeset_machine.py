"""What the Kubernetes node below a worker says, becomes a drain of ours, and goes with its cause."""

from collections.abc import Mapping

import msgspec
import pytest

from corral.engine import Plan
from corral.kinds import names
from corral.kinds.nodeset.machine import says_else
from corral.kinds.nodeset.plan import plan
from corral.kube.meta import EMPTY, ObjectMeta
from corral.kube.models.core_v1 import Node, NodeCondition, NodeSpec, NodeStatus, Taint, Toleration
from tests.unit.kinds.nodeset.builders import AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains

CORDONED = "corral: Kubernetes node m is cordoned"


def a_machine(
    *, cordoned: bool = False, ready: str = "True", taints: tuple[Taint, ...] = (), why: str = "", ip: str = ""
) -> Node:
    annotations: Mapping[str, str] = {names.DRAIN_REASON: why} if why else EMPTY
    return Node(
        metadata=ObjectMeta(name="m", annotations=annotations, resource_version=ip),
        spec=NodeSpec(unschedulable=cordoned, taints=taints),
        status=NodeStatus(conditions=(NodeCondition(type="Ready", status=ready),)),
    )


def on(worker: AWorker, *tolerations: Toleration) -> AWorker:
    assert worker.pod is not None
    spec = msgspec.structs.replace(worker.pod.spec, node_name="m", tolerations=tolerations)
    return msgspec.structs.replace(worker, pod=msgspec.structs.replace(worker.pod, spec=spec))


def decided(worker: AWorker, machine: Node | None) -> Plan:
    return plan(msgspec.structs.replace(a_snapshot(worker), machines={"m": machine} if machine else {}))


def why_drained(found: Plan) -> list[str]:
    return [call.reason for call in calls(found) if hasattr(call, "reason")]


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (a_machine(cordoned=True), CORDONED),
        (a_machine(cordoned=True, why="new\nfan"), f"{CORDONED}: new fan"),
        (a_machine(ready="Unknown"), "corral: Kubernetes node m is not ready"),
        (a_machine(taints=(Taint(key="x", effect="NoExecute"),)), "corral: Kubernetes node m has taint x:NoExecute"),
        (None, "corral: Kubernetes node m is gone"),
    ],
)
def test_trouble_below_a_worker_drains_it_and_says_why(machine: Node | None, reason: str) -> None:
    assert why_drained(decided(on(a_worker(0, state="MIXED", jobs=(7,))), machine)) == [reason]


def test_off_a_cordoned_node_a_worker_moves_when_it_holds_no_job() -> None:
    busy = on(a_worker(0, state="MIXED+DRAIN", reason=CORDONED, jobs=(7,)))
    assert decided(busy, a_machine(cordoned=True)).actions == ()
    assert deleted(decided(on(a_worker(0, state="IDLE+DRAIN", reason=CORDONED)), a_machine(cordoned=True))) == ["gpu-0"]


def test_off_a_node_that_is_not_ready_it_does_not() -> None:
    worker = on(a_worker(0, state="IDLE+DRAIN", reason="corral: Kubernetes node m is not ready"))
    assert decided(worker, a_machine(ready="False")).actions == ()


def test_the_drain_goes_with_its_cause_but_not_before_the_worker_is_ready() -> None:
    ready = a_worker(0, state="IDLE+DRAIN", reason=CORDONED)
    unready = a_worker(0, phase="Pending", state="IDLE+DRAIN", reason=CORDONED)
    assert [type(c).__name__ for c in calls(decided(on(ready), a_machine()))] == ["Undrain"]
    assert calls(decided(on(unready), a_machine())) == []


def test_somebody_elses_drain_is_left_alone_whatever_the_node_says() -> None:
    theirs = on(a_worker(0, state="IDLE+DRAIN", reason="disk"))
    assert decided(theirs, a_machine(cordoned=True)).actions == ()
    assert decided(theirs, a_machine()).actions == ()


@pytest.mark.parametrize(
    ("toleration", "drained"),
    [
        (Toleration(operator="Exists"), []),
        (Toleration(key="x", operator="Equal", value=""), []),
        (Toleration(key="x", operator="Exists", toleration_seconds=60), ["gpu-0"]),
        (Toleration(key="y", operator="Exists"), ["gpu-0"]),
    ],
)
def test_a_taint_that_the_pod_tolerates_for_good_is_no_trouble(toleration: Toleration, drained: list[str]) -> None:
    machine = a_machine(taints=(Taint(key="x", effect="NoExecute"), Taint(key="z", effect="NoSchedule")))
    assert drains(decided(on(a_worker(0), toleration), machine)) == drained


def test_what_kubelet_writes_all_the_time_wakes_nobody() -> None:
    assert not says_else(a_machine(ip="1"), a_machine(ip="2"))
    assert says_else(a_machine(), a_machine(cordoned=True))
    assert says_else(a_machine(), a_machine(ready="Unknown"))
