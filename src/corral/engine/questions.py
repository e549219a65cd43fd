"""The questions that people ask about an object, answered by the same observe and plan that the controller runs.

    plan_object   what would happen?          (`corral plan`; with a manifest: what would happen if I applied this?)
    dry_run       what exactly would change?  (the plan's writes sent with dryRun=All, before and after side by side)
    render        what is desired?            (the plan over an empty world; no cluster needed)
    explain       why is it so?               (conditions, waits, the plan's reasons, the last events)

Nothing here writes. Everything is generic over kinds.
"""

from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
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
    about,
)
from corral.engine.controller import AnyController, Watch, decided, with_finalizer
from corral.engine.differences import digest
from corral.engine.plan import NOTHING, Plan
from corral.engine.reader import OverlayReader, StoreReader, applied_over, index_functions
from corral.engine.reconciler import MakesLater, Reader, Snapshot, UsesClient
from corral.engine.send import send
from corral.engine.status import conditions_in as conditions_in
from corral.engine.store import Key, Store, key_of, new_store
from corral.kube.client import Client, Selector
from corral.kube.codec import encode
from corral.kube.errors import KubeError, NotFound
from corral.kube.meta import Condition, Object
from corral.kube.models.events_v1 import Event
from corral.kube.unstructured import Unstructured, untyped
from corral.kube.values import parse_time

ASKING = "corral-plan"
EVENTS_SHOWN_MAX = 20
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
UNTOLD_METADATA = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")


class Planned(msgspec.Struct, frozen=True):
    """What was seen, and the decision. `snapshot` is None when the object does not exist: nothing to decide."""

    snapshot: Snapshot[Any] | None
    plan: Plan


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one action would do on the server. Wire form (plain dicts); None: the object does not exist then."""

    action: Action
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    refused: str = ""  # why the server would say no
    untried: str = ""  # why nobody was asked

    @property
    def changes_something(self) -> bool:
        return bool(self.refused or self.untried) or self.before != self.after


class SeenEvent(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    reason: str
    note: str
    count: int
    last_seen: datetime | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`snapshot` is what was seen now, and what `plan` was decided on."""

    object: Object
    snapshot: Snapshot[Any] | None
    conditions: tuple[Condition, ...]
    plan: Plan
    events: tuple[SeenEvent, ...]


async def plan_object(
    client: Client,
    controller: AnyController,
    what: Key | Object,
    *,
    beside: Iterable[Object] = (),
    now: datetime | None = None,
) -> Planned:
    """A Key: the object as it is in the cluster. An Object: the cluster as if that manifest had been applied.

    `beside`: other manifests that are applied with it; those of kinds that the controller does not watch do not matter.
    A manifest that the server would not accept raises what the server says (Invalid).
    """
    if isinstance(controller.reconciler, UsesClient):
        controller.reconciler.use(client)
    read: Reader = await _read_now(client, controller, now or datetime.now(UTC))
    watched = {watch.kind for watch in controller.watched}
    for other in beside:
        if type(other) in watched:
            read = _with(other, read, controller)
    if isinstance(what, Key):
        return await _planned(controller, what, read)
    await _check_accepted(client, what)
    return await _planned(controller, key_of(what), _with(what, read, controller))


def _with(manifest: Object, read: Reader, controller: AnyController) -> Reader:
    live = read.get(type(manifest), manifest.metadata.name, manifest.metadata.namespace)
    return OverlayReader(read, applied_over(manifest, live), controller.indexed)


async def _planned(controller: AnyController, key: Key, read: Reader) -> Planned:
    """Within the controller's sources, as in the manager: what they open for `observe` is closed with them."""
    async with AsyncExitStack() as sources:
        for source in controller.sources:
            await sources.enter_async_context(source(lambda _key, _reason: None))
        snapshot = await controller.reconciler.observe(key, read)
    if snapshot is None:
        return Planned(None, NOTHING)
    return Planned(snapshot, with_finalizer(controller, snapshot.object, decided(controller, snapshot)))


async def _listed(client: Client, controller: AnyController, watch: Watch) -> Store[Any]:
    """The same store that an informer would fill, from one list."""
    store, writer = new_store(watch.kind, indexes=index_functions(controller, watch.kind))
    page = await client.list(watch.kind, watch.where)
    writer.stage_begin()
    writer.stage(page.items)
    writer.swap(page.resource_version)
    return store


async def _read_now(client: Client, controller: AnyController, now: datetime) -> StoreReader:
    stores: dict[type[Object], Store[Any]] = {}
    absent: set[type[Object]] = set()
    for watch in controller.watched:
        if watch.kind in stores:
            continue
        try:
            stores[watch.kind] = await _listed(client, controller, watch)
        except NotFound:
            if not watch.optional:
                raise
            stores[watch.kind] = new_store(watch.kind, indexes=index_functions(controller, watch.kind))[0]
            absent.add(watch.kind)
    return StoreReader(controller, stores, now, is_absent=absent.__contains__)


async def _check_accepted(client: Client, manifest: Object) -> None:
    """Ask the server whether it would take the manifest. One without this kind or namespace has no opinion."""
    with suppress(NotFound):
        await client.apply(manifest, field_manager=ASKING, force=True, dry_run=True)


async def render(
    controller: AnyController, manifest: Object, *, beside: Iterable[Object] = (), now: datetime | None = None
) -> tuple[Object, ...]:
    """The objects that a world without anything but `beside` would come to have, in the order of their making.

    The finalizer is taken as being there.
    """
    stores = {
        watch.kind: new_store(watch.kind, indexes=index_functions(controller, watch.kind))[0]
        for watch in controller.watched
    }
    read: Reader = StoreReader(controller, stores, now or datetime.now(UTC))
    for other in beside:
        if type(other) in stores:
            read = _with(other, read, controller)
    overlay = _with(manifest, read, controller)
    snapshot = await controller.reconciler.observe(key_of(manifest), overlay)
    if snapshot is None:
        return ()
    reconciler = controller.reconciler
    later = reconciler.later(snapshot).actions if isinstance(reconciler, MakesLater) else ()
    every = (*reconciler.plan(snapshot).actions, *later)
    made = {about(action): action.object for action in every if isinstance(action, Create | Apply)}
    return tuple(made.values())


async def dry_run(client: Client, controller: AnyController, plan: Plan) -> tuple[Change, ...]:
    """Send each write with dryRun=All. Secret values are replaced by their digest in `before` and `after`."""
    writes = [action for action in plan.actions if not isinstance(action, EmitEvent)]
    return tuple([await _change(client, controller, action) for action in writes])


async def _change(client: Client, controller: AnyController, action: Action) -> Change:
    if isinstance(action, Outside):
        return Change(action=action, before=None, after=None, untried=f"{action.system} cannot be asked for a dry run")
    where, kind = about(action), kind_of(action)
    try:
        before: Object | None = await client.get(untyped(kind.resource), where.name, where.namespace)
    except NotFound:
        before = None
    was = shown(before)
    try:
        answer = await send(_untyped_answer(action), client, controller.name, dry_run=True)
    except KubeError as error:
        return Change(action=action, before=was, after=was, refused=str(error))
    gone = isinstance(action, Delete | Evict)
    return Change(action=action, before=was, after=None if gone else shown(answer))


def _untyped_answer(action: Action) -> Action:
    """The same action, whose answer shows every field the server has, also those our models do not know.

    Who touches an object between our list and this question makes no apply a refused one.
    """
    if isinstance(action, Apply) and action.over is not None:
        action = msgspec.structs.replace(action, over=msgspec.structs.replace(action.over, resource_version=""))
    if isinstance(action, Create | Apply) and not isinstance(action.object, Unstructured):
        content = msgspec.json.decode(encode(action.object), type=dict[str, Any])
        return msgspec.structs.replace(action, object=untyped(action.object.resource)(content=content))
    if isinstance(action, Patch | AddFinalizer | RemoveFinalizer):
        kind = untyped(action.target.kind.resource)
        return msgspec.structs.replace(action, target=msgspec.structs.replace(action.target, kind=kind))
    return action


def kind_of(action: Action) -> type[Object]:
    match action:
        case Create() | Apply():
            return type(action.object)
        case EmitEvent():
            return action.regarding.kind
        case Outside():
            raise TypeError(f"{action.subject} of {action.system} is no object of Kubernetes")
        case _:
            return action.target.kind


def shown(obj: Object | None) -> dict[str, Any] | None:
    """The object for a diff: without the server's bookkeeping, and with secrets as digests."""
    if obj is None:
        return None
    content: dict[str, Any] = msgspec.json.decode(encode(obj))
    for name in UNTOLD_METADATA:
        content.get("metadata", {}).pop(name, None)
    if obj.resource.kind == "Secret":
        for part in ("data", "stringData"):
            content[part] = {name: f"(digest {digest(value)})" for name, value in content.get(part, {}).items()}
    return content


async def explain(client: Client, controller: AnyController, key: Key, *, now: datetime | None = None) -> Explanation:
    """Raises NotFound when there is no such object."""
    obj = await client.get(controller.kind, key.name, key.namespace)
    planned = await plan_object(client, controller, key, now=now)
    return Explanation(
        object=obj,
        snapshot=planned.snapshot,
        conditions=conditions_in(obj),
        plan=planned.plan,
        events=await _events_about(client, obj),
    )


async def _events_about(client: Client, obj: Object) -> tuple[SeenEvent, ...]:
    """The newest last. Events are kept for an hour by default; an older story is not there to be told."""
    where = Selector(namespace=obj.metadata.namespace or "default", fields=f"regarding.uid={obj.metadata.uid}")
    page = await client.list(Event, where)
    seen = [seen_event(event) for event in page.items if event.regarding.uid == obj.metadata.uid]
    return tuple(sorted(seen, key=lambda event: event.last_seen or LONG_AGO))[-EVENTS_SHOWN_MAX:]


def seen_event(event: Event) -> SeenEvent:
    """Events written through the older core/v1 API have their times and counts in the deprecated fields."""
    series = event.series
    last = series.last_observed_time if series and series.last_observed_time else event.event_time
    return SeenEvent(
        type=event.type,
        reason=event.reason,
        note=event.note,
        count=series.count if series else event.deprecated_count or 1,
        last_seen=parse_time(last) if last else event.deprecated_last_timestamp,
    )


async def conditions_of(client: Client, controller: AnyController, namespace: str = "") -> tuple[Object, ...]:
    """All objects of the kind, for `corral status`."""
    own = controller.watched[0].where
    where = Selector(namespace=namespace or own.namespace, labels=own.labels, fields=own.fields)
    return (await client.list(controller.kind, where)).items
