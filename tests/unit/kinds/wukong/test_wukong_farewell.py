"""Deletion that ends, whatever others did to the machine before, and to a Wukong that is left alone otherwise."""

import asyncio

import pytest

from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.spec import Wukong
from corral.kube.client import Precondition
from corral.kube.models.core_v1 import PersistentVolumeClaim
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_an_instance_that_was_let_loose_ends_with_its_wukong() -> None:
    """As after `kubectl delete vm --cascade=orphan`, which leaves the guest running."""
    world = World()
    await world.make(a_wukong(LARGE))
    await world.operator.stop()
    world.standin_rests()
    await world.client.delete(VirtualMachine, "vm", NAMESPACE, precondition=Precondition(), propagation="Orphan")
    await world.patch(VirtualMachine, "vm", {"metadata": {"finalizers": ["orphan"]}})
    await asyncio.sleep(30)
    assert (world.names(VirtualMachine), world.names(VirtualMachineInstance)) == ([], ["vm"])

    await world.delete(Wukong, "vm")
    world.operator.start()
    await world.settled()
    assert world.names(Wukong) == world.names(VirtualMachineInstance) == world.names(PersistentVolumeClaim) == []


async def test_an_instance_of_somebody_elses_machine_is_left_alone() -> None:
    world = World()
    spec = {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}}}}}
    spec["template"] |= {"metadata": {"labels": {"vm.corral.dev/wukong": "vm"}}}  # type: ignore[operator]
    world.server.add(
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "vm", "namespace": NAMESPACE},
            "spec": spec,
        }
    )
    await world.make(a_wukong())
    status = (await world.wukong()).status
    assert (await world.instance()).status.node_name == "node-a"
    assert (status.phase, status.node_name, status.guest_os) == ("Creating", "", "")
    assert await world.condition("LiveMigratable") == ("Unknown", "NotRunning")
    assert await world.condition("Stalled") == ("True", "NameTaken")

    await world.delete(Wukong, "vm")
    await world.settled()
    assert (world.names(Wukong), world.names(VirtualMachineInstance)) == ([], ["vm"])


async def test_a_suspended_wukong_is_deleted_when_someone_deletes_it() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.change({"suspend": True})
    assert await world.condition("Ready") == ("False", "Suspended")
    await world.patch(VirtualMachine, "vm", {"metadata": {"finalizers": ["someone/else"]}})
    await world.delete(Wukong, "vm")
    await asyncio.sleep(60)
    assert await world.condition("Ready") == ("False", "Deleting")

    await world.patch(VirtualMachine, "vm", {"metadata": {"finalizers": None}})
    await world.settled()
    assert world.names(Wukong) == world.names(VirtualMachine) == world.names(PersistentVolumeClaim) == []


async def test_a_machine_that_someone_deletes_is_told_as_running_until_it_is_gone() -> None:
    world = World()
    await world.make(a_wukong())
    world.standin_rests()
    await world.delete(VirtualMachine, "vm")
    await world.patch(VirtualMachine, "vm", {"status": {"printableStatus": "Terminating"}}, "status")
    await asyncio.sleep(30)
    assert (await world.wukong()).status.phase == "Running"
    assert await world.condition("Ready") == ("False", "ChildBeingDeleted")

    world.standin_goes_on()
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"
    assert await world.condition("Ready") == ("True", "AsDesired")
