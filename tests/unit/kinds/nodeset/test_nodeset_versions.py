"""Workers move to another version of Slurm one after another, drained first, after slurmctld."""

import msgspec
import pytest

from corral.engine import Plan
from corral.kinds import versions
from corral.kinds.controller.spec import Controller, ControllerStatus
from corral.kinds.nodeset.plan import plan
from tests.unit.kinds.nodeset.builders import OURS, SLURM, AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains, made, reasons

DRAINED = "IDLE+DRAIN"


def running(version: str) -> Controller:
    return msgspec.structs.replace(SLURM, status=ControllerStatus(slurm_version=version))


def of(version: str, worker: AWorker) -> AWorker:
    assert worker.pod is not None
    metadata = msgspec.structs.replace(worker.pod.metadata, labels={versions.LABEL: version})
    return msgspec.structs.replace(worker, pod=msgspec.structs.replace(worker.pod, metadata=metadata))


def decided(*workers: AWorker, slurmctld: str = "26.05.5", replicas: int | None = None) -> Plan:
    return plan(
        a_snapshot(*workers, replicas=len(workers) if replicas is None else replicas, controller=running(slurmctld))
    )


def test_no_worker_moves_before_slurmctld_has() -> None:
    found = decided(of("24.11", a_worker(0)), of("24.11", a_worker(1)), slurmctld="24.11.5")

    assert found.actions == ()
    assert reasons(found) == ["ControllerFirst"]


def test_one_worker_is_drained_and_an_idle_one_before_a_busy_one() -> None:
    found = decided(of("24.11", a_worker(0)), of("24.11", a_worker(1, state="ALLOCATED", jobs=(7,))))

    assert drains(found) == ["gpu-0"]
    assert "WorkersOutdated" in reasons(found)


def test_a_drained_one_goes_and_is_made_again_of_the_new_version() -> None:
    going = decided(of("24.11", a_worker(0, state=DRAINED, reason=OURS)), of("24.11", a_worker(1)))
    assert deleted(going) == ["gpu-0"]
    assert drains(going) == []

    back = decided(of("24.11", a_worker(1)), replicas=2)
    assert made(back) == ["gpu-0"]
    assert drains(back) == []


@pytest.mark.parametrize(
    "new", [a_worker(0, registered=False), a_worker(0, phase="Pending")], ids=["absent", "unready"]
)
def test_the_next_one_waits_until_the_last_is_back(new: AWorker) -> None:
    assert drains(decided(of("26.05", new), of("24.11", a_worker(1)))) == []


def test_a_worker_that_holds_a_job_is_waited_for() -> None:
    reason = "corral: rollout of NodeSet lab/gpu"
    found = decided(of("24.11", a_worker(0, state="ALLOCATED+DRAIN", reason=reason, jobs=(7,))))

    assert found.actions == ()
    assert "Draining" in reasons(found)


def test_one_that_somebody_else_drained_is_left_alone() -> None:
    found = decided(of("24.11", a_worker(0, state=DRAINED, reason="disk")), of("26.05", a_worker(1)))

    assert found.actions == ()
    assert reasons(found) == ["WorkersOutdated"]


def test_older_workers_beside_a_newer_slurmctld_are_as_good_where_they_are_asked_for() -> None:
    snapshot = a_snapshot(of("24.11", a_worker(0)), controller=running("26.05.5"))
    spec = msgspec.structs.replace(snapshot.object.spec, version="24.11")
    asked = msgspec.structs.replace(snapshot, object=msgspec.structs.replace(snapshot.object, spec=spec))

    assert calls(plan(asked)) == []
    assert calls(plan(snapshot)) != []
