"""One request for one action, exactly as the action says; with `dry_run` the server only answers what it would do."""

from collections.abc import Callable
from typing import Any

import msgspec

from corral.engine.actions import (
    Action,
    AddFinalizer,
    Apply,
    Create,
    Delete,
    EmitEvent,
    Evict,
    Outside,
    Patch,
    RemoveFinalizer,
    SetStatus,
    Target,
    target,
)
from corral.engine.children import with_metadata
from corral.engine.status import status_differs
from corral.kube.client import Client
from corral.kube.codec import encode_value
from corral.kube.errors import Conflict
from corral.kube.meta import Object
from corral.kube.unstructured import untyped

# A version that no object has. An apply that carries it makes a missing object and is refused (409) for one that is
# there, which POST cannot do for us: what POST sets, a later apply can never remove.
NOT_YET = "1"
STATUS_TRIES = 3

Note = Callable[[Object], None]


async def send(action: Action, client: Client, manager: str, *, dry_run: bool = False) -> Object | None:
    """The server's answer; None when it has none (an eviction, a deletion at once, an event)."""
    match action:
        case Create():
            return await client.create(action.object, field_manager=manager, dry_run=dry_run)
        case Apply():
            return await send_apply(action, client, manager, dry_run=dry_run)
        case SetStatus():
            body = _status_body(action.target, action.status)
            return await client.apply(body, field_manager=manager, force=True, subresource="status", dry_run=dry_run)
        case Patch() | AddFinalizer() | RemoveFinalizer():
            return await _send_patch(_as_patch(action), client, manager, dry_run=dry_run)
        case Delete():
            return await client.delete(
                action.target.kind,
                action.target.name,
                action.target.namespace,
                precondition=action.target.precondition,
                propagation=action.propagation,
                grace_period_s=action.grace_period_s,
                dry_run=dry_run,
            )
        case Evict():
            await client.evict(
                action.target.name,
                action.target.namespace,
                precondition=action.target.precondition,
                grace_period_s=action.grace_period_s,
                dry_run=dry_run,
            )
            return None
        case EmitEvent() | Outside():
            return None  # not the server's business


async def send_apply(action: Apply, client: Client, manager: str, *, dry_run: bool = False) -> Object:
    """The server refuses when the object is not the one that was looked at, or, for a new one, when there is one."""
    uid, version = (action.over.uid, action.over.resource_version) if action.over is not None else ("", NOT_YET)
    guarded = msgspec.structs.replace(action.object.metadata, uid=uid, resource_version=version)
    body = with_metadata(action.object, guarded)
    return await client.apply(body, field_manager=manager, force=True, dry_run=dry_run)


async def send_status(
    status: msgspec.Struct, over: Object, client: Client, manager: str, *, note: Note, version: str = ""
) -> None:
    """What a pass reports of its own object, and later passes decide by: only over the status that it looked at.

    `version` is what the pass itself has made of the object. What others have changed meanwhile (its spec, its labels)
    does not matter if its status is what it was. `note` is told what the server shows, also when it refuses: what is
    there may be what we wrote, with the answer lost.
    """
    version = version or over.metadata.resource_version
    for attempt in range(STATUS_TRIES):
        try:
            note(await _apply_status(status, over, version, client, manager))
        except Conflict:
            now = await client.get(type(over), over.metadata.name, over.metadata.namespace)
            note(now)
            is_the_same = now.metadata.uid == over.metadata.uid
            if is_the_same and not status_differs(now, status):
                return
            if not is_the_same or _status(now) != _status(over) or attempt + 1 == STATUS_TRIES:
                raise
            version = now.metadata.resource_version
        else:
            return


async def _apply_status(status: msgspec.Struct, over: Object, version: str, client: Client, manager: str) -> Object:
    body = _status_body(target(over), status, version=version)
    return await client.apply(body, field_manager=manager, force=True, subresource="status")


def _status(obj: Object) -> object:
    return getattr(obj, "status", None)


def _status_body(over: Target, status: msgspec.Struct, *, version: str = "") -> Object:
    """Only what we report: our models need not have the rest, and the server must not be asked about it."""
    metadata = {"name": over.name, "namespace": over.namespace, "uid": over.uid, "resourceVersion": version}
    content: dict[str, Any] = {
        "metadata": {name: value for name, value in metadata.items() if value},
        "status": msgspec.json.decode(encode_value(status)),
    }
    return untyped(over.kind.resource)(content=content)


def _as_patch(action: Patch | AddFinalizer | RemoveFinalizer) -> Patch:
    if isinstance(action, Patch):
        return action
    kept = [name for name in action.present if name != action.finalizer]
    finalizers = [*kept, action.finalizer] if isinstance(action, AddFinalizer) else kept
    return Patch(
        target=action.target,
        merge={"metadata": {"finalizers": finalizers}},
        reason=action.reason,
        message=action.message,
    )


async def _send_patch(patch: Patch, client: Client, manager: str, *, dry_run: bool) -> Object:
    return await client.patch(
        patch.target.kind,
        patch.target.name,
        patch.target.namespace,
        merge=patch.merge,
        json=patch.json,
        precondition=patch.target.precondition,
        field_manager=manager,
        subresource=patch.subresource,
        dry_run=dry_run,
    )
