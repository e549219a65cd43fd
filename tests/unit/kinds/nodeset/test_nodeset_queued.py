"""A NodeSet that is deleted leaves no job behind that waits in a partition which is gone."""

from msgspec.structs import replace

from corral.engine import RemoveFinalizer
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Partition
from corral.slurm.facts import Observed
from corral.slurm.states import Phase
from corral.slurm.values import Job
from tests.unit.kinds.nodeset.builders import NOW, SLURM, AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import drains, reasons


def deleted_with(*jobs: Job, workers: tuple[AWorker, ...] = (), enabled: bool = True) -> Snapshot:
    plain = a_snapshot(*workers, deleted=True)
    assert isinstance(plain.slurm, Observed)
    spec = replace(plain.object.spec, partition=Partition(enabled=enabled))
    view = replace(plain.slurm, jobs={job.id: job for job in jobs})
    return replace(plain, object=replace(plain.object, spec=spec), slurm=view)


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
