"""Snapshots on a real API server: machines that are made from them, and schedules, by operators that die meanwhile."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec
import pytest

from corral.engine import Clock, system_clock
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance
from corral.kinds.wukong.api.snapshots import VirtualMachineRestore, VirtualMachineSnapshot, VolumeSnapshot
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube import Client, Precondition, Selector
from corral.kube.meta import Object
from corral.kube.models.core_v1 import PersistentVolumeClaim
from corral.testing.cluster import Cluster
from corral.testing.kubevirt_standin import KubeVirtStandIn
from tests.integration.wukongdeaths import deaths_until
from tests.integration.wukonglife import (
    CLASS,
    apply,
    is_gone,
    is_restored,
    is_taken,
    none_is_left,
    phase_is,
    playing,
    take_snapshot,
    until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("wukong_definitions")]

SNAPSHOTS: tuple[type[Object], ...] = (WukongSnapshot, VirtualMachineSnapshot, VolumeSnapshot)
DISKS: tuple[type[Object], ...] = (DataVolume, PersistentVolumeClaim)
SPEC = f"""
cpu: 1
memory: 1Gi
disks:
- {{name: root, size: 1Gi, image: 'docker://images.test/debian:13', boot: true, storageClassName: {CLASS}}}
- {{name: data, size: 2Gi, storageClassName: {CLASS}}}
networks: [{{name: lan, bridgeName: br0}}]
"""
HOURLY = SPEC + "snapshotPolicy: {schedule: '0 * * * *', maxCount: 2}\n"


async def test_new_wukongs_are_made_from_snapshots_and_outlive_their_original_though_operators_die(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    ns = corral_namespace
    async with playing(client, ns) as standin:
        await apply(client, ns, SPEC + "restoreFromSnapshot: friday\n", "copy")
        await apply(client, ns, SPEC)
        await deaths_until(corral_cluster, standin, lambda: phase_is(client, ns, "Running"))
        assert await names(client, DataVolume, ns) == ["vm-root"], "a disk was made that its snapshot does not hold yet"

        await take_snapshot(client, ns, "friday")
        await take_snapshot(client, ns, "part", ("data",))
        await deaths_until(corral_cluster, standin, lambda: is_taken(client, ns, "part", ("data",)))
        ran = (await client.get(VirtualMachineInstance, "vm", ns)).metadata.uid
        copied = await deaths_until(corral_cluster, standin, lambda: is_restored(client, ns, "friday", "copy"))
        await apply(client, ns, SPEC + "restoreFromSnapshot: part\n", "other")
        partly = await deaths_until(corral_cluster, standin, lambda: is_restored(client, ns, "part", "other"))
        assert min(copied, partly) > 0, (copied, partly)

        whole, part = [(await client.get(WukongSnapshot, name, ns)).status.disks for name in ("friday", "part")]
        held = {disk.name: disk.volume_snapshot_name for disk in whole}
        assert await filled_from(client, ns, "copy-root") == held["root"]
        assert await filled_from(client, ns, "copy-data") == held["data"]
        assert await filled_from(client, ns, "other-data") == part[0].volume_snapshot_name
        assert await filled_from(client, ns, "other-root") == "", "it is not in the snapshot, but in an image"
        assert (await client.get(VirtualMachineInstance, "vm", ns)).metadata.uid == ran, "the original was disturbed"
        assert await names(client, VirtualMachineRestore, ns) == []

        await goes(corral_cluster, client, standin, ns, "vm")
        assert [await phase_is(client, ns, "Running", name) for name in ("copy", "other")] == [True, True]
        assert await names(client, DataVolume, ns) == ["copy-data", "copy-root", "other-data", "other-root"]
        for name in ("copy", "other"):
            await goes(corral_cluster, client, standin, ns, name)
        for name in ("friday", "part"):
            await client.delete(WukongSnapshot, name, ns, precondition=Precondition())
        await until(lambda: none_is_left(client, ns, (*DISKS, *SNAPSHOTS)))
        assert standin.refused == set()


def clock_from(time: str) -> Clock:
    """Of an operator that begins at that time of a day years ago: whatever the server makes lies ahead of it."""
    real = system_clock()
    behind = real.wall() - datetime.fromisoformat(f"2020-01-01T{time}Z")
    return msgspec.structs.replace(real, wall=lambda: real.wall() - behind)


async def test_a_schedule_takes_one_snapshot_an_hour_and_keeps_two_though_operators_die(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    ns = corral_namespace
    async with playing(client, ns) as standin:
        await apply(client, ns, HOURLY)
        await deaths_until(corral_cluster, standin, lambda: phase_is(client, ns, "Running"), clock_from("00:10:00"))

        async def works_from(time: str, *kept: str, failed: tuple[str, ...] = ()) -> None:
            """One operator after another, until these are there."""
            expected = {**dict.fromkeys(kept, "Succeeded"), **dict.fromkeys(failed, "Failed")}
            died = await deaths_until(
                corral_cluster, standin, lambda: are_there(client, ns, expected), clock_from(time)
            )
            assert died > 0
            await until(lambda: are_called(client, VirtualMachineSnapshot, ns, expected))

        await works_from("00:59:58", "vm-202001010100")
        await works_from("01:59:58", "vm-202001010100", "vm-202001010200")
        await works_from("02:59:58", "vm-202001010200", "vm-202001010300")
        # Hours without an operator: of those that were missed the last one is taken.
        await works_from("06:10:00", "vm-202001010300", "vm-202001010600")
        standin.snapshots.failing["vm-202001010700"] = "the storage is full"
        await works_from("06:59:58", "vm-202001010300", "vm-202001010600", failed=("vm-202001010700",))
        await works_from("07:59:58", "vm-202001010600", "vm-202001010800")
        assert len(await names(client, VolumeSnapshot, ns)) == 4, "of each of the two its two disks"

        await goes(corral_cluster, client, standin, ns, "vm")
        assert await names(client, WukongSnapshot, ns) == ["vm-202001010600", "vm-202001010800"]
        for name in await names(client, WukongSnapshot, ns):
            await client.delete(WukongSnapshot, name, ns, precondition=Precondition())
        await until(lambda: none_is_left(client, ns, (*DISKS, *SNAPSHOTS)))
        assert standin.refused == set()


async def are_there(client: Client, ns: str, expected: Mapping[str, str]) -> object:
    """Snapshots and their phases, no more and no fewer."""
    found = {s.metadata.name: s.status.phase for s in (await client.list(WukongSnapshot, Selector(namespace=ns))).items}
    return True if found == expected else found


async def are_called(client: Client, kind: type[Object], ns: str, expected: Iterable[str]) -> object:
    found = await names(client, kind, ns)
    return True if found == sorted(expected) else found


async def names(client: Client, kind: type[Object], ns: str) -> list[str]:
    return sorted(found.metadata.name for found in (await client.list(kind, Selector(namespace=ns))).items)


async def filled_from(client: Client, ns: str, disk: str) -> str:
    """The VolumeSnapshot that a disk was made from; empty if it was something else."""
    source = (await client.get(DataVolume, disk, ns)).spec.source
    return source.snapshot.name if source is not None and source.snapshot is not None else ""


async def goes(cluster: Cluster, client: Client, standin: KubeVirtStandIn, ns: str, name: str) -> None:
    await client.delete(Wukong, name, ns, precondition=Precondition())
    await deaths_until(cluster, standin, lambda: is_gone(client, Wukong, name, ns))
