"""Which workers are too many, and in which order workers are given up. Pure."""

import math
from collections.abc import Sequence, Set
from itertools import count, islice

from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.workers import Worker
from corral.slurm.values import Job

_ORDER = (Facts.UNREGISTERED, Facts.ARRIVING, Facts.DRAINED, Facts.FREE, Facts.DRAINING, Facts.BUSY, Facts.UNKNOWN)


def surplus(known: Sequence[Worker], replicas: int, reserved: Sequence[int] = ()) -> tuple[Worker, ...]:
    """Those whose ordinal is reserved, and as many more as are too many, in the order of `farewell_order`.

    Nothing is chosen while Slurm does not tell.
    """
    live = [worker for worker in known if worker.is_live]
    unwelcome = [worker for worker in live if worker.ordinal in reserved]
    excess = len(live) - replicas
    if max(excess, len(unwelcome)) <= 0 or any(w.facts is Facts.UNKNOWN and w.node is None for w in live):
        return ()
    rest = sorted(without(live, unwelcome), key=farewell_order)
    return (*unwelcome, *rest[: max(0, excess - len(unwelcome))])


def vacant_ordinals(taken: Set[int], replicas: int, reserved: Sequence[int], asked: Set[int]) -> tuple[int, ...]:
    """Those that make up the number: `asked` for already, whose workers are missing, then the lowest free ones.

    Reserved ones are never made.
    """
    unfit, missing = taken | set(reserved), max(0, replicas - len(taken))
    again = sorted(asked - unfit)[:missing]
    free = (ordinal for ordinal in count() if ordinal not in unfit and ordinal not in again)
    return tuple(sorted((*again, *islice(free, missing - len(again)))))


def without(workers: Sequence[Worker], others: Sequence[Worker]) -> list[Worker]:
    if not others:
        return list(workers)
    names = {worker.name for worker in others}
    return [worker for worker in workers if worker.name not in names]


def farewell_order(worker: Worker) -> tuple[int, bool, bool, bool, bool, int, int, float, int]:
    """Whom it costs least to lose goes first:

    as people marked it; drained by us already; not drained by somebody else; not in Slurm; not ready; idle; with the
    fewest jobs; with the jobs that end soonest; the highest ordinal.
    """
    return (
        worker.cost,
        not worker.has_our_drain,
        worker.is_somebodys,
        worker.facts not in (Facts.UNREGISTERED, Facts.ARRIVING),
        worker.is_ready,
        _ORDER.index(worker.facts),
        len(worker.jobs),
        _last_end_s(worker.jobs),
        -(worker.ordinal or 0),
    )


def _last_end_s(jobs: Sequence[Job]) -> float:
    """When the last of them ends by its limit; a job without one ends never."""
    return max((job.end_at.timestamp() if job.end_at and _is_limited(job) else math.inf for job in jobs), default=0.0)


def _is_limited(job: Job) -> bool:
    return job.time_limit_s is None or job.time_limit_s != math.inf
