"""How a reconciler sees the world: one look at the caches, and the same with a manifest laid over it.

A reader never waits and never asks the server. `StoreReader` reads stores, whether an informer fills them or one list
did. `OverlayReader` shows what would be read if a manifest had been applied; that is all that `corral plan -f` needs,
because `observe` reads Kubernetes through nothing else.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from corral.engine.actions import is_controlled_by
from corral.engine.controller import AnyController, Index
from corral.engine.reconciler import Reader, Undeclared
from corral.engine.store import IndexFunction, Key, Store, key_of
from corral.kube.meta import EMPTY, Object

T = TypeVar("T", bound=Object)
Stores = Mapping[type[Object], Store[Any]]

NEW_UID = "00000000-0000-0000-0000-000000000000"


def index_name(controller: AnyController, index: Index) -> str:
    """A cache may serve several controllers, each with its own indexes."""
    return f"{controller.name}/{index.name}"


def index_functions(controller: AnyController, kind: type[Object]) -> dict[str, IndexFunction[Any]]:
    return {index_name(controller, index): index.of for index in controller.indexed if index.kind is kind}


class StoreReader:
    """A Reader over the stores of the kinds that one controller declares."""

    def __init__(
        self,
        controller: AnyController,
        stores: Stores,
        now: datetime,
        *,
        is_absent: Callable[[type[Object]], bool] = lambda _kind: False,
    ) -> None:
        self._controller = controller
        self._stores = stores
        self._now = now
        self._is_absent = is_absent

    @property
    def now(self) -> datetime:
        return self._now

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        return self._store(kind).get(namespace if kind.resource.namespaced else "", name)

    def list(self, kind: type[T], namespace: str = "", labels: Mapping[str, str] = EMPTY) -> tuple[T, ...]:
        store = self._store(kind)
        found = store.in_namespace(namespace) if namespace else tuple(store)
        return in_order(obj for obj in found if has_labels(obj, labels))

    def by_index(self, kind: type[T], index: str, value: Hashable) -> tuple[T, ...]:
        try:
            return self._store(kind).by_index(f"{self._controller.name}/{index}", value)
        except KeyError:
            raise Undeclared(
                f"{self._controller.name} has no index {index!r} of {kind.resource.kind}: declare it with "
                f".indexes({kind.__name__}, {index!r}, ...)"
            ) from None

    def owned(self, kind: type[T], owner: Object) -> tuple[T, ...]:
        return self._store(kind).owned_by(owner.metadata.uid)

    def serves(self, kind: type[Object]) -> bool:
        self._store(kind)
        return not self._is_absent(kind)

    def _store(self, kind: type[T]) -> Store[T]:
        store = self._stores.get(kind)
        if store is None:
            raise Undeclared(
                f"{self._controller.name} does not watch {kind.resource.kind}: declare it with "
                f".owns({kind.__name__}) or .watches({kind.__name__}, to=...)"
            )
        return cast("Store[T]", store)


class LastingReader(StoreReader):
    """One for all events of a controller: making a reader, and looking at the clock, would cost more than mapping."""

    def __init__(
        self,
        controller: AnyController,
        stores: Stores,
        wall: Callable[[], datetime],
        *,
        is_absent: Callable[[type[Object]], bool],
    ) -> None:
        super().__init__(controller, stores, wall(), is_absent=is_absent)
        self._wall = wall

    @property
    def now(self) -> datetime:
        return self._wall()


class OverlayReader:
    """What `below` would show if `top` had been applied: `top` hides the object of its name, nothing else."""

    def __init__(self, below: Reader, top: Object, indexed: tuple[Index, ...]) -> None:
        self._below = below
        self._top = top
        self._indexed = indexed

    @property
    def now(self) -> datetime:
        return self._below.now

    def serves(self, kind: type[Object]) -> bool:
        return self._below.serves(kind)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        if self._is_top(kind) and key_of(self._top) == Key(namespace if kind.resource.namespaced else "", name):
            return cast("T", self._top)
        return self._below.get(kind, name, namespace)

    def list(self, kind: type[T], namespace: str = "", labels: Mapping[str, str] = EMPTY) -> tuple[T, ...]:
        below = self._below.list(kind, namespace, labels)
        belongs = namespace in ("", self._top.metadata.namespace) and has_labels(self._top, labels)
        return self._laid_over(kind, below, belongs=belongs)

    def by_index(self, kind: type[T], index: str, value: Hashable) -> tuple[T, ...]:
        below = self._below.by_index(kind, index, value)
        if not self._is_top(kind):
            return below
        functions = [i.of for i in self._indexed if i.kind is kind and i.name == index]
        return self._laid_over(kind, below, belongs=any(value in of(self._top) for of in functions))

    def owned(self, kind: type[T], owner: Object) -> tuple[T, ...]:
        below = self._below.owned(kind, owner)
        return self._laid_over(kind, below, belongs=is_controlled_by(self._top, owner))

    def _laid_over(self, kind: type[T], below: tuple[T, ...], *, belongs: bool) -> tuple[T, ...]:
        if not self._is_top(kind):
            return below
        others = (obj for obj in below if key_of(obj) != key_of(self._top))
        return in_order((*others, cast("T", self._top)) if belongs else others)

    def _is_top(self, kind: type[Object]) -> bool:
        return kind is type(self._top)


def applied_over(manifest: Object, live: Object | None) -> Object:
    """How the object would be after `manifest` was applied: the server's part of `live`, the person's part of the rest.

    Defaults need no server: the kind's Struct has them.
    """
    if live is None:
        metadata = msgspec.structs.replace(manifest.metadata, uid=manifest.metadata.uid or NEW_UID, generation=1)
        return msgspec.structs.replace(manifest, metadata=metadata)
    fields = {f.name: getattr(manifest, f.name) for f in msgspec.structs.fields(manifest)}
    asked = {name: value for name, value in fields.items() if name not in ("metadata", "status")}
    merged = msgspec.structs.replace(live, **asked)
    metadata = msgspec.structs.replace(
        live.metadata,
        labels={**live.metadata.labels, **manifest.metadata.labels},
        annotations={**live.metadata.annotations, **manifest.metadata.annotations},
        generation=live.metadata.generation + (merged != live),
    )
    return msgspec.structs.replace(merged, metadata=metadata)


def in_order(objects: Iterable[T]) -> tuple[T, ...]:
    """Sorted, so that a plan over the same world is the same plan."""
    return tuple(sorted(objects, key=key_of))


def has_labels(obj: Object, labels: Mapping[str, str]) -> bool:
    return all(obj.metadata.labels.get(name) == value for name, value in labels.items())
