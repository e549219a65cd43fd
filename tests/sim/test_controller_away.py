"""The Controller is deleted, and made again or not, while its NodeSets go."""

import asyncio

import pytest

from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.spec import NodeSet
from tests.sim.world import NAMESPACE, World, a_cluster

pytestmark = pytest.mark.looptime(noop_cycles=0)
AWAY_S, LONG_S = 20.0, 600.0


async def test_a_controller_that_is_replaced_while_its_nodeset_is_deleted_costs_no_job() -> None:
    world = World(501)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        world.slurm.submit(1, 120.0)
        pending = world.slurm.submit(2, 60.0, "gpu")
        await asyncio.sleep(2)
        world.server.remove(Controller, "slurm", NAMESPACE)
        world.server.remove(NodeSet, "gpu", NAMESPACE)
        await asyncio.sleep(AWAY_S)
        world.check()
        assert len(world.pods()) == 2
        world.server.add(a_cluster()[0])
        await asyncio.sleep(LONG_S)
        world.check()
        assert (world.pods(), world.slurm.killed) == ([], [])
        assert pending not in {job.id for job in world.slurm.jobs.values() if job.state == "PENDING"}
        assert world.nodeset("gpu") is None


async def test_a_nodeset_without_workers_does_not_take_its_partition_away_under_pending_jobs() -> None:
    world = World(502)
    world.make("gpu", replicas=0)
    async with world.running():
        await world.settled()
        waiting = world.slurm.submit(1, 5.0, "gpu")
        world.server.remove(Controller, "slurm", NAMESPACE)
        world.server.remove(NodeSet, "gpu", NAMESPACE)
        await asyncio.sleep(AWAY_S)
        world.server.add(a_cluster()[0])
        await asyncio.sleep(60)
        world.check()
        assert world.nodeset("gpu") is not None
        assert world.slurm.jobs[waiting].state == "PENDING"


async def test_when_nobody_can_be_asked_any_more_a_worker_goes_when_its_own_job_has_ended() -> None:
    world = World(503)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled()
        world.slurm.submit(1, 300.0)
        await asyncio.sleep(30)  # a younger one would be forgotten
        world.slurm.kill()
        world.server.remove(Controller, "slurm", NAMESPACE)
        world.server.remove(NodeSet, "gpu", NAMESPACE)
        await asyncio.sleep(AWAY_S)
        assert len(world.pods()) == 3
        await asyncio.sleep(100)
        assert len(world.pods()) == 1
        await asyncio.sleep(LONG_S)
        assert (world.pods(), world.slurm.killed, world.nodeset("gpu")) == ([], [], None)


async def test_a_controller_that_comes_back_during_the_look_into_its_workers_costs_no_job() -> None:
    world = World(504)
    world.make("gpu", replicas=2)
    world.shell.takes_s = 4.0
    async with world.running():
        await world.settled()
        world.slurm.kill()
        world.server.remove(Controller, "slurm", NAMESPACE)
        world.server.remove(NodeSet, "gpu", NAMESPACE)
        await asyncio.sleep(32)  # the look began at 30
        assert len(world.pods()) == 2
        world.server.add(a_cluster()[0])
        world.slurm.start()
        world.slurm.submit(1, 120.0)
        await asyncio.sleep(60)
        world.check()
        assert len(world.pods()) == 1  # the other went as all do: drained, and forgotten by slurmctld
        await asyncio.sleep(LONG_S)
        world.check()
        assert (world.pods(), world.slurm.killed, world.nodeset("gpu")) == ([], [], None)
