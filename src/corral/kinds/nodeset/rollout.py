"""Which workers are replaced now because what they are made from has changed. Pure.

    RollingUpdate   as many at once as may be missing: with those that are missing already, whatever the reason, never
                    more than `maxUnavailable`; with `maxSurge` new ones come before old ones go
    OnDelete        none; a worker that goes for another reason comes back as it is now asked for
    partition       only those with this ordinal or a higher one
    paused          none; a worker that was on its way out stays
    window          none before and after it; in it all at once, for Slurm has kept their nodes free (`reservation`),
                    when the first of them is there as it is asked for now: a bad image costs no more than elsewhere

A worker counts as there when it is ready, registered, not down and not drained by us. So new workers that do not come
up use up what may be missing, and the rollout stops by itself: a bad image costs `maxUnavailable` workers. Outdated
workers that Slurm has not got, or whose slurmd does not run, are replaced at once: there is nothing to lose. Those that
run and are of no use all the same, down or not ready, go first and cost nothing: they are missing already. No more of
them at once than may be missing, for they may all be there again in a moment.

One that somebody else has drained counts as there, is not ours to wait for, and is not replaced: it would lose its
drain. Only if its slurmd does not run, its pod is made anew, and the record in Slurm stays: with its drain, or DOWN
until the new slurmd registers, for then slurmctld itself gives it back (ReturnToService=2).
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from corral.engine import Wait
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.revision import Make
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Update
from corral.kinds.nodeset.words import some
from corral.kinds.nodeset.workers import Worker
from corral.kube.values import resolve_percentage

STUCK_AFTER_S = 600.0  # a new worker that is not there by then will not come by itself


class BadUpdate(ValueError):
    """maxUnavailable or maxSurge is neither a number nor a percentage."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """`replaced`: those that go now, or are on their way. `remade`: only their pods are; their records stay."""

    replaced: tuple[Worker, ...] = ()
    remade: tuple[Worker, ...] = ()
    waits: tuple[Wait, ...] = ()
    again_after_s: float | None = None


def limits(update: Update, replicas: int) -> tuple[int, int]:
    """How many may be missing, and how many may be too many; not none of both, or nothing would ever move."""
    try:
        missing = resolve_percentage(update.max_unavailable, replicas, round_up=False)
        surge = resolve_percentage(update.max_surge, replicas, round_up=True)
    except ValueError as error:
        raise BadUpdate(f"spec.update: maxUnavailable and maxSurge must be a number or a percentage: {error}") from None
    return (missing, surge) if missing > 0 or surge > 0 else (1, 0)


def moves(update: Update, now: datetime) -> bool:
    its_time = update.window is None or update.window.is_open(now)
    return update.strategy == "RollingUpdate" and not update.paused and its_time


def outdated(live: Sequence[Worker], snapshot: Snapshot, is_old: Callable[[Make], bool]) -> tuple[Worker, ...]:
    """Those that the strategy will replace one day; by ordinal."""
    old = {make for make in {worker.make for worker in live} if make is not None and is_old(make)}
    partition = snapshot.object.spec.update.partition
    return tuple(w for w in live if w.make in old and (w.ordinal or 0) >= partition) if old else ()


def surge(snapshot: Snapshot, old: Sequence[Worker]) -> int:
    update, replicas = snapshot.object.spec.update, snapshot.object.spec.replicas
    movable = [worker for worker in old if not worker.is_somebodys]
    return min(limits(update, replicas)[1], len(movable)) if moves(update, snapshot.now) else 0


def rollout(
    snapshot: Snapshot,
    staying: Sequence[Worker],
    old: Sequence[Worker],
    order: Callable[[Worker], Any],
    replicas: int,
    missing: Sequence[str] = (),
) -> Rollout:
    """`order`: whom it costs least to replace, first. `replicas`: how many there are to be. `missing`: who is not."""
    update = snapshot.object.spec.update
    names = {worker.name for worker in old}
    here = [worker for worker in staying if worker.name in names]
    if not here:
        return Rollout()
    told = _told(snapshot, staying, here)
    if not moves(update, snapshot.now):
        return Rollout(waits=(told,), again_after_s=_turns_after_s(snapshot))
    movable = [worker for worker in here if not worker.is_somebodys]
    nothing_to_lose = [worker for worker in movable if worker.facts is Facts.UNREGISTERED or not worker.runs]
    others = [worker for worker in movable if worker.facts is not Facts.UNREGISTERED and worker.runs]
    if update.window is not None and _is_proven(staying, here):
        taken = [worker for worker in others if worker.heard]
    else:
        taken = in_turn(sorted(others, key=order), staying, replicas, limits(update, replicas)[0])
    new = [worker for worker in staying if worker.name not in names]
    goes_on = bool(taken) or any(worker.has_our_drain for worker in nothing_to_lose)
    stopped, again_after_s = _stopped(snapshot, new, missing, goes_on)
    go = {worker.name for worker in (*nothing_to_lose, *taken)}
    return Rollout(
        remade=tuple(w for w in here if w.is_somebodys and not _may_have_slurmd(w) and not w.jobs),
        replaced=tuple(worker for worker in movable if worker.name in go),
        waits=(*stopped, told),
        again_after_s=min((s for s in (again_after_s, _turns_after_s(snapshot)) if s is not None), default=None),
    )


def _is_proven(staying: Sequence[Worker], here: Sequence[Worker]) -> bool:
    """Whether a worker that was made otherwise than those that are outdated has come up."""
    old = {worker.make for worker in here}
    return any(is_there(worker) for worker in staying if worker.make not in old)


def _may_have_slurmd(worker: Worker) -> bool:
    """By kubelet's word; or by Slurm's, where the record is of this pod's slurmd and kubelet is cut off."""
    made = worker.pod.metadata.creation_timestamp if worker.pod is not None else None
    at = worker.node.registered_at if worker.node is not None else None
    return worker.runs or worker.arrives or (at is not None and made is not None and at >= made)


def in_turn(candidates: Sequence[Worker], staying: Sequence[Worker], count: int, missing_max: int) -> list[Worker]:
    """Who may be replaced now, whom to take first being first: those on their way, those of no use, then as many of the
    others as leave no more than `missing_max` missing."""
    begun = [worker for worker in candidates if worker.has_our_drain]
    idle = [w for w in candidates if w.heard and not w.has_our_drain and not is_there(w)]
    fit = [worker for worker in candidates if is_there(worker)]
    room = max(1, missing_max) - len(begun)
    budget = sum([is_there(worker) for worker in staying]) - (count - missing_max)
    return [*begun, *idle[: max(0, room)], *fit[: max(0, budget)]]


def is_there(worker: Worker) -> bool:
    """Whether it is of use, as far as we have a say in it."""
    if worker.is_somebodys:
        return True
    record = worker.record
    takes_jobs = not (record.has_drain or record.is_down or record.is_invalid)
    return worker.is_ready and worker.node is not None and takes_jobs


def _told(snapshot: Snapshot, staying: Sequence[Worker], here: Sequence[Worker]) -> Wait:
    update, now = snapshot.object.spec.update, snapshot.now
    held, window = "", update.window
    if update.paused:
        held = " (paused)"
    elif update.strategy == "OnDelete":
        held = " (OnDelete: replaced when their pods are deleted)"
    elif window is not None and now < window.start:
        held = f" (replaced from {window.start:%Y-%m-%dT%H:%MZ} on)"
    elif window is not None and now >= window.end:
        held = " (the window is over: set a new spec.update.window.start)"
    names = some([worker.name for worker in here])
    message = f"{len(here)} of {len(staying)} workers are outdated{held}: {names}"
    is_over = window is not None and now >= window.end and not update.paused
    return Wait(reason="WorkersOutdated", message=message, stalled=is_over)


def _turns_after_s(snapshot: Snapshot) -> float | None:
    """When its window opens or closes."""
    window = snapshot.object.spec.update.window
    ahead = [at for at in (window.start, window.end) if at > snapshot.now] if window is not None else []
    return (min(ahead) - snapshot.now).total_seconds() if ahead else None


def _stopped(
    snapshot: Snapshot, new: Sequence[Worker], missing: Sequence[str], goes_on: bool
) -> tuple[tuple[Wait, ...], float | None]:
    """Workers that are not there hold the rollout up; when new ones have had their time, a person must look."""
    absent = [worker for worker in new if not is_there(worker) and not worker.has_our_drain]
    if goes_on or not (absent or missing):
        return (), None
    ages = [snapshot.now - at for w in absent if w.pod and (at := w.pod.metadata.creation_timestamp) is not None]
    left_s = STUCK_AFTER_S - max(ages, default=timedelta()).total_seconds()
    stuck = left_s <= 0
    more = f", not up after {STUCK_AFTER_S:g} s: check their pods, or revert the change" if stuck else ""
    who = "workers" if missing else "new workers"
    names = some([*(worker.name for worker in absent), *missing])
    message = f"the rollout waits for {who} to come up ({names}){more}"
    return (Wait(reason="RolloutStopped", message=message, stalled=stuck),), None if stuck else left_s
