"""One worker a Kubernetes node, and the way from ordinals to nodes and back."""

from collections.abc import Iterable

import msgspec
import pytest
from msgspec.structs import replace

from corral.engine import Create, Outcome, Plan
from corral.kinds import names
from corral.kinds.nodeset.calls import Drain, Forget
from corral.kinds.nodeset.fitting import STAYS
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.report import report
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Update
from corral.kinds.parts import PodTemplate
from corral.kube.models.core_v1 import Node, Pod, PodSpec
from corral.slurm.facts import Observed
from tests.unit.kinds.nodeset.builders import SLURM, AWorker, a_nodeset, a_snapshot, a_worker, known_revisions
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains, made, reasons

GPUS = PodTemplate(spec={"nodeSelector": {"gpu": "yes"}})


def a_machine(name: str, *, labels: dict[str, str] | None = None, ready: bool = True, cordoned: bool = False) -> Node:
    said = {"gpu": "yes"} if labels is None else labels
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    spec = {"unschedulable": True} if cordoned else {}
    raw = {"metadata": {"name": name, "labels": said}, "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(raw, Node)


def on(machine: str, worker: AWorker) -> AWorker:
    """The worker that stands for this Kubernetes node, and is there."""
    name = names.worker_on("gpu", machine)
    pod = worker.pod
    if pod is not None:
        meta = replace(pod.metadata, name=name, uid=f"uid-{name}", annotations={names.MACHINE: machine})
        pod = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=machine))
    node = replace(worker.node, name=name) if worker.node else None
    return AWorker(
        pod=pod, node=node, jobs=tuple(replace(job, nodes=(name,)) for job in worker.jobs), known=worker.known
    )


def per_machine(
    *workers: AWorker,
    machines: Iterable[Node],
    mode: str = "DaemonSet",
    replicas: int = 1,
    update: Update | None = None,
) -> Snapshot:
    nodeset = a_nodeset(scaling_mode=mode, template=GPUS, replicas=replicas, update=update or Update())
    plain = a_snapshot(*workers)
    labelled = tuple(_of_revision(pod, nodeset) for pod in plain.pods)
    return replace(
        plain,
        object=replace(nodeset, status=plain.object.status),
        pods=labelled,
        revisions=known_revisions(nodeset, SLURM, labelled),
        machines={machine.metadata.name: machine for machine in machines},
    )


def _of_revision(pod: Pod, nodeset: object) -> Pod:
    (now,) = known_revisions(nodeset, SLURM, ())  # type: ignore[arg-type]
    revision = now.metadata.labels[names.REVISION_LABEL]
    return replace(pod, metadata=replace(pod.metadata, labels={names.REVISION_LABEL: revision}))


def made_spec(decided: Plan) -> PodSpec:
    (pod,) = (one.object for one in decided.actions if isinstance(one, Create) and isinstance(one.object, Pod))
    return pod.spec


def test_every_node_that_the_pod_is_meant_for_gets_one_worker() -> None:
    machines = [a_machine("m1"), a_machine("m2.rack"), a_machine("login", labels={})]
    assert made(plan(per_machine(machines=machines, replicas=7))) == ["gpu-m1", "gpu-m2-rack"]


def test_such_a_worker_is_bound_to_its_node_and_waits_for_it() -> None:
    spec = made_spec(plan(per_machine(machines=[a_machine("m1")])))
    assert spec.hostname == "gpu-m1"
    assert spec.affinity is not None
    assert spec.affinity.node_affinity is not None
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert [field.values for term in required.node_selector_terms for field in term.match_fields] == [("m1",)]
    assert spec.tolerations == (STAYS,)


@pytest.mark.parametrize("machine", [a_machine("m2", cordoned=True), a_machine("m2", ready=False)])
def test_a_node_that_takes_nobody_now_gets_no_new_worker(machine: Node) -> None:
    assert plan(per_machine(on("m1", a_worker(0)), machines=[a_machine("m1"), machine])).is_empty


def test_all_workers_there_leave_nothing_to_do_and_are_all_that_is_desired() -> None:
    here = [on(name, a_worker(0)) for name in ("m1", "m2")]
    snapshot = per_machine(*here, machines=[a_machine("m1"), a_machine("m2")])
    assert plan(snapshot) == Plan()
    status = report(snapshot, Outcome(plan=Plan()))
    assert (status.desired, status.replicas, status.updated_replicas) == (2, 2, 2)


def test_a_node_that_no_longer_matches_loses_its_worker_after_its_jobs() -> None:
    busy = on("m1", a_worker(0, state="MIXED+DYNAMIC_NORM", jobs=(7,)))
    snapshot = per_machine(busy, machines=[a_machine("m1", labels={"gpu": "no"})])
    decided = plan(snapshot)
    assert (drains(decided), deleted(decided)) == (["gpu-m1"], [])
    free = on("m1", a_worker(0, state="IDLE+DRAIN+DYNAMIC_NORM", reason="corral: scale-in of NodeSet lab/gpu"))
    decided = plan(per_machine(free, machines=[a_machine("m1", labels={"gpu": "no"})]))
    assert (calls(decided), deleted(decided)) == ([Forget(node="gpu-m1")], ["gpu-m1"])


def test_a_worker_whose_node_is_gone_leaves_and_its_record_goes_too() -> None:
    assert drains(plan(per_machine(on("m1", a_worker(0)), machines=[]))) == ["gpu-m1"]
    record = on("m1", a_worker(0, pod=False, state="DOWN+DRAIN+DYNAMIC_NORM", reason="corral: x"))
    assert calls(plan(per_machine(record, machines=[]))) == [Forget(node="gpu-m1")]


def test_a_record_that_only_begins_like_ours_is_somebody_elses() -> None:
    theirs = on("b-0", a_worker(0, pod=False, state="DOWN+DRAIN+DYNAMIC_NORM"))
    assert theirs.node is not None
    other = replace(theirs, node=replace(theirs.node, features=("gpu-b", "gpu")))
    static = replace(on("login", a_worker(0, pod=False, state="IDLE")))
    assert plan(per_machine(other, static, machines=[])) == Plan()


def test_a_cordoned_node_loses_its_worker_and_gets_it_back_afterwards() -> None:
    decided = plan(per_machine(on("m1", a_worker(0)), machines=[a_machine("m1", cordoned=True)]))
    (call,) = calls(decided)
    assert call == Drain(node="gpu-m1", reason="corral: Kubernetes node m1 is cordoned")
    assert made(plan(per_machine(machines=[a_machine("m1", cordoned=True)]))) == []
    assert made(plan(per_machine(machines=[a_machine("m1")]))) == ["gpu-m1"]


def test_nodes_whose_workers_would_share_a_name_are_told() -> None:
    decided = plan(per_machine(machines=[a_machine("m.1"), a_machine("m-1")]))
    assert made(decided) == ["gpu-m-1"]
    assert "NameTaken" in reasons(decided)


# --- from one mode to the other


def test_to_nodes_new_workers_come_at_once_and_old_ones_go_as_many_as_may_be_missing() -> None:
    before = [a_worker(0), a_worker(1), a_worker(2, state="MIXED+DYNAMIC_NORM", jobs=(9,))]
    machines = [a_machine("m1"), a_machine("m2"), a_machine("m3")]
    decided = plan(per_machine(*before, machines=machines))
    assert made(decided) == ["gpu-m1", "gpu-m2", "gpu-m3"]
    assert len(drains(decided)) == 1
    assert "gpu-2" not in drains(decided)


def test_to_nodes_the_last_old_worker_goes_when_its_job_has_ended() -> None:
    new = [on(name, a_worker(0)) for name in ("m1", "m2")]
    machines = [a_machine("m1"), a_machine("m2")]
    busy = a_worker(0, state="MIXED+DRAIN+DYNAMIC_NORM", reason="corral: rollout of NodeSet lab/gpu", jobs=(9,))
    decided = plan(per_machine(*new, busy, machines=machines))
    assert (decided.is_empty, "Draining" in reasons(decided)) == (True, True)
    free = a_worker(0, state="IDLE+DRAIN+DYNAMIC_NORM", reason="corral: rollout of NodeSet lab/gpu")
    decided = plan(per_machine(*new, free, machines=machines))
    assert (calls(decided), deleted(decided)) == ([Forget(node="gpu-0")], ["gpu-0"])


def test_back_to_ordinals_the_workers_of_nodes_are_replaced_the_same_way() -> None:
    old = [on(name, a_worker(0)) for name in ("m1", "m2")]
    machines = [a_machine("m1"), a_machine("m2")]
    first = plan(per_machine(*old, machines=machines, mode="StatefulSet", replicas=2))
    assert made(first) == ["gpu-0", "gpu-1"]
    assert len(drains(first)) == 1
    done = plan(per_machine(a_worker(0), a_worker(1), machines=machines, mode="StatefulSet", replicas=2))
    assert done == Plan()


def test_a_paused_update_keeps_workers_of_the_other_mode() -> None:
    snapshot = per_machine(a_worker(0), machines=[a_machine("m1")], update=Update(paused=True))
    decided = plan(snapshot)
    assert (made(decided), drains(decided)) == (["gpu-m1"], [])
    assert "WorkersOutdated" in reasons(decided)


def test_a_worker_named_by_an_ordinal_is_not_taken_for_the_one_of_a_node_of_that_name() -> None:
    machines = [a_machine("0")]
    decided = plan(per_machine(a_worker(0), machines=machines))
    assert (made(decided), drains(decided)) == ([], ["gpu-0"])
    assert plan(per_machine(on("0", a_worker(0)), machines=machines)) == Plan()


def test_nobody_leaves_a_node_while_slurm_does_not_tell() -> None:
    snapshot = per_machine(on("m1", a_worker(0)), machines=[])
    view = snapshot.slurm
    assert isinstance(view, Observed)
    late = replace(snapshot, slurm=replace(view, at=view.at.replace(year=2025)))
    decided = plan(late)
    assert decided.is_empty
    assert {"WorkerUnknown", "SlurmUnreachable"} <= set(reasons(decided))
