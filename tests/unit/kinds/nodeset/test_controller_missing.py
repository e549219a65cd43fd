"""A NodeSet that is deleted while its Controller is not there: for a moment, for good, or without its slurmctld."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from corral.engine import Plan, RemoveFinalizer
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.nodeset.left import Left
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.slurm.facts import Observed
from tests.unit.kinds.nodeset.builders import NOW, UNKNOWN, AWorker, a_snapshot, a_view, a_worker
from tests.unit.kinds.nodeset.test_nodeset_life import World, a_world, manifest
from tests.unit.kinds.nodeset.test_nodeset_plan import deleted, reasons

IDLE, BUSY = a_worker(0), a_worker(1, state="MIXED", jobs=(7,))
SILENT = [a_worker(n, jobs=UNKNOWN) for n in (0, 1)]
SLURMCTLD, STATE = "slurm-controller-0", "state-slurm-controller-0"


def left(*last: AWorker, gone_s: float = 60, silent_s: float = 0, runs: bool = False, keeps_state: bool = True) -> Left:
    """`last`: as Slurm's last answer had them; `silent_s`: before the Controller went."""
    said = a_view(*last) if last else None
    assert said is None or isinstance(said, Observed)
    since = NOW - timedelta(seconds=gone_s)
    silent_since = since - timedelta(seconds=silent_s)
    return Left(since=since, runs=runs, keeps_state=keeps_state, said=said, silent_since=silent_since)


def decided(found: Left | None, *workers: AWorker, force_s: int | None = None) -> Plan:
    snapshot = replace(a_snapshot(*(workers or SILENT), deleted=True, controller=None), left=found)
    spec = replace(snapshot.object.spec, force_drain_after_seconds=force_s)
    return plan(replace(snapshot, object=replace(snapshot.object, spec=spec)))


@pytest.mark.parametrize(
    ("found", "gone"),
    [
        (None, []),
        (left(IDLE, BUSY, gone_s=29), []),
        (left(IDLE, BUSY, gone_s=9000, runs=True), []),
        (left(IDLE, BUSY), ["gpu-0"]),
        (left(IDLE, BUSY, gone_s=9000), ["gpu-0"]),
        (left(IDLE, BUSY, silent_s=301), []),
        (left(), []),
        (left(IDLE, BUSY, keeps_state=False), ["gpu-0", "gpu-1"]),
        (left(IDLE, BUSY, keeps_state=False, gone_s=29), []),
    ],
    ids=[
        "first seen",
        "for a moment",
        "slurmctld is there",
        "one was free",
        "for hours",
        "Slurm had been silent",
        "nobody knows what it said",
        "its state is gone too",
        "its state is gone for a moment",
    ],
)
def test_only_workers_that_had_no_job_go_and_not_before_it_may_be_back(found: Left | None, gone: list[str]) -> None:
    plan = decided(found)
    assert deleted(plan) == gone
    assert reasons(plan) == (["ControllerMissing"] if len(gone) < len(SILENT) else [])
    assert (plan.again_after_s is not None) is (len(gone) < len(SILENT))


def test_people_are_told_whom_it_waits_for_and_what_to_do() -> None:
    (wait,) = decided(left(IDLE, BUSY)).waits
    assert wait.stalled
    assert "so gpu-1 may have jobs" in wait.message
    assert "create the Controller again" in wait.message
    assert "kubectl -n lab delete pod -l slurm.corral.dev/nodeset=gpu" in wait.message
    (wait,) = decided(left(IDLE, BUSY, runs=True)).waits
    assert (SLURMCTLD in wait.message, wait.stalled) == (True, False)


def test_who_chose_to_lose_jobs_loses_them_after_that_time_and_not_under_a_slurmctld() -> None:
    assert deleted(decided(left(IDLE, BUSY, gone_s=601), force_s=600)) == ["gpu-0", "gpu-1"]
    assert deleted(decided(left(IDLE, BUSY, gone_s=599), force_s=600)) == ["gpu-0"]
    assert deleted(decided(left(IDLE, BUSY, gone_s=601, runs=True), force_s=600)) == []


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
@pytest.mark.parametrize("existing", [False, True], ids=["its own claim", "a claim of people's"])
async def test_when_it_is_gone_for_good_the_busy_worker_waits_for_the_claim_of_its_state(existing: bool) -> None:
    async with a_world(2) as world:
        if existing:
            merge = {"spec": {"persistence": {"existingClaim": "theirs"}}}
            world.server.edit(SlurmController, "slurm", "lab", merge=merge)
        else:
            world.server.add(ours("PersistentVolumeClaim", STATE))
        world.slurm.start_job(12, "gpu-0")
        await asyncio.sleep(900)  # nothing changes, so nobody looks
        controller_goes(world)
        world.server.remove(NodeSet, "gpu", "lab")
        await asyncio.sleep(900)
        assert (world.pods(), world.slurm.lost) == (["gpu-0"], [])
        assert world.condition("Ready")["reason"] == "ControllerMissing"
        if existing:
            world.server.remove(Pod, "gpu-0", "lab")
        else:
            world.server.remove(PersistentVolumeClaim, STATE, "lab")
        await asyncio.sleep(60)
        assert (world.pods(), world.server.get(NodeSet, "gpu", "lab")) == ([], None)


@pytest.mark.looptime(noop_cycles=0)
async def test_while_its_slurmctld_is_there_no_worker_goes_however_long_it_takes() -> None:
    async with a_world(1) as world:
        world.server.add(ours("PersistentVolumeClaim", STATE))
        world.server.add({**ours("Pod", SLURMCTLD), "spec": {"containers": [{"name": "slurmctld", "image": "x"}]}})
        controller_goes(world)
        world.server.remove(NodeSet, "gpu", "lab")
        await asyncio.sleep(3600)
        assert world.pods() == ["gpu-0", SLURMCTLD]
        world.server.remove(Pod, SLURMCTLD, "lab")
        await asyncio.sleep(3600)
        # What Slurm said an hour before slurmctld ended proves nothing.
        assert world.pods() == ["gpu-0"]
