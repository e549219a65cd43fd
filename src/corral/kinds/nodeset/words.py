"""Common phrases of a NodeSet's messages: names, jobs, a Slurm that does not answer. Pure."""

import math
from collections.abc import Sequence

from corral.kinds.nodeset.snapshot import Snapshot
from corral.slurm.facts import Unknown
from corral.slurm.values import Job

SHOWN_MAX = 5


def some(words: Sequence[str]) -> str:
    more = f" and {len(words) - SHOWN_MAX} more" if len(words) > SHOWN_MAX else ""
    return ", ".join(words[:SHOWN_MAX]) + more


def jobs_text(jobs: Sequence[Job]) -> str:
    """`jobs 12, 17 run until 2026-11-16T02:25Z`: the last of them, by its time limit."""
    if not jobs:
        return "no known jobs"
    shown = some([str(job.id) for job in jobs])
    return f"job {shown} runs{_until(jobs)}" if len(jobs) == 1 else f"jobs {shown} run{_until(jobs)}"


def _until(jobs: Sequence[Job]) -> str:
    """Slurm gives a job without a time limit an end in a year, which means nothing."""
    if any(job.time_limit_s == math.inf for job in jobs):
        return " without a time limit"
    ends = [job.end_at for job in jobs if job.end_at is not None]
    return f" until {max(ends):%Y-%m-%dT%H:%MZ} at the latest" if len(ends) == len(jobs) else ""


def unreachable_text(snapshot: Snapshot) -> str:
    return f"{silence_text(snapshot)}. Until it answers, Corral creates missing workers but removes none"


def silence_text(snapshot: Snapshot) -> str:
    view = snapshot.slurm
    if isinstance(view, Unknown):
        return f"Slurm {snapshot.cluster} has not answered since {view.since:%Y-%m-%dT%H:%M:%SZ}: {view.why}"
    return f"Slurm {snapshot.cluster} last answered at {view.at:%Y-%m-%dT%H:%M:%SZ}"
