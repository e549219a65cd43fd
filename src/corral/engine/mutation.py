"""A detector for tests: did anybody change a cached object in place?

Objects are frozen and type checkers refuse to write into their mappings, but at run time a mapping is a plain dict (a
read-only one would cost half as much again in decoding). So tests subscribe a detector, which keeps a digest of every
object as it came, and ask it at the end.
"""

from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec

from corral.engine.informer import Cause
from corral.engine.store import Change, Deleted, Key, Store, key_of
from corral.kube.codec import encode
from corral.kube.meta import Object

T = TypeVar("T", bound=Object)


class Mutated(msgspec.Struct, frozen=True):
    key: Key
    now: str  # its JSON


class MutationDetector(Generic[T]):
    """`informer.subscribe(detector.remember)`; at the end `assert not detector.mutated()`."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._digests: dict[Key, bytes] = {}

    def remember(self, change: Change[T], cause: Cause) -> None:  # noqa: ARG002
        if isinstance(change, Deleted):
            self._digests.pop(key_of(change.old), None)
        else:
            self._digests[key_of(change.new)] = digest(change.new)

    def mutated(self) -> tuple[Mutated, ...]:
        return tuple(
            Mutated(key_of(obj), encode(obj).decode())
            for obj in self._store
            if digest(obj) != self._digests.get(key_of(obj))
        )


def digest(obj: Object) -> bytes:
    return blake2b(encode(obj), digest_size=16).digest()
