"""What the server refuses, or somebody else put in the place of ours: it holds up nothing that does not need it."""

import asyncio
from typing import Any

import pytest

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.core_v1 import PersistentVolumeClaim, Secret, Service
from corral.kube.models.networking_v1 import NetworkPolicy
from corral.testing.apiserver.faults import Fault
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)

TWO_NETWORKS = "networks: [{name: lan, bridgeName: br0}, {name: san, bridgeName: br1}]"
SMALL = "cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]"


def refuses(world: World, kind: type[Object], name: str = "", fault: Fault = Fault.FORBID) -> None:
    method = "POST" if kind in (DataVolume, PersistentVolumeClaim) else "PATCH"
    resource = kind.resource.plural_and_group
    world.server.fail_next(fault, resource=resource, name=name, method=method, client="operator", times=1000)


def told(world: World, reason: str) -> list[tuple[str, int]]:
    """Each event and how often it was repeated."""
    found: list[dict[str, Any]] = world.server.all_of(Resource("events.k8s.io", "v1", "Event", "events", True), "lab")
    return [(e["note"], e.get("series", {}).get("count", 1)) for e in found if e["reason"] == reason]


async def test_one_network_that_is_refused_does_not_stop_the_other_one() -> None:
    world = World()
    await world.begin()
    refuses(world, NetworkAttachmentDefinition, "vm-lan-nad")
    await world.client.create(a_wukong(f"{{{SMALL}, {TWO_NETWORKS}}}"), field_manager="person")
    await asyncio.sleep(60)
    assert world.names(NetworkAttachmentDefinition) == ["vm-san-nad"]
    assert world.names(PersistentVolumeClaim) == ["vm-root"]
    assert world.names(VirtualMachine) == []
    assert await world.condition("Ready") == ("False", "Forbidden")


async def test_growth_and_power_do_not_wait_for_a_network_that_is_refused() -> None:
    world = World()
    await world.make(a_wukong(f"{{{SMALL}}}"))
    refuses(world, NetworkAttachmentDefinition)
    networks = [{"name": "lan", "bridgeName": "br0"}, {"name": "san", "bridgeName": "br1"}]
    disks, start = [{"name": "root", "size": "2Gi"}], {"runStrategy": "Halted"}
    await world.patch_wukong({"networks": networks, "disks": disks, "startStrategy": start})
    await asyncio.sleep(60)
    wukong = await world.wukong()
    assert (wukong.status.phase, wukong.status.volumes[0].size) == ("Stopped", "2Gi")
    ready = wukong.status.conditions[0]
    assert "vm-lan-nad" in ready.message
    assert "vm-san-nad" in ready.message, "each that is refused is told"


async def test_a_service_that_is_refused_does_not_stop_the_machine() -> None:
    world = World()
    await world.begin()
    refuses(world, Service)
    service = "service: {type: LoadBalancer, ports: [{name: ssh, port: 22}]}"
    await world.client.create(a_wukong(f"{{{SMALL}, {service}}}"), field_manager="person")
    await asyncio.sleep(60)
    assert (await world.wukong()).status.phase == "Running"
    assert await world.condition("Ready") == ("False", "Forbidden")
    assert world.events("Running") == ["the virtual machine is running"]


async def test_disks_that_cannot_be_made_for_a_while_do_not_stop_those_that_can() -> None:
    """CDI's webhook does not answer, which ends a pass for all of it; there are two disks of its kind."""
    world = World(lacking=(NetworkAttachmentDefinition,))
    await world.begin()
    refuses(world, DataVolume, fault=Fault.SERVER_ERROR)
    image = "image: 'https://images.test/a.qcow2'"
    disks = f"disks: [{{name: a, size: 1Gi, {image}}}, {{name: b, size: 1Gi, {image}}}, {{name: c, size: 1Gi}}]"
    await world.client.create(a_wukong(f"{{cpu: 1, memory: 1Gi, {disks}, {TWO_NETWORKS}}}"), field_manager="person")
    await asyncio.sleep(300)
    assert world.names(PersistentVolumeClaim) == ["vm-c"]
    assert [bool(volume.error) for volume in (await world.wukong()).status.volumes] == [True, True, False]
    assert len(told(world, "MultusMissing")) == 1, "what is to be told is told, whatever goes wrong"


async def test_of_several_things_that_a_person_must_mend_each_is_told_once() -> None:
    world = World(lacking=(DataVolume, NetworkAttachmentDefinition))
    await world.make(a_wukong(LARGE.replace("cpu: 4", "cpu: 3\ncpuOptions: {sockets: 2}")))
    await world.days_pass(0.2)
    for reason in ("CDIMissing", "MultusMissing"):
        ((_, count),) = told(world, reason)
        assert count == 1, reason
    assert [stuck.reason for stuck in (await world.wukong()).status.stuck] == ["MultusMissing", "CDIMissing"]

    world.standin_goes_on()
    for kind in (DataVolume, NetworkAttachmentDefinition):
        world.serve(kind)
    await asyncio.sleep(120)
    await world.settled()
    assert await world.condition("Stalled") == ("True", "BadSpec")
    assert len(told(world, "BadSpec")) == 1
    await world.change({"cpu": 4})
    assert (await world.wukong()).status.stuck == ()


async def test_a_machine_does_not_start_with_user_data_of_somebody_else() -> None:
    world = World()
    foreign = Secret(metadata=ObjectMeta(name="vm-cloud-init", namespace=NAMESPACE), data={"userdata": b"theirs"})
    await world.make(foreign, a_wukong())
    assert await world.condition("Stalled") == ("True", "NameTaken")
    assert world.names(VirtualMachine) == []
    assert (await world.secret("vm-cloud-init")).data == {"userdata": b"theirs"}

    await world.delete(Secret, "vm-cloud-init")
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"


async def test_a_machine_does_not_start_in_a_network_that_somebody_else_called_as_ours() -> None:
    world = World()
    foreign = NetworkAttachmentDefinition(metadata=ObjectMeta(name="vm-lan-nad", namespace=NAMESPACE))
    await world.make(foreign, a_wukong(LARGE))
    assert await world.condition("Stalled") == ("True", "NameTaken")
    assert await world.condition("NetworksConfigured") == ("False", "NetworksMissing")
    assert world.names(VirtualMachine) == []

    await world.delete(NetworkAttachmentDefinition, "vm-lan-nad")
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"


async def test_a_guest_that_is_to_be_closed_does_not_start_open() -> None:
    world = World()
    await world.begin()
    refuses(world, NetworkPolicy)
    await world.client.create(a_wukong(f"{{{SMALL}, networkPolicy: Closed}}"), field_manager="person")
    await asyncio.sleep(60)
    assert world.names(VirtualMachine) == []
    assert await world.condition("Ready") == ("False", "Forbidden")

    world.server.stop_faults()
    await asyncio.sleep(300)
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"
