"""Keys that wait for a pass: each at most once, none twice at a time.

What a key means is not known here. The core is synchronous; `take` is the only await of this file.

Theory of operation. A key is idle (not known here), waiting (ready in a lane, or delayed until a time), or running; a
running key that is added again waits for its own `done`. Adding a waiting key merges: the earlier time, the more urgent
lane, the reasons of both. Ready keys leave by lane, first in first out within one. So that no lane starves, after
`TURNS_MAX` takes in a row that passed over a lower lane, the lowest waiting lane has one turn; a lone urgent
key is therefore always next.
"""

import enum
from collections.abc import Callable, Hashable
from random import Random
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)

TURNS_MAX = 16


class Lane(enum.IntEnum):
    """Who goes first. Lower goes first."""

    PERSON = 0  # somebody changed what they asked for and may be looking at the screen
    CHANGE = 1  # the world changed: a child died, a retry is due
    RESYNC = 2  # nothing is known to have changed: first list, periodic look


class Backoff(msgspec.Struct, frozen=True):
    """Delay before retry n: base * 2^n up to the maximum, times a random factor from [1/2, 1]."""

    base_s: float = 0.005
    delay_s_max: float = 1000.0


class RateLimit(msgspec.Struct, frozen=True):
    """A token bucket over all takes. The PERSON lane takes tokens but does not wait for them."""

    per_s: float
    burst: int


class Taken(msgspec.Struct, Generic[K], frozen=True):
    key: K
    lane: Lane
    reasons: tuple[str, ...]  # why it was queued, oldest first, each once, at most REASONS_MAX: for people only
    waited_s: float  # since it could have run
    failures: int  # retries since the last `forget`


class NothingDue(Exception):
    """`due_in_s` is when to ask again, or None when only a new key can change that."""

    def __init__(self, due_in_s: float | None) -> None:
        super().__init__(due_in_s)
        self.due_in_s = due_in_s


class QueueClosed(Exception):
    """The queue is closed and has nothing more to give: the worker ends."""


class QueueStatistics(msgspec.Struct, frozen=True):
    ready: dict[Lane, int]
    delayed: int
    running: int
    failing: int  # keys with a backoff
    oldest_ready_s: float  # how long the longest waiting ready key waits
    longest_running_s: float
    unfinished_s: float  # sum over the running keys
    adds_total: int
    coalesced_total: int  # adds that joined a key already waiting
    retries_total: int
    taken_total: int


class WorkQueue(Generic[K]):
    def __init__(self, *, now_s: Callable[[], float], random: Random, backoff: Backoff = Backoff(), rate: RateLimit | None = None) -> None: ...

    def add(self, key: K, *, lane: Lane = Lane.CHANGE, after_s: float = 0.0, reason: str = "") -> None: ...
    def retry(self, key: K, *, lane: Lane = Lane.CHANGE, reason: str = "") -> float:
        """Add with this key's backoff, which doubles; returns the delay. `forget` ends it."""
        ...
    def forget(self, key: K) -> None:
        """A success: the next retry starts from the shortest delay again."""
    def repeat(self, key: K, *, every_s: float, reason: str = "") -> None:
        """From now on no more than `every_s` (plus up to a tenth) pass between `done` and the next pass, in lane RESYNC."""
    def stop_repeating(self, key: K) -> None: ...
    def take_nowait(self) -> Taken[K]:
        """The next key, now running. Raises NothingDue or QueueClosed."""
        ...
    async def take(self) -> Taken[K]: ...
    def done(self, key: K) -> None:
        """The pass over `key` has ended, however it ended. Every take needs one."""
    def close(self, *, drain: bool) -> None:
        """Accept nothing more. With `drain`, ready keys are still given out; delayed keys never."""
    def statistics(self) -> QueueStatistics: ...
