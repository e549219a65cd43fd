"""One cache per kind and selector, kept true by a watch and shared by everyone who asks.

Consumers subscribe before `run`; their handlers are plain functions, called after the store shows the change. A handler
that raises is a bug and ends `run`. It must not block and it must not write to the cluster: it queues a key.
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from corral.engine.clock import Clock
from corral.engine.definitions import defined
from corral.engine.store import Change, IndexFunction, Trim, new_store
from corral.kube.client import Client, Gone, Put, Selector
from corral.kube.errors import NotFound
from corral.kube.meta import Object
from corral.kube.unstructured import Kind, class_of
from corral.kube.watch import (
    EVERYTHING,
    SILENCE_S_MAX,
    Event,
    InitDone,
    InitGone,
    InitPut,
    InitStart,
    Progress,
    Server,
    Trouble,
    follow,
)

T = TypeVar("T", bound=Object)
LOOKS_MAX = 6  # after a definition was told: it is served a moment later, once its names are accepted
UNDEFINED_S_MIN = 1.0  # until a server serves no longer what it has no definition of; mostly its watches end by then
UNDEFINED_S_MAX = 60.0  # and a busy one is asked again after longer and longer
LOOK_AGAIN_S = 600.0  # for kinds that no definition tells of, and for us when we may not see definitions
log = structlog.get_logger(__name__)


class Cause(enum.Enum):
    """Why a handler is called: so that a controller can put what only a restart tells behind what people do."""

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
    def __init__(
        self,
        client: Client,
        kind: type[T],
        where: Selector = EVERYTHING,
        *,
        clock: Clock,
        server: Server,
        trim: Trim[T] | None = None,
        optional: bool = False,
        silence_s_max: float = SILENCE_S_MAX,
    ) -> None:
        """`optional`: a kind that the server does not have is an empty one, until it appears.

        `silence_s_max`: a watch that brings nothing for so long is given up; the server is asked anew.
        """
        self.kind = kind
        self.optional = optional
        self.is_absent = False
        self.where = where
        self.trim = trim
        self.store, self._writer = new_store(kind, trim=trim)
        self.synced = asyncio.Event()
        """Set once the first list is in the store and the handlers have seen it."""
        self._client, self._clock, self._server, self._silence_s_max = client, clock, server, silence_s_max
        self._handlers: list[Handler[T]] = []
        self._progress_callbacks: list[Callable[[], None]] = []
        self._served_callbacks: list[Callable[[bool], None]] = []
        self._defined, self._undefined = asyncio.Event(), asyncio.Event()
        self._started = False
        self._events = self._ignored = self._lists = self._troubles = 0
        self._trouble = ""

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler` for every change from the first list on. Only before `run`."""
        if self._started:
            raise RuntimeError(f"the informer of {self.kind.__name__} runs already: subscribe before it starts")
        self._handlers.append(handler)

    def on_progress(self, callback: Callable[[], None]) -> None:
        """Call `callback`, after the handlers, whenever the store may have reached a newer version."""
        self._progress_callbacks.append(callback)

    def on_served(self, callback: Callable[[bool], None]) -> None:
        """Call `callback` when the server comes to serve an optional kind, or no longer does: plans may change."""
        self._served_callbacks.append(callback)

    def add_index(self, index: str, function: IndexFunction[T]) -> None:
        """`store.by_index(index, value)` finds the objects for which `function` yields `value`. At any time."""
        self._writer.add_index(index, function)

    async def run(self) -> None:
        """Follow the server until cancelled. Never raises for trouble with the server; it says so in `statistics`."""
        self._started = True
        looks, patience_s = 1, UNDEFINED_S_MIN
        while True:
            self._defined.clear()
            if await self._is_interrupted(self._follow(looks), patience_s):
                patience_s = min(2 * patience_s, UNDEFINED_S_MAX)
                continue
            patience_s = UNDEFINED_S_MIN
            self._undefined.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self._defined.wait()
            looks = LOOKS_MAX

    def look_again(self) -> None:
        """Its definition is there: it is served, or will be in a moment."""
        self._undefined.clear()
        self._defined.set()

    def be_asked_anew(self) -> None:
        """Its definition is gone. A server is known to keep the watches of such a kind open, for minutes.

        It is asked until it says so itself, or the definition is back: a busy one serves the kind for a while longer.
        """
        self._undefined.set()

    async def _is_interrupted(self, following: Coroutine[Any, Any, None], patience_s: float) -> bool:
        """Whether the definition went while its objects were followed, and the server said nothing of it."""
        work, undefined = asyncio.create_task(following), asyncio.create_task(self._undefined.wait())
        try:
            await asyncio.wait((work, undefined), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait((work,), timeout=patience_s)
            if work.done():
                work.result()
            return not work.done()
        finally:
            for task in (work, undefined):
                task.cancel()
            await asyncio.gather(work, undefined, return_exceptions=True)

    def take_in(self, event: Event[T]) -> None:
        """One event: first the store, then the handlers."""
        match event:
            case Put(obj):
                self._deliver(self._writer.put(obj))
            case Gone(obj):
                self._deliver(self._writer.gone(obj))
            case Progress(version):
                self._writer.progress(version)
                self._progressed()
            case InitPut(objects):
                self._writer.stage(objects)
            case InitStart():
                self._writer.stage_begin()
            case InitGone(obj):
                self._writer.unstage(obj)
            case InitDone(version):
                self._replace(version)
            case Trouble():
                self._report(event)

    def statistics(self) -> InformerStatistics:
        return InformerStatistics(
            kind=self.kind.resource.kind,
            selector=self.where,
            objects=len(self.store),
            version=self.store.version,
            synced=self.synced.is_set(),
            events=self._events,
            ignored=self._ignored,
            lists=self._lists,
            troubles=self._troubles,
            trouble=self._trouble,
        )

    def __repr__(self) -> str:
        state = self._trouble or ("synced" if self.synced.is_set() else "not synced")
        return f"<Informer of {self.kind.__name__}: {len(self.store)} objects, {state}>"

    async def _follow(self, looks: int) -> None:
        """Until the kind was found absent `looks` times in a row; for ever, if it must be there."""
        events = follow(
            self._client,
            self.kind,
            self.where,
            server=self._server,
            random=self._clock.random,
            silence_s_max=self._silence_s_max,
        )
        async with aclosing(events):
            async for event in events:
                self.take_in(event)
                if not self.is_absent:
                    looks = 1
                elif isinstance(event, Trouble):
                    looks -= 1
                    if looks == 0:
                        return

    def _deliver(self, changes: tuple[Change[T], ...]) -> None:
        self._events += 1
        if not changes:
            self._ignored += 1
        for change in changes:
            for handler in self._handlers:
                handler(change, Cause.WATCH)
        self._progressed()

    def _replace(self, version: str) -> None:
        changes = self._writer.swap(version)
        self._lists += 1
        cause = Cause.RELIST if self.synced.is_set() else Cause.INITIAL
        for change in changes:
            for handler in self._handlers:
                handler(change, cause)
        appeared, self.is_absent = self.is_absent, False
        self.synced.set()
        self._progressed()
        for callback in self._served_callbacks if appeared else ():
            callback(True)
        log.info("listed", kind=self.kind.resource.kind, objects=len(self.store), changes=len(changes), version=version)

    def _progressed(self) -> None:
        self._trouble = ""
        for callback in self._progress_callbacks:
            callback()

    def _report(self, trouble: Trouble) -> None:
        if self.optional and trouble.reason == NotFound.__name__:
            self._be_absent()
            return
        self._troubles += 1
        self._trouble = trouble.message
        log.warning(
            "watch interrupted",
            kind=self.kind.resource.kind,
            reason=trouble.reason,
            message=trouble.message,
            retry_s=round(trouble.retry_s, 1),
        )

    def _be_absent(self) -> None:
        """The definition is missing, or went: nothing of the kind exists."""
        if self.is_absent:
            return
        self.is_absent = True
        log.info("the server does not have this kind; taken as empty until it does", kind=self.kind.resource.kind)
        self._writer.stage_begin()
        changes = self._writer.swap(self.store.version)
        for change in changes:
            for handler in self._handlers:
                handler(change, Cause.RELIST)
        for callback in self._served_callbacks if self.synced.is_set() else ():
            callback(False)
        self.synced.set()
        self._progressed()


class Informers:
    """The process's informers: the same kind and selector is the same informer."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._server = Server()
        self._informers: dict[tuple[type[Object], Selector], Informer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._notices_definitions = False

    def of(
        self, kind: Kind[T], where: Selector = EVERYTHING, *, trim: Trim[T] | None = None, optional: bool = False
    ) -> Informer[T]:
        """The informer of this kind and selector. It has one `trim`, the first asker's: a second must ask for the same.

        One asked for while the others run starts at once: subscribe before the next await.
        """
        cls = class_of(kind)
        known: Informer[T] | None = self._informers.get((cls, where))
        if known is not None:
            if trim is not known.trim:
                raise ValueError(f"{cls.__name__} is cached already, trimmed otherwise: agree on one function")
            known.optional = known.optional and optional
            return known
        informer = Informer(
            self._client, cls, where, clock=self._clock, server=self._server, trim=trim, optional=optional
        )
        self._informers[cls, where] = informer
        if self._tasks is not None:
            self._start(informer)
        return informer

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(tuple(self._informers.values()))

    async def run(self) -> None:
        """Run all of them until cancelled, also those asked for later."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for informer in self:
                self._start(informer)
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks, self._notices_definitions = None, False

    async def synced(self) -> None:
        """Return once every informer asked for so far is synced. Put a deadline around it."""
        for informer in self:
            await informer.synced.wait()

    def statistics(self) -> tuple[InformerStatistics, ...]:
        return tuple(informer.statistics() for informer in self)

    def _start(self, informer: Informer[Any]) -> None:
        assert self._tasks is not None  # noqa: S101
        self._tasks.create_task(informer.run(), name=f"informer of {informer.kind.__name__}")
        if informer.optional and not self._notices_definitions:
            self._notices_definitions = True
            self._tasks.create_task(self._notice_definitions(), name="definitions of kinds")

    async def _notice_definitions(self) -> None:
        async with aclosing(defined(self._client, server=self._server, random=self._clock.random)) as definitions:
            async for told in definitions:
                for informer in self:
                    if informer.kind.resource.plural_and_group == told.name:
                        informer.look_again() if told.is_there else informer.be_asked_anew()
