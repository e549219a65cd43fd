"""Keys that wait for a pass: each at most once, none twice at a time.

What a key means is not known here. The core is synchronous; `take` is the only await of this file.

Theory of operation. A key is idle (not known here), waiting (ready in a lane, or delayed until a time), or running; a
running key that is added again waits for its own `done`. Adding a waiting key merges: the earlier time, the more urgent
lane, the reasons of both. Ready keys leave by lane, first in first out within one. So that no lane starves, a
lane that had `TURNS_MAX` turns in a row while a lower one waited gives one turn to the lower lane that waits longest;
a lone urgent key is therefore always next.
"""

import asyncio
import enum
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from random import Random
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)

TURNS_MAX = 16
REASONS_MAX = 8
ALARMS_LEFT_BEHIND_MAX = 64
TIMER_S_MIN = 1e-6  # the loop may wake us this much too early


class Lane(enum.IntEnum):
    """Who goes first. Lower goes first."""

    PERSON = 0  # somebody changed what they asked for and may be looking at the screen
    CHANGE = 1  # the world changed: a child died, a retry is due
    EFFECT = 2  # what we have done ourselves shows: others are waiting for their turn
    RESYNC = 3  # nothing is known to have changed: first list, periodic look
    TELLING = 4  # nothing is to be done, only something to be told


LANES = tuple(Lane)  # to walk over an Enum costs more than what is found there


class Backoff(msgspec.Struct, frozen=True):
    """Delay before retry n: base * 2^n up to the maximum, times a random factor from [1/2, 1]."""

    base_s: float = 0.005
    delay_s_max: float = 1000.0


BACKOFF = Backoff()


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
    """See the module's docstring. Every `take` is followed by one `done`, however the pass ended."""

    def __init__(
        self,
        *,
        now_s: Callable[[], float],
        random: Random,
        backoff: Backoff = BACKOFF,
        rate: RateLimit | None = None,
    ) -> None:
        self._now_s = now_s
        self._random = random
        self._backoff = backoff
        self._bucket = None if rate is None else _Bucket(rate, now_s())
        # A waiting key is in exactly one of `_lanes` and `_delayed`; a running key is in neither.
        self._lanes: tuple[OrderedDict[K, _Entry], ...] = tuple(OrderedDict() for _ in Lane)
        self._delayed: dict[K, _Entry] = {}
        self._running: dict[K, float] = {}  # since when
        self._again: dict[K, _Entry] = {}  # running, and to wait again after
        self._alarms: list[tuple[float, int, K, _Entry]] = []  # a heap; an entry that moved leaves its alarm behind
        self._failures: dict[K, int] = {}
        self._periods: dict[K, tuple[float, str]] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._turns = [0 for _ in Lane]  # takes in a row from a lane while a lower one waited
        self._closed = False
        self._sequence = self._adds = self._coalesced = self._retries = self._taken = 0

    def add(self, key: K, *, lane: Lane = Lane.CHANGE, after_s: float = 0.0, reason: str = "") -> None:
        """Ask for a pass over `key`, not before `after_s` from now. Nothing is accepted once the queue is closed."""
        if self._closed:
            return
        self._adds += 1
        now_s = self._now_s()
        entry = _Entry(lane, now_s + max(after_s, 0.0), (reason,) if reason else ())
        if key not in self._running:
            self._place(key, entry, now_s)
        elif (known := self._again.get(key)) is None:
            self._again[key] = entry
        else:
            self._again[key] = known.merged(entry, now_s)
            self._coalesced += 1

    def retry(self, key: K, *, lane: Lane = Lane.CHANGE, reason: str = "") -> float:
        """Add with this key's backoff, which doubles each time until `forget`; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._retries += 1
        longest_s = min(self._backoff.delay_s_max, self._backoff.base_s * 2.0 ** min(failures, 64))
        delay_s = longest_s * (1 + self._random.random()) / 2
        self.add(key, lane=lane, after_s=delay_s, reason=reason)
        return delay_s

    def forget(self, key: K) -> None:
        """A success: the next retry starts from the shortest delay again."""
        self._failures.pop(key, None)

    def repeat(self, key: K, *, every_s: float, reason: str = "periodic") -> None:
        """From now on `key` is passed over at least every `every_s` (plus up to a tenth), in lane RESYNC.

        Any pass counts: the period starts anew at each `done`.
        """
        self._periods[key] = (every_s, reason)
        if key not in self._running:
            self._add_periodic(key)

    def stop_repeating(self, key: K) -> None:
        """A pass that waits already still happens."""
        self._periods.pop(key, None)

    def is_running(self, key: K) -> bool:
        return key in self._running

    @property
    def has_work(self) -> bool:
        """Whether a key waits for more than to be told about."""
        return any(self._lanes[: Lane.TELLING])

    def take_nowait(self) -> Taken[K]:
        """The next key, which now runs. Raises NothingDue, or QueueClosed when nothing will ever be due."""
        now_s = self._now_s()
        self._ring_alarms(now_s)
        lane = self._next_lane(now_s)
        if lane is None:
            if self._closed:
                raise QueueClosed
            raise NothingDue(self._alarms[0][0] - now_s if self._alarms else None)
        key, entry = self._lanes[lane].popitem(last=False)
        self._running[key] = now_s
        self._taken += 1
        if self._bucket is not None:
            self._bucket.take()
        if any(self._lanes):
            self._wake_taker()
        return Taken(key, entry.lane, entry.reasons, max(now_s - entry.due_s, 0.0), self._failures.get(key, 0))

    async def take(self) -> Taken[K]:
        """The next key, as soon as there is one. Cancelling a take loses no key."""
        while True:
            try:
                return self.take_nowait()
            except NothingDue as nothing:
                due_in_s = nothing.due_in_s
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[None] = loop.create_future()
            self._takers.append(turn)
            alarm = None if due_in_s is None else loop.call_later(due_in_s, _give_turn, turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake_taker()  # the turn was ours and we cannot use it
                raise
            finally:
                if alarm is not None:
                    alarm.cancel()
                with suppress(ValueError):
                    self._takers.remove(turn)

    def done(self, key: K) -> None:
        """The pass over `key` has ended. What was added meanwhile waits now."""
        if self._running.pop(key, None) is None:
            raise ValueError(f"done({key!r}): this key was not taken, or is done already")
        now_s = self._now_s()
        if (again := self._again.pop(key, None)) is not None:
            self._place(key, again, now_s)
        period = self._periods.get(key)
        if period is not None and (again is None or again.due_s > now_s + period[0]):
            self._add_periodic(key)  # a pass that comes sooner is one, too

    def close(self, *, drain: bool) -> None:
        """Accept nothing more. With `drain` the keys that are ready are still given out; delayed keys never are."""
        self._closed = True
        self._delayed.clear()
        self._alarms.clear()
        self._again.clear()
        self._periods.clear()
        if not drain:
            for lane in self._lanes:
                lane.clear()
        while self._takers:
            self._wake_taker()

    def statistics(self) -> QueueStatistics:
        now_s = self._now_s()
        oldest = [next(iter(lane.values())).due_s for lane in self._lanes if lane]
        running_s = [now_s - since_s for since_s in self._running.values()]
        return QueueStatistics(
            ready={lane: len(self._lanes[lane]) for lane in Lane},
            delayed=len(self._delayed),
            running=len(self._running),
            failing=len(self._failures),
            oldest_ready_s=max(now_s - min(oldest), 0.0) if oldest else 0.0,
            longest_running_s=max(running_s, default=0.0),
            unfinished_s=sum(running_s),
            adds_total=self._adds,
            coalesced_total=self._coalesced,
            retries_total=self._retries,
            taken_total=self._taken,
        )

    def __repr__(self) -> str:
        now = self.statistics()
        return f"<WorkQueue: {sum(now.ready.values())} ready, {now.delayed} delayed, {now.running} running>"

    def _add_periodic(self, key: K) -> None:
        every_s, reason = self._periods[key]
        self.add(key, lane=Lane.RESYNC, after_s=every_s * (1 + self._random.random() / 10), reason=reason)

    def _place(self, key: K, new: "_Entry", now_s: float) -> None:
        """Let an idle or waiting key wait as `new` asks, or as it does already if that is sooner."""
        self._ring_alarms(now_s)
        ready = self._lane_of(key)
        known = self._delayed.get(key) if ready is None else ready[key]
        entry = new if known is None else known.merged(new, now_s)
        self._coalesced += known is not None
        if entry is known:
            return
        if ready is not None and entry.lane == ready[key].lane:
            ready[key] = entry  # keeps its place in the line
        elif ready is not None or entry.due_s <= now_s:
            if ready is not None:
                del ready[key]
            elif known is not None:
                del self._delayed[key]
            self._lanes[entry.lane][key] = entry
            self._wake_taker()
        else:
            self._delayed[key] = entry
            self._set_alarm(key, entry)

    def _lane_of(self, key: K) -> "OrderedDict[K, _Entry] | None":
        for lane in self._lanes:
            if key in lane:
                return lane
        return None

    def _set_alarm(self, key: K, entry: "_Entry") -> None:
        self._sequence += 1
        heapq.heappush(self._alarms, (entry.due_s, self._sequence, key, entry))
        if len(self._alarms) > 2 * len(self._delayed) + ALARMS_LEFT_BEHIND_MAX:
            self._alarms = [alarm for alarm in self._alarms if self._delayed.get(alarm[2]) is alarm[3]]
            heapq.heapify(self._alarms)
        if self._alarms[0][3] is entry:
            self._wake_taker()  # those who sleep have set their alarm for later

    def _ring_alarms(self, now_s: float) -> None:
        """Move what is due to its lane; drop alarms that entries have left behind."""
        alarms = self._alarms
        while alarms:
            due_s, _, key, entry = alarms[0]
            left_behind = self._delayed.get(key) is not entry
            if not left_behind and due_s > now_s + TIMER_S_MIN:
                return
            heapq.heappop(alarms)
            if not left_behind:
                del self._delayed[key]
                self._lanes[entry.lane][key] = entry

    def _next_lane(self, now_s: float) -> Lane | None:
        """The lane whose turn it is; None when nothing is ready. Raises NothingDue when the rate limit says wait."""
        waiting = [lane for lane in LANES if self._lanes[lane]]
        if not waiting:
            return None
        wait_s = 0.0 if self._bucket is None else self._bucket.wait_s(now_s)
        if wait_s > 0:
            if waiting[0] != Lane.PERSON:
                raise NothingDue(wait_s)
            return Lane.PERSON
        first = waiting[0]
        self._turns[:first] = [0] * first
        if len(waiting) == 1:
            self._turns[first] = 0
        elif self._turns[first] == TURNS_MAX:
            self._turns[first] = 0
            return min(waiting[1:], key=self._waiting_since_s)
        else:
            self._turns[first] += 1
        return first

    def _waiting_since_s(self, lane: Lane) -> float:
        return next(iter(self._lanes[lane].values())).due_s

    def _wake_taker(self) -> None:
        while self._takers:
            turn = self._takers.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class _Entry(msgspec.Struct, frozen=True, gc=False):
    lane: Lane
    due_s: float
    reasons: tuple[str, ...]

    def merged(self, new: "_Entry", now_s: float) -> "_Entry":
        """The earlier time and the more urgent lane. The reasons are those of the pass that will happen.

        What is only to be told does not become urgent by what is due later, and that is asked for again by the pass:
        else keys that give way to each other would be each other's work. Often one of the two is all of that already:
        then it is returned as it is.
        """
        first, second = (self, new) if self.due_s <= new.due_s else (new, self)
        is_later = second.due_s > now_s
        missing = [] if is_later else [r for r in second.reasons if r not in first.reasons]
        lane = first.lane if is_later and first.lane is Lane.TELLING else min(first.lane, second.lane)
        if first.lane is lane and not missing:
            return first
        return _Entry(lane, first.due_s, (*first.reasons, *missing)[:REASONS_MAX])


class _Bucket:
    """Tokens that come back at a steady rate. It may owe up to one burst, to those who do not wait."""

    def __init__(self, limit: RateLimit, now_s: float) -> None:
        self._limit = limit
        self._tokens = float(limit.burst)
        self._filled_s = now_s

    def wait_s(self, now_s: float) -> float:
        """How long until there is a token."""
        self._tokens = min(self._limit.burst, self._tokens + (now_s - self._filled_s) * self._limit.per_s)
        self._filled_s = now_s
        return max((1 - self._tokens) / self._limit.per_s, 0.0) if self._tokens < 1 - 1e-9 else 0.0

    def take(self) -> None:
        self._tokens = max(self._tokens - 1, -float(self._limit.burst))


def _give_turn(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)
