"""One controller at work: keys come from the queue, and each pass is observe, plan, act, report, in that order.

What happens after a pass:

    a problem              tried again with backoff, or when the problem says; the condition tells it
    a plan that acted      looked at again when its changes are seen, or soon: the next plan should be empty
    `again_after_s`        looked at again then
    an empty plan          nothing until something changes, or the periodic resync

A bug in a reconciler (any exception that is not the world's) costs its own key a retry and nobody else anything.

Stopping. `stop` ends observations at once, since nothing is under way in them; a pass that acts ends after the action
it is at. `run` returns when the last pass has ended.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from corral.engine.act import act
from corral.engine.actions import EmitEvent, summaries, target
from corral.engine.actor import Actor, Perform, performs_nothing
from corral.engine.barrier import Awaited, Barrier
from corral.engine.clock import Clock
from corral.engine.controller import AnyController, Watch, decided, with_finalizer
from corral.engine.failures import STALLED_RETRY_S, failure_of
from corral.engine.informer import Cause, Informer, Informers
from corral.engine.logs import begin_pass, described, logger
from corral.engine.metrics import Metrics
from corral.engine.plan import NOTHING
from corral.engine.queue import TIMER_S_MIN, Lane, QueueClosed, Taken, WorkQueue
from corral.engine.reader import LastingReader, StoreReader, index_functions
from corral.engine.reconciler import Outcome, Performer, Problem, UsesClient
from corral.engine.reporting import UNTOLD_REASONS, Reporting
from corral.engine.store import Added, Change, Deleted, Key, Store, Updated, key_of
from corral.engine.tally import PassTally
from corral.engine.watchdog import Progress, finding
from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.meta import Object

BARRIER_S_MAX = 30.0
DECISIVE_S_MAX = 90.0  # by then a watch that fell silent was noticed, and begun anew
ACTED_AGAIN_S = 0.1  # where no cache is going to show the change
BUSY_PASSES_MAX = 5  # acting passes in a row before a key that never gets done is slowed down


class Passes:
    def __init__(
        self,
        controller: AnyController,
        *,
        client: Client,
        informers: Informers,
        tell: Callable[[str, EmitEvent], None],
        metrics: Metrics,
        clock: Clock,
        barrier: Barrier[Key] | None = None,
    ) -> None:
        self.controller = controller
        self._client = client
        self._tell = tell
        self._metrics = metrics
        self.tally = PassTally()
        self._clock = clock
        self.queue: WorkQueue[Key] = WorkQueue(
            now_s=clock.monotonic_s, random=clock.random, backoff=controller.backoff, rate=controller.rate
        )
        self.barrier: Barrier[Key] = barrier or Barrier()
        self._reporting = Reporting(controller, client=client, queue=self.queue, barrier=self.barrier, clock=clock)
        self._progress = Progress(stuck_after_s=controller.stuck_after_s)
        self._stores: dict[type[Object], Store[Any]] = {}
        self._informers: dict[type[Object], Informer[Any]] = {}
        self._mapping = LastingReader(controller, self._stores, clock.wall, is_absent=self._is_absent)
        self._busy: dict[Key, int] = {}
        self._held_s: dict[Key, float] = {}  # since when
        self._scopes: set[asyncio.Timeout] = set()
        self._stopping = ""
        self._log = logger(controller=controller.name).bind()  # once: to bind with each line costs as much as the line
        metrics.add_controller(controller.name, controller.workers)
        reconciler = controller.reconciler
        self._acts_outside = reconciler if isinstance(reconciler, Performer) else None
        if isinstance(reconciler, UsesClient):
            reconciler.use(client)
        for watch in controller.watched:
            self._connect(watch, informers.of(watch.kind, watch.where, optional=watch.optional))

    def objects(self) -> Iterable[Object]:
        """All of the controller's own kind, as far as the cache knows them."""
        return iter(self._stores[self.controller.kind])

    def _connect(self, watch: Watch, informer: Informer[Any]) -> None:
        if watch.kind not in self._stores:
            self._stores[watch.kind] = informer.store
            self._informers[watch.kind] = informer
            resource = watch.kind.resource
            self.barrier.add_cache(resource, informer.store)
            informer.on_progress(self.barrier.progressed)
            if watch.optional:
                informer.on_served(
                    lambda served: self._look_at_all(f"{resource.kind} is {'served now' if served else 'gone'}")
                )
            for name, function in index_functions(self.controller, watch.kind).items():
                informer.add_index(name, function)
        reasons = {type_: f"{watch.kind.resource.kind} {type_.__name__.lower()}" for type_ in (Added, Updated, Deleted)}
        informer.subscribe(lambda change, cause: self._on_change(watch, change, cause, reasons[type(change)]))

    def _on_change(self, watch: Watch, change: Change[Any], cause: Cause, reason: str) -> None:
        old, new = _old_and_new(change)
        if cause is Cause.WATCH and not watch.when(old, new):
            return
        lane = _lane(change, cause, is_own=watch.kind is self.controller.kind)
        keys = {key: None for obj in (old, new) if obj is not None for key in watch.to(obj, self._mapping)}
        for key in keys:
            self.queue.add(key, lane=self._lane_beside_work(key, lane), reason=reason)

    def _lane_beside_work(self, key: Key, lane: Lane) -> Lane:
        """What changes while we work for a key is most often our own doing."""
        is_at_work = self.queue.is_running(key) or self.barrier.is_held(key)
        return Lane.EFFECT if lane is Lane.CHANGE and is_at_work else lane

    async def run(self) -> None:
        """Until `stop`. One worker is one pass at a time; the queue keeps a key from being in two."""
        async with AsyncExitStack() as sources, asyncio.TaskGroup() as workers:
            for source in self.controller.sources:
                await sources.enter_async_context(source(self._enqueue))
            for _ in range(self.controller.workers):
                workers.create_task(self._work())

    def _enqueue(self, key: Key, reason: str) -> None:
        if not self._stopping:
            self.queue.add(key, reason=reason)

    def _look_at_all(self, reason: str) -> None:
        for obj in self._stores[self.controller.kind]:
            self.queue.add(key_of(obj), lane=Lane.RESYNC, reason=reason)

    def stop(self, why: str) -> None:
        self._stopping = why
        self.queue.close(drain=False)
        now_s = asyncio.get_running_loop().time()
        for scope in self._scopes:
            scope.reschedule(now_s)

    def report_stuck(self) -> None:
        """Tell about the keys that have made no progress for too long. Called every now and then."""
        for stuck in self._progress.newly_stuck(self._clock.monotonic_s()):
            self._log.warning("no progress", key=stuck.key, since_s=round(stuck.since_s), finding=stuck.finding)
            obj = self._stores[self.controller.kind].find(stuck.key)
            if obj is not None:
                message = f"no progress for {stuck.since_s / 60:.0f} min: {stuck.finding}"
                self._emit(EmitEvent(regarding=target(obj), type="Warning", reason="NoProgress", message=message))
        self._metrics.stuck_keys.labels(self.controller.name).set(self._progress.stuck_count())

    async def _work(self) -> None:
        while True:
            try:
                taken = await self.queue.take()
            except QueueClosed:
                return
            try:
                if not self._is_held(taken):
                    await self._measured_pass(taken)
            finally:
                self.queue.done(taken.key)

    def _is_held(self, taken: Taken[Key]) -> bool:
        """A key whose writes the caches have yet to show waits for them; no worker waits with it."""
        key, awaited = taken.key, self.barrier.pending(taken.key)
        now_s = self._clock.monotonic_s()
        since_s = self._held_s.get(key, now_s)
        if awaited and now_s - since_s < self._held_s_max(awaited) - TIMER_S_MIN:
            self._hold(key, taken.lane)
            return True
        self._held_s.pop(key, None)
        self.barrier.let_go(key)
        self.tally.barrier_wait.note(now_s - since_s)
        if awaited:
            self.barrier.give_up(key)
            begin_pass(self.controller.name, key)
            self._log.warning("caches are late; observing anyway", awaited=[str(one) for one in awaited])
        return False

    def _held_s_max(self, awaited: Sequence[Awaited]) -> float:
        """How long an old view is worse than none: longer, if it lacks what this very pass decides by."""
        is_decisive = self.controller.remembered is not None
        own = self.controller.kind.resource
        return DECISIVE_S_MAX if is_decisive and any(one.resource == own for one in awaited) else BARRIER_S_MAX

    def _hold(self, key: Key, urgent: Lane) -> None:
        lane = urgent if urgent is Lane.PERSON else Lane.EFFECT
        now_s = self._clock.monotonic_s()
        since_s = self._held_s.setdefault(key, now_s)
        late_s = since_s + self._held_s_max(self.barrier.pending(key))
        self.barrier.hold(key, lambda: self.queue.add(key, lane=lane, reason="its changes are seen"))
        self.queue.add(key, lane=lane, after_s=late_s - now_s, reason="caches are late")

    async def _measured_pass(self, taken: Taken[Key]) -> None:
        tally = self.tally
        tally.queue_wait.note(taken.waited_s)
        started_s = self._clock.monotonic_s()
        begin_pass(self.controller.name, taken.key)
        tally.under_way += 1
        try:
            result = await self._pass(taken.key)
        finally:
            tally.under_way -= 1
        tally.length.note(self._clock.monotonic_s() - started_s)
        tally.results[result] += 1

    async def _pass(self, key: Key) -> str:
        """One pass and what follows from it; the word is the `result` label of controller-runtime's counter."""
        try:
            snapshot = await self._observe(key)
            if snapshot is None:
                self._forget(key)
                return "success"
            outcome = await self._decide_and_act(key, snapshot)
        except _GivenUp:
            if self._stopping:
                return "requeue"
            message = f"observing {key} took longer than {self.controller.deadline_s:g} s"
            outcome = Outcome(plan=NOTHING, problem=Problem(reason="DeadlinePassed", message=message))
        except KubeError as error:
            outcome = Outcome(plan=NOTHING, problem=failure_of(error).problem)
        except Exception as error:
            outcome = Outcome(plan=NOTHING, problem=self._bug(error))
        else:
            return self._settle(key, outcome)
        present = self._stores[self.controller.kind].find(key)
        return self._settle(key, await self._reporting.report_unobserved(key, present, outcome))

    async def _observe(self, key: Key) -> Any:
        """A wait that may be given up at any moment, because nothing is written in it. _GivenUp when it is."""
        if self._stopping:
            raise _GivenUp
        scope = asyncio.timeout(self.controller.deadline_s)
        try:
            async with scope:
                self._scopes.add(scope)
                return await self.controller.reconciler.observe(key, self._reader())
        except TimeoutError:
            if not scope.expired():
                raise  # the reconciler's own
            raise _GivenUp from None
        finally:
            self._scopes.discard(scope)

    async def _decide_and_act(self, key: Key, snapshot: Any) -> Outcome:
        obj: Object = snapshot.object
        self.queue.repeat(key, every_s=self.controller.resync_s, reason="resync")
        try:
            plan = with_finalizer(self.controller, obj, decided(self.controller, snapshot))
        except Exception as error:
            return await self._report(key, snapshot, Outcome(plan=NOTHING, problem=self._bug(error)))
        if not plan.actions:
            return await self._report(key, snapshot, Outcome(plan=plan))
        deadline_s = self._clock.monotonic_s() + self.controller.deadline_s
        actor = Actor(
            client=self._client,
            manager=self.controller.name,
            key=key,
            journal=self.barrier,
            tell=self._emit,
            stop=lambda: self._stopping or self._late(deadline_s),
            superseded=lambda: self._asked_otherwise(key, obj),
            perform=self._performer(snapshot),
            perform_s_max=self.controller.deadline_s,
        )
        for line in summaries(plan.actions):
            self._log.info("planned", summary=line)
        return await self._report(key, snapshot, await act(plan, actor, target(obj)))

    def _performer(self, snapshot: Any) -> Perform:
        performer = self._acts_outside
        return performs_nothing if performer is None else lambda call: performer.perform(call, snapshot)

    async def _report(self, key: Key, snapshot: Any, outcome: Outcome) -> Outcome:
        follows = self._busy.get(key, 0) < BUSY_PASSES_MAX
        return await self._reporting.report(key, snapshot, outcome, follows=follows)

    def _settle(self, key: Key, outcome: Outcome) -> str:
        """What follows from a pass."""
        self._progress.note(key, finding(outcome), self._clock.monotonic_s())
        plan, problem = outcome.plan, outcome.problem
        if self._stopping:
            return "requeue"
        if problem is not None and problem.reason == "Superseded":
            self.queue.add(key, reason="asked otherwise")
            return "requeue"
        if problem is not None:
            self._after_problem(key, problem)
            if outcome.changed_anything and self._is_busy(key):
                self._look_at_effects(key)
            return "error"
        if plan.again_after_s is not None:
            self.queue.add(key, after_s=plan.again_after_s, reason="again")
        elif any(wait.stalled for wait in plan.waits):
            self.queue.add(key, after_s=STALLED_RETRY_S, reason="perhaps someone acted")
        if plan.is_empty:
            self._busy.pop(key, None)
            self.queue.forget(key)
            return "success" if plan.again_after_s is None else "requeue_after"
        if self._is_busy(key) and outcome.changed_anything:
            self.queue.forget(key)
            self._look_at_effects(key)
        else:
            self.queue.retry(key, reason="acted in vain")
        return "requeue"

    def _is_busy(self, key: Key) -> bool:
        """One more pass that acts. Where there are too many in a row, somebody undoes what we do."""
        self._busy[key] = self._busy.get(key, 0) + 1
        return self._busy[key] <= BUSY_PASSES_MAX

    def _look_at_effects(self, key: Key) -> None:
        if self.barrier.is_pending(key):
            self._hold(key, Lane.EFFECT)
        else:
            self.queue.add(key, lane=Lane.EFFECT, after_s=ACTED_AGAIN_S, reason="acted")

    def _after_problem(self, key: Key, problem: Problem) -> None:
        name = self.controller.name
        self._metrics.errors.labels(name).inc()
        self._metrics.terminal_errors.labels(name).inc(problem.stalled)
        if problem.retry_after_s is None:
            retry_s = self.queue.retry(key, reason=problem.reason)
        else:
            retry_s = problem.retry_after_s
            self.queue.add(key, after_s=retry_s, reason=problem.reason)
        level = "info" if problem.reason in UNTOLD_REASONS else "warning"
        getattr(self._log, level)(
            "pass ended early", reason=problem.reason, message=problem.message, retry_s=round(retry_s, 3)
        )

    def _bug(self, error: Exception) -> Problem:
        self._metrics.panics.labels(self.controller.name).inc()
        self._log.error("bug in a reconciler", **described(error))
        message = f"{self.controller.name} has a bug: {type(error).__name__}; its log has the details"
        return Problem(reason="InternalError", message=message)

    def _forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.queue.stop_repeating(key)
        self.barrier.forget(key)
        self._progress.forget(key)
        self._reporting.forget(key)
        self._busy.pop(key, None)
        self._held_s.pop(key, None)

    def _late(self, deadline_s: float) -> str:
        return (
            f"the pass took longer than {self.controller.deadline_s:g} s"
            if self._clock.monotonic_s() > deadline_s
            else ""
        )

    def _asked_otherwise(self, key: Key, obj: Object) -> str:
        present = self._stores[self.controller.kind].find(key)
        same = present is not None and present.metadata.generation == obj.metadata.generation
        return "" if same else "it was changed or deleted meanwhile"

    def _emit(self, event: EmitEvent) -> None:
        self._tell(self.controller.name, event)

    def _reader(self) -> StoreReader:
        return StoreReader(self.controller, self._stores, self._clock.wall(), is_absent=self._is_absent)

    def _is_absent(self, kind: type[Object]) -> bool:
        return self._informers[kind].is_absent


class _GivenUp(Exception):
    """An observation took too long, or we are stopping."""


def _old_and_new(change: Change[Any]) -> tuple[Object | None, Object | None]:
    match change:
        case Added(new):
            return None, new
        case Updated(old, new):
            return old, new
        case Deleted(old):
            return old, None


def _lane(change: Change[Any], cause: Cause, *, is_own: bool) -> Lane:
    """A person's wish is a new object, a new generation or a deletion of the controller's own kind.

    One that nobody has looked at yet comes before what was as desired when the last operator stopped: in turn with
    changes, or those of the first objects would be followed to their end before the last ones are begun.
    """
    if cause is Cause.INITIAL:
        return Lane.CHANGE if is_own and _is_unobserved(change) else Lane.RESYNC
    if not is_own:
        return Lane.CHANGE
    match change:
        case Updated(old, new):
            before, after = old.metadata, new.metadata
            asked = (after.generation, after.deletion_timestamp) != (before.generation, before.deletion_timestamp)
            return Lane.PERSON if asked else Lane.CHANGE
        case _:
            return Lane.PERSON


def _is_unobserved(change: Change[Any]) -> bool:
    _, obj = _old_and_new(change)
    observed = getattr(getattr(obj, "status", None), "observed_generation", None)
    return obj is not None and observed is not None and observed != obj.metadata.generation
