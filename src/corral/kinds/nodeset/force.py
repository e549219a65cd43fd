"""`forceDrainAfterSeconds`: a worker whose jobs outlast its drain by Corral is deleted with them. Pure.

Corral kills no job otherwise; `farewell` has the same limit. It is off by default.

The time starts when the worker is drained for its removal, or for that of its pod by somebody else: the drain has that
reason since then. Another reason (see `reasons`) starts it again.

Nobody is killed unwarned. Events of the worker's pod (one object can only have so many at once) name the jobs and the
time: when it is drained, again shortly before the end, and when it was deleted. When it is over and that was not said,
it is said then, and the jobs have a while from there. So it is when the time is another one (people set or changed the
limit), when there are other jobs, and when nobody knows what was said (this process was just started).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from corral.engine import NOTHING, Action, EmitEvent, Outcome, Plan, target
from corral.kinds.nodeset.ending import ended_now, waits
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.reasons import says
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.warned import TO_BE_KILLED, Warned, named, warned_by, warning_text
from corral.kinds.nodeset.workers import Worker
from corral.kube.models.core_v1 import Pod

FORCED = "DrainForced"
WARNED_BEFORE = timedelta(minutes=5)  # or what the limit leaves of it
ALIKE = timedelta(seconds=5)  # slurmctld's clock and ours tell the same time


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """When a worker is deleted with its jobs."""

    at: datetime
    is_told: bool  # people know of that time and of these jobs; if not, this is what they are to be told
    next_word: datetime  # when they are told again; passed, if they were

    def is_over(self, now: datetime) -> bool:
        return self.is_told and now > self.at

    def look_s(self, now: datetime) -> float | None:
        ahead = [moment for moment in (self.next_word, self.at) if moment > now]
        return (min(ahead) - now).total_seconds() + 1.0 if ahead else None


def limit(snapshot: Snapshot) -> timedelta | None:
    limit_s = snapshot.object.spec.force_drain_after_seconds
    return None if limit_s is None else timedelta(seconds=limit_s)


def warned(snapshot: Snapshot, outcome: Outcome) -> dict[str, Warned]:
    """What people know after a pass, by uid of the pod. What they were told is void once nobody asks for force."""
    is_held = snapshot.object.spec.suspend and snapshot.object.metadata.deletion_timestamp is None
    if limit(snapshot) is None or is_held:
        return {}
    new = warned_by(outcome.results, snapshot.now)
    if not new and not snapshot.warned:
        return {}
    here = {pod.metadata.uid for pod in snapshot.pods}
    return {uid: said for uid, said in {**snapshot.warned, **new}.items() if uid in here}


def deadline(snapshot: Snapshot, worker: Worker, reason: str) -> datetime | None:
    """When its time is over; None: never, or it is unknown since when it has been drained for this.

    Only if Slurm answers, and only of a worker that is draining and has jobs, if it is not being ended already.
    """
    within, node = limit(snapshot), worker.node
    if within is None or node is None or node.reason_at is None or not says(worker, reason):
        return None
    stays = not worker.is_leaving or waits(snapshot, worker)
    return node.reason_at + within if worker.facts is Facts.DRAINING and stays else None


def term_of(snapshot: Snapshot, pod: Pod, due: datetime, jobs: Sequence[int]) -> Term:
    """`due`: when its time is over, whether or not people were warned."""
    within, now = limit(snapshot) or timedelta(0), snapshot.now
    said, again = snapshot.warned.get(pod.metadata.uid), min(WARNED_BEFORE, within / 2)
    soonest = max(due, now + min(WARNED_BEFORE, within))
    if said is None or not said.jobs.issuperset(jobs) or due > said.until + ALIKE or soonest < said.until - ALIKE:
        return Term(at=soonest, is_told=False, next_word=soonest - again)
    if said.at < said.until - again <= now:  # told long before, and not again
        return Term(at=max(said.until, now + again / 2), is_told=False, next_word=now)
    return Term(at=max(said.until, due), is_told=True, next_word=said.until - again)


def hurried(snapshot: Snapshot, worker: Worker, why: str, reason: str) -> Plan:
    """Where no job is known, nobody is to be warned: an epilog runs, or its machine is down."""
    due, pod, jobs = deadline(snapshot, worker, reason), worker.pod, [job.id for job in worker.jobs]
    if due is None or pod is None:
        return NOTHING
    term = term_of(snapshot, pod, due, jobs) if jobs else Term(at=due, is_told=True, next_word=due)
    if term.is_over(snapshot.now):
        return Plan(actions=forced(snapshot, worker, why))
    return Plan(actions=warning(snapshot, pod, why, term, jobs), again_after_s=term.look_s(snapshot.now))


def warned_at_once(snapshot: Snapshot, worker: Worker, why: str) -> tuple[EmitEvent, ...]:
    """Together with the drain that starts its time."""
    within, jobs = limit(snapshot), [job.id for job in worker.jobs]
    if within is None or worker.pod is None or not jobs:
        return ()
    at = snapshot.now + within
    return warning(snapshot, worker.pod, why, Term(at=at, is_told=False, next_word=at), jobs)


def warning(snapshot: Snapshot, pod: Pod, why: str, term: Term, jobs: Sequence[int]) -> tuple[EmitEvent, ...]:
    if term.is_told:
        return ()
    return _events(snapshot, pod, TO_BE_KILLED, warning_text(why, term.at), jobs, "Drain")


def killed(snapshot: Snapshot, pod: Pod, message: str, jobs: Sequence[int]) -> tuple[EmitEvent, ...]:
    return _events(snapshot, pod, "JobsKilled", message, jobs, "Delete")


def forced(snapshot: Snapshot, worker: Worker, why: str) -> tuple[Action, ...]:
    """Slurm requeues the jobs that allow it."""
    if worker.pod is None:
        return ()
    limit_s = snapshot.object.spec.force_drain_after_seconds
    message = f"deleted after draining for more than {limit_s} s ({why}; spec.forceDrainAfterSeconds)"
    told = killed(snapshot, worker.pod, message, [job.id for job in worker.jobs])
    deed, *more = ended_now(worker, worker.pod, FORCED, message)
    return deed, *told, *more  # only what was done is told


def _events(
    snapshot: Snapshot, pod: Pod, reason: str, message: str, jobs: Sequence[int], action: Literal["Delete", "Drain"]
) -> tuple[EmitEvent, ...]:
    """All jobs are named, in as many events as it takes."""
    about, of = target(pod), target(snapshot.object)
    return tuple(
        EmitEvent(regarding=about, related=of, reason=reason, message=text, type="Warning", action=action)
        for text in named(message, jobs)
    )
