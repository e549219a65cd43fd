"""The version barrier: do not look at a key again before the caches show what we did for it.

Each write's version is recorded from its response, per key (of the queue) and cache. A cache has reached it when an
event, a bookmark or a list was at least that new; so the newest version written stands for all. Nothing is counted and
nothing predicted: a write that changed nothing has an old version, and the cache has it already.

Where there is no version to wait for (a deletion that the server answered without the object, or never answered; an
API whose versions are no numbers) the object itself is awaited: until the cache has lost that uid, or has that version.

A list that shows that history went backwards (a restored backup) makes recorded versions meaningless: they are dropped.
Nobody waits here: a key that may not be looked at yet is held, without a worker, and whoever holds it is told when it
may. How long that is worth waiting for is the holder's business.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from corral.engine.store import Key, key_of
from corral.kube.meta import Object, Resource
from corral.kube.watch import version_number

K = TypeVar("K", bound=Hashable)


class Cache(Protocol):
    """What the barrier asks of a cache; a Store is one."""

    @property
    def version_seen(self) -> int | None: ...
    @property
    def history(self) -> int: ...
    def find(self, key: Key) -> Object | None: ...


class Awaited(msgspec.Struct, frozen=True):
    """What a cache has yet to show of our write to one object: `version`, or that `uid` is gone if there is none."""

    resource: Resource
    object: Key
    uid: str
    version: str = ""

    def __str__(self) -> str:
        what = f"version {self.version}" if self.version else "its deletion"
        return f"waiting for the cache of {self.resource.plural_and_group} to show {what} of {self.object}"


class BarrierStatistics(msgspec.Struct, frozen=True):
    keys: int
    awaited: int
    held: int
    timeouts_total: int
    resets_total: int


class Barrier(Generic[K]):
    """One per controller, over the caches that it reads. A write to a kind outside them is not awaited."""

    def __init__(self) -> None:
        self._caches: dict[Resource, list[Cache]] = {}
        self._awaited: dict[K, dict[Hashable, _Expectation]] = {}
        self._held: dict[K, Callable[[], None]] = {}
        self._looks_soon = False
        self._timeouts = self._resets = 0

    def add_cache(self, resource: Resource, cache: Cache) -> None:
        """Several caches of one kind (with selectors) must all show a write."""
        self._caches.setdefault(resource, []).append(cache)

    def wrote(self, key: K, obj: Object) -> None:
        """`obj` is the server's answer to a create, apply, patch or delete that was done for `key`."""
        self._expect(key, Awaited(obj.resource, key_of(obj), obj.metadata.uid, obj.metadata.resource_version))

    def refused_by(self, key: K, obj: Object) -> None:
        """`obj` was there instead of what was looked at. It may be our own work, whose answer was lost."""
        self.wrote(key, obj)

    def deleted_unseen(self, key: K, resource: Resource, name: Key, uid: str) -> None:
        """A delete whose answer had no object, or did not come: wait until the cache has lost that uid."""
        self._expect(key, Awaited(resource, name, uid))

    def pending(self, key: K) -> tuple[Awaited, ...]:
        """What the caches have yet to show for `key`; empty: go and observe."""
        if not self.is_pending(key):
            return ()
        return tuple(dict.fromkeys(expectation.awaited for expectation in self._awaited[key].values()))

    def is_pending(self, key: K) -> bool:
        """Whether the caches have yet to show something for `key`. Forgets what they have shown."""
        expected = self._awaited.get(key)
        if expected is None:
            return False
        remaining = {slot: expectation for slot, expectation in expected.items() if not self._is_met(expectation)}
        if remaining:
            self._awaited[key] = remaining
        else:
            del self._awaited[key]
        return bool(remaining)

    def hold(self, key: K, tell: Callable[[], None]) -> None:
        """Call `tell` once, when nothing is pending for `key` any more. The newest holder of a key is the one told."""
        self._held[key] = tell

    def is_held(self, key: K) -> bool:
        return key in self._held

    def let_go(self, key: K) -> None:
        """Whoever holds `key` knows already, and is not told."""
        self._held.pop(key, None)

    def forget(self, key: K) -> None:
        """Await nothing more for `key`: its object is gone."""
        self._awaited.pop(key, None)
        self._held.pop(key, None)

    def give_up(self, key: K) -> None:
        """Await nothing more for `key`: an old view is better than none.

        What is decided on it meets preconditions and fixed names.
        """
        self._timeouts += 1
        self.forget(key)

    def progressed(self) -> None:
        """A cache has moved (see Informer.on_progress). Many events come at once; all of them together are one look."""
        if self._held and not self._looks_soon:
            self._looks_soon = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        for key in [key for key in self._held if not self.is_pending(key)]:
            self._held.pop(key)()

    def statistics(self) -> BarrierStatistics:
        return BarrierStatistics(
            keys=len(self._awaited),
            awaited=sum(len(expected) for expected in self._awaited.values()),
            held=len(self._held),
            timeouts_total=self._timeouts,
            resets_total=self._resets,
        )

    def _expect(self, key: K, awaited: Awaited) -> None:
        number = version_number(awaited.version)
        for cache in self._caches.get(awaited.resource, ()):
            expected = self._awaited.setdefault(key, {})
            slot: Hashable = id(cache) if number is not None else (id(cache), awaited.object)
            known = expected.get(slot)
            if known is None or known.history != cache.history or not known.is_later(number):
                expected[slot] = _Expectation(awaited, number, cache, cache.history)

    def _is_met(self, expectation: "_Expectation") -> bool:
        cache, awaited = expectation.cache, expectation.awaited
        if cache.history != expectation.history:  # its versions are of a history that did not happen
            self._resets += 1
            return True
        if expectation.number is not None and cache.version_seen is not None:
            return cache.version_seen >= expectation.number
        known = cache.find(awaited.object)
        if not awaited.version:
            return known is None or known.metadata.uid != awaited.uid
        return known is not None and known.metadata.resource_version == awaited.version


class _Expectation(msgspec.Struct, frozen=True):
    awaited: Awaited
    number: int | None  # of its version
    cache: Cache
    history: int

    def is_later(self, number: int | None) -> bool:
        return number is not None and self.number is not None and self.number > number
