"""Snapshots by a schedule: at their time, once, as many as are to be kept."""

import asyncio
from datetime import UTC, datetime

import pytest

from corral.kinds.wukong.cron import BadCron, parse_cron
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from tests.unit.kinds.wukong.world import SMALL, SNAPSHOTS, a_wukong
from tests.unit.kinds.wukongsnapshot.snapshotworld import SnapshotWorld

HOURLY = SMALL[:-1] + ", snapshotPolicy: {schedule: '0 * * * *', maxCount: 2}}"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "upcoming"),
    [
        ("0 3 * * *", "2026-01-01T00:00", "2026-01-01T03:00"),
        ("0 3 * * *", "2026-01-01T03:00", "2026-01-02T03:00"),
        ("*/15 * * * *", "2026-01-01T00:16", "2026-01-01T00:30"),
        ("30 2 1-7 * 0", "2026-01-08T00:00", "2026-01-11T02:30"),  # either day, as crontab has it
        ("0 0 29 2 *", "2026-03-01T00:00", "2028-02-29T00:00"),
        ("0 0 * * 7", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("5,10 1-3 * 6 *", "2026-01-01T00:00", "2026-06-01T01:05"),
    ],
)
def test_the_next_time_is_as_crontab_has_it(schedule: str, after: str, upcoming: str) -> None:
    cron = parse_cron(schedule)
    assert cron.next_after(at(after)) == at(upcoming)
    assert cron.latest(at(after), at(upcoming)) == at(upcoming)


def test_a_day_that_never_comes_has_no_next_time() -> None:
    assert parse_cron("0 0 30 2 *").next_after(at("2026-01-01T00:00")) is None


@pytest.mark.parametrize("schedule", ["", "0 3 * *", "60 * * * *", "* 5-3 * * *", "*/0 * * * *", "a * * * *"])
def test_what_is_no_schedule_is_refused_with_its_field(schedule: str) -> None:
    with pytest.raises(BadCron):
        parse_cron(schedule)


async def opened(spec: str = HOURLY) -> SnapshotWorld:
    world = SnapshotWorld()
    await world.open(spec)
    world.standin.pace_s = 30  # it has to look through hours, and to take each within its deadline
    return world


async def hours(count: float) -> None:
    await asyncio.sleep(count * 3600)


@pytest.mark.looptime(noop_cycles=0)
async def test_a_snapshot_is_taken_each_hour_and_the_newest_two_are_kept() -> None:
    world = await opened()
    await hours(1.5)
    assert world.names(WukongSnapshot) == ["vm-202601010100"]
    await hours(3)
    assert world.names(WukongSnapshot) == ["vm-202601010300", "vm-202601010400"]
    assert {(await world.status(name)).phase for name in world.names(WukongSnapshot)} == {"Succeeded"}
    assert await world.condition("SnapshotsAsScheduled") == ("True", "Taken")


@pytest.mark.looptime(noop_cycles=0)
async def test_of_those_that_were_missed_one_is_taken_and_a_deleted_one_is_not_taken_again() -> None:
    world = await opened()
    await world.operator.stop()
    await hours(5.5)
    world.operator.start()
    await hours(0.1)
    assert world.names(WukongSnapshot) == ["vm-202601010500"]
    await world.delete(WukongSnapshot, "vm-202601010500")
    await hours(0.2)
    assert world.names(WukongSnapshot) == []


@pytest.mark.looptime(noop_cycles=0)
async def test_old_ones_go_by_their_age_but_never_the_last_good_one() -> None:
    world = await opened(SMALL[:-1] + ", snapshotPolicy: {schedule: '0 * * * *', maxCount: 9, maxAge: 100m}}")
    await hours(3.5)
    assert world.names(WukongSnapshot) == ["vm-202601010200", "vm-202601010300"]
    world.standin.snapshots.failing["vm-202601010400"] = "the storage is full"
    world.standin.snapshots.failing["vm-202601010500"] = "the storage is full"
    await hours(2)
    assert world.names(WukongSnapshot) == ["vm-202601010300", "vm-202601010400", "vm-202601010500"]
    await hours(1)
    assert world.names(WukongSnapshot) == ["vm-202601010600"]


@pytest.mark.looptime(noop_cycles=0)
async def test_failures_do_not_pile_up_though_there_is_no_good_one() -> None:
    world = await opened()
    for hour in range(1, 9):
        world.standin.snapshots.failing[f"vm-20260101{hour:02}00"] = "the storage is full"
    await hours(5.5)
    assert world.names(WukongSnapshot) == ["vm-202601010400", "vm-202601010500"]
    assert {(await world.status(name)).phase for name in world.names(WukongSnapshot)} == {"Failed"}
    assert await world.condition("SnapshotsAsScheduled") == ("False", "SnapshotFailed")
    assert await world.condition("Ready") == ("True", "AsDesired"), "the machine itself is well"


@pytest.mark.looptime(noop_cycles=0)
async def test_a_cluster_that_cannot_take_them_is_told_at_the_wukong_too() -> None:
    world = SnapshotWorld(lacking=SNAPSHOTS)
    await world.open(HOURLY)
    await hours(0.5)
    assert await world.condition("SnapshotsAsScheduled") == ("Unknown", "NoneYet")
    await hours(2)
    assert world.names(WukongSnapshot) == ["vm-202601010100"]
    assert await world.condition("SnapshotsAsScheduled") == ("False", "SnapshotStalled")


@pytest.mark.looptime(noop_cycles=0)
async def test_a_kubevirt_that_fell_silent_is_told_at_the_wukong_and_the_schedule_goes_on() -> None:
    world = await opened()
    await hours(1.5)
    assert await world.condition("SnapshotsAsScheduled") == ("True", "Taken")
    world.standin_rests()
    await hours(1)
    assert await world.condition("SnapshotsAsScheduled") == ("False", "SnapshotFailed")
    await hours(1)
    assert world.names(WukongSnapshot) == ["vm-202601010100", "vm-202601010200", "vm-202601010300"]
    world.standin_goes_on()
    await hours(1)
    assert await world.condition("SnapshotsAsScheduled") == ("True", "Taken")


@pytest.mark.looptime(noop_cycles=0)
async def test_while_one_is_not_taken_yet_no_other_is_begun() -> None:
    world = await opened()
    await world.snapshots.stop()
    await hours(4.5)
    assert world.names(WukongSnapshot) == ["vm-202601010100"]
    world.snapshots.start()
    await hours(0.2)
    assert world.names(WukongSnapshot) == ["vm-202601010100", "vm-202601010400"], "of the missed ones the last"


@pytest.mark.looptime(noop_cycles=0)
async def test_a_policy_takes_nothing_that_was_due_before_it_was_there() -> None:
    world = await opened(SMALL)
    await hours(2.5)
    policy = {"schedule": "0 * * * *", "maxCount": 2}
    await world.change({"snapshotPolicy": policy})
    await hours(0.2)
    assert world.names(WukongSnapshot) == []
    await hours(0.5)
    assert world.names(WukongSnapshot) == ["vm-202601010300"]

    await world.change({"snapshotPolicy": None})
    await hours(4)
    await world.change({"snapshotPolicy": policy})
    await hours(0.2)
    assert world.names(WukongSnapshot) == ["vm-202601010300"], "nor while it was away"
    await hours(0.7)
    assert world.names(WukongSnapshot) == ["vm-202601010300", "vm-202601010800"]


@pytest.mark.looptime(noop_cycles=0)
async def test_they_outlive_their_wukong_and_a_new_one_can_be_made_from_them() -> None:
    world = await opened()
    await hours(1.5)
    world.standin.pace_s = 1
    await hours(0.1)
    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(WukongSnapshot) == ["vm-202601010100"]
    await world.add(a_wukong(SMALL[:-1] + ", restoreFromSnapshot: vm-202601010100}", "again"))
    assert (await world.wukong("again")).status.restored_from == "vm-202601010100"


@pytest.mark.looptime(noop_cycles=0)
async def test_a_machine_that_is_being_set_back_keeps_what_it_is_set_back_to_and_is_not_snapshot_meanwhile() -> None:
    world = await opened()
    await hours(2.5)
    both = ["vm-202601010100", "vm-202601010200"]
    assert world.names(WukongSnapshot) == both
    world.standin_rests()  # KubeVirt takes its time
    await world.patch_wukong({"restoreFromSnapshot": both[0]})
    await hours(4)
    assert world.names(WukongSnapshot) == both
    assert await world.condition("Ready") == ("False", "Restoring")
    world.standin_goes_on()
    await hours(0.4)
    assert (await world.wukong()).status.restored_from == both[0]
    await hours(1)
    assert both[0] in world.names(WukongSnapshot), "for as long as it is named"
    await world.patch_wukong({"restoreFromSnapshot": None})
    await hours(0.1)
    assert both[0] not in world.names(WukongSnapshot)


@pytest.mark.looptime(noop_cycles=0)
async def test_a_snapshot_that_another_wukong_is_made_from_is_not_deleted_under_it() -> None:
    world = await opened()
    await hours(1.5)
    await world.client.create(
        a_wukong(SMALL[:-1] + ", restoreFromSnapshot: vm-202601010100}", "copy"), field_manager="person"
    )
    await hours(4)
    assert world.names(WukongSnapshot) == ["vm-202601010100", "vm-202601010400", "vm-202601010500"]


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize("schedule", ["61 * * * *", "0 0 30 2 *"])
async def test_a_schedule_that_is_none_is_told_and_the_machine_runs(schedule: str) -> None:
    world = await opened(SMALL[:-1] + f", snapshotPolicy: {{schedule: '{schedule}'}}}}")
    assert await world.condition("Stalled") == ("True", "BadSchedule")
    assert (await world.wukong()).status.phase == "Running"
