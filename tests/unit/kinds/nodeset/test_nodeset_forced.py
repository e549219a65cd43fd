"""`forceDrainAfterSeconds`: nobody is killed unwarned, whenever people set it and whoever knows what was said."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from corral.engine import Delete, EmitEvent, Outcome, Plan, Result
from corral.kinds.nodeset import force
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Pod
from corral.kube.models.events_v1 import Event
from corral.slurm.facts import Observed
from tests.unit.kinds.nodeset.builders import NOW, OURS, a_snapshot, a_worker, told_of
from tests.unit.kinds.nodeset.test_nodeset_life import World, a_world
from tests.unit.kinds.nodeset.test_nodeset_plan import deleted

HOURS = 7200.0


def draining(*jobs: int, drained_s: float = HOURS, limit_s: int | None = 60, state: str = "MIXED+DRAIN") -> Snapshot:
    worker = a_worker(0, state=state, reason=OURS, jobs=jobs)
    assert worker.node is not None
    node = replace(worker.node, reason_at=NOW - timedelta(seconds=drained_s))
    snapshot = a_snapshot(replace(worker, node=node), replicas=0)
    return limited(snapshot, limit_s)


def limited(snapshot: Snapshot, limit_s: int | None) -> Snapshot:
    spec = replace(snapshot.object.spec, force_drain_after_seconds=limit_s)
    return replace(snapshot, object=replace(snapshot.object, spec=spec))


def told(found: Plan, reason: str = "JobsToBeKilled") -> list[str]:
    return [one.message for one in found.actions if isinstance(one, EmitEvent) and one.reason == reason]


def after(snapshot: Snapshot, *, failed: bool = False, later_s: float = 0.0) -> Snapshot:
    """The next pass: what was told in this one is known, if it was told."""
    results = [Result(action=one, state="skipped" if failed else "done") for one in plan(snapshot).actions]
    known = force.warned(snapshot, Outcome(plan=plan(snapshot), results=tuple(results)))
    assert isinstance(snapshot.slurm, Observed)
    now = snapshot.now + timedelta(seconds=later_s)
    return replace(snapshot, now=now, slurm=replace(snapshot.slurm, at=now), warned=known)


def test_a_limit_that_is_set_long_after_the_drain_begins_with_a_warning() -> None:
    first = draining(7, 8)
    assert deleted(plan(first)) == []
    killed = "jobs that still run at 2026-11-16T02:01:00Z are killed (spec.forceDrainAfterSeconds)"
    assert told(plan(first)) == [f"to be removed (scale-in); {killed}; running jobs: 7, 8"]
    assert plan(first).again_after_s == 31
    soon = after(first, later_s=59)
    assert deleted(plan(soon)) == []
    over = after(after(soon), later_s=20)
    assert (deleted(plan(over)), len(told(plan(over), "JobsKilled"))) == (["gpu-0"], 1)


def test_of_a_long_limit_that_is_over_already_five_minutes_are_left() -> None:
    first = draining(7, limit_s=3600)
    assert "still run at 2026-11-16T02:05:00Z" in told(plan(first))[0]
    assert plan(first).again_after_s == 301
    assert deleted(plan(after(first, later_s=299))) == []
    over = after(first, later_s=301)
    assert (told(plan(over)), deleted(plan(over))) == ([], ["gpu-0"])


@pytest.mark.parametrize(
    ("limit_s", "told_left_s", "left"),
    [(60, 86_400 - HOURS, "02:01:00"), (10_800, 86_400 - HOURS, "03:00:00"), (10_800, 60, "03:00:00")],
    ids=["lowered, and over", "lowered", "raised"],
)
def test_people_are_told_anew_when_they_change_the_limit(limit_s: int, told_left_s: float, left: str) -> None:
    known = replace(draining(7, limit_s=limit_s), warned={"uid-gpu-0": told_of(7, ago_s=HOURS, left_s=told_left_s)})
    (said,) = told(plan(known))
    assert f"still run at 2026-11-16T{left}Z" in said
    assert (deleted(plan(known)), told(plan(after(known)))) == ([], [])


def test_clocks_that_differ_by_seconds_are_no_change() -> None:
    known = replace(draining(7, limit_s=10_800), warned={"uid-gpu-0": told_of(7, ago_s=HOURS, left_s=3604)})
    assert told(plan(known)) == []


def test_a_job_that_no_warning_has_named_is_not_lost_with_those_that_one_has() -> None:
    known = replace(draining(7, 8), warned={"uid-gpu-0": told_of(7)})
    assert (deleted(plan(known)), len(told(plan(known)))) == ([], 1)
    assert deleted(plan(replace(draining(7), warned={"uid-gpu-0": told_of(7, 8)}))) == ["gpu-0"]


def test_what_was_said_of_another_pod_of_that_name_counts_for_nothing() -> None:
    known = replace(draining(7), warned={"uid-of-one-before": told_of(7)})
    assert (deleted(plan(known)), len(told(plan(known)))) == ([], 1)
    assert set(after(known).warned) == {"uid-gpu-0"}


def test_a_warning_that_was_not_said_counts_for_nothing() -> None:
    first = draining(7)
    assert after(first, failed=True).warned == {}
    assert deleted(plan(after(first, failed=True, later_s=HOURS))) == []


def test_what_was_said_is_void_once_people_take_their_word_back() -> None:
    known = replace(draining(7), warned={"uid-gpu-0": told_of(7)})
    off = after(limited(known, None))
    assert deleted(plan(limited(off, 60))) == []
    suspended = replace(known, object=replace(known.object, spec=replace(known.object.spec, suspend=True)))
    assert after(suspended).warned == {}
    meta = replace(known.object.metadata, deletion_timestamp=NOW)
    both = replace(suspended, object=replace(suspended.object, metadata=meta))  # the deletion is the later wish
    assert set(after(both).warned) == {"uid-gpu-0"}


def test_one_whose_second_warning_is_late_is_given_a_moment_more() -> None:
    late = replace(draining(7), warned={"uid-gpu-0": told_of(7, ago_s=HOURS, left_s=-3)})
    (said,) = told(plan(replace(late, object=limited(draining(7, drained_s=63), 60).object)))
    assert "02:00:15Z" in said


def test_where_no_job_is_known_nobody_is_waited_for() -> None:
    """As on a machine that is down."""
    assert deleted(plan(draining(state="DOWN+DRAIN"))) == ["gpu-0"]


@given(st.lists(st.tuples(st.sampled_from([None, 60, 600, 86_400]), st.sampled_from([1, 31, 200, 3600])), max_size=9))
def test_whatever_people_set_and_when_a_job_is_named_with_a_time_that_is_over_before_it_is_killed(
    changes: list[tuple[int | None, int]],
) -> None:
    known, named_for = draining(7, limit_s=None), set[datetime]()
    for limit_s, later_s in changes:
        known = limited(known, limit_s)
        if any(isinstance(one, Delete) for one in plan(known).actions):
            assert limit_s is not None
            assert any(at <= known.now for at in named_for)
            return
        if limit_s is None:
            named_for.clear()
        for message in told(plan(known)):
            at = datetime.fromisoformat(message.partition(" run at ")[2].partition(" ")[0])
            assert at >= known.now + timedelta(seconds=14)
            named_for = {at}
        known = after(known, later_s=later_s)


# --- as it is seen


def limit(world: World, within_s: int | None) -> None:
    world.server.edit(NodeSet, "gpu", "lab", merge={"spec": {"forceDrainAfterSeconds": within_s}})


def events(world: World, reason: str) -> list[dict[str, Any]]:
    return [one for one in world.server.all_of(Event) if one["reason"] == reason]


@pytest.mark.looptime(noop_cycles=0)
async def test_who_sets_a_limit_after_a_long_drain_is_warned_first_also_by_an_operator_that_was_just_started() -> None:
    async with a_world(1) as world:
        world.slurm.start_job(12, "gpu-0")
        world.scale(0)
        await asyncio.sleep(HOURS)
        limit(world, 60)
        await asyncio.sleep(40)
        assert (len(events(world, "JobsToBeKilled")), world.slurm.lost) == (1, [])
        await world.operator.crash()
        await asyncio.sleep(50)
        assert (len(world.server.all_of(Pod)), world.slurm.lost) == (1, [])
        await asyncio.sleep(60)
        assert (world.server.all_of(Pod), world.slurm.lost) == ([], [12])
        assert "running job: 12" in events(world, "JobsKilled")[0]["note"]


@pytest.mark.looptime(noop_cycles=0)
async def test_nobody_is_told_of_a_loss_while_the_kubelet_is_away_and_jobs_live_on() -> None:
    async with a_world(1) as world:
        world.slurm.start_job(12, "gpu-0")
        limit(world, 60)
        world.slurm.mute.add("gpu-0")
        world.server.remove(Pod, "gpu-0", "lab", grace_s=GRACE_S)
        await asyncio.sleep(300)
        assert (len(events(world, "JobsToBeKilled")), events(world, "JobsKilled"), world.slurm.lost) == (1, [], [])
        assert 2 <= len(world.slurm.looks) <= 5  # nothing else is held up by more
        world.slurm.mute.clear()
        await asyncio.sleep(75)
        assert (len(events(world, "JobsKilled")), world.slurm.lost) == (1, [12])


@pytest.mark.looptime(noop_cycles=0)
async def test_one_that_waits_and_is_given_less_time_then_is_hurried_all_the_same() -> None:
    async with a_world(1) as world:
        world.slurm.start_job(12, "gpu-0")
        limit(world, 3600)
        world.server.remove(Pod, "gpu-0", "lab", grace_s=GRACE_S)
        await asyncio.sleep(300)
        world.server.remove(Pod, "gpu-0", "lab", grace_s=30)
        await asyncio.sleep(900)
        assert world.slurm.lost == []
        assert "job 12 runs" in world.condition("Ready")["message"]
        await asyncio.sleep(2500)
        assert world.slurm.lost == [12]
        assert world.slurm.ended == {"gpu-0"}
