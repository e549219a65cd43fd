"""CDI's definition goes under a machine that runs. What becomes of its claims is up to Kubernetes' garbage collector:

it deletes the claim of a DataVolume that is gone, at once if it knows of DataVolumes, and not before the definition is
back if it does not. Either way the disk is not one that can be relied on, and a person is told so, and how to keep it.
"""

import asyncio

import pytest

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kube.models.core_v1 import PersistentVolumeClaim
from tests.unit.kinds.wukong.world import LARGE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def without_cdi(world: World) -> None:
    """A Wukong that ran before CDI's definition went."""
    await world.make(a_wukong(LARGE))
    assert await world.condition("Ready") == ("True", "AsDesired")
    world.undefine(DataVolume)
    await asyncio.sleep(30)
    await world.settled()


async def stuck(world: World) -> dict[str, str]:
    return {stuck.reason: stuck.message for stuck in (await world.wukong()).status.stuck}


async def test_a_claim_that_stays_behind_is_told_and_the_disk_is_filled_again_when_cdi_is_back() -> None:
    world = World(collects=False)
    await without_cdi(world)
    assert "vm-root" in world.names(PersistentVolumeClaim)
    assert await world.condition("Ready") == ("False", "CDIMissing")
    assert list(await stuck(world)) == ["CDIMissing", "DiskOrphaned"]
    assert len(world.events("DiskOrphaned")) == 1

    world.serve(DataVolume)
    await asyncio.sleep(60)
    assert await world.condition("Ready") == ("False", "DiskOrphaned"), "the collector has not come by"
    assert await stuck(world) == {}, "it will, without anybody"
    world.server.collect_garbage()
    await asyncio.sleep(60)
    await world.settled()
    assert world.names(DataVolume) == ["vm-root"]
    assert await world.condition("Ready") == ("True", "AsDesired")


async def test_a_claim_that_is_collected_is_told_as_well() -> None:
    world = World()
    await without_cdi(world)
    assert world.names(PersistentVolumeClaim) == ["vm-data"]
    assert await world.condition("Ready") == ("False", "CDIMissing")


async def test_a_person_can_keep_a_claim_that_stayed_behind_and_needs_no_cdi_then() -> None:
    world = World(collects=False)
    await without_cdi(world)
    assert """--patch '{"metadata": {"ownerReferences": null}}'""" in (await stuck(world))["DiskOrphaned"]
    before = await world.claim("vm-root")
    await world.patch(PersistentVolumeClaim, "vm-root", {"metadata": {"ownerReferences": None}})
    await world.settled()
    assert await world.condition("Ready") == ("True", "AsDesired")

    world.serve(DataVolume)
    await asyncio.sleep(60)
    world.server.collect_garbage()
    await world.settled()
    assert (await world.claim("vm-root")).metadata.uid == before.metadata.uid
    assert await world.condition("Ready") == ("True", "AsDesired")


async def test_no_machine_is_started_on_a_claim_that_stayed_behind() -> None:
    world = World(collects=False)
    await without_cdi(world)
    await world.delete(VirtualMachine, "vm")
    await asyncio.sleep(60)
    await world.settled()
    assert world.names(VirtualMachine) == []


async def test_a_disk_that_is_deleted_under_its_machine_is_told_before_it_is_lost() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    held = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}  # as for each claim that a pod uses
    await world.patch(PersistentVolumeClaim, "vm-data", held)
    await world.delete(PersistentVolumeClaim, "vm-data")
    await world.settled()
    assert await world.condition("Stalled") == ("True", "DiskBeingDeleted")
    message = (await stuck(world))["DiskBeingDeleted"]
    assert "held by kubernetes.io/pvc-protection; its data is lost when the machine stops" in message
