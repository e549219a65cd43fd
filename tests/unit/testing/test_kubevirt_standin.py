"""The stand-in does what KubeVirt, CDI and the storage are documented to do, also where things end or fail."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from corral.kinds.wukong import power
from corral.kinds.wukong.api import kubevirt as kv
from corral.kinds.wukong.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    migration_to,
)
from corral.kinds.wukong.api.snapshots import (
    MachineRef,
    SnapshotSpec,
    VirtualMachineSnapshot,
    VolumeSnapshot,
    VolumeSnapshotSource,
    VolumeSnapshotSpec,
)
from corral.kube.client import Client
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec
from corral.kube.models.core_v1 import VolumeResourceRequirements as Wants
from corral.testing.guests import Contents, Guests
from corral.testing.guests.launcher import NotPlayed
from corral.testing.guests.pods import Guest
from corral.testing.kubevirt_standin import KubeVirtStandIn
from corral.testing.kubevirt_standin.subresources import StandInApi
from corral.testing.kubevirt_standin.webhooks import refusals
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)

ONE_DISK = "cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]"


async def running(strategy: str) -> World:
    world = World()
    await world.make(a_wukong(f"{{{ONE_DISK}, startStrategy: {{runStrategy: {strategy}}}}}"))
    return world


@pytest.mark.parametrize(
    ("strategy", "end", "runs_again"),
    [
        ("Always", "Succeeded", True),
        ("Always", "Failed", True),
        ("RerunOnFailure", "Succeeded", False),
        ("RerunOnFailure", "Failed", True),
        ("Once", "Succeeded", False),
        ("Once", "Failed", False),
    ],
)
async def test_a_guest_that_has_ended_runs_again_as_its_run_strategy_says(
    strategy: str, end: str, runs_again: bool
) -> None:
    world = await running(strategy)
    before = (await world.instance()).metadata.uid
    world.standin.machines.ending["vm"] = end
    await world.settled()
    instance = await world.instance()
    assert ((instance.metadata.uid != before), instance.status.phase) == (runs_again, "Running" if runs_again else end)
    assert (await world.machine()).status.printable_status == ("Running" if runs_again else "Stopped")


@pytest.mark.parametrize("strategy", ["Manual", "RerunOnFailure"])
async def test_a_guest_that_has_ended_is_started_again_by_hand(strategy: str) -> None:
    world = await running(strategy)
    people = Client(StandInApi(world.server.connect("person"), world.standin))
    if strategy == "Manual":
        await people.act(power.MACHINES, "vm", NAMESPACE, action="start", options={})
        await world.settled()
    world.standin.machines.ending["vm"] = "Succeeded"
    await world.settled()
    assert (await world.machine()).status.printable_status == "Stopped"
    await people.act(power.MACHINES, "vm", NAMESPACE, action="start", options={})
    await world.settled()
    assert (await world.machine()).status.printable_status == "Running"


async def test_a_migration_that_fails_leaves_the_guest_where_it_is_and_says_why() -> None:
    world = await running("Always")
    world.standin.machines.failing_moves["vm"] = "the target is too slow"
    await move(world)
    instance = await world.instance()
    assert instance.status.node_name == "node-a"
    state = instance.status.migration_state
    assert state is not None
    assert (state.completed, state.failed, state.failure_reason) == (True, True, "the target is too slow")
    assert phases(world) == ["Failed"]

    world.standin.machines.failing_moves.clear()
    await move(world)
    state = (await world.instance()).status.migration_state
    assert state is not None
    assert (state.completed, state.failed, state.failure_reason) == (True, False, "")
    assert sorted(phases(world)) == ["Failed", "Succeeded"]


async def test_a_migration_goes_to_the_node_that_it_names_and_waits_for_one_that_is_not_there() -> None:
    world = await running("Always")
    await move(world, "node-z")
    assert phases(world) == ["Scheduling"]
    assert (await world.instance()).status.node_name == "node-a"
    await move(world, "node-b")
    assert (await world.instance()).status.node_name == "node-b"


async def move(world: World, node: str = "") -> None:
    await world.client.create(migration_to(node, "vm", NAMESPACE, labels={}), field_manager="person")
    await world.settled()


def phases(world: World) -> list[str]:
    return [found["status"]["phase"] for found in world.server.all_of(VirtualMachineInstanceMigration, NAMESPACE)]


def a_machine(bus: str = "virtio", hostname: str = "vm", memory: kv.Memory | None = None) -> VirtualMachine:
    claim = kv.ClaimVolume(claim_name="more", hotpluggable=True)
    spec = kv.InstanceSpec(
        hostname=hostname,
        domain=kv.Domain(
            memory=memory, devices=kv.Devices(disks=(kv.DiskDevice(name="more", disk=kv.DiskTarget(bus=bus)),))
        ),
        volumes=(kv.Volume(name="more", persistent_volume_claim=claim),),
    )
    return VirtualMachine(
        metadata=ObjectMeta(name="vm", namespace=NAMESPACE),
        spec=kv.VirtualMachineSpec(run_strategy="Always", template=kv.Template(spec=spec)),
    )


def of_type(machine: VirtualMachine) -> VirtualMachine:
    typed = kv.Matcher(name="u1.small", kind="VirtualMachineInstancetype")
    return msgspec.structs.replace(machine, spec=msgspec.structs.replace(machine.spec, instancetype=typed))


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (a_machine(), ""),
        (a_machine("scsi"), ""),
        (a_machine("sata"), "disk more cannot be plugged into bus sata"),
        (a_machine("usb"), "disk more cannot be plugged into bus usb"),
        (a_machine(hostname="My_Host"), "My_Host is no host name"),
        (of_type(a_machine(memory=kv.Memory(hugepages=kv.Hugepages(page_size="2Mi")))), "are both given"),
    ],
)
def test_what_the_webhooks_of_kubevirt_refuse_is_refused(machine: VirtualMachine, told: str) -> None:
    found = "\n".join(refusals(machine))
    assert told in found
    assert bool(found) == bool(told)


async def test_volumes_go_with_what_is_on_them_when_their_claims_have_gone(tmp_path: Path) -> None:
    world = World()
    image = tmp_path / "image"
    image.write_bytes(b"debian")
    contents = Contents(tmp_path, image)
    client = Client(world.server.connect("kubevirt"))
    standin = KubeVirtStandIn(client, real_binding=True, guests=no_guests(client, contents))
    await world.client.create(a_claim("data"), field_manager="person")
    await standin.step()
    (volume,) = (await client.list(PersistentVolume)).items
    assert (contents.path(volume.metadata.name) / "disk.img").exists()

    await released(standin, volume)
    assert (await client.list(PersistentVolume)).items == ()
    assert not contents.path(volume.metadata.name).exists()


def a_claim(name: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=Wants(requests={"storage": "1Mi"})),
    )


async def released(standin: KubeVirtStandIn, volume: PersistentVolume) -> None:
    """As the volume controller does it: here is none."""
    await standin.access.set_status(volume, {"phase": "Released"})
    await standin.step()


class NoGuests(Guests):
    async def look(self, instance: VirtualMachineInstance) -> Guest | None:
        return None

    async def start(self, instance: VirtualMachineInstance) -> None:
        raise NotPlayed(f"{instance.metadata.name} is too much for us")


def no_guests(client: Client, contents: Contents) -> Guests:
    return NoGuests(client, contents, tools=Path("/none"), image="none", accelerator="tcg")


async def test_what_cannot_be_played_is_told_and_does_not_end_the_stand_in(tmp_path: Path) -> None:
    world = World()
    await world.begin(a_wukong(f"{{{ONE_DISK}}}"))
    world.standin_rests()
    client = Client(world.server.connect("kubevirt"))
    standin = KubeVirtStandIn(client, guests=no_guests(client, Contents(tmp_path, tmp_path)))
    playing = asyncio.create_task(standin.run())
    await asyncio.sleep(120)
    assert not playing.done()
    assert standin.troubles == [f"VirtualMachine {NAMESPACE}/vm is not played: vm is too much for us"]
    machine = await world.machine()
    (ready,) = [c for c in machine.status.conditions if c.type == "Ready"]
    assert (machine.status.printable_status, ready.status, ready.message) == (
        "Starting",
        "False",
        "vm is too much for us",
    )
    playing.cancel()


async def test_a_machine_that_is_halted_does_not_say_any_more_that_it_cannot_be_played(tmp_path: Path) -> None:
    world = World()
    client = Client(world.server.connect("kubevirt"))
    world.standin = KubeVirtStandIn(client, guests=no_guests(client, Contents(tmp_path, tmp_path)))
    await world.begin(a_wukong(f"{{{ONE_DISK}}}"))
    await asyncio.sleep(60)
    assert await ready_text(world) == "vm is too much for us"
    await world.patch_wukong({"startStrategy": {"runStrategy": "Halted"}})
    await asyncio.sleep(60)
    assert ((await world.machine()).status.printable_status, await ready_text(world)) == ("Stopped", "")


async def ready_text(world: World) -> str:
    return next(c.message for c in (await world.machine()).status.conditions if c.type == "Ready")


async def test_a_claim_that_is_missing_is_told_and_everything_else_goes_on(tmp_path: Path) -> None:
    world = World()
    client = Client(world.server.connect("kubevirt"))
    guests = Guests(client, Contents(tmp_path, tmp_path), tools=tmp_path, image="none", accelerator="tcg")
    standin = KubeVirtStandIn(client, guests=guests)
    instance = VirtualMachineInstance(
        metadata=ObjectMeta(name="vm", namespace=NAMESPACE),
        spec=a_machine().spec.template.spec,
        status=kv.InstanceStatus(phase="Scheduling"),
    )
    of_missing = VolumeSnapshotSpec(source=VolumeSnapshotSource(persistent_volume_claim_name="more"))
    kept = VolumeSnapshot(metadata=ObjectMeta(name="kept", namespace=NAMESPACE), spec=of_missing)
    for obj in (instance, kept, a_claim("data")):
        await world.client.create(obj, field_manager="person")
    playing = asyncio.create_task(standin.run())
    await asyncio.sleep(60)
    playing.cancel()

    missing = 'persistentvolumeclaims "more" not found'
    assert standin.machines.unplayed == {(NAMESPACE, "vm"): missing}
    assert (await world.claim("data")).status.phase == "Bound"
    error = (await client.get(VolumeSnapshot, "kept", NAMESPACE)).status.error
    assert error is not None
    assert error.message == missing


async def test_a_snapshot_that_was_interrupted_is_of_every_disk_in_the_end() -> None:
    world = World(lacking=(VolumeSnapshot,))
    await world.make(a_wukong(LARGE))
    source = MachineRef(api_group="kubevirt.io", kind="VirtualMachine", name="vm")
    snapshot = VirtualMachineSnapshot(
        metadata=ObjectMeta(name="friday", namespace=NAMESPACE), spec=SnapshotSpec(source=source)
    )
    await world.client.create(snapshot, field_manager="person")
    await asyncio.sleep(60)
    world.serve(VolumeSnapshot)
    await asyncio.sleep(60)
    assert [name.rpartition("-")[2] for name in world.names(VolumeSnapshot)] == ["data", "root"]
    assert (await world.client.get(VirtualMachineSnapshot, "friday", NAMESPACE)).status.ready_to_use
