"""Somebody's drain that slurmctld has lost is kept before the slurmd registers anew, however soon that is."""

import asyncio

import pytest

from corral.testing.apiserver import Fault
from tests.unit.kinds.nodeset.test_nodeset_life import a_world

pytestmark = pytest.mark.looptime(noop_cycles=0)


@pytest.mark.parametrize("fault", [Fault.SLOW, Fault.CONFLICT])
async def test_when_its_slurmd_registers_while_the_loss_is_being_shown(fault: Fault) -> None:
    async with a_world(2) as world:
        world.slurm.reasons["gpu-0"] = "bad DIMM"
        world.slurm.changed()
        await asyncio.sleep(600)
        world.server.fail_next(fault, method="PATCH", resource="pods", times=2)
        before = len(world.server.trace)
        world.slurm.reasons.clear()
        world.slurm.changed()
        while not any("PATCH" in line and "/pods" in line for line in world.server.trace[before:]):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        world.slurm.register("gpu-1")
        world.slurm.register("gpu-0")
        await asyncio.sleep(60)

        assert world.slurm.reasons["gpu-0"].startswith("bad DIMM")


async def test_when_another_worker_was_missing_already_and_nothing_else_turns() -> None:
    async with a_world(2) as world:
        world.slurm.reasons["gpu-0"] = "bad DIMM"
        world.slurm.changed()
        await asyncio.sleep(600)
        for lost in ("gpu-1", "gpu-0"):
            del world.slurm.reasons[lost]
            world.slurm.changed()
            await asyncio.sleep(3)
        world.slurm.register("gpu-0")
        await asyncio.sleep(60)

        assert world.slurm.reasons["gpu-0"].startswith("bad DIMM")
