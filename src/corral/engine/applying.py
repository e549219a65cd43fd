"""Make an object, or change it by an apply, and mark what the server spells otherwise (see `corral.engine.children`).

An answer may be lost. The client's repeat then meets what the first request has made, and is refused: by its name, or
by the version that it was decided about. So after a refusal the object is looked at: what is as it was sent is done.
"""

import msgspec

from corral.engine.actions import Apply, Create, EmitEvent, Target
from corral.engine.actor import Actor, look, written
from corral.engine.children import APPLIED, comparable, paths_text, with_metadata, with_normalised
from corral.engine.differences import differences, wire
from corral.engine.send import send_apply
from corral.kube.errors import AlreadyExists, Conflict
from corral.kube.meta import Object, ref

MARKED_TRIES = 3


class NameTaken(Exception):
    def __init__(self, there: Object) -> None:
        self.message = f"{ref(there)} exists and does not belong to this object: delete it, or choose another name"
        super().__init__(self.message)


async def make(action: Create | Apply, actor: Actor) -> bool:
    """Make a missing object. One that is there already is ours (an answer was lost, a cache is late) or is reported."""
    wanted = action.object
    try:
        if isinstance(action, Apply):
            answer = await send_apply(action, actor.client, actor.manager)
        else:
            told = await actor.client.make(wanted, field_manager=actor.manager)
            return written(actor, with_metadata(wanted, told), None)
    except (AlreadyExists, Conflict):
        answer = await actor.client.get(type(wanted), wanted.metadata.name, wanted.metadata.namespace)
        if not _same_controller(answer, wanted) and not _same_labels(answer, action):
            raise NameTaken(answer) from None
        if isinstance(action, Create):  # never over what is there; and made now it would have no mark either
            return written(actor, answer, None)
    return written(actor, await _marked(wanted, answer, actor), None)


async def change(action: Apply, over: Target, actor: Actor, regarding: Target) -> bool:
    answer = await _applied(action, over, actor)
    put_back = _put_back(action, answer)
    if put_back:
        message = f"{ref(answer)}: someone else changed {paths_text(put_back)}; reverted"
        actor.tell(EmitEvent(regarding=regarding, type="Warning", reason="Drifted", message=message, action="Apply"))
    return written(actor, await _marked(action.object, answer, actor), over)


async def _applied(action: Apply, over: Target, actor: Actor) -> Object:
    try:
        return await send_apply(action, actor.client, actor.manager)
    except Conflict:
        there = await look(actor, over.kind, over.name, over.namespace)
        if there is None or there.metadata.uid != over.uid or not _is_as_sent(there, action.object):
            raise
        if len(_put_back(action, there)) < len(action.drifted):
            raise
        return there


def _is_as_sent(there: Object, sent: Object) -> bool:
    """By the mark: the same manager has applied the same wish."""
    mark = sent.metadata.annotations.get(APPLIED)
    return mark is not None and there.metadata.annotations.get(APPLIED) == mark


def _put_back(action: Apply, answer: Object) -> list[str]:
    remaining = differences(type(action.object), comparable(action.object), wire(answer))
    return [path for path in action.drifted if path not in remaining]


async def _marked(sent: Object, answer: Object, actor: Actor) -> Object:
    """Over the version that was compared. Who touches it in between (a controller, its status) may do so."""
    there: Object | None = answer
    for _ in range(MARKED_TRIES):
        if there is None or there.metadata.uid != answer.metadata.uid or not _is_as_sent(there, sent):
            break
        marked = with_normalised(sent, there)
        if marked is None:
            return there
        compared = {"uid": there.metadata.uid, "resource_version": there.metadata.resource_version}
        body = with_metadata(marked, msgspec.structs.replace(marked.metadata, **compared))
        try:
            return await actor.client.apply(body, field_manager=actor.manager, force=True)
        except Conflict:
            there = await look(actor, type(sent), sent.metadata.name, sent.metadata.namespace)
    return answer


def _same_controller(there: Object, wanted: Object) -> bool:
    ours = {r.uid for r in wanted.metadata.owner_references if r.controller}
    return any(r.controller and r.uid in ours for r in there.metadata.owner_references)


def _same_labels(there: Object, action: Create | Apply) -> bool:
    names = action.known_by if isinstance(action, Create) else ()
    return bool(names) and all(there.metadata.labels.get(n) == action.object.metadata.labels[n] for n in names)
