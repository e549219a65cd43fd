"""What the author of a kind writes: observe, plan, report. (The third step, act, is the engine's.)

    observe(key, read)         -> Snapshot or None   reads caches through `read`, and outside systems through clients
                                                     given to the constructor; everything in the snapshot is frozen
    plan(snapshot)             -> Plan               pure: no I/O, no clock, no randomness; the decision
    perform(call, snapshot)                          optional: carries out an `Outside` action of the plan
    report(snapshot, outcome)  -> status or None     pure: what the status should say; written only when it differs

Guarantees. At most one pass per key at a time. Before `observe`, the caches have seen every write of the key's earlier
passes (or are late by 30 s, which the log tells). A pass ends within the controller's deadline. `plan` is called once a
pass, and by `corral plan | explain | render` in just the same way.

Assumptions. `observe` reads Kubernetes only through `read` (that is what lets `corral plan -f` lay a manifest over the
cluster). A key says which object, never what happened to it: passes are level-triggered and events are coalesced.
"""

from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from corral.engine.actions import Action
from corral.engine.plan import Plan
from corral.engine.store import Key
from corral.kube.client import Client
from corral.kube.meta import EMPTY, Object

K_co = TypeVar("K_co", bound=Object, covariant=True)
T = TypeVar("T", bound=Object)


class Reader(Protocol):
    """One consistent look at the caches. Objects are frozen and shared: keep them, compare them, never copy them.

    A kind that the controller did not declare (`for_`, `owns`, `watches`) raises `Undeclared`: reading it would be
    reading nothing.
    """

    @property
    def now(self) -> datetime:
        """The time of this look, the same for the whole pass. A Snapshot carries it, so `plan` needs no clock."""
        ...

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None: ...

    def list(self, kind: type[T], namespace: str = "", labels: Mapping[str, str] = EMPTY) -> tuple[T, ...]:
        """All of a kind, sorted by namespace and name; `labels` must all be equal."""
        ...

    def by_index(self, kind: type[T], index: str, value: Hashable) -> tuple[T, ...]:
        """What an index declared with `.indexes` files under `value`."""
        ...

    def owned(self, kind: type[T], owner: Object) -> tuple[T, ...]:
        """The objects of a kind declared with `.owns` whose controller is `owner`, by uid."""
        ...

    def serves(self, kind: type[Object]) -> bool:
        """Whether the server has the kind: False only for one declared `optional` whose definition is missing."""
        ...


class Undeclared(Exception):
    """Our own mistake: a reconciler reads a kind or an index that its controller does not declare."""


class Snapshot(Protocol[K_co]):
    """What every snapshot has; a kind's own is a frozen Struct with these two fields and more.

    The Protocol's members are read-only properties so that frozen Structs match.
    """

    @property
    def object(self) -> K_co: ...
    @property
    def now(self) -> datetime: ...


ResultState = Literal["done", "refused", "failed", "skipped"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one action.

    done      the server did it, or it was so already
    refused   the server or a fence said "not this, not now": conflict, name taken, disruption budget, not the leader
    failed    it went wrong: invalid, forbidden, unreachable, ...
    skipped   an earlier action ended the attempt, or the process is stopping
    """

    action: Action
    state: ResultState
    reason: str = ""
    message: str = ""
    changed: bool = False


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt ended early, in words for the condition.

    `stalled`: a retry cannot help, a person must act (an invalid object, a missing right, a name taken by another).
    `alone`: it says nothing about other actions; those of a plan's other parts go ahead.
    """

    reason: str
    message: str
    stalled: bool = False
    alone: bool = False
    retry_after_s: float | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How act went. Without a problem every action is done."""

    plan: Plan
    results: tuple[Result, ...] = ()
    problem: Problem | None = None
    version: str = ""  # of the reconciled object, if an action changed it

    @property
    def changed_anything(self) -> bool:
        return any(result.changed for result in self.results)


S = TypeVar("S", bound="Snapshot[Any]")


@runtime_checkable
class Performer(Protocol):
    """What a reconciler has besides, if its plans contain `Outside` actions."""

    async def perform(self, call: Any, snapshot: Any, /) -> None:
        """Do it within the pass's deadline, or raise OutsideFailed. Called in the order of the plan's actions."""
        ...


@runtime_checkable
class UsesClient(Protocol):
    """What a reconciler has besides, if it must look into pods (logs, exec), which no cache can show."""

    def use(self, client: Client, /) -> None:
        """Called once, before the first `observe`. Never for `corral render`, which has no cluster."""
        ...


@runtime_checkable
class MakesLater(Protocol):
    """What a reconciler has besides, if some of what it makes waits until the rest is ready."""

    def later(self, snapshot: Any, /) -> Plan:
        """What is made then; for `corral render`, which shows the whole."""
        ...


class Reconciler(Protocol[S]):
    """See the module's docstring. `S` is the kind's own snapshot: a frozen Struct with at least `object` and `now`."""

    async def observe(self, key: Key, read: Reader) -> S | None:
        """Gather what the decision needs. None: the object does not exist, there is nothing to decide."""
        ...

    def plan(self, snapshot: S, /) -> Plan: ...

    def report(self, snapshot: S, outcome: Outcome, /) -> msgspec.Struct | None:
        """The status to show; None when this kind has none. `corral.engine.status` has the standard conditions."""
        ...
