"""Disks in virtual time: filled, plugged in, taken out, kept; and told when one of them fails."""

import asyncio

import pytest

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.spec import Wukong
from corral.kube.models.core_v1 import PersistentVolumeClaim
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, World, a_class, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)

EMPTY_DISK = "{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]}"


@pytest.mark.parametrize("csi", [False, True], ids=["WaitForFirstConsumer", "PendingPopulation"])
async def test_a_disk_that_waits_for_its_consumer_gets_it(csi: bool) -> None:
    """Defect 6: machine and disk waited for each other for ever."""
    world = World(waits=True, csi=csi)
    await world.make(a_wukong(LARGE.replace("size: 10Gi", "size: 10Gi, storageClassName: fast")))

    assert (await world.wukong()).status.phase == "Running"
    assert await world.condition("VolumesBound") == ("True", "VolumesReady")


async def test_a_kept_disk_outlives_its_wukong_and_a_new_one_of_the_name_gets_it() -> None:
    world = World()
    kept = LARGE.replace("size: 50Gi", "size: 50Gi, keepOnDelete: true")
    await world.make(a_wukong(kept))
    before = (await world.claim("vm-data")).metadata.uid
    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(PersistentVolumeClaim) == ["vm-data"]

    await world.add(a_wukong(kept))
    assert (await world.wukong()).status.phase == "Running"
    assert (await world.claim("vm-data")).metadata.uid == before


async def test_a_disk_taken_out_of_the_spec_goes_once_the_machine_has_let_go_of_it() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.change(
        {"disks": [{"name": "root", "size": "10Gi", "image": "docker://images.test/debian:13", "boot": True}]}
    )
    assert [v.name for v in (await world.machine()).spec.template.spec.volumes] == ["root", "cloudinit"]
    assert "vm-data" in world.names(PersistentVolumeClaim)  # the running instance still has it
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")

    await world.change({"startStrategy": {"runStrategy": "Halted"}})
    assert world.names(PersistentVolumeClaim) == ["vm-root"]


async def test_a_disk_that_comes_while_the_machine_runs_is_plugged_in() -> None:
    world = World()
    await world.make(a_wukong())
    root = {"name": "root", "size": "10Gi", "image": "https://images.test/debian.qcow2"}
    await world.change({"disks": [root, {"name": "more", "size": "5Gi"}]})

    volumes = {v.name: v for v in (await world.machine()).spec.template.spec.volumes}
    assert volumes["more"].persistent_volume_claim is not None
    assert volumes["more"].persistent_volume_claim.hotpluggable is True
    assert volumes["root"].data_volume is not None
    assert volumes["root"].data_volume.hotpluggable is None
    assert "more" in {volume.name for volume in (await world.instance()).status.volume_status}
    assert await world.condition("RestartRequired") == ("False", "UpToDate")

    await world.change({"disks": [root]})
    assert {volume.name for volume in (await world.instance()).status.volume_status} == {"root", "cloudinit"}
    assert world.names(PersistentVolumeClaim) == ["vm-root"]


@pytest.mark.parametrize("bus", ["sata", "usb"])
async def test_a_disk_on_a_bus_that_cannot_be_plugged_waits_for_the_next_start(bus: str) -> None:
    world = World()
    await world.make(a_wukong())
    root = {"name": "root", "size": "10Gi", "image": "https://images.test/debian.qcow2"}
    await world.change({"disks": [root, {"name": "more", "size": "5Gi", "bus": bus}]})
    assert "more" not in {volume.name for volume in (await world.instance()).status.volume_status}
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")

    await world.delete(VirtualMachineInstance, "vm")
    await world.settled()
    assert "more" in {volume.name for volume in (await world.instance()).status.volume_status}
    assert await world.condition("RestartRequired") == ("False", "UpToDate")


async def test_a_disk_that_someone_else_plugged_in_stays() -> None:
    """Defect 9: the machine's spec was overwritten in each pass."""
    world = World()
    await world.make(a_wukong())
    machine = world.server.get(VirtualMachine, "vm", NAMESPACE)
    assert machine is not None
    spec = machine["spec"]["template"]["spec"]
    foreign = {"name": "usb", "persistentVolumeClaim": {"claimName": "stick", "hotpluggable": True}}
    disks = [*spec["domain"]["devices"]["disks"], {"name": "usb", "disk": {"bus": "scsi"}}]
    await world.patch(
        VirtualMachine,
        "vm",
        {
            "spec": {
                "template": {"spec": {"volumes": [*spec["volumes"], foreign], "domain": {"devices": {"disks": disks}}}}
            }
        },
    )
    await world.settled()
    await world.change({"cpu": 3})

    after = await world.machine()
    assert [v.name for v in after.spec.template.spec.volumes] == ["root", "cloudinit", "usb"]
    assert [d.name for d in after.spec.template.spec.domain.devices.disks] == ["root", "cloudinit", "usb"]


async def test_a_disk_that_fails_is_told_in_cdis_words_and_does_not_stop_the_others() -> None:
    world = World()
    world.standin.volumes.failing["vm-root"] = "404 Not Found"
    await world.make(a_wukong(LARGE))

    wukong = await world.wukong()
    assert wukong.status.phase == "Error"
    assert await world.condition("Stalled") == ("True", "DiskFailed")
    assert "404 Not Found" in wukong.status.conditions[0].message
    assert (await world.claim("vm-data")).status.phase == "Bound"
    assert world.names(NetworkAttachmentDefinition) == ["vm-lan-nad"]
    assert len(world.events("DiskFailed")) == 1
    assert world.events("Error") == ["the virtual machine cannot start: failed disks: root"]

    world.standin.volumes.failing.clear()
    await world.delete(DataVolume, "vm-root")
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"


async def test_an_import_that_is_tried_again_is_told_in_cdis_words_and_does_not_stop_the_others() -> None:
    world = World()
    world.standin.volumes.retried["vm-root"] = "connection refused"
    await world.make(a_wukong(LARGE))

    wukong = await world.wukong()
    assert (wukong.status.phase, await world.condition("Ready")) == ("Creating", ("False", "DiskFilling"))
    assert wukong.status.conditions[0].message == "disk root: ImportInProgress, 0.00% (connection refused)"
    assert (await world.claim("vm-data")).status.phase == "Bound"
    assert world.names(VirtualMachine) == []


async def test_a_claim_that_gets_no_volume_at_once_keeps_the_machine_from_being_made() -> None:
    world = World()
    await world.begin()
    world.standin_rests()  # nobody provisions
    await world.client.create(a_wukong(EMPTY_DISK), field_manager="person")
    await asyncio.sleep(60)

    assert world.names(PersistentVolumeClaim) == ["vm-root"]
    assert world.names(VirtualMachine) == []
    assert await world.condition("VolumesBound") == ("False", "VolumesNotBound")
    assert await world.condition("Ready") == ("False", "DiskNotBound")
    assert (await world.wukong()).status.conditions[0].message == "disk root: waiting for a volume for claim vm-root"


@pytest.mark.parametrize(
    ("disk", "held"),
    [("", "PersistentVolumeClaim lab/vm-root"), (", image: 'https://images.test/a'", "DataVolume lab/vm-root")],
    ids=["empty", "filled"],
)
async def test_a_storage_class_that_does_not_exist_is_named_and_the_machine_is_made_when_it_does(
    disk: str, held: str
) -> None:
    world = World()
    await world.begin()
    world.standin_rests()  # nobody provisions
    gone = f"{{cpu: 1, memory: 1Gi, disks: [{{name: root, size: 1Gi, storageClassName: gone{disk}}}]}}"
    await world.client.create(a_wukong(gone), field_manager="person")
    await asyncio.sleep(5)
    assert await world.condition("Ready") == ("False", "StorageClassMissing")
    assert await world.condition("Stalled") == ("False", "StorageClassMissing"), "there may be a volume for it"
    await asyncio.sleep(20)
    assert await world.condition("Stalled") == ("True", "StorageClassMissing")
    await world.days_pass(0.5)  # a resync looks at it again
    (told,) = world.events("StorageClassMissing")
    assert told.startswith("disk root: waiting for StorageClass gone, which does not exist; create it")
    assert told.endswith(f"for {held}")
    assert world.names(VirtualMachine) == []

    await world.client.create(a_class("gone", default=False), field_manager="person")
    await asyncio.sleep(5)
    assert (await world.condition("Ready"))[1] in ("DiskNotBound", "DiskFilling")
    world.standin_goes_on()
    await asyncio.sleep(30)
    await world.settled()
    assert await world.condition("Ready") == ("True", "AsDesired")


async def test_a_volume_of_a_class_that_does_not_exist_serves_and_nobody_is_called() -> None:
    """As people make volumes by hand."""
    world = World()
    await world.begin()
    world.standin_rests()
    byhand = EMPTY_DISK.replace("size: 1Gi", "size: 1Gi, storageClassName: manual")
    await world.client.create(a_wukong(byhand), field_manager="person")
    await asyncio.sleep(5)
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    await world.patch(PersistentVolumeClaim, "vm-root", bound, "status")
    await asyncio.sleep(60)
    assert world.names(VirtualMachine) == ["vm"]
    assert world.events("StorageClassMissing") == []


async def test_a_claim_that_lost_its_volume_is_told_as_failed() -> None:
    world = World()
    await world.begin()
    world.standin_rests()
    await world.client.create(a_wukong(EMPTY_DISK), field_manager="person")
    await asyncio.sleep(10)
    await world.patch(PersistentVolumeClaim, "vm-root", {"status": {"phase": "Lost"}}, "status")
    await asyncio.sleep(60)

    assert world.names(VirtualMachine) == []
    assert await world.condition("Stalled") == ("True", "DiskFailed")
    assert await world.condition("VolumesBound") == ("False", "VolumesNotBound")
    (told,) = world.events("DiskFailed")
    assert told == "disk root: PersistentVolumeClaim lab/vm-root failed; its volume is lost"


async def test_a_machine_that_runs_is_told_as_running_though_a_new_disk_of_it_fails() -> None:
    world = World()
    world.standin.volumes.failing["vm-more"] = "404 Not Found"
    await world.make(a_wukong())
    root = {"name": "root", "size": "10Gi", "image": "https://images.test/debian.qcow2"}
    await world.change({"disks": [root, {"name": "more", "size": "1Gi", "image": "https://images.test/more.qcow2"}]})

    assert (await world.wukong()).status.phase == "Running"
    assert world.events("Error") == []
    assert await world.condition("Stalled") == ("True", "DiskFailed")
    assert (await world.condition("LiveMigratable"))[0] == "True"


async def test_a_disk_that_a_person_uploads_says_how_and_the_machine_is_made_then() -> None:
    world = World()
    await world.make(a_wukong("{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi, source: {upload: true}}]}"))
    assert await world.condition("Stalled") == ("True", "UploadAwaited")
    (told,) = world.events("UploadAwaited")
    assert "virtctl image-upload dv vm-root --namespace lab --no-create --image-path FILE" in told

    world.standin.volumes.uploaded.add("vm-root")
    await asyncio.sleep(30)
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"
