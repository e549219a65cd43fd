"""The declaration of a controller: which kind, what it watches, how events become keys.

    Controller.for_(Toy, ToyReconciler())
        .owns(ConfigMap)
        .watches(Secret, to=toys_that_mention)
        .indexes(Toy, "secret", lambda toy: (toy.spec.secret,))
        .finalizer("toys.example.dev/cleanup")

A Controller is a frozen value; each method returns a new one. It runs nothing: `corral.engine.manager` runs it, and
`corral plan | explain | render` read the same declaration to know what to list.
"""

from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from corral.engine.actions import AddFinalizer, target
from corral.engine.children import manager_name
from corral.engine.plan import Plan, Wait
from corral.engine.queue import BACKOFF, Backoff, RateLimit
from corral.engine.reconciler import Reader, Reconciler, S, Snapshot
from corral.engine.store import Key, key_of
from corral.kube.client import Selector
from corral.kube.meta import Object

K = TypeVar("K", bound=Object)
W = TypeVar("W", bound=Object)

Mapper: TypeAlias = Callable[[W, Reader], Iterable[Key]]
"""Which keys an event about another object concerns. Called for the old and the new state of a changed object."""

Predicate: TypeAlias = Callable[[W | None, W | None], bool]
"""Whether a change (old, new) is worth a pass. None: it did not exist before, or does not exist any more."""

EVERYTHING = Selector()


def any_change(_old: Object | None, _new: Object | None) -> bool:
    return True


def generation_changed(old: Object | None, new: Object | None) -> bool:
    """Not a change of status only. Metadata that asks for work counts: deletion, finalizers, annotations, labels."""
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (
        before.uid != after.uid
        or before.generation != after.generation
        or before.deletion_timestamp != after.deletion_timestamp
        or before.finalizers != after.finalizers
        or before.annotations != after.annotations
        or before.labels != after.labels
    )


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One kind whose changes bring keys into the queue."""

    kind: type[Object]
    to: Mapper[Any]
    where: Selector = EVERYTHING
    when: Predicate[Any] = any_change
    owned: bool = False
    optional: bool = False


class Index(msgspec.Struct, frozen=True, kw_only=True):
    kind: type[Object]
    name: str
    of: Callable[[Any], Iterable[Hashable]]


Source: TypeAlias = Callable[[Callable[[Key, str], None]], AbstractAsyncContextManager[object]]
"""Something outside Kubernetes that brings keys back: called with `enqueue(key, reason)`, open while we lead."""


class Controller(msgspec.Struct, Generic[K, S], frozen=True, kw_only=True):
    """See the module's docstring.

    `name` is the field manager of everything it applies, the controller label of its metrics, and the reporting
    controller of its events. Two controllers never share one.
    """

    kind: type[K]
    reconciler: Reconciler[S]
    name: str
    watched: tuple[Watch, ...]
    indexed: tuple[Index, ...] = ()
    sources: tuple[Source, ...] = ()
    finalizer_name: str = ""
    remembered: Callable[[Any], object] | None = None
    is_patient: bool = False
    workers: int = 4
    resync_s: float = 10 * 3600.0  # a safety net only; controller-runtime's default
    deadline_s: float = 120.0  # for one pass, from observe to report
    stuck_after_s: float = 900.0  # the watchdog reports a key that makes no progress for so long
    rate: RateLimit | None = None  # of passes, over all keys; what a person asks for does not wait for it
    backoff: Backoff = BACKOFF  # of one key, after a problem

    @classmethod
    def for_(
        cls,
        kind: type[K],
        reconciler: Reconciler[S],
        *,
        name: str = "",
        where: Selector = EVERYTHING,
        when: Predicate[K] = generation_changed,
        workers: int = 4,
        resync_s: float = 10 * 3600.0,
        deadline_s: float = 120.0,
        stuck_after_s: float = 900.0,
        rate: RateLimit | None = None,
        backoff: Backoff = BACKOFF,
    ) -> "Controller[K, S]":
        """A controller of `kind`. Default name: `corral-<kind in lower case>`."""
        own = Watch(kind=kind, to=lambda obj, _read: (key_of(obj),), where=where, when=when)
        return Controller(
            kind=kind,
            reconciler=reconciler,
            name=name or manager_name(kind),
            watched=(own,),
            workers=workers,
            resync_s=resync_s,
            deadline_s=deadline_s,
            stuck_after_s=stuck_after_s,
            rate=rate,
            backoff=backoff,
        )

    def owns(
        self,
        kind: type[W],
        *,
        where: Selector = EVERYTHING,
        when: Predicate[W] = any_change,
        optional: bool = False,
    ) -> "Controller[K, S]":
        """Children: a change of one brings its controlling owner (of our kind) into the queue.

        `optional`: see `watches`.
        """
        ours = self.kind.resource
        group = ours.api_version.split("/")[0]

        def owner(child: Object, _read: Reader) -> Iterable[Key]:
            for r in child.metadata.owner_references:
                if r.controller and r.kind == ours.kind and r.api_version.split("/")[0] == group:
                    yield Key(child.metadata.namespace if ours.namespaced else "", r.name)

        return self._with(Watch(kind=kind, to=owner, where=where, when=when, owned=True, optional=optional))

    def watches(
        self,
        kind: type[W],
        *,
        to: Mapper[W],
        where: Selector = EVERYTHING,
        when: Predicate[W] = any_change,
        optional: bool = False,
    ) -> "Controller[K, S]":
        """Other objects: `to` says which keys a change concerns.

        `optional`: a server that does not have the kind is fine. It reads as empty, `read.serves` says so, and it is
        picked up when its definition appears.
        """
        return self._with(Watch(kind=kind, to=to, where=where, when=when, optional=optional))

    def also(self, source: Source) -> "Controller[K, S]":
        """A source of keys outside Kubernetes. It runs from before the first pass until after the last one."""
        return msgspec.structs.replace(self, sources=(*self.sources, source))

    def indexes(self, kind: type[W], name: str, of: Callable[[W], Iterable[Hashable]]) -> "Controller[K, S]":
        """File the objects of a watched kind under values of a function, for `read.by_index(kind, name, value)`."""
        return msgspec.structs.replace(self, indexed=(*self.indexed, Index(kind=kind, name=name, of=of)))

    def finalizer(self, name: str) -> "Controller[K, S]":
        """Hold deletion back until a plan has the RemoveFinalizer action. The engine adds it, before anything else."""
        return msgspec.structs.replace(self, finalizer_name=name)

    def remembers(self, what: Callable[[Any], object], *, is_patient: bool = False) -> "Controller[K, S]":
        """What of a status later passes decide by: that is written at once when it changes.

        `is_patient`: the rest of what is said of an object on its way waits until there is no more work for others.
        """
        return msgspec.structs.replace(self, remembered=what, is_patient=is_patient)

    def _with(self, watch: Watch) -> "Controller[K, S]":
        if any(w.kind is watch.kind and w.optional != watch.optional for w in self.watched):
            raise ValueError(f"{self.name} watches {watch.kind.resource.kind} twice: optional, or not, in both")
        if any(w.kind is watch.kind and w.where != watch.where for w in self.watched):
            raise ValueError(
                f"{self.name} watches {watch.kind.resource.kind} twice with different selectors: one cache holds "
                "a kind per controller; use one selector that covers both and predicates to tell them apart"
            )
        return msgspec.structs.replace(self, watched=(*self.watched, watch))


AnyController: TypeAlias = Controller[Any, Any]


def confined(controller: AnyController, namespace: str) -> AnyController:
    """The same for one namespace. What has none (nodes, storage classes) is seen as before."""
    watched = tuple(
        msgspec.structs.replace(watch, where=msgspec.structs.replace(watch.where, namespace=namespace))
        if watch.kind.resource.namespaced
        else watch
        for watch in controller.watched
    )
    return msgspec.structs.replace(controller, watched=watched)


def decided(controller: AnyController, snapshot: Snapshot[Any]) -> Plan:
    """What the controller makes of a snapshot. One that holds no deletion back has no part in it: children that go
    with their owner (deleted in the foreground) would only be made again.
    """
    meta = snapshot.object.metadata
    if meta.deletion_timestamp is None or controller.finalizer_name:
        return controller.reconciler.plan(snapshot)
    held = f", held by its finalizers {', '.join(meta.finalizers)}" if meta.finalizers else ""
    return Plan(waits=(Wait(reason="BeingDeleted", message=f"it is being deleted{held}"),))


def with_finalizer(controller: AnyController, obj: Object, plan: Plan) -> Plan:
    """The finalizer comes before anything that it is to undo: without it nothing else is done."""
    name, meta = controller.finalizer_name, obj.metadata
    if not name or name in meta.finalizers or meta.deletion_timestamp is not None:
        return plan
    message = "so that nothing is left behind when it is deleted"
    held = AddFinalizer(target=target(obj), present=meta.finalizers, finalizer=name, message=message)
    return Plan(actions=(held,)) + plan
