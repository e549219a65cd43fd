"""One watch as the server holds it. Synchronous: `take` gives the lines that are due, the shell sends them.

Which events a watch gets is decided by its cursor, the version up to which it has seen everything. The history in the
storage does the rest, so a watch that is slow, or has just been opened, needs no buffer of its own.
"""

from typing import Final

import msgspec

from corral.testing.apiserver.answers import Rejection
from corral.testing.apiserver.lists import (
    Event,
    Query,
    bookmark,
    events_since,
    initial_events,
    parse_version,
    reached_version,
    wants_initial_events,
)
from corral.testing.apiserver.storage import Storage

BOOKMARK_EVERY_S: Final = 60.0
TIMEOUT_S: Final = 1800.0  # when the client names none; the real server draws 30 to 60 minutes


class Watch:
    def __init__(self, storage: Storage, query: Query, now_s: float) -> None:
        self.query = query
        self._storage = storage
        self._cursor = parse_version(query.version)
        self._begun = not wants_initial_events(query)
        self._over = False
        self._bookmark_due_s = now_s + BOOKMARK_EVERY_S
        self.ends_s = now_s + (query.timeout_s or TIMEOUT_S)

    @property
    def wakes_s(self) -> float:
        """When there may be something to send although nothing changed."""
        return min(self._bookmark_due_s, self.ends_s) if self.query.bookmarks else self.ends_s

    def take(self, now_s: float) -> list[bytes]:
        """All lines due now. Moves the cursor: what is taken is sent, or lost with the connection."""
        if self._over:
            return []
        try:
            events = self._events(now_s)
        except Rejection as rejection:
            self._over = True
            return [line(Event("ERROR", rejection.body()))]
        return [line(event) for event in events]

    @property
    def is_over(self) -> bool:
        return self._over

    def _events(self, now_s: float) -> list[Event]:
        events: list[Event] = []
        if not self._begun:
            events += self._beginning()
        news = list(events_since(self._storage, self.query, self._cursor))
        self._cursor = max(self._cursor, self._storage.version)
        events += [event for _, event in news]
        if now_s >= self.ends_s:
            self._over = True
            events += self._bookmark()
        elif now_s >= self._bookmark_due_s:
            self._bookmark_due_s = now_s + BOOKMARK_EVERY_S
            events += self._bookmark()
        return events

    def _bookmark(self) -> list[Event]:
        """None to those who ask from a version that the server has not reached: the real one leaves them in silence."""
        has_reached = self._cursor <= self._storage.version
        return [bookmark(self.query.served, self._cursor)] if self.query.bookmarks and has_reached else []

    def _beginning(self) -> list[Event]:
        reached_version(self._storage, self.query)
        self._begun = True
        self._cursor = self._storage.version
        events = initial_events(self._storage, self.query)
        if self.query.initial_events and self.query.bookmarks:
            events.append(bookmark(self.query.served, self._cursor, initial_events_end=True))
        return events


def line(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"
