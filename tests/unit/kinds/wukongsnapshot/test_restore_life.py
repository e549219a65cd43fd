"""`restoreFromSnapshot` in virtual time: in place and to a new machine, once, and never over an empty disk."""

import asyncio

import msgspec
import pytest

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance
from corral.kinds.wukong.api.snapshots import VirtualMachineRestore
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.models.core_v1 import PersistentVolumeClaim
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, SNAPSHOTS, a_wukong
from tests.unit.kinds.wukongsnapshot.snapshotworld import SnapshotWorld

pytestmark = pytest.mark.looptime(noop_cycles=0)

# Beside its original, so with an address of its own.
COPY = LARGE.replace("10.1.2.3/24", "10.1.2.4/24") + "restoreFromSnapshot: friday\n"
MARK = "restore.kubevirt.io/name"


class RestoreWorld(SnapshotWorld):
    async def opened(self) -> "RestoreWorld":
        await self.open()
        await self.take()
        return self

    async def set_back(self, to: str | None = "friday") -> None:
        await self.change({"restoreFromSnapshot": to})

    async def marks(self) -> dict[str, str]:
        """Which restore made each claim."""
        claims = self.server.all_of(PersistentVolumeClaim, NAMESPACE)
        return {c["metadata"]["name"]: c["metadata"].get("annotations", {}).get(MARK, "") for c in claims}


async def test_a_machine_is_halted_set_back_and_runs_again_as_its_spec_says() -> None:
    world = await RestoreWorld().opened()
    before = (await world.instance()).metadata.uid
    await world.set_back()

    assert world.names(VirtualMachineRestore) == ["vm-from-friday"]
    assert await world.marks() == {"vm-root": "vm-from-friday", "vm-data": "vm-from-friday"}
    wukong = await world.wukong()
    assert (wukong.status.phase, wukong.status.restored_from) == ("Running", "friday")
    assert await world.condition("Ready") == ("True", "AsDesired")
    assert (await world.instance()).metadata.uid != before
    assert (await world.machine()).spec.template.spec.hostname == "vm"  # not as the snapshot had it


async def test_nothing_of_ours_touches_disks_or_machine_while_kubevirt_has_them() -> None:
    world = await RestoreWorld().opened()
    before = {c["metadata"]["uid"] for c in world.server.all_of(PersistentVolumeClaim, NAMESPACE)}
    world.standin.pace_s = 30
    await world.patch(Wukong, "vm", {"spec": {"restoreFromSnapshot": "friday"}})
    reasons = set()
    for _ in range(200):
        await asyncio.sleep(3)
        reasons.add(await world.condition("Ready"))
        claims = world.server.all_of(PersistentVolumeClaim, NAMESPACE)
        unmarked = {c["metadata"]["uid"] for c in claims if MARK not in c["metadata"].get("annotations", {})}
        assert unmarked <= before, "an empty claim was made where a disk is to come back"
    assert ("False", "Restoring") in reasons
    assert await world.marks() == {"vm-root": "vm-from-friday", "vm-data": "vm-from-friday"}


async def test_a_restore_happens_once_and_again_only_when_it_is_asked_for_again() -> None:
    world = await RestoreWorld().opened()
    await world.set_back()
    first = (await world.claim("vm-data")).metadata.uid
    await world.delete(VirtualMachineRestore, "vm-from-friday")
    await world.settled()
    assert (await world.claim("vm-data")).metadata.uid == first

    await world.set_back(None)
    assert (await world.wukong()).status.restored_from == ""
    await world.set_back()
    assert (await world.claim("vm-data")).metadata.uid != first
    await world.take("monday")
    await world.set_back("monday")
    assert world.names(VirtualMachineRestore) == ["vm-from-monday"]
    assert (await world.wukong()).status.restored_from == "monday"


async def test_an_operator_that_dies_after_any_write_sets_back_once() -> None:
    deaths = 0
    while await sets_back_and_dies_after(deaths + 1):
        deaths += 1
    assert deaths >= 4


async def sets_back_and_dies_after(write: int) -> bool:
    """Whether it came to that write."""
    world = await RestoreWorld(seed=write).opened()

    async def set_back() -> None:
        await world.set_back()
        assert await world.marks() == {"vm-root": "vm-from-friday", "vm-data": "vm-from-friday"}
        assert world.names(VirtualMachineRestore) == ["vm-from-friday"]
        status = (await world.wukong()).status
        assert (status.phase, status.restored_from) == ("Running", "friday")

    return await world.ends_with_a_death(world.operator, write, set_back)


async def test_a_restore_that_fails_is_told_and_the_machine_goes_on_when_it_is_taken_out() -> None:
    world = await RestoreWorld().opened()
    world.standin.snapshots.failing["vm-from-friday"] = "snapshot is corrupt"
    await world.set_back()
    assert await world.condition("Stalled") == ("True", "RestoreFailed")
    assert "snapshot is corrupt" in (await world.wukong()).status.conditions[0].message

    await world.set_back(None)
    assert world.names(VirtualMachineRestore) == []
    assert (await world.wukong()).status.phase == "Running"


async def test_a_new_wukong_is_made_from_a_snapshot_with_what_the_snapshot_has() -> None:
    world = SnapshotWorld()
    await world.open()
    world.standin.snapshots.without_snapshots.add("data")
    await world.take()
    await world.add(a_wukong(COPY, "copy"))

    status = (await world.wukong("copy")).status
    assert (status.phase, status.restored_from) == ("Running", "friday")
    root = world.server.get(DataVolume, "copy-root", NAMESPACE)
    assert root is not None
    held = (await world.status()).disks[0].volume_snapshot_name
    assert root["spec"]["source"] == {"snapshot": {"name": held, "namespace": NAMESPACE}}
    assert (await world.claim("copy-data")).metadata.annotations.get("vm.corral.dev/restored-from") is None
    assert world.names(VirtualMachineRestore) == []
    lacks = "not from WukongSnapshot friday, which lacks it: data"
    assert status.conditions[0].message == f"the virtual machine is running; {lacks}"
    assert world.events("DiskNotInSnapshot") == [lacks]
    await world.delete(Wukong, "vm")
    await world.delete(Wukong, "copy")
    await world.settled()
    assert world.names(PersistentVolumeClaim) == []


async def test_a_new_wukong_waits_for_its_snapshot_before_it_makes_a_disk() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.add(a_wukong(COPY, "copy"))
    assert await world.condition("Ready", "copy") == ("False", "SnapshotMissing")
    assert "copy-data" not in world.names(PersistentVolumeClaim)
    await world.take()
    await world.settled()
    assert (await world.wukong("copy")).status.phase == "Running"


async def test_what_a_snapshot_lacks_is_told_when_a_machine_is_set_back_to_it() -> None:
    world = RestoreWorld()
    world.standin.snapshots.without_snapshots.add("data")
    await world.opened()
    before = (await world.claim("vm-data")).metadata.uid
    await world.set_back()
    assert (await world.claim("vm-data")).metadata.uid == before
    lacks = "not from WukongSnapshot friday, which lacks it: data"
    assert world.events("DiskNotInSnapshot") == [lacks]
    assert lacks in (await world.wukong()).status.conditions[0].message


async def test_no_disk_is_made_before_the_snapshot_says_what_holds_it() -> None:
    world = await RestoreWorld().opened()
    await world.snapshots.stop()
    held = (await world.status()).disks
    await world.patch(WukongSnapshot, "friday", {"status": {"disks": []}}, "status")
    await world.add(a_wukong(COPY, "copy"))
    assert await world.condition("Ready", "copy") == ("False", "SnapshotMissing")
    assert "says which VolumeSnapshots hold" in (await world.wukong("copy")).status.conditions[0].message
    assert {"copy-root", "copy-data"}.isdisjoint(world.names(PersistentVolumeClaim))

    await world.patch(WukongSnapshot, "friday", {"status": {"disks": msgspec.to_builtins(held)}}, "status")
    await world.settled()
    assert (await world.wukong("copy")).status.restored_from == "friday"
    for disk in held:
        volume = world.server.get(DataVolume, f"copy-{disk.name}", NAMESPACE)
        assert volume is not None
        assert volume["spec"]["source"]["snapshot"]["name"] == disk.volume_snapshot_name


async def test_a_wukong_none_of_whose_disks_is_in_the_snapshot_gets_no_empty_ones() -> None:
    world = await RestoreWorld().opened()
    spec = "{cpu: 1, memory: 1Gi, disks: [{name: system, size: 10Gi}], restoreFromSnapshot: friday}"
    await world.add(a_wukong(spec, "copy"))
    assert await world.condition("Stalled", "copy") == ("True", "RestoreImpossible")
    assert "it has root, data, which spec.disks does not" in (await world.wukong("copy")).status.conditions[0].message
    assert "copy-system" not in world.names(PersistentVolumeClaim)


class DiskWorld(SnapshotWorld):
    """With a snapshot of one of two disks."""

    async def opened(self) -> "DiskWorld":
        await self.open()
        await self.take("part", disks=("data",))
        return self

    async def uids(self) -> dict[str, str]:
        return {name: (await self.claim(name)).metadata.uid for name in ("vm-root", "vm-data")}

    async def source(self) -> object:
        found = self.server.get(DataVolume, "vm-data", NAMESPACE)
        return found["spec"]["source"] if found else None


async def test_a_single_disk_is_set_back_in_place_and_the_others_stay() -> None:
    world = await DiskWorld().opened()
    before, booted = await world.uids(), (await world.instance()).metadata.uid
    await world.change({"restoreFromSnapshot": "part"})

    after = await world.uids()
    assert after["vm-root"] == before["vm-root"]
    assert after["vm-data"] != before["vm-data"]
    assert await world.source() == {"snapshot": {"name": "part-data", "namespace": NAMESPACE}}
    assert (await world.instance()).metadata.uid != booted
    wukong = await world.wukong()
    assert (wukong.status.phase, wukong.status.restored_from) == ("Running", "part")
    assert await world.condition("Ready") == ("True", "AsDesired")
    assert world.names(VirtualMachineRestore) == []


async def test_a_disk_is_never_taken_from_a_machine_that_runs_nor_the_machine_started_without_it() -> None:
    world = await DiskWorld().opened()
    before = await world.uids()
    world.standin.pace_s = 30
    await world.patch(Wukong, "vm", {"spec": {"restoreFromSnapshot": "part"}})
    for _ in range(300):
        await asyncio.sleep(3)
        claims = {
            c["metadata"]["name"]: c["metadata"]["uid"] for c in world.server.all_of(PersistentVolumeClaim, NAMESPACE)
        }
        runs, is_old = bool(world.names(VirtualMachineInstance)), claims.get("vm-data") == before["vm-data"]
        volume = world.server.get(DataVolume, "vm-data", NAMESPACE)
        is_filled = volume is not None and volume.get("status", {}).get("phase") == "Succeeded"
        assert not runs or is_old or is_filled
    assert (await world.wukong()).status.restored_from == "part"


async def test_a_single_disk_is_set_back_once_and_again_only_when_it_is_asked_for_again() -> None:
    world = await DiskWorld().opened()
    await world.change({"restoreFromSnapshot": "part"})
    first = await world.uids()
    await world.days_pass(0.5)
    assert await world.uids() == first
    world.standin_goes_on()
    await world.change({"restoreFromSnapshot": None})
    assert await world.uids() == first
    await world.change({"restoreFromSnapshot": "part"})
    assert (await world.uids())["vm-data"] != first["vm-data"]


async def test_an_operator_that_dies_after_any_write_sets_a_disk_back_once() -> None:
    deaths = 0
    while await sets_a_disk_back_and_dies_after(deaths + 1):
        deaths += 1
    assert deaths >= 6


async def sets_a_disk_back_and_dies_after(write: int) -> bool:
    """Whether it came to that write."""
    world = await DiskWorld(seed=write).opened()
    before = await world.uids()

    async def set_back() -> None:
        await world.change({"restoreFromSnapshot": "part"})
        assert (await world.wukong()).status.restored_from == "part"
        assert (await world.uids())["vm-root"] == before["vm-root"]
        assert await world.source() == {"snapshot": {"name": "part-data", "namespace": NAMESPACE}}
        made = [line for line in world.server.trace if "POST" in line and "/datavolumes" in line and "-> 201" in line]
        assert len(made) == 2, made  # the root's at the beginning, and this one

    return await world.ends_with_a_death(world.operator, write, set_back)


async def test_without_cdi_a_single_disk_is_left_as_it_is_and_the_machine_runs() -> None:
    world = SnapshotWorld(lacking=(DataVolume,))
    await world.open("{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]}")
    await world.take("part", disks=("root",))
    before = (await world.claim("vm-root")).metadata.uid
    await world.change({"restoreFromSnapshot": "part"})
    assert await world.condition("Stalled") == ("True", "SnapshotsMissing")
    assert (await world.claim("vm-root")).metadata.uid == before
    assert (await world.wukong()).status.phase == "Running"


async def test_what_cannot_be_set_back_is_told_and_the_machine_runs_on() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take()
    await world.add(a_wukong(name="other"))
    await world.change({"restoreFromSnapshot": "friday"}, "other")
    assert await world.condition("Stalled", "other") == ("True", "RestoreImpossible")
    assert (await world.wukong("other")).status.phase == "Running"
    assert "only a new Wukong can be made from it" in (await world.wukong("other")).status.conditions[0].message


async def test_without_restores_in_the_cluster_the_missing_kind_is_named() -> None:
    world = SnapshotWorld(lacking=(SNAPSHOTS[2],))
    await world.open()
    await world.take()
    await world.change({"restoreFromSnapshot": "friday"})
    assert await world.condition("Stalled") == ("True", "SnapshotsMissing")
    assert (await world.wukong()).status.phase == "Running"
