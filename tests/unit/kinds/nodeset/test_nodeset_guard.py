"""The disruption guard: whatever the number of workers and of those asked for, none may be evicted."""

import pytest
from msgspec.structs import replace

from corral.engine import Apply, EmitEvent
from corral.kinds.nodeset.making import guarded
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kube.models.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from tests.unit.kinds.nodeset.builders import UNKNOWN, a_nodeset, a_snapshot, a_worker, the_guard


def evictions_allowed(guard: PodDisruptionBudget, *, pods: int, healthy: int, replicas: int) -> bool:
    """As the disruption controller reckons, and as the server lets an unready pod go (IfHealthyBudget).

    `replicas` is what the owner's scale says, from which `maxUnavailable` counts; `minAvailable` counts pods.
    """
    spec = guard.spec
    assert spec.unhealthy_pod_eviction_policy is None
    if isinstance(spec.max_unavailable, int):
        expected, desired = replicas, max(0, replicas - spec.max_unavailable)
    else:
        assert isinstance(spec.min_available, int)
        expected, desired = pods, spec.min_available
    of_ready_ones = expected > 0 and healthy > desired
    of_unready_ones = healthy < pods and 0 < desired <= healthy
    return of_ready_ones or of_unready_ones


SITUATIONS = {
    "as many as asked for": {"pods": 3, "healthy": 3, "replicas": 3},
    "a scale-in that drains": {"pods": 5, "healthy": 5, "replicas": 2},
    "one on each Kubernetes node, where replicas has no meaning": {"pods": 40, "healthy": 40, "replicas": 1},
    "a rollout that has one more": {"pods": 4, "healthy": 4, "replicas": 3},
    "one more, and the busy one is not ready": {"pods": 4, "healthy": 3, "replicas": 3},
    "none asked for": {"pods": 2, "healthy": 2, "replicas": 0},
    "more than anybody has": {"pods": 100_000, "healthy": 100_000, "replicas": 100_000},
}


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_no_worker_may_be_evicted(situation: dict[str, int]) -> None:
    assert not evictions_allowed(the_guard(a_nodeset()), **situation)


@pytest.mark.parametrize(
    "snapshot",
    [
        a_snapshot(a_worker(0, jobs=(7,), state="MIXED"), deleted=True),
        a_snapshot(a_worker(0, jobs=UNKNOWN), deleted=True),
        a_snapshot(a_worker(0), controller=None),
    ],
    ids=["the NodeSet goes", "it goes, and Slurm is silent", "its Controller is missing"],
)
def test_while_there_is_a_worker_a_guard_that_somebody_took_away_is_made_again(snapshot: Snapshot) -> None:
    assert plan(snapshot).is_empty or not any(isinstance(one, Apply) for one in plan(snapshot).actions)
    *_, last = [one for one in plan(replace(snapshot, guards=())).actions if not isinstance(one, EmitEvent)]
    assert isinstance(last, Apply)
    assert last.object == the_guard(snapshot.object)


def test_nobody_is_guarded_where_nobody_is() -> None:
    for snapshot in (a_snapshot(deleted=True), a_snapshot(controller=None)):
        assert not any(isinstance(one, Apply) for one in plan(replace(snapshot, guards=())).actions)


def test_an_earlier_guard_that_let_some_go_is_put_right() -> None:
    guard = the_guard(a_nodeset())
    earlier = replace(guard, spec=PodDisruptionBudgetSpec(max_unavailable=0, selector=guard.spec.selector))
    assert evictions_allowed(earlier, **SITUATIONS["a scale-in that drains"])
    decided = plan(replace(a_snapshot(a_worker(0)), guards=(earlier,)))
    (put_right,) = [one for one in decided.actions if isinstance(one, Apply)]
    assert put_right.object.spec == guard.spec  # type: ignore[attr-defined]
    assert guarded(a_nodeset(), (guard,)).is_empty
