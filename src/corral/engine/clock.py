"""How time and chance reach the engine: as one value that is passed in, never read from a module.

`monotonic_s` is the event loop's own clock, so a loop with virtual time (looptime) moves everything with it. `wall` is
only for timestamps that people and other programs read; no decision depends on it.
"""

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec


class Clock(msgspec.Struct, frozen=True):
    monotonic_s: Callable[[], float]
    wall: Callable[[], datetime]
    random: random.Random
    # Also counts while the machine sleeps. Only the lease needs it: a machine that wakes up must know that it is late.
    boottime_s: Callable[[], float]


def system_clock() -> Clock:
    """The real one, for the running loop."""
    return Clock(
        monotonic_s=asyncio.get_running_loop().time,
        wall=lambda: datetime.now(UTC),
        random=random.Random(),  # noqa: S311  (spreads waits, keeps no secret; one from the kernel costs a call each)
        boottime_s=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    )


VIRTUAL_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def virtual_clock(seed: int = 0) -> Clock:
    """Everything follows the running loop's time and the seed: two runs with one seed are the same run."""
    now_s = asyncio.get_running_loop().time
    return Clock(
        monotonic_s=now_s,
        wall=lambda: VIRTUAL_EPOCH + timedelta(seconds=now_s()),
        random=random.Random(seed),  # noqa: S311  (repeatable on purpose)
        boottime_s=now_s,
    )
