"""The operator dies after its n-th write, for each n of a story with every kind of change in it."""

import asyncio

import pytest

from tests.sim.seeds import check_end, in_virtual_time
from tests.sim.world import QUIET_S, World

WRITES_MAX = 120


async def story(world: World) -> None:
    """Workers come, jobs run, a scale-in waits for one, a rollout and a cordon pass, one more scale-out."""
    await asyncio.sleep(12)
    world.slurm.submit(2, 25.0)
    await asyncio.sleep(2)
    world.change("gpu", replicas=1)
    await asyncio.sleep(30)
    world.change("gpu", replicas=3, slurmd={"image": "corral/slurm:new"})
    await asyncio.sleep(15)
    world.kubernetes.cordon("machine-0", on=True)
    await asyncio.sleep(20)
    world.calm(lift_drains=True)
    world.kubernetes.cordon("machine-0", on=False)


async def told(n: int, *, of_slurm: bool) -> bool:
    """Whether the operator died in it; the laws hold all the way and the end is as asked for."""
    world = World(n)
    world.make("gpu", replicas=3)
    async with world.running():
        await asyncio.sleep(0)
        client = world.operators[0].connection
        if of_slurm:
            world.crash_after_slurm_writes[client.client] = n
        else:
            client.crash_after_writes(n)
        await story(world)
        died = world.operators[0].connection is not client
        await world.settled(600, quiet_s=QUIET_S)
        check_end(world)
        return died


@pytest.mark.parametrize("of_slurm", [False, True], ids=["to Kubernetes", "to Slurm"])
def test_whatever_the_last_write_was_nothing_is_lost(of_slurm: bool) -> None:
    for n in range(1, WRITES_MAX):
        if not in_virtual_time(told(n, of_slurm=of_slurm)):
            assert n > 5, "the story has hardly any writes"
            return
    pytest.fail(f"still dying after {WRITES_MAX} writes")
