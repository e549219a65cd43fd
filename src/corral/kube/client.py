"""The verbs, typed by the object's class: `await client.get(Pod, "web-0", "lab")` is a Pod.

There is no verb that replaces an object (PUT): our models drop fields they do not know, so a decoded object sent back
would erase what a newer API has. What we own is applied; everything else is patched with a precondition.

A kind is a class of ours (`Pod`), or a `Resource` for kinds we have no class for; those come back as `Unstructured`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, TypeVar

import msgspec

from corral.kube.meta import Object
from corral.kube.transport import Priority, Transport

T = TypeVar("T", bound=Object)

Propagation = Literal["Background", "Foreground", "Orphan"]


class Precondition(msgspec.Struct, frozen=True):
    """The object we decided about. The server refuses (409) when it has become another."""

    uid: str = ""
    resource_version: str = ""


class Selector(msgspec.Struct, frozen=True):
    """Which objects of a kind. Empty strings mean all."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""


class Put(msgspec.Struct, Generic[T], frozen=True):
    """A watch said: this is how the object is now. `event` is ADDED or MODIFIED as the server called it."""

    object: T
    event: str = "MODIFIED"


class Gone(msgspec.Struct, Generic[T], frozen=True):
    """A watch said: the object is deleted; this is its last state, with the version of the deletion."""

    object: T


class Bookmark(msgspec.Struct, frozen=True):
    """A watch said: you have seen everything up to this version. `initial_list_ends` closes a streamed list."""

    resource_version: str
    initial_list_ends: bool = False


class Client:
    """See the module's docstring. One Client a process is the rule; it is cheap to share and has no per-call state."""

    def __init__(self, transport: Transport) -> None: ...

    async def get(self, kind: type[T], name: str, namespace: str = "", *, deadline_s: float = 30.0) -> T: ...
    async def list_page(self, kind: type[T], where: Selector = Selector(), *, limit: int = 500, continue_token: str = "", resource_version: str = "") -> Page[T]: ...
    async def list(self, kind: type[T], where: Selector = Selector(), *, limit: int = 500) -> Page[T]: ...   # all pages in one
    def watch(self, kind: type[T], where: Selector = Selector(), *, resource_version: str = "", initial_list: bool = False, silence_s_max: float = 75.0) -> AsyncIterator[Put[T] | Gone[T] | Bookmark]: ...  # ONE http watch; ends normally when the server closes; raises typed errors (Expired also when in-stream)
    async def create(self, obj: T, *, field_manager: str, dry_run: bool = False, priority: Priority = Priority.NORMAL) -> T: ...
    async def apply(self, obj: T, *, field_manager: str, force: bool, subresource: str = "", dry_run: bool = False, priority: Priority = Priority.NORMAL) -> T: ...
    async def patch(self, kind: type[T], name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None, json: tuple[Mapping[str, Any], ...] | None = None, precondition: Precondition, field_manager: str, subresource: str = "", dry_run: bool = False, priority: Priority = Priority.NORMAL) -> T: ...
    async def delete(self, kind: type[T], name: str, namespace: str = "", *, precondition: Precondition, propagation: Propagation = "Background", grace_period_s: int | None = None, dry_run: bool = False) -> T | None: ...  # the object as it was deleted or marked (with its new version); None when the server answered only with a Status
    async def evict(self, name: str, namespace: str, *, precondition: Precondition, grace_period_s: int | None = None, dry_run: bool = False) -> None: ...  # TooManyRequests when a disruption budget says not now
    # scale: get_scale/set_scale; logs(); exec(); discovery (served kinds, version) — see the issue
