"""A NodeSet that is deleted while its Controller is not there: for a moment, for good, or without its slurmctld."""

import asyncio
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from corral.engine import EmitEvent, Plan, RemoveFinalizer
from corral.kinds.controller.shell import Answer
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.farewell import to_look_into
from corral.kinds.nodeset.left import Left
from corral.kinds.nodeset.looks import Look, steps_on
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.warned import Warned
from corral.kube.errors import ServerError, Subject, Unreachable
from corral.kube.meta import EMPTY
from corral.kube.models.core_v1 import Pod
from corral.slurm.facts import Observed, View
from tests.unit.kinds.nodeset.builders import (
    NOW,
    UNKNOWN,
    AWorker,
    a_job,
    a_snapshot,
    a_view,
    a_worker,
    deleted_ago,
    told_of,
)
from tests.unit.kinds.nodeset.test_nodeset_life import World, a_world, manifest
from tests.unit.kinds.nodeset.test_nodeset_plan import deleted, reasons

SILENT = [a_worker(n, jobs=UNKNOWN) for n in (0, 1)]
ONE_BUSY = {"gpu-0": (), "gpu-1": ("7.extern", "7.batch")}
SLURMCTLD = "slurm-controller-0"
YEARS = ((0, GRACE_S), (1, GRACE_S), (2, 30))  # time to end, by ordinal


def left(*, gone_s: float = 60, runs: bool = False, said: View | None = None) -> Left:
    assert said is None or isinstance(said, Observed)
    return Left(since=NOW - timedelta(seconds=gone_s), runs=runs, said=said)


def decided(
    found: Left | None,
    *workers: AWorker,
    steps: Mapping[str, tuple[str, ...]] = ONE_BUSY,
    force_s: int | None = None,
    warned: Mapping[str, Warned] = EMPTY,
) -> Plan:
    snapshot = a_snapshot(*(workers or SILENT), deleted=True, controller=None)
    snapshot = replace(snapshot, left=found, steps=steps, warned=warned)
    spec = replace(snapshot.object.spec, force_drain_after_seconds=force_s)
    return plan(replace(snapshot, object=replace(snapshot.object, spec=spec)))


@pytest.mark.parametrize(
    ("found", "gone"),
    [
        (None, []),
        (left(gone_s=29), []),
        (left(gone_s=9000, runs=True), []),
        (left(), ["gpu-0"]),
        (left(gone_s=9000), ["gpu-0"]),
    ],
    ids=[
        "first seen",
        "for a moment",
        "slurmctld is there",
        "one is free",
        "for hours",
    ],
)
def test_only_workers_without_a_job_go_and_not_before_it_may_be_back(found: Left | None, gone: list[str]) -> None:
    plan = decided(found)
    assert deleted(plan) == gone
    assert reasons(plan) == (["ControllerMissing"] if len(gone) < len(SILENT) else [])
    assert (plan.again_after_s is not None) is (len(gone) < len(SILENT))


def test_people_are_told_whom_it_waits_for_and_what_to_do() -> None:
    (wait,) = decided(left()).waits
    assert wait.stalled
    assert "but steps of jobs run on gpu-1 (7.extern, 7.batch). The deletion continues when they end" in wait.message
    assert "create the Controller again" in wait.message
    assert "kubectl -n lab delete pod -l slurm.corral.dev/nodeset=gpu" in wait.message
    (wait,) = decided(left(), steps={"gpu-1": ("7.batch",)}).waits
    assert "run on gpu-1 (7.batch) and steps of jobs may run on gpu-0, which do not say" in wait.message
    (wait,) = decided(left(runs=True)).waits
    assert (SLURMCTLD in wait.message, wait.stalled) == (True, False)


def test_for_those_that_were_deleted_and_wait_people_are_told_what_ends_them() -> None:
    """Kubelet heeds no shorter time once it ends a pod."""
    idle, busy = a_worker(0, jobs=UNKNOWN), deleted_ago(a_worker(1, jobs=UNKNOWN), 3600)
    leave_now = "exec -n lab gpu-1 -c slurmd -- /usr/libexec/corral/slurmd-leave now"
    busy_both = {"gpu-0": ("8.0",), "gpu-1": ("7.batch",)}
    message = decided(left(), idle, busy, steps=busy_both).waits[-1].message
    assert "delete pod -l" in message
    assert f"To end gpu-1, deleted already, with any jobs: kubectl {leave_now}" in message
    message = decided(left(), deleted_ago(idle, 3600), busy, steps=busy_both).waits[-1].message
    assert "delete pod -l" not in message
    assert "To end gpu-0, gpu-1, deleted already, with any jobs, one by one: kubectl exec -n lab gpu-0 " in message
    silent = plan(a_snapshot(busy, deleted=True))
    assert leave_now in " ".join(wait.message for wait in silent.waits)


def test_workers_that_nobody_can_look_into_stay() -> None:
    assert deleted(decided(left(), steps={})) == []


IDLE_ALIKE = {"gpu-0": (), "gpu-1": ()}


@pytest.mark.parametrize(
    ("nodes", "steps", "gone"),
    [
        (("gpu-0", "gpu-1"), {"gpu-0": (), "gpu-1": ("7.batch",)}, []),
        (("gpu-0", "gpu-1"), {"gpu-0": (), "gpu-1": ("starting",)}, []),
        (("gpu-0", "gpu-1"), {"gpu-0": ()}, []),
        (("gpu-0", "cpu-5"), IDLE_ALIKE, ["gpu-1"]),
        (("gpu-0", "gpu-1"), {"gpu-0": (), "gpu-1": ("8.batch",)}, ["gpu-0"]),
        (("gpu-0", "gpu-1"), IDLE_ALIKE, ["gpu-0", "gpu-1"]),
        (("gpu-0", "gpu-9"), IDLE_ALIKE, ["gpu-0", "gpu-1"]),
    ],
    ids=[
        "its batch step runs on the other",
        "something starts on the other",
        "the other does not say",
        "the other is of another NodeSet",
        "another job runs on the other",
        "it has ended",
        "the other is gone",
    ],
)
def test_a_worker_without_a_step_stays_while_a_job_that_it_shares_may_run_on_others(
    nodes: tuple[str, ...], steps: dict[str, tuple[str, ...]], gone: list[str]
) -> None:
    job = replace(a_job(7, "gpu-0"), nodes=nodes)
    view = a_view(a_worker(0), a_worker(1))
    assert isinstance(view, Observed)
    said = replace(view, jobs={7: job}, jobs_by_node=dict.fromkeys(nodes, (job,)))
    assert deleted(decided(left(said=said), steps=steps)) == gone


def test_who_chose_to_lose_jobs_loses_them_after_that_time_and_not_under_a_slurmctld() -> None:
    told = {"uid-gpu-1": told_of(7)}
    assert deleted(decided(left(gone_s=601), force_s=600, warned=told)) == ["gpu-0", "gpu-1"]
    assert deleted(decided(left(gone_s=599), force_s=600, warned=told)) == ["gpu-0"]
    assert deleted(decided(left(gone_s=601, runs=True), force_s=600, warned=told)) == []


def named(found: Plan, reason: str) -> list[tuple[str, str]]:
    """Whom events of the plan name, and for when."""
    events = [one for one in found.actions if isinstance(one, EmitEvent) and one.reason == reason]
    assert all(one.type == "Warning" for one in events)
    return [(one.regarding.name, re.sub(r".* still (.*) are killed .*; ", r"\1, ", one.message)) for one in events]


def test_people_are_told_of_the_jobs_before_they_are_lost_and_when() -> None:
    late = decided(left(gone_s=9000), force_s=600)
    assert (deleted(late), late.again_after_s) == (["gpu-0"], 30)
    assert named(late, "JobsToBeKilled") == [("gpu-1", "run at 2026-11-16T02:05:00Z, running job: 7")]
    early = decided(left(gone_s=60), force_s=3600)
    assert named(early, "JobsToBeKilled") == [("gpu-1", "run at 2026-11-16T02:59:00Z, running job: 7")]
    assert named(decided(left(gone_s=9000)), "JobsToBeKilled") == []
    over = decided(left(gone_s=9000), force_s=600, warned={"uid-gpu-1": told_of(7)})
    assert (deleted(over), len(named(over, "JobsKilled"))) == (["gpu-0", "gpu-1"], 1)
    other = decided(left(gone_s=9000), force_s=600, warned={"uid-gpu-1": told_of(6)})
    assert (deleted(other), len(named(other, "JobsToBeKilled"))) == (["gpu-0"], 1)


def test_of_a_worker_that_does_not_say_those_are_named_that_slurm_had_there_last() -> None:
    view = a_view(a_worker(0), a_worker(1, state="MIXED", jobs=(7, 8)))
    assert isinstance(view, Observed)
    mute = decided(left(gone_s=9000, said=view), steps={"gpu-0": ()}, force_s=600)
    assert named(mute, "JobsToBeKilled") == [("gpu-1", "run at 2026-11-16T02:05:00Z, running jobs: 7, 8")]
    unheard = decided(left(gone_s=9000), steps={"gpu-0": ()}, force_s=600)
    assert named(unheard, "JobsToBeKilled") == [("gpu-1", "run at 2026-11-16T02:05:00Z, no known jobs")]


@pytest.mark.parametrize(
    ("found", "is_deleted", "looked_into"),
    [
        (None, True, ()),
        (left(), False, ()),
        (left(gone_s=29), True, ()),
        (left(runs=True), True, ()),
        (left(), True, ("gpu-0", "gpu-1")),
    ],
    ids=["its Controller is there", "it stays", "for a moment", "slurmctld is there", "for good"],
)
def test_workers_are_looked_into_only_when_nothing_else_can_tell(
    found: Left | None, is_deleted: bool, looked_into: tuple[str, ...]
) -> None:
    never_ran, ended = a_worker(2, phase="Pending", registered=False), a_worker(3, phase="Failed")
    snapshot = a_snapshot(*SILENT, never_ran, ended, deleted=is_deleted, controller=None)
    assert to_look_into(replace(snapshot, left=found)) == looked_into


@pytest.mark.looptime(noop_cycles=0)
async def test_a_look_that_fails_says_nothing() -> None:
    class Shell:
        async def run(self, namespace: str, pod: str, command: tuple[str, ...], **_: object) -> Answer:
            if pod == "gpu-0":
                raise Unreachable(Subject("exec", "Pod", namespace, pod), "its kubelet does not answer")
            said = {"gpu-1": b'{"steps":["7.batch"]}', "gpu-2": b'{"steps":[]}', "gpu-3": b"sh: not found"}
            return Answer(0, said[pod]) if pod in said else Answer(2, b'{"steps":[]}')

    found = await steps_on(Shell(), "lab", [f"gpu-{n}" for n in range(5)])
    assert found == Look(steps={"gpu-1": ("7.batch",), "gpu-2": ()}, mute=frozenset({"gpu-0", "gpu-3", "gpu-4"}))


@pytest.mark.looptime(noop_cycles=0)
async def test_a_connection_that_breaks_once_does_not_make_a_deletion_wait() -> None:
    class Shell:
        broken = 1

        async def run(self, namespace: str, pod: str, command: tuple[str, ...], **_: object) -> Answer:
            if self.broken:
                self.broken -= 1
                raise Unreachable(Subject("exec", "Pod", namespace, pod), "the connection ended")
            return Answer(0, b'{"steps":[]}')

    assert await steps_on(Shell(), "lab", ["gpu-0"]) == Look(steps={"gpu-0": ()})


async def test_where_the_container_has_ended_nothing_runs() -> None:
    """As of a pod that is being deleted, in which another container does not hear its TERM."""

    class Shell:
        async def run(self, namespace: str, pod: str, command: tuple[str, ...], **_: object) -> Answer:
            said = 'unable to upgrade connection: container not found ("slurmd")'
            raise ServerError(Subject("exec", "Pod", namespace, pod), said, status=500)

    assert await steps_on(Shell(), "lab", ["gpu-0"]) == Look(steps={"gpu-0": ()})


def test_one_that_somebody_deleted_and_that_waits_for_its_job_is_one_of_them() -> None:
    idle, busy, given_little = (deleted_ago(a_worker(n, jobs=UNKNOWN), 5, grace_s=s) for n, s in YEARS)
    snapshot = replace(a_snapshot(idle, busy, given_little, deleted=True, controller=None), left=left())
    assert to_look_into(snapshot) == ("gpu-0", "gpu-1")
    found = plan(replace(snapshot, steps=ONE_BUSY))
    assert (deleted(found), "gpu-1 (7.extern, 7.batch)" in found.waits[-1].message) == (["gpu-0"], True)
    told = {"uid-gpu-1": told_of(7)}
    assert deleted(decided(left(gone_s=601), idle, busy, given_little, force_s=600, warned=told)) == ["gpu-0", "gpu-1"]


def test_a_pod_whose_slurmd_never_ran_or_that_has_ended_goes_at_once() -> None:
    never_ran, ended = a_worker(0, phase="Pending", registered=False), a_worker(1, phase="Failed")
    assert deleted(decided(None, never_ran, ended)) == ["gpu-1", "gpu-0"]


def test_without_pods_it_is_let_go_when_the_controller_does_not_come_back() -> None:
    nobody = a_snapshot(deleted=True, controller=None)
    for found in (None, left(gone_s=29), left(runs=True)):
        waiting = plan(replace(nobody, left=found))
        assert (waiting.actions, reasons(waiting)) == ((), ["ControllerMissing"])
    (leave,) = plan(replace(nobody, left=left())).actions
    assert isinstance(leave, RemoveFinalizer)


@pytest.mark.looptime(noop_cycles=0)
async def test_who_does_not_answer_holds_nobody_up_for_long() -> None:
    class Shell:
        async def run(self, namespace: str, pod: str, command: tuple[str, ...], **_: object) -> Answer:
            if pod != "gpu-0":
                await asyncio.sleep(5)
                raise Unreachable(Subject("exec", "Pod", namespace, pod), "its kubelet does not answer")
            return Answer(0, b'{"steps":[]}')

    began_s = asyncio.get_running_loop().time()
    look = await steps_on(Shell(), "lab", [f"gpu-{n}" for n in range(1000)])
    assert asyncio.get_running_loop().time() - began_s <= 20
    assert len(look.mute) < 100  # nothing is said of those for whom there was no time


# --- as it is seen


def ours(kind: str, name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "corral"}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "lab", "labels": labels}}


def controller_goes(world: World) -> None:
    world.server.remove(SlurmController, "slurm", "lab")
    world.slurm.set_up(False)


@pytest.mark.looptime(noop_cycles=0)
async def test_jobs_outlive_a_controller_that_is_replaced_while_the_nodeset_is_deleted() -> None:
    async with a_world(2) as world:
        world.slurm.start_job(12, "gpu-0")
        await world.settled()
        controller_goes(world)
        world.server.remove(NodeSet, "gpu", "lab")
        await asyncio.sleep(25)
        assert (world.pods(), world.slurm.lost) == (["gpu-0", "gpu-1"], [])
        world.server.add(manifest("Controller", "slurm"))
        world.slurm.set_up(True)
        await world.settled()
        assert (world.pods(), world.slurm.lost) == (["gpu-0"], [])
        world.slurm.end_job(12)
        await world.settled()
        assert (world.pods(), world.slurm.lost, world.server.get(NodeSet, "gpu", "lab")) == ([], [], None)


@pytest.mark.looptime(noop_cycles=0)
async def test_when_it_is_gone_for_good_a_busy_worker_waits_for_the_end_of_its_job() -> None:
    async with a_world(2) as world:
        world.slurm.start_job(12, "gpu-0")
        await asyncio.sleep(900)  # nothing changes, so nobody looks
        controller_goes(world)
        world.server.remove(NodeSet, "gpu", "lab")
        await asyncio.sleep(900)
        assert (world.pods(), world.slurm.lost) == (["gpu-0"], [])
        assert world.condition("Ready")["reason"] == "ControllerMissing"
        assert "gpu-0 (12.batch)" in world.condition("Ready")["message"]
        world.slurm.end_job(12)
        await asyncio.sleep(60)
        assert (world.pods(), world.server.get(NodeSet, "gpu", "lab")) == ([], None)


@pytest.mark.looptime(noop_cycles=0)
async def test_while_its_slurmctld_is_there_no_worker_goes_however_long_it_takes() -> None:
    async with a_world(1) as world:
        world.server.add({**ours("Pod", SLURMCTLD), "spec": {"containers": [{"name": "slurmctld", "image": "x"}]}})
        controller_goes(world)
        world.server.remove(NodeSet, "gpu", "lab")
        await asyncio.sleep(3600)
        assert world.pods() == ["gpu-0", SLURMCTLD]
        world.slurm.mute.add("gpu-0")
        world.server.remove(Pod, SLURMCTLD, "lab")
        await asyncio.sleep(3600)
        assert world.pods() == ["gpu-0"]
        world.slurm.mute.clear()
        await asyncio.sleep(60)
        assert world.pods() == []
