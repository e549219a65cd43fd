"""How time and chance reach this room: as one value that is passed in. The engine's Clock is one of these."""

import random
from collections.abc import Callable
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    @property
    def monotonic_s(self) -> Callable[[], float]:
        """The event loop's own clock, so that virtual time moves everything."""
        ...

    @property
    def wall(self) -> Callable[[], datetime]:
        """For timestamps that people and other programs read; no decision depends on it."""
        ...

    @property
    def random(self) -> random.Random: ...
