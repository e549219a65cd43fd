"""Snapshots in virtual time: taken once, told whole or not, final when they fail."""

import asyncio

import msgspec
import pytest

from corral.kinds.wukong.api.snapshots import (
    ContentSpec,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeBackup,
    VolumeSnapshot,
)
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.meta import ObjectMeta
from corral.testing.apiserver.faults import Fault
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, SNAPSHOTS
from tests.unit.kinds.wukongsnapshot.snapshotworld import SnapshotWorld

pytestmark = pytest.mark.looptime(noop_cycles=0)

WITH_IMAGE = LARGE.replace("disks:", "disks:\n- {name: live, size: 1Gi, source: {containerDisk: {image: 'a:1'}}}")


async def test_a_snapshot_is_taken_and_tells_what_is_in_it() -> None:
    world = SnapshotWorld()
    await world.open()
    world.standin.snapshots.without_snapshots.add("data")
    await world.take()

    status = await world.status()
    assert (status.phase, status.snapshot_name, status.error) == ("Succeeded", "friday", "")
    assert status.creation_time is not None
    assert (status.included_volumes, status.excluded_volumes) == (("root",), ("data",))
    assert "GuestAgent" in status.indications
    assert await world.told("Ready") == ("True", "AsDesired")
    assert await world.told("Whole") == ("False", "DisksLeftOut")
    asked = await world.client.get(WukongSnapshot, "friday", NAMESPACE)
    assert status.observed_generation == asked.metadata.generation > 0
    (root,) = status.disks
    assert (root.name, root.volume_snapshot_name in world.names(VolumeSnapshot)) == ("root", True)


async def test_a_snapshot_of_every_disk_is_whole_though_kubevirt_lists_the_guests_data_as_left_out() -> None:
    world = SnapshotWorld()
    await world.open(WITH_IMAGE)
    await world.take()

    taken = await world.client.get(VirtualMachineSnapshot, "friday", NAMESPACE)
    assert taken.status.snapshot_volumes.excluded_volumes == ("live", "cloudinit")
    assert (await world.status()).excluded_volumes == ()
    assert await world.told("Whole") == ("True", "EveryDisk")
    await world.delete(Wukong, "vm")
    await world.rest()
    assert await world.told("Whole") == ("True", "EveryDisk")


async def test_a_whole_machine_without_its_agent_says_that_nobody_froze_it() -> None:
    world = SnapshotWorld()
    world.standin.machines.agentless.add("vm")
    await world.open()
    await world.take()
    assert (await world.status()).indications == ("Online", "NoGuestAgent")


async def test_a_snapshot_is_taken_only_when_the_holder_of_every_volume_is_known() -> None:
    """A Wukong made from it takes a disk that has none for an empty one."""
    world = SnapshotWorld()
    await world.open()
    world.standin_rests()
    await world.ask()
    await asyncio.sleep(30)
    volumes = {"includedVolumes": ["root", "data"], "excludedVolumes": ["cloudinit"]}
    taken = {"phase": "Succeeded", "readyToUse": True, "virtualMachineSnapshotContentName": "it"}
    await world.patch(VirtualMachineSnapshot, "friday", {"status": {**taken, "snapshotVolumes": volumes}}, "status")
    await asyncio.sleep(30)
    assert ((await world.status()).phase, await world.told("Ready")) == ("Creating", ("False", "SnapshotUnderWay"))

    await world.client.create(content("it", root="vs-root"), field_manager="kubevirt")
    await asyncio.sleep(30)
    assert (await world.status()).phase == "Creating"
    backups = msgspec.to_builtins(content("it", root="vs-root", data="vs-data").spec.volume_backups)
    await world.patch(VirtualMachineSnapshotContent, "it", {"spec": {"volumeBackups": backups}})
    await asyncio.sleep(30)
    status = await world.status()
    assert (status.phase, [disk.volume_snapshot_name for disk in status.disks]) == ("Succeeded", ["vs-root", "vs-data"])


async def test_a_snapshot_whose_content_someone_deleted_is_told_as_lost() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take()
    await world.delete(VirtualMachineSnapshotContent, world.names(VirtualMachineSnapshotContent)[0])
    await world.rest()
    assert ((await world.status()).phase, await world.told("Stalled")) == ("Failed", ("True", "SnapshotLost"))
    await world.days_pass(0.5)  # a resync looks at it again
    assert ((await world.status()).phase, await world.told("Stalled")) == ("Failed", ("True", "SnapshotLost"))
    assert len(world.events("SnapshotLost")) == 1


def content(name: str, **held: str) -> VirtualMachineSnapshotContent:
    backups = tuple(VolumeBackup(volume_name=volume, volume_snapshot_name=by) for volume, by in held.items())
    return VirtualMachineSnapshotContent(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=ContentSpec(virtual_machine_snapshot_name="friday", volume_backups=backups),
    )


async def test_a_snapshot_that_failed_stays_failed_with_kubevirts_reason() -> None:
    """Defect 13, second half: Failed was tried again and overwritten."""
    world = SnapshotWorld()
    await world.open()
    world.standin.snapshots.failing["friday"] = "no snapshot class"
    await world.take()
    world.standin.snapshots.failing.clear()
    await world.days_pass(0.5)

    status = await world.status()
    assert (status.phase, status.error) == ("Failed", "no snapshot class")
    assert await world.told("Stalled") == ("True", "SnapshotFailed")
    assert world.events("SnapshotFailed") == ["it could not be taken: no snapshot class"]


async def test_a_lost_answer_makes_no_second_snapshot() -> None:
    """Defect 13, first half: the clock was in the name."""
    world = SnapshotWorld()
    await world.open()
    world.server.fail_next(Fault.LOSE_ANSWER, method="POST", resource=VirtualMachineSnapshot.resource.plural_and_group)
    await world.take()
    assert world.server.is_out_of_faults

    assert world.names(VirtualMachineSnapshot) == ["friday"]
    assert (await world.status()).phase == "Succeeded"


async def test_a_snapshot_that_someone_deleted_is_told_as_lost_and_not_taken_again() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take()
    await world.delete(VirtualMachineSnapshot, "friday")
    await world.rest()

    assert world.names(VirtualMachineSnapshot) == []
    assert (await world.status()).phase == "Failed"
    assert await world.told("Ready") == ("False", "SnapshotLost")


async def test_a_snapshot_that_is_not_seen_for_a_moment_is_not_told_as_lost() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take()
    await world.delete(VirtualMachineSnapshot, "friday")
    await asyncio.sleep(5)

    assert (await world.status()).phase == "Succeeded"
    assert await world.told("Reconciling") == ("True", "SnapshotUnseen")


async def test_a_deleted_snapshot_takes_kubevirts_along() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take()
    await world.delete(WukongSnapshot, "friday")
    await asyncio.sleep(30)
    for kind in (VirtualMachineSnapshot, VirtualMachineSnapshotContent, VolumeSnapshot):
        assert world.names(kind) == [], kind.__name__


@pytest.mark.parametrize(
    ("disks", "missing"),
    [
        (
            (),
            "virtualmachinesnapshots.snapshot.kubevirt.io and virtualmachinesnapshotcontents.snapshot.kubevirt.io",
        ),
        (("data",), "volumesnapshots.snapshot.storage.k8s.io"),
    ],
    ids=["whole", "disk"],
)
async def test_a_cluster_without_snapshots_is_told_once_and_they_are_taken_when_it_has_them(
    disks: tuple[str, ...], missing: str
) -> None:
    world = SnapshotWorld(lacking=SNAPSHOTS)
    await world.open()
    await world.take(disks=disks)
    assert await world.told("Ready") == ("False", "SnapshotsMissing")
    await world.days_pass(0.5)  # a resync looks at it again
    (told,) = world.events("SnapshotsMissing")
    assert f"does not serve {missing}: install" in told

    world.standin_goes_on()
    for kind in SNAPSHOTS:
        world.serve(kind)
    await asyncio.sleep(120)
    await world.rest()
    assert (await world.status()).phase == "Succeeded"


async def test_a_snapshot_of_named_disks_is_one_of_these_volumes_and_says_what_it_is_not_of() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take(disks=("data",))

    status = await world.status()
    assert world.names(VirtualMachineSnapshot) == []
    assert world.names(VolumeSnapshot) == ["friday-data"]
    assert (status.phase, status.included_volumes, status.excluded_volumes) == ("Succeeded", ("data",), ("root",))
    assert [(disk.name, disk.volume_snapshot_name) for disk in status.disks] == [("data", "friday-data")]
    assert status.indications == ("Online", "GuestAgent")
    assert await world.told("Whole") == ("False", "DisksLeftOut")


async def test_what_a_snapshot_of_disks_lacks_is_as_it_was_whatever_becomes_of_the_wukong() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take(disks=("data",))
    disks = msgspec.to_builtins((await world.wukong()).spec.disks)
    await world.change({"disks": [*disks, {"name": "later", "size": "1Gi"}]})
    await world.rest()
    assert (await world.status()).excluded_volumes == ("root",)

    await world.delete(Wukong, "vm")
    await world.settled()
    await world.rest()
    assert world.names(Wukong) == []
    assert (await world.status()).excluded_volumes == ("root",)
    assert await world.told("Whole") == ("False", "DisksLeftOut")


async def test_a_guest_is_frozen_before_its_disks_are_cut_and_thawed_at_once_afterwards() -> None:
    world = SnapshotWorld()
    await world.open()
    world.standin_rests()
    await world.ask(disks=("data", "root"))
    await asyncio.sleep(5)
    assert world.standin.machines.freezes == ["freeze"]
    assert world.names(VolumeSnapshot) == ["friday-data", "friday-root"]
    assert (await world.instance()).status.fs_freeze_status == "frozen"

    world.standin_goes_on()
    await world.rest()
    assert world.standin.machines.freezes == ["freeze", "unfreeze"]
    assert (await world.instance()).status.fs_freeze_status == ""
    assert ((await world.status()).phase, (await world.status()).indications) == ("Succeeded", ("Online", "GuestAgent"))


async def test_a_snapshot_that_is_over_does_not_thaw_the_guest_that_another_has_frozen() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take(disks=("data",))
    await world.ask("monday", disks=("data",))
    await asyncio.sleep(2)
    world.standin_rests()  # the storage takes its time
    await asyncio.sleep(30)
    assert world.standin.machines.freezes == ["freeze", "unfreeze", "freeze"]
    assert (await world.status()).phase == "Succeeded"


async def test_a_guest_without_its_agent_is_not_frozen_and_the_snapshot_says_so() -> None:
    world = SnapshotWorld()
    world.standin.machines.agentless.add("vm")
    await world.open()
    await world.take(disks=("data",))
    assert world.standin.machines.freezes == []
    assert ((await world.status()).phase, (await world.status()).indications) == (
        "Succeeded",
        ("Online", "NoGuestAgent"),
    )


async def test_a_machine_that_does_not_run_needs_no_freezing() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.change({"startStrategy": {"runStrategy": "Halted"}})
    await world.take(disks=("data",))
    assert world.standin.machines.freezes == []
    assert (await world.status()).indications == ()


async def test_a_guest_that_does_not_freeze_in_time_is_snapshot_as_it_is_and_that_is_told() -> None:
    world = SnapshotWorld()
    await world.open()
    world.virt_api.runs = False
    await world.ask(disks=("data",))
    await asyncio.sleep(60)
    assert world.names(VolumeSnapshot) == []
    assert (await world.told("Ready"))[1] == "GuestNotFrozen"

    await asyncio.sleep(1000)
    await world.rest()
    assert ((await world.status()).phase, (await world.status()).indications) == (
        "Succeeded",
        ("Online", "QuiesceTimeout"),
    )


@pytest.mark.parametrize(("disks", "writes_min"), [((), 3), (("data", "root"), 4)], ids=["whole", "disks"])
async def test_an_operator_that_dies_after_any_write_takes_one_snapshot_and_leaves_no_guest_frozen(
    disks: tuple[str, ...], writes_min: int
) -> None:
    deaths = 0
    while await dies_after(deaths + 1, disks):
        deaths += 1
    assert deaths >= writes_min


async def dies_after(write: int, disks: tuple[str, ...]) -> bool:
    """Whether it came to that write."""
    world = SnapshotWorld(seed=write)
    await world.open()

    async def taken() -> None:
        await world.take(disks=disks)
        status = await world.status()
        assert (status.phase, status.indications) == ("Succeeded", ("Online", "GuestAgent"))
        assert (await world.instance()).status.fs_freeze_status == ""
        assert world.names(VirtualMachineSnapshot) == ([] if disks else ["friday"])
        held = [disk.volume_snapshot_name for disk in status.disks]
        assert sorted(held) == world.names(VolumeSnapshot), "one of each disk, and no other"

    return await world.ends_with_a_death(world.snapshots, write, taken)


@pytest.mark.parametrize("disks", [(), ("root",)], ids=["whole", "disk"])
async def test_a_machine_of_somebody_else_under_the_wukongs_name_is_not_snapshot(disks: tuple[str, ...]) -> None:
    world = SnapshotWorld()
    metadata = {"name": "vm", "namespace": NAMESPACE}
    spec = {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}}}}}
    world.server.add({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata, "spec": spec})
    await world.open()
    await world.take(disks=disks)
    assert (await world.told("Ready"))[1] == "MachineMissing"
    assert world.standin.machines.freezes == []
    assert world.names(VirtualMachineSnapshot) == world.names(VolumeSnapshot) == []


async def test_a_disk_that_the_wukong_does_not_have_is_told_with_those_it_has() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take(disks=("data", "swap"))
    assert await world.told("Stalled") == ("True", "DiskUnknown")
    assert "has no disk swap; it has data, root" in (await world.status()).conditions[0].message
    assert len(world.events("DiskUnknown")) == 1
    assert world.names(VolumeSnapshot) == []


async def test_a_disk_out_of_a_container_image_has_nothing_to_snapshot_and_that_is_told() -> None:
    world = SnapshotWorld()
    await world.open(WITH_IMAGE)
    await world.take(disks=("data", "live"))
    assert await world.told("Stalled") == ("True", "DiskWithoutVolume")
    assert world.names(VolumeSnapshot) == []
    await world.take("part", disks=("data",))
    assert (await world.status("part")).excluded_volumes == ("root",)


async def test_the_time_that_a_snapshot_waited_for_what_it_needs_is_not_taken_from_its_deadline() -> None:
    world = SnapshotWorld(lacking=SNAPSHOTS)
    await world.open()
    await world.ask(disks=("data",))
    await asyncio.sleep(3600)
    assert ((await world.told("Ready"))[1], (await world.status()).begun_at) == ("SnapshotsMissing", None)

    for kind in SNAPSHOTS:
        world.serve(kind)
    await asyncio.sleep(120)
    await world.rest()
    assert world.standin.machines.freezes == ["freeze", "unfreeze"]
    assert ((await world.status()).phase, (await world.status()).indications) == ("Succeeded", ("Online", "GuestAgent"))


@pytest.mark.parametrize(
    ("disks", "told", "freezes"),
    [
        ((), "KubeVirt has not taken it within 5m; does its virt-controller run?", []),
        (("data",), "the storage has not taken data within 5m; is there a snapshot", ["freeze", "unfreeze"]),
    ],
    ids=["whole", "disk"],
)
async def test_storage_that_says_nothing_has_until_the_deadline_too_and_what_failed_stays_failed(
    disks: tuple[str, ...], told: str, freezes: list[str]
) -> None:
    world = SnapshotWorld()
    await world.open()
    world.standin_rests()  # no snapshot controller runs
    await world.ask(disks=disks)
    await asyncio.sleep(60)
    assert (await world.status()).phase == "Creating"

    await asyncio.sleep(300)
    status = await world.status()
    assert status.phase == "Failed"
    assert status.error.startswith(told)
    assert world.standin.machines.freezes == freezes
    await world.days_pass(0.5)  # a resync looks at it again
    assert await world.told("Stalled") == ("True", "SnapshotFailed")

    world.standin_goes_on()
    await asyncio.sleep(60)
    assert (await world.status()).phase == "Failed", "it was taken at another moment than the one that was asked for"
    assert len(world.events("SnapshotFailed")) == 1


async def test_what_kubevirt_says_of_a_snapshot_under_way_is_told_and_is_the_reason_when_time_is_up() -> None:
    world = SnapshotWorld()
    await world.open()
    world.standin_rests()
    await world.ask()
    await asyncio.sleep(30)
    trouble = {"phase": "InProgress", "readyToUse": False, "error": {"message": "no class for root"}}
    await world.patch(VirtualMachineSnapshot, "friday", {"status": trouble}, "status")
    await asyncio.sleep(30)
    assert (await world.status()).phase == "Creating"
    assert "KubeVirt is taking the snapshot (no class for root)" in (await world.status()).conditions[0].message

    await asyncio.sleep(300)
    assert ((await world.status()).phase, (await world.status()).error) == ("Failed", "no class for root")


async def test_storage_that_is_in_trouble_has_until_the_deadline_and_then_it_has_failed() -> None:
    world = SnapshotWorld()
    await world.open()
    world.standin.snapshots.failing["friday-data"] = "no such class"
    await world.take(disks=("data",))
    assert (await world.status()).phase == "Creating"
    assert "no such class" in (await world.status()).conditions[0].message

    await asyncio.sleep(301)
    await world.rest()
    assert ((await world.status()).phase, (await world.status()).error) == ("Failed", "data: no such class")
    assert await world.told("Stalled") == ("True", "SnapshotFailed")
