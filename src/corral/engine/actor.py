"""With what one pass over one key acts, and what it leaves behind: what the next pass must have seen."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from corral.engine.actions import EmitEvent, OutsideFailed, Target
from corral.engine.store import Key
from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.meta import Object, Resource

Stop = Callable[[], str]
"""Asked before each action: why to stop here, or an empty string to go on."""


def never() -> str:
    return ""


class Journal(Protocol):
    """What the next pass is to see first; the controller's Barrier."""

    def wrote(self, key: Key, obj: Object) -> None: ...
    def refused_by(self, key: Key, obj: Object) -> None: ...
    def deleted_unseen(self, key: Key, resource: Resource, name: Key, uid: str) -> None: ...


class Tell(Protocol):
    """Where events go. Never waits, never fails."""

    def __call__(self, event: EmitEvent, /) -> None: ...


Perform = Callable[[msgspec.Struct], Awaitable[None]]
"""Carries out the call of an `Outside` action; raises OutsideFailed."""


async def performs_nothing(call: msgspec.Struct) -> None:
    message = f"nobody carries out {type(call).__name__}: the reconciler has no method perform"
    raise OutsideFailed("InternalError", message, stalled=True)


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """With what one pass over one key acts."""

    client: Client
    manager: str
    key: Key
    journal: Journal
    tell: Tell
    stop: Stop = never
    superseded: Stop = never  # asked only between many that are alike: what belongs together is not torn
    perform: Perform = performs_nothing
    perform_s_max: float = 120.0


def written(actor: Actor, answer: Object | None, before: Target | None) -> bool:
    """Note the server's answer to a write; whether it changed anything."""
    if answer is None:
        return True
    actor.journal.wrote(actor.key, answer)
    return before is None or answer.metadata.resource_version != before.resource_version


async def look(actor: Actor, kind: type[Object], name: str, namespace: str) -> Object | None:
    """After a Conflict: what is there instead of what was looked at. The next pass sees nothing older.

    It may be our own work: an answer that was lost, and a repeat that met what the first one had made.
    """
    try:
        there = await actor.client.get(kind, name, namespace)
    except KubeError:
        return None
    actor.journal.refused_by(actor.key, there)
    return there
