"""One cache per kind and selector, kept true by a watch and shared by everyone who asks.

Consumers subscribe before `run`; their handlers are plain functions that are called after the store shows the change.
A handler that raises is a bug and ends `run`; it must not block, and it must not write to the cluster: it queues a key.
"""

import asyncio
import enum
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from corral.engine.clock import Clock
from corral.engine.store import Change, IndexFunction, Store, Trim
from corral.kube.client import Client, Selector
from corral.kube.meta import Object

T = TypeVar("T", bound=Object)


class Cause(enum.Enum):
    """Why a handler is called: so that a controller can put what only restarts tell behind what people do."""

    INITIAL = "initial"  # the first list: the object may be long known to everybody
    RELIST = "relist"  # found by comparing with a later list, after a gap
    WATCH = "watch"


Handler = Callable[[Change[T], Cause], None]


class InformerStatistics(msgspec.Struct, frozen=True):
    """One record for metrics, the debug page and tests."""

    kind: str
    selector: Selector
    objects: int
    version: str
    synced: bool
    events: int  # puts and deletions received
    ignored: int  # of these: old news
    lists: int  # full pictures received
    troubles: int
    trouble: str  # why the watch does not run at the moment, as a sentence; empty when it does


class Informer(Generic[T]):
    kind: type[T]
    where: Selector
    store: Store[T]
    synced: asyncio.Event  # set once the first list is in the store and its handlers have run

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler` for every change from the first list on. Only before `run`."""

    def on_progress(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the store has reached a newer version, bookmarks included. For the barrier."""

    def add_index(self, index: str, function: IndexFunction[T]) -> None:
        """`store.by_index(index, value)` finds the objects for which `function` yields `value`. At any time."""

    async def run(self) -> None:
        """Follow the server until cancelled. Never returns and never raises for trouble with the server."""

    def statistics(self) -> InformerStatistics: ...


class Informers:
    """The process's informers: the same kind and selector is the same informer."""

    def __init__(self, client: Client, clock: Clock) -> None: ...

    def of(self, kind: type[T], where: Selector = Selector(), *, trim: Trim[T] | None = None) -> Informer[T]:
        """The informer of this kind and selector. A second asker gets the first one's `trim`, or must ask for the same."""

    def __iter__(self) -> Any: ...  # Iterator[Informer[Any]]

    async def run(self) -> None:
        """Run all of them until cancelled; also those asked for later."""

    async def synced(self) -> None:
        """Return once every informer asked for so far is synced. Put a deadline around it."""
