"""The warning before a worker is deleted with its jobs: what it says, and what people know once it was said. Pure.

What counts is what was said, so it is read off the event itself: the time, and the jobs. An operator that was just
started has said nothing yet.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from corral.engine import EmitEvent, Result

TO_BE_KILLED = "JobsToBeKilled"
NAMED_MAX = 60  # jobs in one event, which has at most 1024 bytes
_SAID = re.compile(r"run at (\S+)Z are killed \(spec\.\w+\); (?:no known jobs|running jobs?: ([\d, ]+))$")


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime  # when it was said last
    until: datetime  # the time that was named: its jobs live until then
    jobs: frozenset[int]  # that were named


def warning_text(why: str, until: datetime) -> str:
    killed = f"jobs that still run at {until:%Y-%m-%dT%H:%M:%S}Z are killed"
    return f"to be removed ({why}); {killed} (spec.forceDrainAfterSeconds)"


def named(message: str, jobs: Sequence[int]) -> tuple[str, ...]:
    """With all jobs, in as many messages as it takes."""
    if not jobs:
        return (f"{message}; no known jobs",)
    if len(jobs) == 1:
        return (f"{message}; running job: {jobs[0]}",)
    some = (jobs[start : start + NAMED_MAX] for start in range(0, len(jobs), NAMED_MAX))
    return tuple(f"{message}; running jobs: {', '.join(map(str, ones))}" for ones in some)


def warned_by(results: Iterable[Result], now: datetime) -> Mapping[str, Warned]:
    """By uid of the pod."""
    found: dict[str, Warned] = {}
    for result in results:
        event = result.action
        if isinstance(event, EmitEvent) and event.reason == TO_BE_KILLED and result.state == "done":
            said = _said(event.message, now)
            before = found.get(event.regarding.uid, said)
            found[event.regarding.uid] = msgspec.structs.replace(said, jobs=before.jobs | said.jobs)
    return found


def _said(message: str, now: datetime) -> Warned:
    said = _SAID.search(message)
    assert said is not None  # noqa: S101 - it was written above
    jobs = frozenset(int(job) for job in (said[2] or "").split(", ") if job)
    return Warned(at=now, until=datetime.fromisoformat(said[1]).replace(tzinfo=UTC), jobs=jobs)
