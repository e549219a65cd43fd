"""Who goes first, which ordinals are never made, and what force means."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
import pytest

from corral.engine import Delete, EmitEvent, Plan
from corral.kinds.nodeset.calls import Drain
from corral.kinds.nodeset.leaving import surplus
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.warned import Warned
from corral.kube.meta import EMPTY
from tests.unit.kinds.nodeset.builders import NOW, OURS, AWorker, a_snapshot, a_worker, told_of, with_shown
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains, made

BUSY = "MIXED"


def in_order(*given: AWorker) -> list[int | None]:
    known = a_snapshot(*given, replicas=0).workers
    return [surplus(known, replicas)[-1].ordinal for replicas in range(len(known) - 1, -1, -1)]


def decided(*given: AWorker, replicas: int, warned: Mapping[str, Warned] = EMPTY, **spec: object) -> Plan:
    """`warned`: what people know, by uid of the pod."""
    snapshot = msgspec.structs.replace(a_snapshot(*given, replicas=replicas), warned=warned)
    changed = msgspec.structs.replace(snapshot.object.spec, **spec)
    return plan(msgspec.structs.replace(snapshot, object=msgspec.structs.replace(snapshot.object, spec=changed)))


def drained_at(worker: AWorker, at: datetime) -> AWorker:
    assert worker.node is not None
    assert worker.pod is not None
    node = msgspec.structs.replace(worker.node, reason_at=at)
    return msgspec.structs.replace(worker, node=node, pod=with_shown(worker.pod, node))


def test_who_costs_least_goes_first() -> None:
    soon, late = NOW + timedelta(minutes=1), NOW + timedelta(hours=1)
    assert in_order(
        a_worker(0, state=BUSY, jobs=(1, 2), until=soon),
        a_worker(1, state=BUSY, jobs=(3,), until=late),
        a_worker(2, state=BUSY, jobs=(4,), until=soon),
        a_worker(3),
        a_worker(4, phase="Pending"),
        a_worker(5, phase="Pending", registered=False),
        a_worker(6, state=BUSY, jobs=(5, 6, 7), cost="-1"),
        a_worker(7, state="IDLE+DRAIN", reason="disk"),
    ) == [6, 5, 4, 3, 2, 1, 0, 7]


@pytest.mark.parametrize("reason", ["corral: scale-in", "Corral: scale-in", "corral scale-in", " corral: x", ""])
def test_whose_drain_it_is_is_read_alike_by_the_order_and_by_the_removal(reason: str) -> None:
    drained = a_worker(0, state="IDLE+DRAIN", reason=reason)
    goes_first = in_order(drained, a_worker(1)) == [0, 1]
    assert bool(deleted(decided(drained, replicas=0))) is goes_first


def test_a_job_without_a_limit_ends_never() -> None:
    forever = a_worker(1, state=BUSY, jobs=(1,), until=NOW, limit_s=float("inf"))
    assert in_order(a_worker(0, state=BUSY, jobs=(2,), until=NOW + timedelta(days=9)), forever) == [0, 1]


def test_reserved_ordinals_are_never_made_and_a_worker_that_has_one_goes_as_any_other() -> None:
    assert made(decided(replicas=3, reserve_ordinals=(0, 2))) == ["gpu-1", "gpu-3", "gpu-4"]
    found = decided(a_worker(0), a_worker(1, state=BUSY, jobs=(7,)), replicas=2, reserve_ordinals=(1,))
    assert (drains(found), made(found)) == (["gpu-1"], ["gpu-2"])


def test_without_a_word_from_people_no_drain_is_ever_forced() -> None:
    held = drained_at(a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=(7,)), NOW - timedelta(days=300))
    assert decided(held, replicas=0).actions == ()


def warnings(found: Plan, reason: str) -> list[EmitEvent]:
    events = [one for one in found.actions if isinstance(one, EmitEvent) and one.reason == reason]
    assert all(one.type == "Warning" for one in events)
    return events


def test_a_drain_that_outlasts_what_people_allowed_is_forced_and_the_jobs_are_named() -> None:
    held = drained_at(a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=(7, 8)), NOW - timedelta(seconds=61))
    found = decided(held, replicas=0, force_drain_after_seconds=60, warned={"uid-gpu-0": told_of(7, 8)})
    assert [type(one) for one in found.actions] == [Delete, EmitEvent]
    (told,) = warnings(found, "JobsKilled")
    assert ("running jobs: 7, 8" in told.message, deleted(found)) == (True, ["gpu-0"])
    assert deleted(decided(held, replicas=0, force_drain_after_seconds=3600)) == []


def test_all_jobs_are_named_however_many_they_are() -> None:
    jobs = tuple(range(1_000_001, 1_000_201))
    held = drained_at(a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=jobs), NOW - timedelta(seconds=61))
    for warned, reason in ((EMPTY, "JobsToBeKilled"), ({"uid-gpu-0": told_of(*jobs)}, "JobsKilled")):
        found = decided(held, replicas=0, force_drain_after_seconds=60, warned=warned)
        told = [one.message for one in warnings(found, reason)]
        assert all(len(message.encode()) <= 1024 for message in told)
        named = [word for message in told for word in re.findall(r"\d{7}", message)]
        assert sorted(map(int, named)) == list(jobs)


def test_what_many_workers_tell_is_of_each_ones_pod_so_that_nothing_is_dropped() -> None:
    """An object may tell 25 things at once, then one in 5 minutes."""
    at = NOW - timedelta(seconds=61)
    held = [drained_at(a_worker(n, state="MIXED+DRAIN", reason=OURS, jobs=(n,)), at) for n in range(40)]
    warned = {f"uid-gpu-{n}": told_of(n) for n in range(40)}
    told = warnings(decided(*held, replicas=0, force_drain_after_seconds=60, warned=warned), "JobsKilled")
    assert {one.regarding.uid for one in told} == {f"uid-gpu-{n}" for n in range(40)}
    assert {one.related.name for one in told if one.related} == {"gpu"}


def test_people_are_warned_when_it_is_drained_and_again_before_it_is_done_with_the_time() -> None:
    busy = a_worker(0, state="MIXED", jobs=(7,))
    begins = decided(busy, replicas=0, force_drain_after_seconds=3600)
    (told,) = warnings(begins, "JobsToBeKilled")
    assert "at 2026-11-16T03:00:00Z" in told.message
    assert "running job: 7" in told.message
    assert warnings(decided(busy, replicas=0), "JobsToBeKilled") == []

    def after(drained_s: float, *, said_again: bool = False) -> Plan:
        drained = a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=(7,))
        held = drained_at(drained, NOW - timedelta(seconds=drained_s))
        told = told_of(7, ago_s=30 if said_again else drained_s, left_s=3600 - drained_s)
        return decided(held, replicas=0, force_drain_after_seconds=3600, warned={"uid-gpu-0": told})

    assert (after(60).actions, after(60).again_after_s) == ((), 3600 - 300 - 60 + 1)
    (again,) = warnings(after(3400), "JobsToBeKilled")
    assert "at 2026-11-16T02:03:20Z" in again.message
    assert after(3400).again_after_s == 201
    assert (after(3400, said_again=True).actions, after(3400, said_again=True).again_after_s) == ((), 201)
    assert deleted(after(3601, said_again=True)) == ["gpu-0"]


def test_the_time_counts_from_when_it_was_to_go_and_not_from_a_drain_for_something_else() -> None:
    unready = "corral: Kubernetes node m is not ready"
    held = drained_at(a_worker(0, state="MIXED+DRAIN", reason=unready, jobs=(7,)), NOW - timedelta(hours=2))
    found = decided(held, replicas=0, force_drain_after_seconds=3600)
    assert (calls(found), deleted(found)) == ([Drain(node="gpu-0", reason=OURS)], [])
    assert "at 2026-11-16T03:00:00Z" in warnings(found, "JobsToBeKilled")[0].message
    unhurried = decided(held, replicas=0)
    assert (calls(unhurried), warnings(unhurried, "JobsToBeKilled")) == ([Drain(node="gpu-0", reason=OURS)], [])


def test_somebody_elses_drain_is_never_forced() -> None:
    theirs = drained_at(a_worker(0, state="MIXED+DRAIN", reason="disk", jobs=(7,)), NOW - timedelta(days=3))
    assert calls(decided(theirs, replicas=0, force_drain_after_seconds=60)) == []
    assert deleted(decided(theirs, replicas=0, force_drain_after_seconds=60)) == []
