"""Actions: what a plan wants done, as frozen data.

An action says what to do, to which object, on which condition, and why (`reason` for programs, `message` for people).
Nothing here sends anything: `corral.engine.act` carries actions out, `corral plan` prints them, tests compare them.

    Create           POST. Never overwrites: for what is made once (pods, generated Secrets)
    Apply            server-side apply of what we own; makes the object when `over` is None, else changes that one
    Patch            merge or JSON patch of a few fields, only of the object we looked at
    Delete, Evict    only the object we looked at
    AddFinalizer, RemoveFinalizer   a patch of the list of finalizers, only of the object we looked at
    SetStatus        server-side apply to the status subresource
    EmitEvent        tell people; never fails an attempt
    Outside          something in another system, carried out by the reconciler's own `perform`

`Target` is "the object we looked at": its uid and version travel with every write, so a decision made about an older
state is refused by the server (Conflict) instead of being carried out. (`SetStatus` has the uid alone, see there.)
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec

from corral.kube.client import Precondition, Propagation
from corral.kube.meta import Object, ObjectRef, OwnerReference, ref

ALIKE_MAX = 10  # told one by one


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The object that was looked at when the action was decided."""

    kind: type[Object]
    namespace: str
    name: str
    uid: str
    resource_version: str

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.kind.resource.kind, self.namespace, self.name)

    @property
    def precondition(self) -> Precondition:
        return Precondition(uid=self.uid, resource_version=self.resource_version)

    @property
    def identity(self) -> Precondition:
        """The same object, in whatever state it is now."""
        return Precondition(uid=self.uid)


def target(obj: Object) -> Target:
    meta = obj.metadata
    return Target(
        kind=type(obj),
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


class Create(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    """Make the object. AlreadyExists is fine when what is there has our owner reference; otherwise it is reported.

    `known_by`: for an object that is to outlive its owner, and so has no owner reference: the labels by which one that
    is there is recognised as ours, if it has them with the same values.
    """

    object: Object
    known_by: tuple[str, ...] = ()
    reason: str
    message: str


class Apply(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    """Own the fields that `object` sets, and no others.

    `over` None: the object must not exist yet (the server refuses to touch one that does).
    `over` set: only that object, as it was looked at; fields that others own are taken over (`force`).
    `drifted`: field paths that someone else changed and this apply puts back; told in an event when it did.
    """

    object: Object
    over: Target | None = None
    drifted: tuple[str, ...] = ()
    reason: str
    message: str


class Patch(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    """Change some fields of an object that is not ours to apply. Exactly one of `merge` and `json` is set."""

    target: Target
    merge: Mapping[str, Any] | None = None
    json: tuple[Mapping[str, Any], ...] | None = None
    subresource: str = ""
    reason: str
    message: str


class Delete(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    target: Target
    propagation: Propagation = "Background"
    grace_period_s: int | None = None
    reason: str
    message: str


class Evict(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    """Ask for a pod to go, within its disruption budget. A budget that says "not now" is a refusal; tried later."""

    target: Target
    grace_period_s: int | None = None
    reason: str
    message: str


class AddFinalizer(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    target: Target
    present: tuple[str, ...]
    finalizer: str
    reason: str = "FinalizerNeeded"
    message: str = ""


class RemoveFinalizer(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    target: Target
    present: tuple[str, ...]
    finalizer: str
    reason: str = "CleanupFinished"
    message: str = ""


class SetStatus(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    """Show something in the status of an object that others report on as well: a condition of ours on a pod.

    By uid only: the kubelet writes to a pod all the time, nothing is decided by what we show there, and the next pass
    corrects it. (The status of the reconciled object itself is written by the engine, see `corral.engine.reporting`.)
    """

    target: Target
    status: msgspec.Struct
    reason: str = "StatusChanged"
    message: str = ""


EventType: TypeAlias = Literal["Normal", "Warning"]


class EmitEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    """An event of events.k8s.io/v1 about `regarding`. `message` is its note; `action` is what was done or tried."""

    regarding: Target
    reason: str
    message: str
    type: EventType = "Normal"
    action: str = "Reconcile"
    related: Target | None = None


class Outside(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag=True):
    """Something to be done in another system. `call` is the kind's own frozen data; its class name is read as a verb.

    `system` and `subject` are for people: "Slurm lab/demo", "node gpu-3". A call must be harmless when it is repeated:
    an answer that was lost is asked for again.
    """

    system: str
    subject: str
    call: msgspec.Struct
    reason: str
    message: str


class OutsideFailed(Exception):
    """What `perform` raises when the other system did not do it: why, in words for the condition.

    `stalled`: a retry cannot help, a person must act; they are told in an event too.
    `alone`: the other system answered, and what it refused is this call only.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        stalled: bool = False,
        alone: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message
        self.stalled, self.alone, self.retry_after_s = stalled, alone, retry_after_s


Action: TypeAlias = (
    Create | Apply | Patch | Delete | Evict | AddFinalizer | RemoveFinalizer | SetStatus | EmitEvent | Outside
)


def controller_reference(owner: Object) -> OwnerReference:
    """The owner reference that makes `owner` the one controller of a child."""
    return OwnerReference(
        api_version=owner.resource.api_version,
        kind=owner.resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def is_controlled_by(child: Object, owner: Object) -> bool:
    """By uid: an owner that was deleted and made again under the same name does not inherit the old one's children."""
    return any(r.uid == owner.metadata.uid and r.controller for r in child.metadata.owner_references)


def about(action: Action) -> ObjectRef:
    """The object an action touches; in another system, the system and what of it."""
    match action:
        case Outside():
            return ObjectRef(action.system, "", action.subject)
        case Create() | Apply():
            return ref(action.object)
        case EmitEvent():
            return action.regarding.ref
        case _:
            return action.target.ref


VERBS: Mapping[type[Action], str] = {
    Create: "create",
    Apply: "apply",
    Patch: "patch",
    Delete: "delete",
    Evict: "evict",
    AddFinalizer: "add finalizer to",
    RemoveFinalizer: "remove finalizer from",
    SetStatus: "set status of",
    EmitEvent: "record event for",
}


def summary(action: Action) -> str:
    """One line for a person: `create ConfigMap lab/hello: the greeting does not exist yet (Missing)`."""
    said = f": {action.message}" if action.message else ""
    what = f"{action.subject} in {action.system}" if isinstance(action, Outside) else str(about(action))
    return f"{verb(action)} {what}{said} ({action.reason})"


def summaries(actions: Iterable[Action]) -> Iterator[str]:
    """A line for each, but one for many that are alike: the names of their objects tell nobody anything."""
    for likeness, run in groupby(actions, likeness_of):
        alike = tuple(run)
        if likeness is None or len(alike) <= ALIKE_MAX:
            yield from map(summary, alike)
        else:
            yield f"{summary(alike[0])} and {len(alike) - 1} more, the last {about(alike[-1])}"


def likeness_of(action: Action) -> tuple[type[Action], type[Object]] | None:
    """Neighbours that have the same do one thing to many objects of one kind, in no order that matters."""
    match action:
        case Create():
            return Create, type(action.object)
        case SetStatus():
            return SetStatus, action.target.kind
    return None


def verb(action: Action) -> str:
    """`change` reads better than `apply` where the object exists; a person asks what happens to it, not how."""
    if isinstance(action, Apply):
        return "create" if action.over is None else "change"
    if isinstance(action, Outside):
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(action.call).__name__).lower()
    return VERBS[type(action)]
