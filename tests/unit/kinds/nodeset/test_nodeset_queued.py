"""A NodeSet that is deleted leaves no job behind that waits in a partition which is gone."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from corral.engine import RemoveFinalizer
from corral.kinds.nodeset.calls import Door, door_in
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Partition
from corral.kinds.parts import External
from corral.slurm import values
from corral.slurm.facts import Observed, Unknown
from corral.slurm.states import Phase
from corral.slurm.values import Job
from tests.unit.kinds.nodeset.builders import NOW, SLURM, AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import deleted, drains, reasons

CLOSED = Door(told=True, is_open=False)


def deleted_with(*jobs: Job, workers: tuple[AWorker, ...] = (), enabled: bool = True, door: Door = CLOSED) -> Snapshot:
    plain = a_snapshot(*workers, deleted=True)
    assert isinstance(plain.slurm, Observed)
    spec = replace(plain.object.spec, partition=Partition(enabled=enabled))
    view = replace(plain.slurm, jobs={job.id: job for job in jobs})
    return replace(plain, object=replace(plain.object, spec=spec), slurm=view, door=door)


def waiting(number: int, partition: str) -> Job:
    return Job(id=number, state=("PENDING",), phase=Phase.PENDING, partition=partition)


def lets_go(snapshot: Snapshot) -> bool:
    return any(isinstance(action, RemoveFinalizer) for action in plan(snapshot).actions)


def test_a_job_that_waits_in_its_partition_is_waited_for_and_named() -> None:
    decided = plan(deleted_with(waiting(12, "gpu"), waiting(13, "cpu,gpu"), waiting(14, "cpu")))
    assert decided.is_empty
    (wait,) = decided.waits
    assert (wait.reason, "12, 13." in wait.message, "14" in wait.message) == ("JobsWaiting", True, False)


def test_it_is_told_while_workers_are_still_drained() -> None:
    decided = plan(deleted_with(waiting(12, "gpu"), workers=(a_worker(0),)))
    assert (drains(decided), reasons(decided)) == (["gpu-0"], ["JobsWaiting"])


def test_a_job_that_has_ended_or_waits_elsewhere_holds_nobody_up() -> None:
    ended = Job(id=1, state=("COMPLETED",), phase=Phase.ENDED, partition="gpu")
    assert lets_go(deleted_with(ended, waiting(14, "cpu")))
    assert lets_go(deleted_with(waiting(12, "gpu"), enabled=False))


def test_when_the_whole_cluster_goes_nothing_is_waited_for() -> None:
    going = replace(SLURM, metadata=replace(SLURM.metadata, deletion_timestamp=NOW))
    assert lets_go(replace(deleted_with(waiting(12, "gpu")), controller=going))


@pytest.mark.parametrize("door", [Door(told=True, is_open=True), Door()], ids=["open", "not told"])
def test_it_is_not_let_go_before_slurmctld_is_seen_to_take_no_job_for_its_partition(door: Door) -> None:
    decided = plan(deleted_with(door=door))
    assert (decided.is_empty, reasons(decided)) == (True, ["PartitionOpen"])
    assert decided.again_after_s is not None
    assert lets_go(deleted_with(door=CLOSED))
    assert lets_go(deleted_with(door=door, enabled=False))


def test_where_others_write_slurms_files_their_partition_is_not_waited_for() -> None:
    theirs = replace(SLURM, spec=replace(SLURM.spec, external=External(host="slurm.example", port=6817)))
    assert lets_go(replace(deleted_with(waiting(12, "gpu"), door=Door()), controller=theirs))


def test_while_slurm_is_silent_it_waits_for_there_may_be_jobs_in_its_partition() -> None:
    unheard = replace(deleted_with(), slurm=Unknown(since_s=0.0, since=NOW, why="connection refused"))
    decided = plan(unheard)
    assert (decided.is_empty, reasons(decided)) == (True, ["SlurmUnreachable"])
    assert "Jobs that are pending in its partition would fail" in decided.waits[0].message
    assert lets_go(
        replace(unheard, object=replace(unheard.object, spec=replace(unheard.object.spec, partition=Partition())))
    )


def deleted_for(seconds: float, *, registered_s: float, enabled: bool = True) -> Snapshot:
    """A worker that is drained; its slurmd registered so long ago."""
    drained = a_worker(0, state="IDLE+DRAIN", reason="corral: deletion of NodeSet lab/gpu", runs_s=registered_s)
    plain = deleted_with(workers=(drained,), enabled=enabled)
    meta = replace(plain.object.metadata, deletion_timestamp=NOW - timedelta(seconds=seconds))
    return replace(plain, object=replace(plain.object, metadata=meta))


def test_a_worker_is_not_forgotten_before_its_slurmd_has_read_the_files_anew_in_which_its_partition_is_down() -> None:
    about_to = plan(deleted_for(10, registered_s=600))
    assert (deleted(about_to), reasons(about_to)) == ([], ["WorkerArriving"])
    assert about_to.again_after_s is not None
    for done in (deleted_for(10, registered_s=5), deleted_for(61, registered_s=600)):
        assert deleted(plan(done)) == ["gpu-0"]
    assert deleted(plan(deleted_for(10, registered_s=600, enabled=False))) == ["gpu-0"]


def test_a_look_tells_whether_a_partition_takes_jobs() -> None:
    view = deleted_with().slurm
    assert isinstance(view, Observed)
    found = {name: values.Partition(name=name, state=(name,)) for name in ("UP", "DOWN", "DRAIN", "INACTIVE")}
    seen = replace(view, partitions=found)
    assert [door_in(seen, name).is_open for name in (*found, "none")] == [True, True, True, False, False]
    assert door_in(view, "UP") == Door()
