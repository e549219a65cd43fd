"""Notice what stands still: a key that makes no progress, and an event loop that does not turn.

`Progress` is told after every pass what the pass found. A key whose finding is the same and not "done" for longer than
its bound is stuck; it is returned once, to be told in a log line, a metric and an event. It is not an error: a key may
rightly wait for days; but somebody should know.

`LoopWatch` runs in a thread of its own, because a blocked loop cannot report itself: when the loop has not turned for
`blocked_s`, it logs where the loop's thread is.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from corral.engine.logs import logger
from corral.engine.plan import work_lines
from corral.engine.reconciler import Outcome
from corral.engine.store import Key


class Stuck(msgspec.Struct, frozen=True):
    key: Key
    finding: str
    since_s: float  # how long it has been so


def finding(outcome: Outcome) -> str:
    """What a pass found, as a sentence; empty when there is nothing left to do."""
    if outcome.problem is not None:
        return outcome.problem.message
    plan = outcome.plan
    return "" if plan.is_empty and not plan.waits else "; ".join(work_lines(plan))


class Progress:
    """What each unfinished key was found to wait for, and since when. Done keys take no room."""

    def __init__(self, *, stuck_after_s: float) -> None:
        self._stuck_after_s = stuck_after_s
        self._findings: dict[Key, tuple[str, float]] = {}
        self._reported: set[Key] = set()

    def note(self, key: Key, found: str, now_s: float) -> None:
        before = self._findings.get(key)
        if not found:
            self.forget(key)
        elif before is None or before[0] != found:
            self._findings[key] = (found, now_s)
            self._reported.discard(key)

    def forget(self, key: Key) -> None:
        self._findings.pop(key, None)
        self._reported.discard(key)

    def newly_stuck(self, now_s: float) -> tuple[Stuck, ...]:
        """Each stuck key once, until it moves again."""
        late = tuple(
            Stuck(key, found, now_s - since_s)
            for key, (found, since_s) in self._findings.items()
            if now_s - since_s >= self._stuck_after_s and key not in self._reported
        )
        self._reported |= {stuck.key for stuck in late}
        return late

    def stuck_count(self) -> int:
        return len(self._reported)


class LoopWatch:
    """`with LoopWatch(loop): ...`. Costs one call in the loop and one in a thread each second."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_lag: Callable[[float], None],
        blocked_s: float = 5.0,
        every_s: float = 1.0,
    ) -> None:
        self._loop = loop
        self._on_lag = on_lag
        self._blocked_s = blocked_s
        self._every_s = every_s
        self._turned_s = time.monotonic()
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="corral-loop-watch", daemon=True)
        self.reports = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        told = False
        while not self._ended.wait(self._every_s):
            behind_s = time.monotonic() - self._turned_s
            if behind_s < self._blocked_s:
                told = False
            elif not told:
                told = True
                self._report(behind_s)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._turn, time.monotonic())

    def _turn(self, asked_s: float) -> None:
        self._turned_s = time.monotonic()
        self._on_lag(self._turned_s - asked_s)

    def _report(self, behind_s: float) -> None:
        self.reports += 1
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  (documented, for debuggers)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "unknown"
        logger().error("event loop blocked", blocked_s=round(behind_s, 1), stack=stack)
