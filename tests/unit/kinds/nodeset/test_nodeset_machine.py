"""What the Kubernetes node below a worker says, becomes a drain of ours, and goes with its cause."""

from collections.abc import Mapping

import msgspec
import pytest

from corral.engine import Create, EmitEvent, Outside, Patch, Plan
from corral.kinds import names
from corral.kinds.nodeset.fitting import STAYS, staying
from corral.kinds.nodeset.machine import says_else
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.parts import PodTemplate
from corral.kube.meta import EMPTY, ObjectMeta
from corral.kube.models.core_v1 import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodSpec, Taint, Toleration
from tests.unit.kinds.nodeset.builders import NOW, AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains

CORDONED = "corral: Kubernetes node m is cordoned"


def a_machine(
    *,
    cordoned: bool = False,
    ready: str = "True",
    taints: tuple[Taint, ...] = (),
    why: str = "",
    who: str = "",
    ip: str = "",
) -> Node:
    annotations: Mapping[str, str] = {names.DRAIN_REASON: why, names.DRAINED_BY: who} if why else EMPTY
    return Node(
        metadata=ObjectMeta(name="m", annotations=annotations, resource_version=ip),
        spec=NodeSpec(unschedulable=cordoned, taints=taints),
        status=NodeStatus(conditions=(NodeCondition(type="Ready", status=ready),)),
    )


def on(worker: AWorker, *tolerations: Toleration) -> AWorker:
    assert worker.pod is not None
    spec = msgspec.structs.replace(worker.pod.spec, node_name="m", tolerations=staying(tolerations))
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
        (a_machine(cordoned=True, why="new fan", who="alice"), f"{CORDONED}: new fan (by alice)"),
        (a_machine(ready="Unknown"), "corral: Kubernetes node m is not ready"),
        (a_machine(taints=(Taint(key="x", effect="NoExecute"),)), "corral: Kubernetes node m has taint x:NoExecute"),
        (None, "corral: Kubernetes node m is gone"),
    ],
)
def test_trouble_below_a_worker_drains_it_and_says_why(machine: Node | None, reason: str) -> None:
    assert why_drained(decided(on(a_worker(0, state="MIXED", jobs=(7,))), machine)) == [reason]


def test_also_without_its_controller_a_worker_is_told_that_no_taint_drives_it_out() -> None:
    worker = on(a_worker(0))
    assert worker.pod is not None
    born = msgspec.structs.replace(worker.pod, spec=msgspec.structs.replace(worker.pod.spec, tolerations=()))
    snapshot = a_snapshot(msgspec.structs.replace(worker, pod=born), controller=None)
    (told,) = plan(msgspec.structs.replace(snapshot, machines={"m": a_machine()})).actions
    assert isinstance(told, Patch)
    assert "tolerations" in (told.merge or {})["spec"]


def test_off_a_cordoned_node_a_worker_moves_when_it_holds_no_job() -> None:
    busy = on(a_worker(0, state="MIXED+DRAIN", reason=CORDONED, jobs=(7,)))
    assert decided(busy, a_machine(cordoned=True)).actions == ()
    assert deleted(decided(on(a_worker(0, state="IDLE+DRAIN", reason=CORDONED)), a_machine(cordoned=True))) == ["gpu-0"]


def test_off_a_node_that_is_not_ready_it_does_not() -> None:
    worker = on(a_worker(0, state="IDLE+DRAIN", reason="corral: Kubernetes node m is not ready"))
    unreachable = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
    assert decided(worker, a_machine(ready="Unknown", taints=(unreachable,))).actions == ()


@pytest.mark.parametrize(("machine", "stays"), [(a_machine(ready="Unknown"), True), (a_machine(cordoned=True), False)])
def test_people_are_told_whether_a_drained_worker_stays_or_goes(machine: Node, stays: bool) -> None:
    found = decided(on(a_worker(0)), machine)
    told = {one.message.removeprefix("gpu-0: ") for one in found.actions if isinstance(one, Outside | EmitEvent)}
    assert len(told) == 1  # the drain and the event say the same
    (message,) = told
    assert ("its pod stays" in message, "to be removed" in message) == (stays, not stays)


@pytest.mark.parametrize("key", ["maintenance", "node.kubernetes.io/out-of-service"])
def test_off_a_node_that_drives_pods_out_it_moves_as_off_a_cordoned_one(key: str) -> None:
    machine = a_machine(ready="Unknown", taints=(Taint(key=key, effect="NoExecute"),))
    reason = f"corral: Kubernetes node m has taint {key}:NoExecute"
    busy, free = (
        a_worker(0, state="MIXED+DRAIN", reason=reason, jobs=(7,)),
        a_worker(0, state="DOWN+DRAIN", reason=reason),
    )
    assert decided(on(busy), machine).actions == ()
    assert deleted(decided(on(free), machine)) == ["gpu-0"]


# --- nobody is driven out


def made_beside(*machines: Node, tolerations: tuple[Toleration, ...] = ()) -> PodSpec:
    said = PodTemplate(spec={"tolerations": msgspec.to_builtins(tolerations)})
    snapshot = a_snapshot(replicas=1)
    nodeset = msgspec.structs.replace(
        snapshot.object, spec=msgspec.structs.replace(snapshot.object.spec, template=said)
    )
    (pod,) = (
        one.object
        for one in plan(msgspec.structs.replace(snapshot, object=nodeset, driving_out=machines)).actions
        if isinstance(one, Create) and isinstance(one.object, Pod)
    )
    return pod.spec


def test_a_worker_tolerates_whatever_would_end_it_and_ours_comes_before_what_is_for_a_while() -> None:
    for_a_while = Toleration(key="x", operator="Exists", effect="NoExecute", toleration_seconds=60)
    assert made_beside().tolerations == (STAYS,)
    assert made_beside(tolerations=(for_a_while,)).tolerations == (STAYS, for_a_while)


def test_where_a_node_drives_pods_out_the_scheduler_is_not_told_to_put_workers_there() -> None:
    closed = a_machine(taints=(Taint(key="x", effect="NoExecute"),))
    always = Toleration(key="x", operator="Exists")
    assert made_beside(closed).tolerations == ()
    assert made_beside(closed, tolerations=(always,)).tolerations == (STAYS, always)


def drivable(worker: AWorker, *tolerations: Toleration) -> AWorker:
    placed = on(worker)
    assert placed.pod is not None
    spec = msgspec.structs.replace(placed.pod.spec, tolerations=tolerations)
    return msgspec.structs.replace(placed, pod=msgspec.structs.replace(placed.pod, spec=spec))


def told_to_stay(snapshot: Snapshot) -> list[object]:
    machines = msgspec.structs.replace(snapshot, machines={"m": a_machine()})
    return [one.merge for one in plan(machines).actions if isinstance(one, Patch)]


def test_a_worker_that_was_made_so_is_told_to_stay_as_soon_as_it_has_a_node() -> None:
    default = Toleration(
        key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute", toleration_seconds=300
    )
    wanted = [{"spec": {"tolerations": msgspec.to_builtins((STAYS, default))}}]
    busy = a_worker(0, state="MIXED", jobs=(7,))
    assert told_to_stay(a_snapshot(drivable(busy, default))) == wanted
    assert told_to_stay(a_snapshot(drivable(busy, default), replicas=0)) == wanted
    assert told_to_stay(a_snapshot(drivable(busy, default), deleted=True)) == wanted
    assert told_to_stay(a_snapshot(on(busy))) == []
    assert told_to_stay(a_snapshot(busy)) == []  # it has none yet


def test_a_pod_is_not_changed_just_before_it_is_deleted() -> None:
    gone = drivable(a_worker(0, state="IDLE+DRAIN", reason="corral: scale-in of NodeSet lab/gpu"))
    snapshot = a_snapshot(gone, replicas=0)
    assert (told_to_stay(snapshot), deleted(plan(snapshot))) == ([], ["gpu-0"])


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


CHANGES = {
    "cordoned": a_machine(cordoned=True),
    "not ready": a_machine(ready="Unknown"),
    "tainted": a_machine(taints=(Taint(key="x", effect="NoExecute"),)),
    "told why it is drained": a_machine(why="new fan"),
    "labelled": msgspec.structs.replace(a_machine(), metadata=ObjectMeta(name="m", labels={"gpu": "yes"})),
    "being deleted": msgspec.structs.replace(a_machine(), metadata=ObjectMeta(name="m", deletion_timestamp=NOW)),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_what_can_matter_to_a_worker_wakes_its_nodeset(changed: Node) -> None:
    assert says_else(a_machine(), changed)
    assert says_else(changed, a_machine())


def test_a_node_that_comes_or_goes_wakes_and_what_kubelet_writes_all_the_time_does_not() -> None:
    assert says_else(None, a_machine())
    assert says_else(a_machine(), None)
    assert not says_else(a_machine(ip="1"), a_machine(ip="2"))
