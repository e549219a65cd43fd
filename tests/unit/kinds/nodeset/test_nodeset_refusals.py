"""What is refused of one worker, or of one thing, keeps nothing back that does not need it."""

import asyncio

import pytest

from corral.engine import Create, Delete, Outside
from corral.kinds.nodeset.calls import Forget, Undrain
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.spec import NodeSet
from corral.testing.apiserver import Fault
from tests.unit.kinds.nodeset.builders import OURS, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_life import a_world

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
