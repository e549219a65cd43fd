"""What we know of one kind: frozen objects with indexes, many readers, one writer.

Nothing here talks to Kubernetes, awaits or keeps time. `new_store` returns two values: a `Store` that anybody may read
and a `StoreWriter` that belongs to the informer alone.

Theory of operation. Between two awaits a Store is a consistent picture, because only synchronous functions change it.
Single events change it in place. A list (at start, or after a gap) is staged beside the live table, with its own
indexes, and `swap` puts it in place at once: no reader ever sees half a list. The swap returns the difference to the
table it replaces, so a deletion that nobody watched is delivered like any other.

Old news. A server may repeat an event or deliver it late. An event is ignored when its version is not newer than what
is known under that name, or than the version at which that uid was seen to go. (Versions are compared as integers;
an API that numbers its versions otherwise is trusted to keep the order.) A list is never ignored: it is the truth, also
when its version is lower than the last one seen, as after a restored backup. `history` then counts one up.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from corral.kube.meta import Object
from corral.kube.watch import version_number

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[Hashable]]
Trim = Callable[[T], T]

TOMBSTONES_MAX = 4096  # uids remembered after they went; late events come within seconds, not thousands of deletions


class Key(msgspec.Struct, frozen=True, order=True, gc=False):
    """Names one object within its kind. `namespace` is empty for cluster-wide kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Object) -> Key:
    return Key(obj.metadata.namespace, obj.metadata.name)


class Added(msgspec.Struct, Generic[T], frozen=True):
    new: T


class Updated(msgspec.Struct, Generic[T], frozen=True):
    """Same uid, another state. An object recreated under its old name is a Deleted and an Added."""

    old: T
    new: T


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """`old` is the last state that readers of the store could see."""

    old: T


Change = Added[T] | Updated[T] | Deleted[T]


class Store(Generic[T]):
    """The reading side. Results are frozen objects and tuples: keep them as long as you like."""

    kind: type[T]

    def get(self, namespace: str, name: str) -> T | None: ...
    def find(self, key: Key) -> T | None: ...
    def in_namespace(self, namespace: str) -> tuple[T, ...]: ...
    def owned_by(self, uid: str) -> tuple[T, ...]: ...  # any owner reference, not only the controller's
    def by_index(self, index: str, value: Hashable) -> tuple[T, ...]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[T]: ...
    def __contains__(self, key: Key) -> bool: ...
    @property
    def version(self) -> str: ...  # everything up to here has been seen, by list, event or bookmark
    @property
    def version_seen(self) -> int | None: ...  # the same as a number; None before the first list or when not ordered
    @property
    def history(self) -> int: ...  # counts the times that a list's version was lower than one seen before


class StoreWriter(Generic[T]):
    """The writing side. `put` and `gone` return what changed for readers: nothing, when the news was old."""

    def add_index(self, index: str, function: IndexFunction[T]) -> None: ...
    def stage_begin(self) -> None: ...
    def stage(self, objects: Iterable[T]) -> None: ...
    def unstage(self, obj: T) -> None: ...
    def swap(self, version: str) -> tuple[Change[T], ...]: ...
    def put(self, obj: T) -> tuple[Change[T], ...]: ...
    def gone(self, obj: T) -> tuple[Change[T], ...]: ...
    def progress(self, version: str) -> None: ...


def new_store(
    kind: type[T], *, indexes: Mapping[str, IndexFunction[T]] | None = None, trim: Trim[T] | None = None
) -> tuple[Store[T], StoreWriter[T]]: ...
