"""Pods that go without Corral: somebody deletes them, or they have ended. Pure.

    its node     is drained until the next pod is ready: slurmctld would give it jobs until it misses its slurmd
    its jobs     are waited for by the pod itself (`slurmd-leave`), however long they take, or for as long as people
                 chose to wait (`force`)
    it hangs     it has no job to wait for and does not end. It is looked into first (`looks`), for Slurm may have lost
                 its records; then its wait is ended (`ending`). One whose other containers do not hear their TERM is
                 beyond us, and told

Who waits for more than a moment is named, with the way to end it. Our own deletions come after the record.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from corral.engine import NOTHING, Action, Plan, Wait
from corral.kinds.nodeset import force
from corral.kinds.nodeset.each import beside, each
from corral.kinds.nodeset.ending import ENDS_WITHIN, end_command, waits
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.leaving import without
from corral.kinds.nodeset.reasons import reason_for, says_something_else
from corral.kinds.nodeset.removal import drained, hurried, kept_free, removed
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.started import LONG_AGO
from corral.kinds.nodeset.words import jobs_text, some
from corral.kinds.nodeset.workers import Worker

LOSS, DELETION = "loss of its pod", "deletion"
FREED = (Facts.DRAINED, Facts.UNREGISTERED)
LOOKED_AGAIN_S = 20.0  # into one that did not say what runs there


def going(snapshot: Snapshot) -> Plan:
    gone = [worker for worker in snapshot.workers if worker.pod is not None and not worker.is_live]
    if not gone:
        return NOTHING
    waiting = [worker for worker in gone if waits(snapshot, worker)]
    ending = [worker for worker in without(gone, waiting) if worker.is_leaving]
    return beside(
        each(_given_no_more_jobs(snapshot, worker) for worker in gone if _needs_a_drain(snapshot, worker)),
        hurried(snapshot, [worker for worker in waiting if worker.facts is Facts.DRAINING], _why(snapshot)),
        _waited_for(snapshot, waiting) if waiting else NOTHING,
        _stuck(snapshot, ending) if ending else NOTHING,
    )


def hanging(snapshot: Snapshot) -> list[Worker]:
    """Of whom Slurm says that they have had no job for long enough; they are looked into."""
    return [worker for worker in snapshot.workers if _may_hang(snapshot, worker) and _left_s(snapshot, worker) <= 0]


def _given_no_more_jobs(snapshot: Snapshot, worker: Worker) -> tuple[Action, ...]:
    """Another pod comes, and takes jobs again; but not in a deletion."""
    warned = force.warned_at_once(snapshot, worker, _why(snapshot)) if waits(snapshot, worker) else ()
    if _is_deleted(snapshot):
        return *drained(snapshot, worker, DELETION), *warned
    return *kept_free(snapshot, worker, LOSS, pod_stays=False), *warned


def _needs_a_drain(snapshot: Snapshot, worker: Worker) -> bool:
    """Or another reason for it, if it may take long."""
    if worker.node is None or worker.is_somebodys:
        return False
    if worker.facts is Facts.DRAINING and waits(snapshot, worker):
        return says_something_else(worker, reason_for(snapshot, worker, _why(snapshot)))
    return worker.facts in (Facts.FREE, Facts.BUSY)


def _waited_for(snapshot: Snapshot, waiting: Sequence[Worker]) -> Plan:
    free = [worker for worker in waiting if _may_hang(snapshot, worker)]
    late = [worker for worker in free if _left_s(snapshot, worker) <= 0]
    idle = [worker for worker in late if snapshot.steps.get(worker.name) == ()]
    over = [worker for worker in idle if _left_since_steps_s(snapshot, worker) <= 0]
    held = [worker for worker in without(waiting, free) if _is_long_deleted(snapshot, worker)] + without(late, idle)
    times = [_left_s(snapshot, worker) for worker in without(free, late)]
    times += [_left_since_steps_s(snapshot, worker) for worker in without(idle, over)]
    times += [ENDS_WITHIN.total_seconds() if worker.name in snapshot.steps else LOOKED_AGAIN_S for worker in held]
    ended = removed(snapshot, over, "pod that hangs", spares_others=not _is_deleted(snapshot))
    told = tuple(_held(snapshot, worker) for worker in held)
    return ended + Plan(waits=told, again_after_s=min(times, default=ENDS_WITHIN.total_seconds()))


def _stuck(snapshot: Snapshot, ending: Sequence[Worker]) -> Plan:
    """Their time is over, and they are there: of no use to wait for without a person."""
    left_s = {
        worker.name: _until_ended_s(snapshot, (worker.body.ends_by, _cut_at(snapshot, worker))) for worker in ending
    }
    told = tuple(_stuck_one(snapshot, worker) for worker in ending if left_s[worker.name] <= 0)
    return Plan(waits=told, again_after_s=min((s for s in left_s.values() if s > 0), default=None))


def _cut_at(snapshot: Snapshot, worker: Worker) -> datetime | None:
    return snapshot.ended.get(worker.pod.metadata.uid) if worker.pod is not None else None


def _stuck_one(snapshot: Snapshot, worker: Worker) -> Wait:
    where = worker.pod.spec.node_name if worker.pod is not None else ""
    message = (
        f"the pod of {worker.name} was deleted, its time is over, and it does not end: the kubelet of Kubernetes node "
        f"{where} is away, or waits for a container that does not hear its TERM. That one ends when its process there "
        "is killed, or the kubelet is restarted"
    )
    if worker.jobs:
        told = f"According to Slurm {jobs_text(worker.jobs)} there. If it waits for that, this ends it, with any jobs"
        message = f"{message}. {told}: {end_command(snapshot, worker.name)}"
    return Wait(reason="PodStuck", message=message)


def _may_hang(snapshot: Snapshot, worker: Worker) -> bool:
    """It has no job. What somebody else has drained is left alone, but for a deletion, which takes all."""
    is_ours = _is_deleted(snapshot) or not worker.is_somebodys
    return worker.facts in FREED and is_ours and waits(snapshot, worker)


def _left_s(snapshot: Snapshot, worker: Worker) -> float:
    """Until it should have ended, by what Slurm says: from when it was deleted, or had its last job."""
    busy_until = worker.node.busy_until if worker.node is not None else None
    return _until_ended_s(snapshot, (worker.body.waits_since, busy_until))


def _left_since_steps_s(snapshot: Snapshot, worker: Worker) -> float:
    """By what looks into it have seen: Slurm may have lost its records."""
    return _until_ended_s(snapshot, (snapshot.stepped_at.get(worker.name),))


def _until_ended_s(snapshot: Snapshot, since: Iterable[datetime | None]) -> float:
    last = max((at for at in since if at is not None), default=LONG_AGO)
    return (last + ENDS_WITHIN - snapshot.now).total_seconds()


def _is_long_deleted(snapshot: Snapshot, worker: Worker) -> bool:
    since = worker.body.waits_since or snapshot.now
    return snapshot.now - since >= ENDS_WITHIN


def _held(snapshot: Snapshot, worker: Worker) -> Wait:
    message = f"the pod of {worker.name} was deleted and {_does_not_end(snapshot, worker)}"
    command = end_command(snapshot, worker.name)
    return Wait(reason="PodWaitsForJobs", message=f"{message}. To end it with any jobs: {command}")


def _does_not_end(snapshot: Snapshot, worker: Worker) -> str:
    steps = snapshot.steps.get(worker.name)
    if steps:
        return f"waits for its jobs to end: steps {some(steps)} run there"
    if worker.jobs:
        return f"waits for its jobs to end: {jobs_text(worker.jobs)}"
    if worker.facts not in FREED:
        return "may have jobs: Slurm does not say"
    if worker.is_somebodys and worker.node is not None:
        return f"does not end; somebody else drained its node ({worker.node.reason!r}), so Corral does not touch it"
    where = worker.pod.spec.node_name if worker.pod is not None else ""
    return f"does not end; whether steps of jobs run there the kubelet of Kubernetes node {where} does not say"


def _why(snapshot: Snapshot) -> str:
    return DELETION if _is_deleted(snapshot) else LOSS


def _is_deleted(snapshot: Snapshot) -> bool:
    return snapshot.object.metadata.deletion_timestamp is not None
