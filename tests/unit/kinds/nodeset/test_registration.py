"""What a worker registers with: what its Kubernetes node says, and what becomes of a record that says otherwise."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from corral.engine import Patch, Plan
from corral.kinds import names
from corral.kinds.nodeset.calls import Forget, Undrain
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.registration import filled, is_of_another, is_registered_wrong, line_of, said_by
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Update
from corral.kinds.nodeset.worker import worker_pod
from corral.kinds.nodeset.workers import Place
from corral.kube.models.core_v1 import EnvVar, Node, Pod
from corral.slurm import values as slurm
from corral.slurm.states import node_state
from tests.unit.kinds.nodeset.builders import (
    NOW,
    OURS,
    SLURM,
    AWorker,
    a_nodeset,
    a_snapshot,
    a_worker,
    known_revisions,
)
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains, reasons
from tests.unit.kinds.nodeset.test_nodeset_rollout import old as outdated

ASKING = "Weight=3 Gres=gpu:{gpu/count},shard:{gpu/shards} Features={kind} Topology=default:{rack}"


def a_machine(name: str = "m1", **says: str) -> Node:
    labels = {key.replace("__", "/"): value for key, value in says.items()}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


@pytest.mark.parametrize(
    ("says", "line"),
    [
        (
            {"gpu__count": "8", "gpu__shards": "4", "kind": "p5.48", "rack": "r7"},
            "Feature=gpu,p5.48 CPUs=1 Weight=3 Gres=gpu:8,shard:4 Topology=default:r7",
        ),
        ({"gpu__count": "8"}, "Feature=gpu CPUs=1 Weight=3 Gres=gpu:8"),
        ({"rack": 'r 7"x'}, "Feature=gpu CPUs=1 Weight=3 Topology=default:r_7_x"),
    ],
)
def test_what_the_node_does_not_say_is_left_out_and_nothing_can_be_smuggled_in(says: dict[str, str], line: str) -> None:
    asked = "Feature=gpu,{kind} CPUs=1 Weight=3 Gres=gpu:{gpu/count},shard:{gpu/shards} Topology=default:{rack}"
    assert filled(asked, a_machine(**says)) == line


def test_an_annotation_is_asked_as_a_label_is_and_wins() -> None:
    raw = {"metadata": {"name": "m1", "labels": {"t": "a"}, "annotations": {"t": "tree1:leaf0"}}}
    assert filled("Topology={t}", msgspec.convert(raw, Node)) == "Topology=tree1:leaf0"


def made(extra_conf: str) -> Pod:
    return worker_pod(a_nodeset(extra_conf=extra_conf), SLURM, Place(name="gpu-0", ordinal=0))


def test_only_a_worker_that_asks_has_a_file_to_be_told_in() -> None:
    plain, asking = made("Weight=3"), made(ASKING)
    assert line_of(asking).startswith("Feature=gpu,{kind} CPUs=1 RealMemory=960 Weight=3")
    files = [[v.name for v in pod.spec.volumes if v.downward_api is not None] for pod in (plain, asking)]
    mounts = [[m.mount_path for m in pod.spec.containers[0].volume_mounts] for pod in (plain, asking)]
    assert files == [[], ["machine"]]
    assert ["/etc/corral/machine" in paths for paths in mounts] == [False, True]


# --- told when its node is known


def asking(*workers: AWorker, machine: Node | None, told: str | None = None, **update: Any) -> Snapshot:
    """Workers that ask their Kubernetes node m1; `told`: with what they were answered."""
    nodeset = a_nodeset(extra_conf=ASKING, replicas=len(workers), update=Update(**update))
    plain = a_snapshot(*workers)
    template = made(ASKING)
    annotations = {names.NODE_CONF: told} if told is not None else {}
    pods = tuple(
        replace(
            pod,
            metadata=replace(pod.metadata, labels=template.metadata.labels, annotations=annotations),
            spec=replace(template.spec, node_name="m1"),
        )
        for pod in plain.pods
    )
    return replace(
        plain,
        object=replace(nodeset, status=plain.object.status),
        pods=pods,
        revisions=known_revisions(nodeset, SLURM, pods),
        machines={"m1": machine} if machine is not None else {},
    )


def patches(decided: Plan) -> list[Any]:
    return [action.merge for action in decided.actions if isinstance(action, Patch)]


def test_a_worker_is_told_once_what_its_node_says() -> None:
    fresh = a_worker(0, registered=False, phase="Pending")
    decided = plan(asking(fresh, machine=a_machine(rack="r7", kind="big")))
    line = "Feature=gpu,big CPUs=1 RealMemory=960 Weight=3 Topology=default:r7"
    told = {names.NODE_CONF: line, names.NODE_CONF_AT: "2026-11-16T02:00:00Z"}
    assert patches(decided) == [{"metadata": {"annotations": told}}]
    assert patches(plan(asking(fresh, machine=a_machine(rack="r7", kind="big"), told=line))) == []
    assert patches(plan(asking(fresh, machine=None))) == []


def test_a_worker_whose_node_says_something_else_is_replaced_as_in_a_rollout() -> None:
    old = filled(line_of(made(ASKING)), a_machine(rack="r7"))
    here = [a_worker(0), a_worker(1)]
    same = asking(*here, machine=a_machine(rack="r7"), told=old)
    assert plan(same).is_empty
    moved = asking(*here, machine=a_machine(rack="r8"), told=old)
    assert len(drains(plan(moved))) == 1
    assert plan(asking(*here, machine=a_machine(rack="r8"), told=old, strategy="OnDelete")).is_empty


# --- records that say otherwise


def saying(worker: AWorker, line: str, *, cpus: int, memory_mb: int, age_s: float = 10.0) -> AWorker:
    pod, node = worker.pod, worker.node
    assert pod is not None
    assert node is not None
    slurmd = replace(pod.spec.containers[0], env=(EnvVar(name="SLURM_NODE_CONF", value=line),))
    born = replace(pod.metadata, creation_timestamp=NOW - timedelta(seconds=age_s))
    pod = replace(pod, metadata=born, spec=replace(pod.spec, containers=(slurmd,)))
    return replace(worker, pod=pod, node=replace(node, cpus=cpus, memory_mb=memory_mb))


LINE = "Feature=gpu CPUs=2 RealMemory=960"


@pytest.mark.parametrize(
    ("line", "cpus", "memory_mb", "wrong"),
    [
        (LINE, 2, 960, False),
        (LINE, 1, 960, True),
        (LINE, 2, 448, True),
        (LINE, 0, 0, False),
        ("Feature=gpu Sockets=2 CoresPerSocket=4", 8, 1, False),
        ("Feature=gpu CPUs=4 ThreadsPerCore=2 RealMemory=960", 8, 960, False),
        ("", 8, 1, False),
    ],
)
def test_a_record_is_wrong_when_it_has_other_numbers_than_the_worker_says(
    line: str, cpus: int, memory_mb: int, wrong: bool
) -> None:
    worker = saying(a_worker(0), line, cpus=cpus, memory_mb=memory_mb)
    assert worker.pod is not None
    assert worker.node is not None
    assert is_registered_wrong(said_by(worker.pod), worker.node) is wrong


def test_a_record_of_an_earlier_life_is_forgotten_before_its_slurmd_starts() -> None:
    back = saying(a_worker(0, phase="Pending", state="IDLE+NOT_RESPONDING"), LINE, cpus=1, memory_mb=448)
    decided = plan(a_snapshot(back))
    assert (calls(decided), deleted(decided)) == ([Forget(node="gpu-0")], [])


@pytest.mark.parametrize(
    "worker",
    [
        a_worker(0, phase="Pending", state="MIXED", jobs=(3,)),
        a_worker(0, phase="Pending", state="IDLE+DRAIN", reason="bad DIMM"),
    ],
)
def test_a_record_with_a_job_or_with_somebody_elses_drain_stays(worker: AWorker) -> None:
    assert calls(plan(a_snapshot(saying(worker, LINE, cpus=1, memory_mb=448)))) == []


def test_a_worker_that_registered_wrong_is_made_anew_but_not_at_once_and_not_all_together() -> None:
    young = plan(a_snapshot(saying(a_worker(0), LINE, cpus=1, memory_mb=960)))
    assert (young.is_empty, reasons(young), young.again_after_s) == (True, ["RegisteredWrong"], 290.0)
    old = [saying(a_worker(number), LINE, cpus=1, memory_mb=960, age_s=600) for number in (0, 1, 2)]
    decided = plan(a_snapshot(*old, replicas=3))
    assert len(drains(decided)) == 1
    reason = "corral: wrong registration of NodeSet lab/gpu"
    gone = saying(a_worker(0, state="IDLE+DRAIN", reason=reason), LINE, cpus=1, memory_mb=960, age_s=600)
    decided = plan(a_snapshot(gone))
    assert (calls(decided), deleted(decided)) == ([Forget(node="gpu-0")], ["gpu-0"])


def test_while_the_one_before_is_missing_no_other_that_registered_wrong_goes() -> None:
    wrong = [saying(a_worker(number), LINE, cpus=1, memory_mb=960, age_s=600) for number in (0, 1)]
    for missing in (a_worker(2, leaving=True, registered=False), a_worker(2, phase="Pending", registered=False)):
        assert drains(plan(a_snapshot(*wrong, missing, replicas=3))) == []


@pytest.mark.parametrize("may_be_missing", [1, 2])
def test_a_rollout_and_what_registered_wrong_share_what_may_be_missing(may_be_missing: int) -> None:
    lacking = [outdated(saying(a_worker(n), LINE, cpus=1, memory_mb=960, age_s=600)) for n in range(10)]
    snapshot = a_snapshot(*lacking, replicas=10)
    spec = msgspec.structs.replace(snapshot.object.spec, update=Update(max_unavailable=may_be_missing))
    nodeset = msgspec.structs.replace(snapshot.object, spec=spec)
    assert len(drains(plan(msgspec.structs.replace(snapshot, object=nodeset)))) == may_be_missing


def test_where_none_may_be_missing_one_at_a_time_is_made_anew_all_the_same() -> None:
    wrong = [saying(a_worker(number), LINE, cpus=1, memory_mb=960, age_s=600) for number in (0, 1)]
    snapshot = a_snapshot(*wrong, replicas=2)
    spec = replace(snapshot.object.spec, update=Update(max_unavailable=0, max_surge=1))
    assert len(drains(plan(replace(snapshot, object=replace(snapshot.object, spec=spec))))) == 1


def test_one_that_slurm_calls_invalid_is_made_anew_too() -> None:
    invalid = saying(a_worker(0, state="IDLE+INVALID_REG+DYNAMIC_NORM"), LINE, cpus=2, memory_mb=960, age_s=600)
    assert drains(plan(a_snapshot(invalid))) == ["gpu-0"]
    busy = saying(a_worker(0, state="MIXED", jobs=(7,)), LINE, cpus=1, memory_mb=960, age_s=600)
    decided = plan(a_snapshot(busy))
    assert (drains(decided), deleted(decided)) == (["gpu-0"], [])


LOW = "Low socket*core*thread count, Low CPUs"


def test_one_that_slurmctld_has_drained_for_what_it_registered_with_is_made_anew_and_not_by_twos() -> None:
    """A stale record has more CPUs than the worker brings: slurmctld itself drains it, and no person ever would."""
    less = [
        saying(a_worker(n, state="IDLE+DRAIN+INVALID_REG+DYNAMIC_NORM", reason=LOW), LINE, cpus=4, memory_mb=960)
        for n in (0, 1)
    ]
    waits = plan(a_snapshot(*less, replicas=2))
    assert (waits.is_empty, reasons(waits)) == (True, ["RegisteredWrong"])
    assert f"gpu-0 (Slurm says '{LOW}')" in waits.waits[0].message
    old = [
        saying(a_worker(n, state="IDLE+DRAIN+INVALID_REG", reason=LOW), LINE, cpus=4, memory_mb=960, age_s=600)
        for n in (0, 1)
    ]
    decided = plan(a_snapshot(*old, replicas=2))
    assert (calls(decided), deleted(decided)) == ([Forget(node="gpu-0")], ["gpu-0"])


def test_a_drain_that_slurmctld_lets_nobody_lift_is_not_tried_to_be_lifted() -> None:
    stays = saying(a_worker(0, state="IDLE+DRAIN+INVALID_REG", reason=OURS), LINE, cpus=4, memory_mb=960)
    assert calls(plan(a_snapshot(stays))) == []
    right = saying(a_worker(0, state="IDLE+DRAIN", reason=OURS), LINE, cpus=2, memory_mb=960)
    assert calls(plan(a_snapshot(right))) == [Undrain(node="gpu-0")]


def test_what_slurmctld_drained_for_its_registration_with_a_job_is_waited_for() -> None:
    busy = saying(
        a_worker(0, state="MIXED+DRAIN+INVALID_REG", reason=LOW, jobs=(7,)), LINE, cpus=4, memory_mb=960, age_s=600
    )
    decided = plan(a_snapshot(busy))
    assert (decided.is_empty, reasons(decided)) == (True, ["Draining", "RegisteredWrong"])


def test_numbers_that_slurm_does_not_say_are_not_wrong() -> None:
    node = slurm.Node(name="gpu-0", state=node_state(["IDLE"]))
    assert not is_registered_wrong(said_by(made("Weight=3")), node)


GPUS = "Feature=gpu,a100 CPUs=2 RealMemory=960 Gres=gpu:a100:2,shard:8 Weight=3 Topology=default:r7"


def a_record(**said: object) -> slurm.Node:
    """As GPUS make it, but for this."""
    right: dict[str, object] = {
        "cpus": 2,
        "memory_mb": 960,
        "features": ("gpu", "a100"),
        "gres": "gpu:a100:2(S:0-1),shard:8(S:0)",
        "weight": 3,
        "topology": "default:r7",
    }
    return slurm.Node(name="gpu-0", state=node_state(["IDLE"]), **{**right, **said})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "wrong", "of_another"),
    [
        ({}, False, False),
        ({"gres": ""}, True, True),
        ({"gres": "(null)"}, True, True),
        ({"gres": "gpu:a100:1,shard:8"}, True, True),
        ({"gres": "gpu:a100:1(S:0),gpu:a100:1(S:1),shard:8"}, False, False),
        ({"gres": "gpu:2,shard:1K"}, False, True),
        ({"features": ("gpu",)}, True, True),
        ({"features": ("gpu", "a100", "given by an admin")}, False, True),
        ({"features": ()}, False, False),
        ({"weight": 7}, False, True),
        ({"topology": "default:r8"}, False, True),
        ({"topology": None}, False, False),
    ],
    ids=str,
)
def test_a_record_lacks_what_its_worker_brings_or_is_that_of_another(
    said: dict[str, object], wrong: bool, of_another: bool
) -> None:
    node = a_record(**said)
    assert (is_registered_wrong(GPUS, node), is_of_another(GPUS, node)) == (wrong, of_another)


ASIDE = f"{GPUS} MemSpecLimit=64 CoreSpecCount=1"
LAID_OUT = "Feature=gpu,a100 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=960"
TWO_BY_FOUR = slurm.Layout(boards=1, sockets=2, cores_per_socket=4, threads_per_core=1)


@pytest.mark.parametrize(
    ("line", "said", "wrong", "of_another"),
    [
        (ASIDE, {"memory_aside_mb": 64, "cores_aside": 1}, False, False),
        (ASIDE, {"memory_aside_mb": None, "cores_aside": None}, False, False),
        (ASIDE, {"memory_aside_mb": 32, "cores_aside": 1}, True, True),
        (ASIDE, {"memory_aside_mb": 0, "cores_aside": 1}, True, True),
        (ASIDE, {"memory_aside_mb": 64, "cores_aside": 2}, True, True),
        (ASIDE, {"memory_aside_mb": 64, "cores_aside": 0}, False, True),
        (GPUS, {"memory_aside_mb": 64, "cores_aside": 0}, False, True),
        (GPUS, {"memory_aside_mb": 0, "cores_aside": 1}, False, True),
        (f"{GPUS} MemSpecLimit=960", {"memory_aside_mb": 0}, False, True),
        (f"{GPUS} CpuSpecList=0,1", {"cores_aside": 2}, False, False),
        (GPUS, {"layout": TWO_BY_FOUR}, False, False),
        (LAID_OUT, {"layout": TWO_BY_FOUR, "gres": ""}, False, False),
        (LAID_OUT, {"layout": replace(TWO_BY_FOUR, sockets=1), "gres": ""}, False, True),
        (LAID_OUT, {"layout": replace(TWO_BY_FOUR, cores_per_socket=2), "gres": ""}, False, True),
        (LAID_OUT, {"layout": replace(TWO_BY_FOUR, threads_per_core=2), "gres": ""}, False, True),
        (LAID_OUT, {"layout": None, "gres": ""}, False, False),
        ("Feature=gpu,a100 Sockets=4 RealMemory=960", {"layout": TWO_BY_FOUR, "gres": ""}, False, True),
    ],
    ids=str,
)
def test_what_it_sets_aside_and_how_its_processors_are_laid_out_counts_too(
    line: str, said: dict[str, object], wrong: bool, of_another: bool
) -> None:
    node = a_record(**said)
    assert (is_registered_wrong(line, node), is_of_another(line, node)) == (wrong, of_another)


def test_a_record_of_another_is_forgotten_before_slurmd_starts_and_costs_nothing_afterwards() -> None:
    def decided(phase: str) -> Plan:
        worker = saying(a_worker(0, phase=phase, state="IDLE"), GPUS, cpus=2, memory_mb=960, age_s=600)
        return plan(a_snapshot(replace(worker, node=a_record(weight=7, registered_at=NOW - timedelta(seconds=5)))))

    assert calls(decided("Pending")) == [Forget(node="gpu-0")]
    assert (calls(decided("Running")), reasons(decided("Running"))) == ([], [])


def test_without_its_gres_a_worker_is_made_anew_but_not_where_slurms_files_are_others() -> None:
    worker = saying(a_worker(0), GPUS, cpus=2, memory_mb=960, age_s=600)
    snapshot = a_snapshot(replace(worker, node=a_record(gres="", registered_at=NOW - timedelta(seconds=5))))
    assert drains(plan(snapshot)) == ["gpu-0"]
    elsewhere = replace(snapshot.object, status=replace(snapshot.object.status, external=True))
    told = plan(replace(snapshot, object=elsewhere))
    assert (drains(told), reasons(told)) == ([], ["RegisteredWrong"])
    assert ("GresTypes" in told.waits[0].message, told.waits[0].stalled) == (True, True)


def test_a_worker_that_waits_to_be_told_its_line_is_compared_with_nothing() -> None:
    asking = saying(a_worker(0, phase="Pending"), "Feature={gpu} CPUs=4 RealMemory=960", cpus=2, memory_mb=960)
    assert plan(a_snapshot(asking)).is_empty
    asking = saying(a_worker(0), "Feature={gpu} CPUs=4 RealMemory=960", cpus=2, memory_mb=960, age_s=600)
    assert plan(a_snapshot(asking)).is_empty
