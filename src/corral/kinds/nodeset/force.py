"""`forceDrainAfterSeconds`: a worker whose jobs outlast its drain by Corral is deleted with them. Pure.

Corral kills no job otherwise; `farewell` has the same limit. It is off by default, and events name the jobs: when it is
drained, again shortly before the end, and when it is deleted. They are events of the worker's pod, because one object
can only have so many at once.

The time starts when the worker is drained for its removal, or for that of its pod by somebody else: the drain has that
reason since then. Another reason (see `reasons`) starts it again, with another warning.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from corral.engine import Action, EmitEvent, target
from corral.kinds.nodeset.ending import ended_now
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.reasons import says
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.workers import Worker
from corral.slurm.values import Job

FORCED = "DrainForced"
WARNED_BEFORE_S = 300.0  # or half of the time, if that is less
NAMED_MAX = 60  # jobs in one event, which has at most 1024 bytes


def limit(snapshot: Snapshot) -> timedelta | None:
    limit_s = snapshot.object.spec.force_drain_after_seconds
    return None if limit_s is None else timedelta(seconds=limit_s)


def deadline(snapshot: Snapshot, worker: Worker, reason: str) -> datetime | None:
    """When it is deleted in any case; None: never, or it is unknown since when it has been drained for this."""
    within, node = limit(snapshot), worker.node
    if within is None or node is None or node.reason_at is None or not says(worker, reason):
        return None
    return node.reason_at + within


def is_overdue(snapshot: Snapshot, worker: Worker, reason: str) -> bool:
    """Only if Slurm answers, and only a worker that is draining and has jobs, if it is not being ended already."""
    at, stays = deadline(snapshot, worker, reason), not worker.is_leaving or worker.body.waits_since is not None
    return at is not None and worker.facts is Facts.DRAINING and stays and snapshot.now > at


def warned_at_once(snapshot: Snapshot, worker: Worker, why: str) -> tuple[EmitEvent, ...]:
    """Together with the drain that starts its time."""
    within = limit(snapshot)
    return _warned(snapshot, worker, why, snapshot.now + within) if within is not None else ()


def warned_again(snapshot: Snapshot, worker: Worker, why: str, reason: str) -> tuple[EmitEvent, ...]:
    within, at = limit(snapshot), deadline(snapshot, worker, reason)
    if within is None or at is None or not at - _notice(within) <= snapshot.now <= at:
        return ()
    return _warned(snapshot, worker, why, at)


def next_look_s(snapshot: Snapshot, worker: Worker, reason: str) -> float | None:
    """When the next warning or the deletion is due."""
    within, at = limit(snapshot), deadline(snapshot, worker, reason)
    if within is None or at is None:
        return None
    ahead = [moment for moment in (at - _notice(within), at) if moment > snapshot.now]
    return (min(ahead) - snapshot.now).total_seconds() + 1.0 if ahead else None


def forced(snapshot: Snapshot, worker: Worker, why: str) -> tuple[Action, ...]:
    """Slurm requeues the jobs that allow it."""
    if worker.pod is None:
        return ()
    limit_s = snapshot.object.spec.force_drain_after_seconds
    message = f"deleted after draining for more than {limit_s} s ({why}; spec.forceDrainAfterSeconds)"
    told = _events(snapshot, worker, "JobsKilled", message, "Delete")
    return *told, *ended_now(worker, worker.pod, FORCED, message)


def _warned(snapshot: Snapshot, worker: Worker, why: str, at: datetime) -> tuple[EmitEvent, ...]:
    killed = f"jobs that still run at {at:%Y-%m-%dT%H:%M:%SZ} are killed"
    message = f"to be removed ({why}); {killed} (spec.forceDrainAfterSeconds)"
    return _events(snapshot, worker, "JobsToBeKilled", message, "Drain") if worker.jobs else ()


def _events(
    snapshot: Snapshot, worker: Worker, reason: str, message: str, action: Literal["Delete", "Drain"]
) -> tuple[EmitEvent, ...]:
    """All jobs are named, in as many events as it takes."""
    if worker.pod is None:
        return ()
    about, of = target(worker.pod), target(snapshot.object)
    return tuple(
        EmitEvent(
            regarding=about, related=of, reason=reason, message=f"{message}; {text}", type="Warning", action=action
        )
        for text in _named(worker.jobs)
    )


def _named(jobs: Sequence[Job]) -> tuple[str, ...]:
    if not jobs:
        return ("no known jobs",)
    if len(jobs) == 1:
        return (f"running job: {jobs[0].id}",)
    some = (jobs[start : start + NAMED_MAX] for start in range(0, len(jobs), NAMED_MAX))
    return tuple(f"running jobs: {', '.join(str(job.id) for job in ones)}" for ones in some)


def _notice(within: timedelta) -> timedelta:
    return min(timedelta(seconds=WARNED_BEFORE_S), within / 2)
