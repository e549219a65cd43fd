"""Snapshots in virtual time: taken once, told whole or not, final when they fail."""

import asyncio

import pytest

from corral.kinds.wukong.api.snapshots import VirtualMachineSnapshot
from corral.kinds.wukongsnapshot.controller import controller
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec, WukongSnapshotStatus
from corral.kube.meta import ObjectMeta
from corral.testing.apiserver.faults import Fault
from corral.testing.operators import Operator, converged
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, SNAPSHOTS, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


class SnapshotWorld(World):
    """A Wukong's world with a second operator, for its snapshots."""

    async def open(self) -> None:
        self.server.register(WukongSnapshot, status=True)
        await self.make(a_wukong(LARGE))
        Operator(self.server, controller, name="snapshots").start()

    async def take(self) -> None:
        metadata = ObjectMeta(name="friday", namespace=NAMESPACE)
        asked = WukongSnapshot(metadata=metadata, spec=WukongSnapshotSpec(wukong_name="vm"))
        await self.client.create(asked, field_manager="person")
        await self.rest()

    async def rest(self) -> None:
        await converged(self.server, controller, within_s=300, quiet_s=11.0)

    async def status(self) -> WukongSnapshotStatus:
        return (await self.client.get(WukongSnapshot, "friday", NAMESPACE)).status

    async def told(self, kind: str) -> tuple[str, str]:
        found = next(c for c in (await self.status()).conditions if c.type == kind)
        return found.status, found.reason


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


async def test_a_lost_answer_makes_no_second_snapshot() -> None:
    """Defect 13, first half: the clock was in the name."""
    world = SnapshotWorld()
    await world.open()
    world.server.fail_next(Fault.LOSE_ANSWER, method="POST", resource="virtualmachinesnapshots")
    await world.take()

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


async def test_a_deleted_snapshot_takes_kubevirts_along() -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take()
    await world.delete(WukongSnapshot, "friday")
    await asyncio.sleep(30)
    assert world.names(VirtualMachineSnapshot) == []


async def test_a_cluster_without_snapshots_is_told_and_they_are_taken_when_it_has_them() -> None:
    world = SnapshotWorld(lacking=SNAPSHOTS)
    await world.open()
    await world.take()
    assert await world.told("Ready") == ("False", "SnapshotsMissing")

    for kind in SNAPSHOTS:
        world.serve(kind)
    await asyncio.sleep(120)
    await world.rest()
    assert (await world.status()).phase == "Succeeded"
