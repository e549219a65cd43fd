"""slurmctld is killed, and what has happened in its last seconds was not saved."""

import asyncio

import pytest

from tests.sim.world import World

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_worker_whose_registration_was_not_saved_comes_back_and_costs_no_job() -> None:
    """Seen in chaos on real Slurm: its record was of the pod before, DOWN for ever, and the set stayed short of it."""
    world = World(601)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        world.slurm.submit(1, 500.0)
        await asyncio.sleep(30)
        (free,) = {"gpu-0", "gpu-1"} - {node for job in world.slurm.jobs.values() for node in job.nodes}
        before = world.slurm.nodes[free].slurmd
        world.kubelets.fail(next(pod for pod in world.pods() if pod["metadata"]["name"] == free))
        while world.slurm.nodes[free].slurmd is before:  # noqa: ASYNC110  (virtual time)
            await asyncio.sleep(0.1)
        world.slurm.kill()
        assert world.slurm.nodes[free].slurmd is before, "its registration was saved: choose another seed"
        await asyncio.sleep(5)
        world.slurm.start()
        await asyncio.sleep(300)
        await world.settled()
        record = world.slurm.nodes[free]
        assert not record.down
        assert record.slurmd is not None
        assert record.slurmd.alive
        assert world.slurm.killed == []
