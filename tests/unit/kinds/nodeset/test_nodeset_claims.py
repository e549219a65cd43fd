"""Volumes of workers' own: made before the pod, found again, and deleted only as the policy says."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from corral.engine import Create, Delete, Outcome, Plan, RemoveFinalizer
from corral.kinds import names
from corral.kinds.nodeset.controller import machine_of
from corral.kinds.nodeset.ordinals import folded, unfolded
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.report import decided_by, report
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import ClaimMeta, ClaimRetention, ClaimTemplate, NodeSet
from corral.kinds.nodeset.worker import worker_pod
from corral.kinds.nodeset.workers import Place
from corral.kinds.parts import PodTemplate
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
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
from tests.unit.kinds.nodeset.test_nodeset_modes import a_machine, per_machine

SCRATCH = ClaimTemplate(
    metadata=ClaimMeta(name="scratch", labels={"team": "physics"}),
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)


def a_claim(worker: str, *, going: bool = False) -> PersistentVolumeClaim:
    meta = ObjectMeta(
        name=f"scratch-{worker}",
        namespace="lab",
        uid=f"uid-scratch-{worker}",
        resource_version="3",
        labels={names.NODESET_LABEL: "gpu"},
        deletion_timestamp=NOW if going else None,
    )
    return PersistentVolumeClaim(metadata=meta)


def with_scratch(nodeset: NodeSet, **retention: Any) -> NodeSet:
    spec = replace(
        nodeset.spec,
        volume_claim_templates=(SCRATCH,),
        persistent_volume_claim_retention_policy=ClaimRetention(**retention),
    )
    return replace(nodeset, spec=spec)


def claimed(
    *workers: AWorker,
    claims: Iterable[PersistentVolumeClaim] = (),
    replicas: int = 1,
    deleted: bool = False,
    **policy: Any,
) -> Snapshot:
    plain = a_snapshot(*workers, replicas=replicas, deleted=deleted)
    return replace(plain, object=with_scratch(plain.object, **policy), claims=tuple(claims))


def made(decided: Plan) -> list[str]:
    return [one.object.metadata.name for one in decided.actions if isinstance(one, Create)]


def dropped(decided: Plan) -> list[str]:
    return [
        one.target.name
        for one in decided.actions
        if isinstance(one, Delete) and one.target.kind is PersistentVolumeClaim
    ]


def test_a_claim_is_made_before_the_pod_that_mounts_it_and_only_once() -> None:
    assert made(plan(claimed())) == ["scratch-gpu-0", "gpu-0"]
    assert made(plan(claimed(claims=[a_claim("gpu-0")]))) == ["gpu-0"]
    claim = next(one.object for one in plan(claimed()).actions if isinstance(one, Create))
    assert isinstance(claim, PersistentVolumeClaim)
    assert claim.spec.resources.requests == {"storage": "1Gi"}
    assert (claim.metadata.labels["team"], claim.metadata.labels[names.NODESET_LABEL]) == ("physics", "gpu")
    assert claim.metadata.owner_references == ()


def test_the_pod_has_its_claim_under_the_templates_name_whatever_else_is_called_so() -> None:
    theirs = PodTemplate(spec={"volumes": [{"name": "scratch", "emptyDir": {}}]})
    pod = worker_pod(with_scratch(a_nodeset(template=theirs)), SLURM, Place(name="gpu-0", ordinal=0))
    (volume,) = (one for one in pod.spec.volumes if one.name == "scratch")
    assert volume.persistent_volume_claim is not None
    assert (volume.persistent_volume_claim.claim_name, volume.empty_dir) == ("scratch-gpu-0", None)


def test_a_pod_is_not_made_while_its_claim_is_on_its_way_out() -> None:
    assert made(plan(claimed(claims=[a_claim("gpu-0", going=True)]))) == []


def test_claims_stay_after_scale_in_unless_they_are_not_to() -> None:
    claims = [a_claim("gpu-0"), a_claim("gpu-1")]
    assert dropped(plan(claimed(a_worker(0), claims=claims))) == []
    assert dropped(plan(claimed(a_worker(0), claims=claims, when_scaled="Delete"))) == ["scratch-gpu-1"]


@pytest.mark.parametrize(
    "second",
    [
        a_worker(1, state="MIXED+DRAIN", reason=OURS, jobs=(7,)),
        a_worker(1, leaving=True),
        a_worker(1, state="IDLE+DRAIN", reason=OURS),
    ],
)
def test_a_claim_is_not_deleted_before_its_pod_is_gone(second: AWorker) -> None:
    claims = [a_claim("gpu-0"), a_claim("gpu-1")]
    assert dropped(plan(claimed(a_worker(0), second, claims=claims, when_scaled="Delete"))) == []


def test_a_worker_that_is_made_again_keeps_its_claim_whatever_the_policy_says() -> None:
    decided = plan(claimed(claims=[a_claim("gpu-0")], when_scaled="Delete"))
    assert (dropped(decided), made(decided)) == ([], ["gpu-0"])


def test_a_cordoned_node_is_no_scale_in_for_the_worker_that_stands_for_it() -> None:
    cordoned = per_machine(machines=[a_machine("m1", cordoned=True)])
    snapshot = replace(
        cordoned,
        object=with_scratch(cordoned.object, when_scaled="Delete"),
        claims=(a_claim("gpu-m1"), a_claim("gpu-m2")),
    )
    assert dropped(plan(snapshot)) == ["scratch-gpu-m2"]


def test_claims_go_with_the_nodeset_only_if_they_are_to() -> None:
    kept = plan(claimed(deleted=True, claims=[a_claim("gpu-0")], when_scaled="Delete"))
    assert (dropped(kept), isinstance(kept.actions[-1], RemoveFinalizer)) == ([], True)
    gone = plan(claimed(deleted=True, claims=[a_claim("gpu-0")], when_deleted="Delete"))
    assert (dropped(gone), isinstance(gone.actions[-1], RemoveFinalizer)) == (["scratch-gpu-0"], True)
    busy = a_worker(0, state="MIXED", jobs=(7,))
    assert dropped(plan(claimed(busy, deleted=True, claims=[a_claim("gpu-0")], when_deleted="Delete"))) == []


# --- pins


def pinning(*workers: AWorker, machines: Iterable[str], pins: dict[str, str], replicas: int = 2) -> Snapshot:
    nodeset = a_nodeset(pin_to_node=True, replicas=replicas)
    plain = a_snapshot(*workers)
    return replace(
        plain,
        object=replace(nodeset, status=replace(plain.object.status, ordinal_to_node=pins)),
        revisions=known_revisions(nodeset, SLURM, plain.pods),
        machines={name: a_machine(name, cordoned=name.endswith("cordoned")) for name in machines},
    )


def bound(decided: Plan) -> dict[str, list[str]]:
    """By pod: the nodes that it asks for."""
    found = {}
    for action in decided.actions:
        if isinstance(action, Create) and isinstance(action.object, Pod):
            affinity = action.object.spec.affinity
            of_nodes = affinity.node_affinity if affinity else None
            required = of_nodes.required_during_scheduling_ignored_during_execution if of_nodes else None
            terms = required.node_selector_terms if required else ()
            found[action.object.metadata.name] = [v for term in terms for one in term.match_fields for v in one.values]
    return found


def test_a_pinned_worker_comes_back_to_its_node_even_while_that_takes_nobody() -> None:
    decided = plan(pinning(machines=["m1", "m2-cordoned"], pins={"0": "m1", "1": "m2-cordoned"}))
    assert bound(decided) == {"gpu-0": ["m1"], "gpu-1": ["m2-cordoned"]}


def test_a_pin_ends_with_its_node_and_without_one_a_worker_is_free() -> None:
    assert bound(plan(pinning(machines=[], pins={"0": "m1"}))) == {"gpu-0": [], "gpu-1": []}


def waiting_for(machine: str, node_name: str = "") -> AWorker:
    worker = a_worker(0, phase="Pending", registered=False)
    assert worker.pod is not None
    metadata = replace(worker.pod.metadata, annotations={names.PINNED: machine})
    return replace(
        worker, pod=replace(worker.pod, metadata=metadata, spec=replace(worker.pod.spec, node_name=node_name))
    )


def deleted_pods(decided: Plan) -> list[str]:
    return [action.target.name for action in decided.actions if isinstance(action, Delete)]


def test_a_pod_that_waits_for_a_node_that_is_gone_is_made_again() -> None:
    stuck = pinning(waiting_for("m1"), machines=[], pins={"0": "m1"}, replicas=1)
    assert deleted_pods(plan(stuck)) == ["gpu-0"]


def test_a_pod_that_waits_for_the_node_that_it_is_pinned_to_or_has_one_stays() -> None:
    for worker, machines in ((waiting_for("m1-cordoned"), ["m1-cordoned"]), (waiting_for("m1", node_name="m1"), [])):
        (machine,) = machines or ["m1"]
        assert deleted_pods(plan(pinning(worker, machines=machines, pins={"0": machine}, replicas=1))) == []


def test_a_node_brings_back_whoever_waits_for_it() -> None:
    (waiting,), (there,) = ([w.pod] for w in (waiting_for("m1"), waiting_for("m1", node_name="m2")))
    assert waiting is not None
    assert there is not None
    assert (machine_of(waiting), machine_of(there)) == (("m1",), ("m2",))


def test_where_workers_are_is_remembered_by_ordinal() -> None:
    worker = a_worker(0)
    assert worker.pod is not None
    placed = replace(worker, pod=replace(worker.pod, spec=replace(worker.pod.spec, node_name="m3")))
    snapshot = pinning(placed, machines=["m1", "m2", "m3"], pins={"0": "m1", "1": "m2", "7": "m2"})
    assert report(snapshot, Outcome(plan=Plan())).ordinal_to_node == {"0": "m3", "1": "m2"}
    off = replace(snapshot, object=replace(snapshot.object, spec=replace(snapshot.object.spec, pin_to_node=False)))
    assert report(off, Outcome(plan=Plan())).ordinal_to_node == {}


def placed_on(worker: AWorker, machine: str) -> AWorker:
    assert worker.pod is not None
    return replace(worker, pod=replace(worker.pod, spec=replace(worker.pod.spec, node_name=machine)))


@pytest.mark.parametrize("ending", [a_worker(0, leaving=True), a_worker(0, phase="Failed")])
def test_a_worker_whose_pod_ends_before_anybody_noted_its_node_comes_back_there(ending: AWorker) -> None:
    snapshot = pinning(placed_on(ending, "m3"), machines=["m3"], pins={}, replicas=1)
    assert report(snapshot, Outcome(plan=Plan())).ordinal_to_node == {"0": "m3"}
    unwanted = replace(snapshot, object=replace(snapshot.object, spec=replace(snapshot.object.spec, replicas=0)))
    assert report(unwanted, Outcome(plan=Plan())).ordinal_to_node == {}


def test_where_workers_are_is_noted_at_once_only_if_they_come_back_there() -> None:
    snapshot = pinning(placed_on(a_worker(0), "m3"), machines=["m3"], pins={}, replicas=1)
    found = report(snapshot, Outcome(plan=Plan()))
    assert decided_by(found) != decided_by(replace(found, ordinal_to_node={}))
    spec = replace(snapshot.object.spec, pin_to_node=False)
    free = replace(snapshot, object=replace(snapshot.object, spec=spec))
    assert report(free, Outcome(plan=Plan())).ordinal_to_node == {}


def test_a_worker_on_a_node_that_is_gone_does_not_keep_others_from_being_made() -> None:
    snapshot = pinning(placed_on(a_worker(0), "gone"), machines=[], pins={}, replicas=2)
    assert bound(plan(snapshot)) == {"gpu-1": []}


# --- ordinals that are not the first ones: a scale-in has kept the busy workers


def after_a_scale_in(snapshot: Snapshot, ordinals: str) -> Snapshot:
    """As the status of earlier passes says."""
    status = replace(snapshot.object.status, ordinals=ordinals)
    return replace(snapshot, object=replace(snapshot.object, status=status))


def test_which_ordinals_are_asked_for_is_remembered() -> None:
    busy = (a_worker(3, state="MIXED", jobs=(1,)), a_worker(4, state="MIXED", jobs=(2,)))
    shrinking = a_snapshot(a_worker(0), a_worker(1), a_worker(2), *busy, replicas=2)
    assert report(shrinking, Outcome(plan=Plan())).ordinals == "3-4"
    assert report(after_a_scale_in(a_snapshot(busy[0], replicas=2), "3-4"), Outcome(plan=Plan())).ordinals == "3-4"
    assert report(after_a_scale_in(a_snapshot(*busy, replicas=4), "3-4"), Outcome(plan=Plan())).ordinals == "0-1,3-4"
    assert report(per_machine(machines=[a_machine("m1")]), Outcome(plan=Plan())).ordinals == ""


@pytest.mark.parametrize("ordinals", ["3-4", ""], ids=["as the status says", "as its pod says, that is still ending"])
def test_a_worker_that_goes_for_a_moment_comes_back_at_its_ordinal_and_with_its_volume(ordinals: str) -> None:
    claims = [a_claim(f"gpu-{n}") for n in (0, 3, 4)]
    gone = () if ordinals else (a_worker(3, leaving=True),)
    there = claimed(*gone, a_worker(4), claims=claims, replicas=2, when_scaled="Delete")
    decided = plan(after_a_scale_in(there, ordinals))
    assert (made(decided), dropped(decided)) == (["gpu-3"] if ordinals else [], ["scratch-gpu-0"])


def test_its_pin_is_kept_too() -> None:
    pinned = pinning(a_worker(4), machines=["m3"], pins={"3": "m3"})
    snapshot = after_a_scale_in(pinned, "3-4")
    assert bound(plan(snapshot)) == {"gpu-3": ["m3"]}
    assert report(snapshot, Outcome(plan=Plan())).ordinal_to_node == {"3": "m3"}


@pytest.mark.parametrize(
    ("ordinals", "text"), [((), ""), ((0,), "0"), ((0, 1, 2), "0-2"), ((7, 0, 9, 8, 3), "0,3,7-9")]
)
def test_ordinals_are_folded_and_unfolded(ordinals: tuple[int, ...], text: str) -> None:
    assert (folded(ordinals), unfolded(text)) == (text, frozenset(ordinals))
    assert unfolded("1,x,3-y,-4,5-6") == {1, 5, 6}
