"""What is refused of one worker, or of one thing, keeps nothing back that does not need it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from corral.engine import NOTHING, Create, Delete, Outcome, Outside, Problem, Result
from corral.kinds.nodeset.calls import Forget, Undrain
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.taken import names_taken
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.testing.apiserver import Fault
from tests.unit.kinds.nodeset.builders import NOW, OURS, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_life import World, a_world
from tests.unit.kinds.nodeset.test_nodeset_plan import reasons

DRAINED = "IDLE+DRAIN+DYNAMIC_NORM"


def test_each_worker_is_forgotten_and_deleted_by_itself() -> None:
    gone = [a_worker(n, state=DRAINED, reason=OURS) for n in range(3)]
    split = plan(a_snapshot(*gone, replicas=0)).split()
    assert [(part.needs, [type(one) for one in actions]) for part, actions in split] == [((), [Outside, Delete])] * 3


def test_a_worker_that_cannot_be_made_keeps_nobody_drained_and_no_state_untold() -> None:
    back = [a_worker(n, state=DRAINED, reason=OURS) for n in range(2)]
    parts = list(plan(a_snapshot(*back, replicas=4)).split())
    assert all(part.needs == () for part, _ in parts)
    makes, *others = ([*actions] for _, actions in parts)
    assert all(isinstance(one, Create) for one in makes)
    assert [[one.call for one in group if isinstance(one, Outside)] for group in others] == [
        [Undrain(node="gpu-0")],
        [Undrain(node="gpu-1")],
    ]


@pytest.mark.looptime(noop_cycles=0)
async def test_one_that_slurmctld_does_not_forget_does_not_starve_those_behind_it() -> None:
    async with a_world(3) as world:
        world.slurm.held.add("gpu-2")
        world.scale(0)
        await asyncio.sleep(60)
        assert world.pods() == ["gpu-2"]
        world.slurm.held.clear()
        await world.settled()
        assert world.pods() == []


@pytest.mark.looptime(noop_cycles=0)
async def test_while_a_quota_refuses_new_workers_a_scale_in_of_others_goes_on() -> None:
    """Ordinal 0 is not to be any more, and the one that comes in its place is refused."""
    async with a_world(2) as world:
        world.server.fail_next(Fault.FORBID, method="POST", resource="pods", times=1000)
        world.server.edit(NodeSet, "gpu", "lab", merge={"spec": {"reserveOrdinals": [0]}})
        await asyncio.sleep(60)
        assert world.pods() == ["gpu-1"]
        assert [type(call) for call in world.slurm.done][-1] is Forget
        assert world.condition("Stalled")["status"] == "True"


# --- a name that is taken


def creations(snapshot: Snapshot) -> list[list[str]]:
    """By parts of the plan."""
    parts = [
        [a.object.metadata.name for a in actions if isinstance(a, Create)] for _, actions in plan(snapshot).split()
    ]
    return [part for part in parts if part]


def test_a_worker_whose_name_is_taken_is_made_apart_from_the_others_and_not_in_every_pass() -> None:
    lately = replace(a_snapshot(replicas=4), taken={"gpu-1": NOW - timedelta(seconds=20)})
    assert creations(lately) == [["gpu-0", "gpu-2", "gpu-3"]]
    assert (reasons(plan(lately))[0], plan(lately).again_after_s) == ("NameTaken", 40.0)
    long_ago = replace(lately, taken={"gpu-1": NOW - timedelta(seconds=90), "gpu-0": NOW - timedelta(seconds=90)})
    assert creations(long_ago) == [["gpu-2", "gpu-3"], ["gpu-0"], ["gpu-1"]]
    (told,) = [wait for wait in plan(long_ago).waits if wait.reason == "NameTaken"]
    assert told.stalled
    assert all(word in told.message for word in ("gpu-0, gpu-1", "Delete it", "spec.reserveOrdinals"))


def test_nothing_is_said_of_a_name_that_is_not_asked_for_any_more() -> None:
    assert plan(replace(a_snapshot(a_worker(0)), taken={"gpu-1": NOW})) == NOTHING


def test_only_what_the_server_refused_is_taken_and_what_was_made_is_not_any_more() -> None:
    snapshot = replace(a_snapshot(replicas=5), taken={"gpu-0": NOW - timedelta(minutes=2), "gpu-4": NOW})
    planned = plan(replace(snapshot, taken={}))
    made = {one.object.metadata.name: one for one in planned.actions if isinstance(one, Create)}
    problem = Problem(reason="NameTaken", message="", stalled=True, alone=True)
    outcome = Outcome(
        plan=planned,
        problem=problem,
        results=(
            Result(action=made["gpu-0"], state="done"),
            Result(action=made["gpu-1"], state="refused", reason="NameTaken"),
            Result(action=made["gpu-2"], state="skipped", reason="NameTaken"),
            Result(action=made["gpu-3"], state="refused", reason="TooManyRequests"),
        ),
    )
    assert names_taken(snapshot, outcome) == {"gpu-1": NOW, "gpu-4": NOW}


def foreign(kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "web", "image": "web"}]} if kind == "Pod" else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "lab"}, "spec": spec}


def refusals(world: World) -> int:
    """How often the server did not make a pod."""
    return sum(" POST " in line and "/pods" in line and "409" in line for line in world.server.trace)


@pytest.mark.looptime(noop_cycles=0)
async def test_pods_of_others_cost_the_workers_of_their_names_and_nobody_else_and_people_are_told() -> None:
    async with a_world(0) as world:
        for name in ("gpu-0", "gpu-1", "gpu-7", "gpu-30"):
            world.server.add(foreign("Pod", name))
        world.scale(40)
        await asyncio.sleep(15)
        assert len(world.pods()) == 40
        assert world.status()["replicas"] == 36
        stalled = world.condition("Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
        assert "gpu-0, gpu-1, gpu-7, gpu-30" in stalled["message"]
        tried, told = refusals(world), len(world.server.trace)
        await asyncio.sleep(600)
        assert refusals(world) - tried <= 4 * 11  # every minute, and not in every pass
        assert [line for line in world.server.trace[told:] if "nodesets/gpu/status" in line] == []
        for name in ("gpu-0", "gpu-1", "gpu-7", "gpu-30"):
            world.server.remove(Pod, name, "lab", grace_s=0)
        await world.settled()
        assert world.status()["replicas"] == 40
        assert world.condition("Ready")["status"] == "True"


@pytest.mark.looptime(noop_cycles=0)
async def test_a_claim_of_others_costs_its_worker_and_nobody_else() -> None:
    async with a_world(0) as world:
        world.server.add(foreign("PersistentVolumeClaim", "scratch-gpu-0"))
        scratch = {"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        world.server.edit(NodeSet, "gpu", "lab", merge={"spec": {"replicas": 3, "volumeClaimTemplates": [scratch]}})
        await asyncio.sleep(15)
        assert world.pods() == ["gpu-1", "gpu-2"]
        assert world.condition("Stalled")["reason"] == "NameTaken"
        world.server.remove(PersistentVolumeClaim, "scratch-gpu-0", "lab")
        await world.settled()
        assert world.pods() == ["gpu-0", "gpu-1", "gpu-2"]
