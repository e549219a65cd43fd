"""Run controllers: start in order, work while we lead, stop cleanly.

    1. every watched kind is served and may be listed     otherwise one clear sentence and the end
    2. caches sync                                        ready from here on; standby keeps them warm
    3. the lease is taken                                 only now does anything get written
    4. controllers work                                   until `stop` is set
    5. passes end at an action boundary, events are sent, the lease is released, watches are closed

Losing the lease ends everything at once (LeaseLost): the process must exit, for another may lead already. Every task
belongs to a TaskGroup: when `run` has returned or raised, nothing of it is left running.
"""

import asyncio
import gc
import os
import signal
import socket
import uuid
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

import msgspec

from corral.engine.barrier import Barrier
from corral.engine.clock import Clock, system_clock
from corral.engine.controller import AnyController
from corral.engine.events import Recorder
from corral.engine.health import Address, serving
from corral.engine.informer import Informers
from corral.engine.lease import Election, LeaseLost
from corral.engine.logs import logger
from corral.engine.metrics import Metrics, barrier_metrics, cache_metrics, event_metrics, pass_metrics, queue_metrics
from corral.engine.object_metrics import object_metrics
from corral.engine.passes import Passes
from corral.engine.store import Key
from corral.engine.watchdog import LoopWatch
from corral.kube.client import Client, Selector
from corral.kube.errors import Forbidden, NotFound
from corral.kube.meta import Object

SYNC_S_MAX = 300.0
STOP_S_MAX = 20.0  # below the 30 s that a pod has by default
FLUSH_S_MAX = 5.0
STUCK_CHECKED_EVERY_S = 60.0

R = TypeVar("R")


class CannotStart(Exception):
    """The cluster is not ready for these controllers; the message says what to do about it."""


class LeaseAddress(msgspec.Struct, frozen=True):
    namespace: str
    name: str = "corral"


GC_OBJECTS = 20_000  # new ones between two looks; Python's own 700 are a dozen events


def freeze_heap() -> None:
    """Take the synced caches out of the garbage collector's sight: walking them would stop the loop for long.

    And let it look less often at what comes after them: an event brings some fifty objects, and almost none of them is
    in a circle that only it could free.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_OBJECTS)


class Manager:
    def __init__(
        self,
        client: Client,
        controllers: Iterable[AnyController],
        *,
        clock: Clock,
        metrics: Metrics,
        lease: LeaseAddress | None = None,
        identity: str = "",
        on_synced: Callable[[], None] = freeze_heap,
        barrier: Callable[[], Barrier[Key]] = Barrier,
    ) -> None:
        """Without a lease there is no election: for tests and a single developer's machine."""
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._on_synced = on_synced
        self._lease_name = lease.name if lease else ""
        self._log = logger()
        identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self.election = (
            Election(client, clock, name=lease.name, namespace=lease.namespace, identity=identity) if lease else None
        )
        writer = client.fenced(self.election.may_write) if self.election else client
        self.informers = Informers(client, clock)
        self.recorder = Recorder(writer, clock, instance=identity)
        controllers = tuple(controllers)
        _check_names([controller.name for controller in controllers])
        self.passes = tuple(
            Passes(
                controller,
                client=writer,
                informers=self.informers,
                tell=self.recorder.tell,
                metrics=metrics,
                clock=clock,
                barrier=barrier(),
            )
            for controller in controllers
        )
        self._add_metrics()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Raises CannotStart, LeaseLost, or what the server said at the start."""
        await self._check_kinds()
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self.informers.run(), name="informers"),
                    tasks.create_task(self.recorder.run(), name="events"),
                    tasks.create_task(self._look_for_stuck_keys(), name="watchdog"),
                ]
                await self._lead(stop, tasks)
                for task in background:
                    task.cancel()
        except BaseExceptionGroup as group:
            raise _first_of(LeaseLost, group) or _first_of(CannotStart, group) or group from None

    def missing(self) -> tuple[str, ...]:
        """What is missing to be ready, as sentences."""
        return tuple(
            f"the cache of {cache.kind} is not synced" + (f": {cache.trouble}" if cache.trouble else "")
            for cache in self.informers.statistics()
            if not cache.synced
        )

    async def _check_kinds(self) -> None:
        watched = {
            (watch.kind, watch.where.namespace)
            for p in self.passes
            for watch in p.controller.watched
            if not watch.optional
        }
        for kind, namespace in sorted(watched, key=lambda pair: (pair[0].resource.plural_and_group, pair[1])):
            await _check_kind(self._client, kind, namespace)

    async def _lead(self, stop: asyncio.Event, tasks: asyncio.TaskGroup) -> None:
        if not await _unless(stop, self._sync()):
            return
        self._on_synced()
        self._log.info("caches synced", objects=sum(cache.objects for cache in self.informers.statistics()))
        if self.election is None:
            await self._work(stop, tasks)
        elif await _unless(stop, self.election.acquire()):
            self._log.info("leading", identity=self.election.statistics().identity)
            self._metrics.leads.labels(self._lease_name).set(1)
            holding = tasks.create_task(self.election.hold(), name="lease")
            await self._work(stop, tasks)
            holding.cancel()
            await asyncio.wait((holding,))  # two requests about one lease would be in each other's way
            await self.election.release()
            self._metrics.leads.labels(self._lease_name).set(0)

    async def _sync(self) -> None:
        try:
            async with asyncio.timeout(SYNC_S_MAX):
                await self.informers.synced()
        except TimeoutError:
            raise CannotStart(f"not synced after {SYNC_S_MAX:g} s: {'; '.join(self.missing())}") from None

    async def _work(self, stop: asyncio.Event, tasks: asyncio.TaskGroup) -> None:
        working = [tasks.create_task(p.run(), name=p.controller.name) for p in self.passes]
        await stop.wait()
        self._log.info("stopping")
        for p in self.passes:
            p.stop("the process is stopping")
        _, late = await asyncio.wait(working, timeout=STOP_S_MAX)
        for task in late:
            self._log.warning("cancelled within an action", controller=task.get_name(), after_s=STOP_S_MAX)
            task.cancel()
        if late:
            await asyncio.wait(late)
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S_MAX):
                await self.recorder.flush()

    async def _look_for_stuck_keys(self) -> None:
        while True:
            await asyncio.sleep(STUCK_CHECKED_EVERY_S)
            for p in self.passes:
                p.report_stuck()

    def _add_metrics(self) -> None:
        metrics = self._metrics
        metrics.add_source(lambda: pass_metrics({p.controller.name: p.tally for p in self.passes}))
        metrics.add_source(lambda: queue_metrics({p.controller.name: p.queue.statistics() for p in self.passes}))
        metrics.add_source(lambda: barrier_metrics({p.controller.name: p.barrier.statistics() for p in self.passes}))
        metrics.add_source(lambda: cache_metrics(self.informers.statistics()))
        metrics.add_source(lambda: event_metrics(self.recorder.statistics()))
        metrics.add_source(lambda: object_metrics(obj for p in self.passes for obj in p.objects()))


async def run_until_signal(
    client: Client,
    controllers: Iterable[AnyController],
    *,
    metrics: Metrics,
    lease: LeaseAddress | None,
    health: Address | None,
) -> None:
    """What `corral run` runs: until SIGTERM or SIGINT, with health endpoints and a watch over the event loop.

    Give the client `observer=metrics`, so that its requests are counted.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    manager = Manager(client, controllers, clock=system_clock(), metrics=metrics, lease=lease)
    async with AsyncExitStack() as stack:
        stack.enter_context(LoopWatch(loop, on_lag=metrics.loop_lag_s.observe))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
            stack.callback(loop.remove_signal_handler, number)
        if health is not None:
            try:
                port = await stack.enter_async_context(serving(health, manager.missing, metrics.registry))
            except OSError as error:
                why = f"cannot answer on port {health.port}: {error.strerror}; choose another one"
                raise CannotStart(why) from error
            logger().info("answering", port=port, pid=os.getpid())
        await manager.run(stop)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether `work` was done before `stop` was set; it is cancelled otherwise."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return working.done()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def _check_kind(client: Client, kind: type[Object], namespace: str) -> None:
    resource = kind.resource
    try:
        await client.list_page(kind, Selector(namespace=namespace), limit=1)
    except NotFound:
        raise CannotStart(
            f"the server has no {resource.plural_and_group} of version {resource.version}: install its definition "
            "(for kinds of Corral: corral crds | kubectl apply --server-side -f -)"
        ) from None
    except Forbidden as error:
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise CannotStart(
            f"not allowed to list {resource.plural_and_group} {where}; grant get, list and watch ({error.message})"
        ) from None


def _check_names(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two controllers are called {twice[0]}: a name is a field manager and must be unique")


def _first_of(kind: type[Exception], group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    found: BaseException | None = group.subgroup(kind)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
