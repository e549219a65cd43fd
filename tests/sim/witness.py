"""Around a NodeSet's controller: what its plans list, what it then does, and whether the two are the same."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import msgspec

from corral.engine import EmitEvent, Outcome, Outside, OutsideFailed, Plan, summary_lines
from corral.engine.controller import AnyController, Source, with_finalizer
from corral.engine.store import Key
from corral.kinds.nodeset.plan import plan
from corral.kube.errors import KubeError
from tests.sim.deeds import LOOKS_AT, about, listed, of_action
from tests.sim.service import breach_of

Decide: TypeAlias = Callable[[Any], Plan]


class Witness:
    """Around a NodeSet's reconciler: knows what its plans list, what it does, and that what it remembers changes none.

    `decide`: who decides instead, to see whether that is found out. `told`: is given what people are told.
    """

    def __init__(
        self,
        around: AnyController,
        broken: Callable[[str], None],
        decide: Decide | None,
        told: Callable[[EmitEvent], None] = lambda _event: None,
    ) -> None:
        inner: Any = around.reconciler
        self._told = told
        self._controller, self._inner, self._broken, self._decide = around, inner, broken, decide
        self.seen: dict[str, Any] = {}  # by NodeSet, as its last plan saw it
        self._listed: dict[str, tuple[Plan, frozenset[str]]] = {}  # by NodeSet
        self._deeds: list[str] = []
        self._begun: dict[str, int] = {}  # how many deeds there were before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def plan(self, snapshot: Any, /) -> Plan:
        with self._hears_of_bugs():
            decided: Plan = (self._decide or self._inner.plan)(snapshot)
        anew = plan(msgspec.structs.replace(snapshot, before=None))
        if decided != anew and self._decide is None:
            self._broken(f"what was remembered changes a plan: {summary_lines(decided)}, anew: {summary_lines(anew)}")
        if breach := breach_of(snapshot, decided):
            self._broken(breach)
        name = snapshot.object.metadata.name
        self.seen[name] = snapshot
        whole = with_finalizer(self._controller, snapshot.object, decided)
        self._listed[name], self._begun[name] = (whole, frozenset(listed(whole))), len(self._deeds)
        return decided

    async def observe(self, key: Any, read: Any) -> Any:
        with self._hears_of_bugs():
            return await self._inner.observe(key, read)

    def report(self, snapshot: Any, outcome: Outcome, /) -> Any:
        self._was_done(snapshot.object.metadata.name, outcome)
        return self._inner.report(snapshot, outcome)

    async def perform(self, call: Any, snapshot: Any, /) -> None:
        with self._hears_of_bugs():
            await self._inner.perform(call, snapshot)

    @contextmanager
    def _hears_of_bugs(self) -> Iterator[None]:
        """The engine would try again for ever, and say that its log has the details."""
        try:
            yield
        except (KubeError, OutsideFailed):
            raise
        except Exception as error:
            self._broken(f"has a bug: {error!r}")
            raise

    def does(self, deed: str) -> None:
        if not deed.startswith(LOOKS_AT) and not any(deed in words for _, words in self._listed.values()):
            self._broken(f"it does what no plan of its lists: {deed}")
        self._deeds.append(deed)

    def _was_done(self, name: str, outcome: Outcome) -> None:
        """Everything that was listed, unless there was a problem; what is said to be done was asked for."""
        whole, _ = self._listed[name]
        if outcome.plan != whole or tuple(result.action for result in outcome.results) != whole.actions:
            self._broken(f"what is reported of {name} is not what was planned: {outcome.plan}")
        undone = [of_action(result.action) for result in outcome.results if result.state != "done"]
        if undone and outcome.problem is None:
            self._broken(f"without any problem it has left undone: {undone}")
        deeds = set(self._deeds[self._begun[name] :])
        for result in outcome.results:
            if isinstance(result.action, EmitEvent) and result.state == "done":
                self._told(result.action)
            word = of_action(result.action)
            is_seen = not word or word in deeds
            if isinstance(result.action, Outside):
                is_seen |= f"{LOOKS_AT} {about(result.action.call)}" in deeds
            if result.state == "done" and not is_seen:
                self._broken(f"it says it did what nobody was asked for: {word}")


def in_order(source: Source) -> Source:
    """Whom news of Slurm bring back, is brought back by name: a set's order is not the seed's but the process's."""

    @asynccontextmanager
    async def ordered(enqueue: Callable[[Key, str], None]) -> AsyncIterator[None]:
        waiting: dict[Key, str] = {}

        def flush() -> None:
            for key in sorted(waiting):
                enqueue(key, waiting.pop(key))

        def gather(key: Key, reason: str) -> None:
            if not waiting:
                asyncio.get_running_loop().call_soon(flush)
            waiting[key] = reason

        async with source(gather):
            yield

    return ordered
