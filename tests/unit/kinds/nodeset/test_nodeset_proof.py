"""Whoever is taken away is looked at once more, in a look that began after it was decided."""

import asyncio

import pytest
from msgspec.structs import replace

from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.proof import needs_proof
from corral.kinds.nodeset.snapshot import Snapshot
from corral.slurm.facts import Observed
from tests.unit.kinds.nodeset.builders import OURS, a_snapshot, a_worker
from tests.unit.kinds.nodeset.model import CLUSTER
from tests.unit.kinds.nodeset.test_nodeset_life import a_world
from tests.unit.kinds.nodeset.test_nodeset_rollout import old

DRAINED = "IDLE+DRAIN+DYNAMIC_NORM"


def with_spec(snapshot: Snapshot, **spec: object) -> Snapshot:
    return replace(snapshot, object=replace(snapshot.object, spec=replace(snapshot.object.spec, **spec)))


TAKEN_AWAY = {
    "scaled in": a_snapshot(a_worker(0), a_worker(1, state=DRAINED, reason=OURS)),
    "lost by slurmctld": a_snapshot(a_worker(0, registered=False, runs_s=600)),
    "registered wrong": a_snapshot(a_worker(0, state=f"{DRAINED}+INVALID_REG", reason=OURS)),
    "a record without a worker": a_snapshot(a_worker(0), a_worker(7, pod=False, state=DRAINED, reason=OURS)),
    "at a reserved ordinal": with_spec(
        a_snapshot(a_worker(0, state=DRAINED, reason=OURS), a_worker(1)), reserve_ordinals=(0,)
    ),
    "outdated": a_snapshot(old(a_worker(0, state=DRAINED, reason=OURS))),
    "deleted with its NodeSet": a_snapshot(a_worker(0, state=DRAINED, reason=OURS), deleted=True),
    "the NodeSet itself": a_snapshot(deleted=True),
}


@pytest.mark.parametrize("snapshot", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
def test_what_takes_something_away_needs_a_proof(snapshot: Snapshot) -> None:
    assert needs_proof(plan(snapshot))


@pytest.mark.parametrize(
    "snapshot",
    [
        a_snapshot(replicas=3),
        a_snapshot(a_worker(0), a_worker(1)),
        a_snapshot(a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=(7,)), replicas=0),
        a_snapshot(a_worker(0, phase="Failed")),
    ],
    ids=["made", "drained", "waited for", "ended, as kubelet says"],
)
def test_what_makes_drains_and_waits_does_not(snapshot: Snapshot) -> None:
    assert not needs_proof(plan(snapshot))


@pytest.mark.looptime(noop_cycles=0)
async def test_a_record_that_looked_free_when_it_was_seen_last_is_not_touched_when_it_no_longer_is() -> None:
    async with a_world(2) as world:
        await asyncio.sleep(600)  # nobody is about to register
        seen = await world.slurm.view(CLUSTER, None, fresh=True)
        assert isinstance(seen, Observed)
        world.slurm.seen = replace(seen, nodes={"gpu-1": seen.nodes["gpu-1"]})  # as if slurmctld had lost gpu-0
        world.slurm.changed()
        await world.settled()
        assert (world.pods(), world.slurm.done) == (["gpu-0", "gpu-1"], [])
