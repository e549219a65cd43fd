"""The version barrier: do not look at a key again before the caches show what we did for it.

Each write's version is recorded from its response, per key (of the queue) and kind. A cache has reached it when an event,
a bookmark or a list of that kind was at least that new. Nothing is counted and nothing is predicted: a write that changed
nothing has an old version, and the cache has it already.

Where there is no version to wait for (a deletion that the server answered without the object, or never answered; an API
whose versions are no numbers) the object itself is awaited: until the cache no longer has that uid, or has that version.

A list that shows that history went backwards (a restored backup) makes recorded versions meaningless: they are dropped.
The barrier never blocks for ever: waiting has a deadline, and what was still awaited is returned, to be shown.
"""

from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from corral.engine.store import Key
from corral.kube.meta import Object, Resource

K = TypeVar("K", bound=Hashable)


class Cache(Protocol):
    """What the barrier asks of a cache; a Store is one."""

    @property
    def version_seen(self) -> int | None: ...
    @property
    def history(self) -> int: ...
    def find(self, key: Key) -> Any: ...


class Awaited(msgspec.Struct, frozen=True):
    """One thing that a cache has yet to show. `str()` is a sentence for a person."""

    resource: Resource
    version: str = ""
    uid: str = ""
    object: Key | None = None


class BarrierStatistics(msgspec.Struct, frozen=True):
    keys: int
    awaited: int
    waiters: int
    timeouts_total: int
    resets_total: int


class Barrier(Generic[K]):
    """One per controller. `caches` are those that the controller reads; a write to a kind outside them is not awaited."""

    def add_cache(self, resource: Resource, cache: Cache) -> None:
        """Several caches of one kind (selectors) must all reach a version."""
    def wrote(self, key: K, obj: Object) -> None:
        """`obj` is the server's answer to a create, apply, patch or delete done for `key`."""
    def deleted_unseen(self, key: K, resource: Resource, name: Key, uid: str) -> None:
        """A delete whose answer had no object, or did not come: wait until the cache has lost that uid."""
    def pending(self, key: K) -> tuple[Awaited, ...]:
        """What the caches have yet to show for `key`; empty: observe. Forgets what they have shown."""
        ...
    def forget(self, key: K) -> None: ...
    def progressed(self, resource: Resource) -> None:
        """A cache of this kind has moved (Informer.on_progress): wake the keys that can go on."""
    async def passed(self, key: K, *, within_s: float) -> tuple[Awaited, ...]:
        """Wait until nothing is pending, at most `within_s`; return what still is, and stop awaiting it."""
        ...
    def statistics(self) -> BarrierStatistics: ...
