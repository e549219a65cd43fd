"""Disks that grow: asked for at the claim, measured there, and told in the words of the storage that does it or not."""

import asyncio
from typing import Any

import pytest

from corral.kube.models.core_v1 import PersistentVolumeClaim
from tests.unit.kinds.wukong.world import LARGE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_disk_grows_when_its_size_grows() -> None:
    """Defect 2: the size was compared with itself."""
    world = World()
    await world.make(a_wukong(LARGE))
    await world.change(
        {
            "disks": [
                {"name": "root", "size": "20Gi", "image": "docker://images.test/debian:13", "boot": True},
                {"name": "data", "size": "50Gi"},
            ]
        }
    )
    assert (await world.claim("vm-root")).spec.resources.requests["storage"] == "20Gi"
    assert (await world.wukong()).status.volumes[0].size == "20Gi"
    assert await world.condition("DisksResized") == ("True", "SizesAsAsked")


async def test_a_class_that_cannot_grow_is_told_with_the_disk() -> None:
    world = World(grows=False)
    await world.make(a_wukong())
    await world.change({"disks": [{"name": "root", "size": "20Gi", "image": "https://images.test/debian.qcow2"}]})

    assert await world.condition("Ready") == ("False", "DiskCannotGrow")
    assert await world.condition("DisksResized") == ("False", "CannotGrow")
    assert (await world.claim("vm-root")).spec.resources.requests["storage"] == "10Gi"


async def grows_slowly() -> World:
    """A disk that was asked to grow, and whose storage takes its time."""
    world = World()
    await world.make(a_wukong())
    world.standin_rests()
    await world.patch_wukong({"disks": [{"name": "root", "size": "20Gi", "image": "https://images.test/debian.qcow2"}]})
    await asyncio.sleep(30)
    return world


async def test_growth_is_told_in_the_words_of_the_claim_until_it_is_done() -> None:
    world = await grows_slowly()
    assert await world.condition("Ready") == ("False", "DiskGrowing")
    said = {"type": "FileSystemResizePending", "status": "True", "message": "waiting for a pod to finish it"}
    await world.patch(PersistentVolumeClaim, "vm-root", {"status": {"conditions": [said]}}, "status")
    await asyncio.sleep(30)
    assert (await world.wukong()).status.conditions[0].message == (
        "disk root is growing to 20Gi (FileSystemResizePending: waiting for a pod to finish it)"
    )
    assert await world.condition("DisksResized") == ("False", "Growing")


@pytest.mark.parametrize(
    "refusal",
    [
        {"conditions": [{"type": "ControllerResizeError", "status": "True", "message": "out of space"}]},
        {"conditions": [{"type": "NodeResizeError", "status": "True", "message": "out of space"}]},
        {"allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}},
    ],
    ids=["controller", "node", "infeasible"],
)
async def test_growth_that_the_storage_refuses_is_stuck_and_goes_on_when_it_is_mended(refusal: dict[str, Any]) -> None:
    world = await grows_slowly()
    await world.patch(PersistentVolumeClaim, "vm-root", {"status": refusal}, "status")
    await asyncio.sleep(30)
    assert await world.condition("Stalled") == ("True", "DiskGrowthFailed")
    assert await world.condition("DisksResized") == ("False", "GrowthFailed")
    message = (await world.wukong()).status.conditions[0].message
    assert ("out of space" in message) == ("conditions" in refusal)
    world.standin_goes_on()
    await world.settled()
    assert await world.condition("Ready") == ("True", "AsDesired")
