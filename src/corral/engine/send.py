"""One request for one action, exactly as the action says; with `dry_run` the server only answers what it would do."""

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
)
from corral.engine.children import with_metadata
from corral.kube.client import Client
from corral.kube.codec import encode_value
from corral.kube.meta import Object
from corral.kube.unstructured import untyped

# A version that no object has. An apply that carries it makes a missing object and is refused (409) for one that is
# there, which POST cannot do for us: what POST sets, a later apply can never remove.
NOT_YET = "1"


async def send(action: Action, client: Client, manager: str, *, dry_run: bool = False) -> Object | None:
    """The server's answer; None when it has none (an eviction, a deletion at once, an event)."""
    match action:
        case Create():
            return await client.create(action.object, field_manager=manager, dry_run=dry_run)
        case Apply():
            return await send_apply(action, client, manager, dry_run=dry_run)
        case SetStatus():
            body = status_body(action.target, action.status)
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
    """The server refuses when the object has become another: by uid, or, for a new one, when there is one at all."""
    uid, version = (action.over.uid, "") if action.over is not None else ("", NOT_YET)
    guarded = msgspec.structs.replace(action.object.metadata, uid=uid, resource_version=version)
    body = with_metadata(action.object, guarded)
    return await client.apply(body, field_manager=manager, force=True, dry_run=dry_run)


def status_body(target: Target, status: msgspec.Struct) -> Object:
    """Only what we report: our models need not have the rest, and the server must not be asked about it."""
    content: dict[str, Any] = {
        "metadata": {"name": target.name, "uid": target.uid},
        "status": msgspec.json.decode(encode_value(status)),
    }
    if target.namespace:
        content["metadata"]["namespace"] = target.namespace
    return untyped(target.kind.resource)(content=content)


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
