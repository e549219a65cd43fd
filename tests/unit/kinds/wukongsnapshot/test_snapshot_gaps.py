"""What a snapshot is told to be while what holds it is out of sight, or gone, and when it is back."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from corral.kinds.wukong import names
from corral.kinds.wukong.api.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent, VolumeSnapshot
from corral.kinds.wukong.schedule import outdated
from corral.kinds.wukong.spec import SnapshotPolicy
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec, WukongSnapshotStatus
from corral.kube.meta import Object, ObjectMeta
from tests.unit.kinds.wukong.world import SMALL
from tests.unit.kinds.wukongsnapshot.snapshotworld import SnapshotWorld

KINDS = (VirtualMachineSnapshot, VirtualMachineSnapshotContent, VolumeSnapshot)
WAYS = pytest.mark.parametrize(
    ("disks", "kind", "holder"),
    [((), VirtualMachineSnapshot, "friday"), (("data",), VolumeSnapshot, "friday-data")],
    ids=["whole", "disk"],
)


async def failed(disks: tuple[str, ...] = ()) -> SnapshotWorld:
    """Nothing has taken it by the deadline."""
    world = SnapshotWorld()
    await world.open()
    world.standin_rests()
    await world.ask(disks=disks)
    await asyncio.sleep(400)
    assert (await world.status()).phase == "Failed"
    return world


@WAYS
@pytest.mark.looptime(noop_cycles=0)
async def test_what_has_failed_stays_failed_though_its_definition_went_and_came_back(
    disks: tuple[str, ...], kind: type[Object], holder: str
) -> None:
    world = await failed(disks)
    error = (await world.status()).error
    world.out_of_service(*KINDS)
    await asyncio.sleep(60)
    assert await world.told("Stalled") == ("True", "SnapshotFailed")
    assert (await world.status()).error == error

    for each in KINDS:
        world.serve(each)
    await asyncio.sleep(60)
    world.standin_goes_on()
    await asyncio.sleep(60)
    assert (await world.client.get(kind, holder, "lab")).metadata.uid
    assert ((await world.status()).phase, (await world.status()).error) == ("Failed", error)
    assert await world.told("Stalled") == ("True", "SnapshotFailed")
    assert len(world.events("SnapshotFailed")) == 1


@WAYS
@pytest.mark.looptime(noop_cycles=0)
async def test_what_has_failed_keeps_its_reason_when_someone_deletes_what_was_to_hold_it(
    disks: tuple[str, ...], kind: type[Object], holder: str
) -> None:
    world = await failed(disks)
    error = (await world.status()).error
    await world.delete(kind, holder)
    await asyncio.sleep(60)
    assert holder not in world.names(kind)
    assert ((await world.status()).phase, (await world.status()).error) == ("Failed", error)
    assert await world.told("Stalled") == ("True", "SnapshotFailed")


@WAYS
@pytest.mark.parametrize("gone", [*((kind,) for kind in KINDS), KINDS], ids=[*(k.__name__ for k in KINDS), "all"])
@pytest.mark.looptime(noop_cycles=0)
async def test_a_good_snapshot_is_good_while_a_definition_is_out_of_service(
    disks: tuple[str, ...], kind: type[Object], holder: str, gone: tuple[type[Object], ...]
) -> None:
    world = SnapshotWorld()
    await world.open()
    await world.take(disks=disks)
    before = await world.status()
    world.standin_rests()
    world.out_of_service(*gone)
    await asyncio.sleep(60)
    assert ((await world.status()).phase, (await world.status()).error) == ("Succeeded", "")
    needed = {VolumeSnapshot} if disks else {VirtualMachineSnapshot, VirtualMachineSnapshotContent}
    assert (await world.told("Ready"))[1] == ("SnapshotsMissing" if needed & {*gone} else "AsDesired")

    for each in gone:
        world.serve(each)
    await asyncio.sleep(60)
    assert (await world.client.get(kind, holder, "lab")).metadata.uid
    assert await world.told("Ready") == ("True", "AsDesired")
    assert msgspec.structs.replace(await world.status(), conditions=()) == msgspec.structs.replace(
        before, conditions=()
    )


@WAYS
@pytest.mark.looptime(noop_cycles=0)
async def test_one_that_was_taken_and_is_not_ready_any_more_is_lost_and_good_again_when_it_is(
    disks: tuple[str, ...], kind: type[Object], holder: str
) -> None:
    """As when KubeVirt does not see its VolumeSnapshots for a while: long after any deadline it has not failed."""
    world = SnapshotWorld()
    await world.open()
    await world.take(disks=disks)
    await world.days_pass(0.1)

    async def says(status: dict[str, Any]) -> None:
        await world.patch(kind, holder, {"status": status}, "status")
        await asyncio.sleep(60)

    await says({"readyToUse": False, "error": {"message": "VolumeSnapshots are missing"}})
    status = await world.status()
    assert (status.phase, status.lost, await world.told("Stalled")) == ("Failed", True, ("True", "SnapshotLost"))
    assert "VolumeSnapshots are missing" in status.error
    await says({"readyToUse": True, "error": None})
    status = await world.status()
    assert (status.phase, status.lost, status.error) == ("Succeeded", False, "")
    assert await world.told("Ready") == ("True", "AsDesired")


def hourly(*said: str) -> list[WukongSnapshot]:
    """One for each hour: good, failed or lost."""
    return [
        WukongSnapshot(
            metadata=ObjectMeta(name=str(hour), annotations={names.DUE_ANNOTATION: f"2026-01-01T{hour:02}:00Z"}),
            spec=WukongSnapshotSpec(wukong_name="vm"),
            status=WukongSnapshotStatus(phase="Succeeded" if how == "good" else "Failed", lost=how == "lost"),
        )
        for hour, how in enumerate(said)
    ]


@pytest.mark.parametrize(
    ("said", "gone"),
    [
        (("failed", "good"), "0"),
        (("lost", "good"), ""),  # it may be found after the newer one
        (("lost", "lost", "lost"), ""),
        (("lost", "failed", "lost", "failed", "failed", "failed"), "1"),  # of those that failed the newest three stay
        (("lost", "lost", "good", "good", "good"), "01"),  # as many good ones are newer
        (("lost", "lost", "lost", "lost"), "0"),
        (("good", "lost", "lost", "lost"), ""),  # the only good one
    ],
)
def test_those_that_are_lost_are_not_taken_away_by_newer_good_ones_unless_they_would_go_anyway(
    said: tuple[str, ...], gone: str
) -> None:
    policy = SnapshotPolicy(schedule="0 * * * *", max_count=3)
    found = outdated(hourly(*said), policy, datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert "".join(snapshot.metadata.name for snapshot in found) == gone


def test_a_lost_one_goes_for_its_age_if_a_newer_one_is_good() -> None:
    policy, now = SnapshotPolicy(schedule="0 * * * *", max_count=9, max_age="1h"), datetime(2026, 1, 1, 12, tzinfo=UTC)
    found = outdated(hourly("lost", "good", "lost"), policy, now)
    assert [snapshot.metadata.name for snapshot in found] == ["0"]


@pytest.mark.looptime(noop_cycles=0)
async def test_scheduled_snapshots_that_are_found_again_newest_first_are_all_kept() -> None:
    world = SnapshotWorld()
    await world.open(SMALL[:-1] + ", snapshotPolicy: {schedule: '0 * * * *', maxCount: 3}}")
    world.standin.pace_s = 30
    await asyncio.sleep(2.5 * 3600)
    every = world.names(WukongSnapshot)
    assert len(every) == 2
    world.standin_rests()
    for name in every:
        await world.patch(VirtualMachineSnapshot, name, {"status": {"readyToUse": False}}, "status")
    await asyncio.sleep(60)
    assert {(await world.status(name)).phase for name in every} == {"Failed"}
    for name in reversed(every):
        await world.patch(VirtualMachineSnapshot, name, {"status": {"readyToUse": True}}, "status")
        await asyncio.sleep(60)
        assert world.names(WukongSnapshot) == every
    assert {(await world.status(name)).phase for name in every} == {"Succeeded"}
