"""The operator dies after its n-th write, for each n of stories that together have every kind of change in them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import pytest

from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Node, PersistentVolumeClaim
from tests.sim.seeds import check_end, in_virtual_time
from tests.sim.world import NAMESPACE, QUIET_S, World

WRITES_MAX = 150
NEW = {"image": "corral/slurm:new"}
SCRATCH = {"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


async def scale(world: World) -> None:
    """Workers come, a scale-in waits for a job, is taken back, and asked for again; one more comes."""
    world.make("gpu", replicas=3)
    await asyncio.sleep(12)
    world.slurm.submit(2, 25.0)
    await asyncio.sleep(2)
    for replicas in (1, 3, 1):
        world.change("gpu", replicas=replicas)
        await asyncio.sleep(7)
    await asyncio.sleep(20)
    world.change("gpu", replicas=2)


async def replace(world: World) -> None:
    """A rollout, beside a job, and a machine that is cordoned meanwhile."""
    world.make("gpu", replicas=2)
    await asyncio.sleep(12)
    world.slurm.submit(1, 15.0)
    await asyncio.sleep(2)
    world.change("gpu", slurmd=NEW)
    await asyncio.sleep(15)
    machine = world.pods()[0]["spec"].get("nodeName", "machine-0")
    world.kubernetes.cordon(machine, on=True)
    await asyncio.sleep(40)
    world.kubernetes.cordon(machine, on=False)


async def move(world: World) -> None:
    """From ordinals to one a machine, which tells them what to register with, and says something else later."""
    world.make("gpu", replicas=1, extraConf="Weight=2 Features={rack}")
    await asyncio.sleep(12)
    world.change("gpu", scalingMode="DaemonSet")
    await asyncio.sleep(45)
    world.server.edit(Node, "machine-0", merge={"metadata": {"labels": {"rack": "r2"}}})


async def reserve(world: World) -> None:
    """A rollout that has its time, for which Slurm keeps nodes free; a job outlasts its beginning."""
    world.make("gpu", replicas=2)
    await asyncio.sleep(12)
    world.slurm.submit(1, 40.0)
    await asyncio.sleep(2)
    start = world.server.now() + timedelta(seconds=20)
    window = {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ"), "duration": "10m"}
    world.change("gpu", slurmd=NEW, update={"window": window})


async def leave(world: World) -> None:
    """Workers with volumes; one goes, then the whole set while a job runs and another waits in its partition."""
    kept = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    world.make("gpu", replicas=2, volumeClaimTemplates=[SCRATCH], persistentVolumeClaimRetentionPolicy=kept)
    await asyncio.sleep(12)
    world.change("gpu", replicas=1)
    await asyncio.sleep(20)
    world.slurm.submit(1, 15.0)
    world.slurm.submit(3, 15.0, "gpu")
    await asyncio.sleep(2)
    world.deleted_sets.add("gpu")
    world.server.remove(NodeSet, "gpu", NAMESPACE)
    await asyncio.sleep(40)
    world.slurm.cancel_pending()


STORIES: Final[tuple[Callable[[World], Awaitable[None]], ...]] = (scale, replace, move, reserve, leave)


async def told(story: Callable[[World], Awaitable[None]], n: int, *, of_slurm: bool) -> bool:
    """Whether the operator died in it; the laws hold all the way and the end is as asked for."""
    world = World(n)
    async with world.running():
        await asyncio.sleep(0)
        client = world.operators[0].connection
        if of_slurm:
            world.crash_after_slurm_writes[client.client] = n
        else:
            client.crash_after_writes(n)
        await story(world)
        await world.settled(900, quiet_s=QUIET_S)
        check_end(world)
        assert world.slurm.killed == []
        assert not world.server.all_of(PersistentVolumeClaim)
        return world.operators[0].connection is not client


@pytest.mark.parametrize("of_slurm", [False, True], ids=["to Kubernetes", "to Slurm"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_whatever_the_last_write_was_nothing_is_lost(story: Callable[[World], Awaitable[None]], of_slurm: bool) -> None:
    for n in range(1, WRITES_MAX):
        if not in_virtual_time(told(story, n, of_slurm=of_slurm)):
            assert n > (4 if of_slurm else 15), f"the story has hardly any writes: {n}"
            return
    pytest.fail(f"still dying after {WRITES_MAX} writes")
