"""What we know of one kind: frozen objects with indexes, many readers, one writer.

Nothing here talks to Kubernetes, awaits or keeps time. `new_store` returns two values: a `Store` that anybody may read
and a `StoreWriter` that belongs to the informer alone.

Theory of operation. Between two awaits a Store is a consistent picture, because only synchronous functions change it.
Single events change it in place. A list (at start, or after a gap) is staged beside the live table, with its own
indexes, and `swap` puts it in place at once: no reader ever sees half a list. The swap returns the difference to the
table it replaces, so a deletion that nobody watched is delivered like any other.

Old news. A server may repeat an event or deliver it late. An event is ignored when its version is not newer than what
is known under that name, than the version at which that uid was seen to go, or than the list that did not have it.
Versions are compared as integers; an API that numbers its versions otherwise is trusted to keep the order. A list is
never ignored: it is the truth, also when its version is lower than the last one seen, as after a restored backup.
`history` then counts one up.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from corral.kube.meta import Object
from corral.kube.watch import version_number

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[Hashable]]
Trim = Callable[[T], T]

NAMESPACE, OWNER = "namespace", "owner"  # the indexes that every store has
TOMBSTONES_MAX = 4096  # uids remembered after they went; late events come within seconds, not thousands of deletions


class Key(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
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
_Buckets = dict[Hashable, dict[Key, T]]


class Store(Generic[T]):
    """The reading side. Results are frozen objects and tuples: keep them as long as you like."""

    def __init__(self, kind: type[T], contents: "_Contents[T]") -> None:
        self.kind = kind
        self._contents = contents

    def get(self, namespace: str, name: str) -> T | None:
        return self._contents.table.objects.get(Key(namespace, name))

    def find(self, key: Key) -> T | None:
        return self._contents.table.objects.get(key)

    def in_namespace(self, namespace: str) -> tuple[T, ...]:
        return self.by_index(NAMESPACE, namespace)

    def owned_by(self, uid: str) -> tuple[T, ...]:
        """The objects whose controlling owner has `uid`."""
        return self.by_index(OWNER, uid)

    def by_index(self, index: str, value: Hashable) -> tuple[T, ...]:
        """The objects for which the index's function yields `value`, by name. KeyError when there is no such index.

        While none of them changes, the answer is the very same tuple.
        """
        return self._contents.table.in_order(index, value)

    def __len__(self) -> int:
        return len(self._contents.table.objects)

    def __iter__(self) -> Iterator[T]:
        """Over the objects as they are now: changes during the loop do not disturb it."""
        return iter(tuple(self._contents.table.objects.values()))

    def __contains__(self, key: Key) -> bool:
        return key in self._contents.table.objects

    @property
    def version(self) -> str:
        """Everything up to here has been seen, by list, event or bookmark. Empty before the first list."""
        return self._contents.version

    @property
    def version_seen(self) -> int | None:
        """`version` as a number; None before the first list, and for an API whose versions are no numbers."""
        return self._contents.version_seen

    @property
    def history(self) -> int:
        """How often a list's version was lower than one seen before: versions of another count mean nothing now."""
        return self._contents.history

    def __repr__(self) -> str:
        return f"<Store of {self.kind.__name__}: {len(self)} objects at version {self._contents.version or 'none'}>"


class StoreWriter(Generic[T]):
    """The writing side. Each method returns what changed for readers: nothing, when the news was old."""

    def __init__(self, kind: type[T], contents: "_Contents[T]", trim: Trim[T] | None) -> None:
        self._kind = kind
        self._contents = contents
        self._trim = trim
        self._staged: _Table[T] | None = None
        self._listed_at = 0  # the last list's version: what is older than it and was not in it does not exist
        self._tombstones: dict[str, int] = {}  # since then: uid -> version at which it went, oldest first

    def add_index(self, index: str, function: IndexFunction[T]) -> None:
        """Add an index, also over the objects already there."""
        table = self._contents.table
        if index in table.functions:
            raise ValueError(f"{self._kind.__name__} has an index {index!r} already; give the second another name")
        table.add_index(index, function)
        if self._staged is not None:
            self._staged.add_index(index, function)

    def stage_begin(self) -> None:
        """A list starts, from nothing: what an earlier attempt staged is forgotten."""
        self._staged = _Table(self._contents.table.functions)

    def stage(self, objects: Iterable[T]) -> None:
        staged = self._staging()
        for obj in objects if self._trim is None else map(self._trim, objects):
            key = key_of(obj)
            known = staged.objects.get(key)
            if known is None or not is_old_news(version_number(obj.metadata.resource_version), known):
                staged.put(key, obj)

    def unstage(self, obj: T) -> None:
        """It went while the list was still coming."""
        staged, key = self._staging(), key_of(obj)
        known = staged.objects.get(key)
        if known is not None and known.metadata.uid == obj.metadata.uid:
            staged.remove(key)

    def swap(self, version: str) -> tuple[Change[T], ...]:
        """Put the staged list in place. It is the truth of `version`, whatever was known before."""
        contents, staged = self._contents, self._staging()
        replaced, contents.table, self._staged = contents.table, staged, None
        number = version_number(version)
        if number is not None and contents.version_seen is not None and number < contents.version_seen:
            contents.history += 1
        contents.version, contents.version_seen = version, number
        self._listed_at = number or 0
        self._tombstones.clear()
        return tuple(differences(replaced.objects, staged.objects))

    def put(self, obj: T) -> tuple[Change[T], ...]:
        if self._trim is not None:
            obj = self._trim(obj)
        number = version_number(obj.metadata.resource_version)
        self._progress(obj.metadata.resource_version, number)
        table, key = self._contents.table, key_of(obj)
        known = table.objects.get(key)
        if known is None:
            if self._is_ghost(obj, number):
                return ()
            table.put(key, obj)
            return (Added(obj),)
        if is_old_news(number, known):
            return ()
        if known.metadata.uid == obj.metadata.uid:
            table.put(key, obj)
            return (Updated(known, obj),)
        self._bury(known.metadata.uid, obj.metadata.resource_version)
        table.put(key, obj)
        return (Deleted(known), Added(obj))

    def gone(self, obj: T) -> tuple[Change[T], ...]:
        self.progress(obj.metadata.resource_version)
        self._bury(obj.metadata.uid, obj.metadata.resource_version)
        table, key = self._contents.table, key_of(obj)
        known = table.objects.get(key)
        if known is None or known.metadata.uid != obj.metadata.uid or is_newer(known, obj):
            return ()
        table.remove(key)
        return (Deleted(known),)

    def progress(self, version: str) -> None:
        """Everything up to `version` has been seen. A version lower than the last is a late event's: no news."""
        self._progress(version, version_number(version))

    def _progress(self, version: str, number: int | None) -> None:
        contents = self._contents
        if number is None or contents.version_seen is None or number > contents.version_seen:
            contents.version, contents.version_seen = version, number

    def _staging(self) -> "_Table[T]":
        if self._staged is None:
            raise RuntimeError(f"no list of {self._kind.__name__} is being staged: stage_begin comes first")
        return self._staged

    def _bury(self, uid: str, version: str) -> None:
        number = version_number(version)
        if number is None:
            return
        self._tombstones[uid] = max(number, self._tombstones.pop(uid, 0))
        if len(self._tombstones) > TOMBSTONES_MAX:
            del self._tombstones[next(iter(self._tombstones))]

    def _is_ghost(self, obj: T, number: int | None) -> bool:
        """A late event of something that went. (With a selector the same object may come back: then it is newer.)"""
        return number is not None and number <= self._tombstones.get(obj.metadata.uid, self._listed_at)


def new_store(
    kind: type[T], *, indexes: Mapping[str, IndexFunction[T]] | None = None, trim: Trim[T] | None = None
) -> tuple[Store[T], StoreWriter[T]]:
    """`trim` makes each object smaller before it is stored, for fields that nobody here reads."""
    contents = _Contents(_Table({NAMESPACE: namespace_of, OWNER: owner_uids_of, **(indexes or {})}))
    return Store(kind, contents), StoreWriter(kind, contents, trim)


def namespace_of(obj: Object) -> tuple[str, ...]:
    return (obj.metadata.namespace,)


def owner_uids_of(obj: Object) -> tuple[str, ...]:
    owners = obj.metadata.owner_references
    return tuple([owner.uid for owner in owners if owner.controller]) if owners else ()


def differences(before: Mapping[Key, T], after: Mapping[Key, T]) -> Iterator[Change[T]]:
    """What happened between two pictures, deletions first."""
    for key, old in before.items():
        replacement = after.get(key)
        if replacement is None or replacement.metadata.uid != old.metadata.uid:
            yield Deleted(old)
    for key, new in after.items():
        known = before.get(key)
        if known is None or known.metadata.uid != new.metadata.uid:
            yield Added(new)
        elif known != new:  # by value: after a restored backup the same version can be another state
            yield Updated(known, new)


def is_old_news(number: int | None, known: Object) -> bool:
    """Whether an event of this version about one name tells nothing that we do not know already.

    Two objects that had one name after another are ordered by version too: the versions of a kind are one sequence.
    """
    known_number = version_number(known.metadata.resource_version)
    return number is not None and known_number is not None and number <= known_number


def is_newer(known: Object, news: Object) -> bool:
    """Whether a deletion that we are told of was overtaken: the object left a selector and came back."""
    news_number = version_number(news.metadata.resource_version)
    known_number = version_number(known.metadata.resource_version)
    return news_number is not None and known_number is not None and known_number > news_number


class _Table(Generic[T]):
    """Objects with their indexes. An index function that raises leaves the table as it was."""

    def __init__(self, functions: Mapping[str, IndexFunction[T]]) -> None:
        self.objects: dict[Key, T] = {}
        self.functions = dict(functions)
        self.buckets: dict[str, _Buckets[T]] = {index: {} for index in functions}
        self._ordered: dict[str, dict[Hashable, tuple[T, ...]]] = {index: {} for index in functions}  # answers given

    def in_order(self, index: str, value: Hashable) -> tuple[T, ...]:
        """A bucket is put in order when somebody asks, and stays so: a change keeps its place, new ones come last."""
        known = self._ordered[index].get(value)
        if known is not None:
            return known
        bucket = self.buckets[index].get(value)
        if not bucket:
            return ()
        keys = sorted(bucket)
        self.buckets[index][value] = {key: bucket[key] for key in keys}
        found = self._ordered[index][value] = tuple([bucket[key] for key in keys])
        return found

    def add_index(self, index: str, function: IndexFunction[T]) -> None:
        buckets: _Buckets[T] = {}
        for key, obj in self.objects.items():
            for value in function(obj):
                buckets.setdefault(value, {})[key] = obj
        self.functions[index] = function
        self.buckets[index] = buckets
        self._ordered[index] = {}

    def put(self, key: Key, obj: T) -> None:
        old = self.objects.get(key)
        moves = [
            (index, () if old is None else tuple(function(old)), tuple(function(obj)))
            for index, function in self.functions.items()
        ]
        for index, old_values, values in moves:
            if old_values and old_values != values:
                self._leave(index, key, (value for value in old_values if value not in values))
            buckets, ordered = self.buckets[index], self._ordered[index]
            for value in values:
                if (bucket := buckets.get(value)) is None:
                    bucket = buckets[value] = {}
                bucket[key] = obj
                ordered.pop(value, None)
        self.objects[key] = obj

    def remove(self, key: Key) -> None:
        old = self.objects[key]
        leaves = [(index, tuple(function(old))) for index, function in self.functions.items()]
        for index, values in leaves:
            self._leave(index, key, values)
        del self.objects[key]

    def _leave(self, index: str, key: Key, values: Iterable[Hashable]) -> None:
        """`dict.fromkeys`, because a function may yield a value twice."""
        buckets, ordered = self.buckets[index], self._ordered[index]
        for value in dict.fromkeys(values):
            bucket = buckets[value]
            del bucket[key]
            ordered.pop(value, None)
            if not bucket:
                del buckets[value]


class _Contents(Generic[T]):
    """What the reader and the writer of one store share."""

    def __init__(self, table: _Table[T]) -> None:
        self.table = table
        self.version = ""
        self.version_seen: int | None = None
        self.history = 0
