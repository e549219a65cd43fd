"""What etcd does for the server: objects, one counter of versions for all of them, and the history of changes.

An object in here is never changed in place: a write stores a new value. That makes snapshots, history and lists of the
past cheap, and lets everyone who reads share the same dicts.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter

import msgspec

from corral.testing.apiserver.answers import Json, too_old


class Key(msgspec.Struct, frozen=True, order=True):
    resource: str  # plural and group, e.g. "deployments.apps"
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Lists are in the order of this path, as etcd's are."""
        return f"{self.namespace}/{self.name}"


class Change(msgspec.Struct, frozen=True):
    """One write. `before` is None for a creation. A deletion has no `after`, and `last` with the deletion's version."""

    version: int
    key: Key
    before: Json | None
    after: Json | None

    @property
    def last(self) -> Json:
        assert self.before is not None
        return with_version(self.before, self.version)


class Snapshot(msgspec.Struct, frozen=True):
    """A backup of everything; `Storage.restore` goes back to it, versions included."""

    version: int
    objects: dict[str, dict[str, Json]]
    history: tuple[Change, ...]
    compacted: int


class Storage:
    def __init__(self) -> None:
        self.version = 1  # etcd's first revision
        self.compacted = 0  # history up to here is gone
        self._objects: dict[str, dict[str, Json]] = {}
        self._history: list[Change] = []
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """`listener` hears of each change after it is done. It must not write."""
        self._listeners.append(listener)

    def get(self, key: Key) -> Json | None:
        return self._objects.get(key.resource, {}).get(key.path)

    def put(self, key: Key, value: Json) -> Json:
        before = self.get(key)
        self.version += 1
        stored = with_version(value, self.version)
        self._objects.setdefault(key.resource, {})[key.path] = stored
        self._record(Change(self.version, key, before, stored))
        return stored

    def remove(self, key: Key) -> Json:
        """Delete, and return the last state with the deletion's version."""
        before = self._objects[key.resource].pop(key.path)
        self.version += 1
        change = Change(self.version, key, before, None)
        self._record(change)
        return change.last

    def _record(self, change: Change) -> None:
        self._history.append(change)
        for listener in self._listeners:
            listener(change)

    def scan(self, resource: str, namespace: str = "", *, at: int | None = None) -> list[tuple[str, Json]]:
        """Path and object of all of a kind, sorted, now or at a version that history still reaches."""
        objects = self._objects.get(resource, {}) if at is None or at == self.version else self._past(resource, at)
        prefix = f"{namespace}/" if namespace else ""
        return sorted((path, value) for path, value in objects.items() if path.startswith(prefix)) if objects else []

    def _past(self, resource: str, version: int) -> dict[str, Json]:
        if version < self.compacted:
            raise too_old(version, self.compacted)
        objects = dict(self._objects.get(resource, {}))
        for change in reversed(self._history):
            if change.version <= version:
                break
            if change.key.resource != resource:
                continue
            if change.before is None:
                objects.pop(change.key.path, None)
            else:
                objects[change.key.path] = change.before
        return objects

    def everything(self) -> Iterator[tuple[str, Json]]:
        """Resource and object of all there is, in a stable order."""
        for resource in sorted(self._objects):
            for _, value in self.scan(resource):
                yield resource, value

    def changes_since(self, version: int) -> list[Change]:
        """All changes after `version`, oldest first. A version from the future has none yet."""
        if version < self.compacted:
            raise too_old(version, self.compacted)
        return self._history[bisect_right(self._history, version, key=attrgetter("version")) :]

    def compact(self, version: int) -> None:
        assert version <= self.version
        self.compacted = max(self.compacted, version)
        del self._history[: bisect_right(self._history, version, key=attrgetter("version"))]

    def snapshot(self) -> Snapshot:
        objects = {resource: dict(found) for resource, found in self._objects.items()}
        return Snapshot(self.version, objects, tuple(self._history), self.compacted)

    def restore(self, snapshot: Snapshot) -> None:
        """The counter goes back too: versions given out since will be given out again, for other objects."""
        self.version = snapshot.version
        self.compacted = snapshot.compacted
        self._objects = {resource: dict(found) for resource, found in snapshot.objects.items()}
        self._history = list(snapshot.history)


def with_version(value: Json, version: int) -> Json:
    return {**value, "metadata": {**value["metadata"], "resourceVersion": str(version)}}
