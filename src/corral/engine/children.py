"""What to do so that an owner's children are as desired: make, change, put back, prune. Pure.

    desired and missing               create (an apply that refuses to touch an existing object; `Once`: POST)
    desired, but we changed our mind  change
    desired, but someone changed it   put back, and say so in a Drifted event with the field paths
    desired, but the name is taken    wait for a person: an object that is not ours is never touched
    not desired, ours                 delete (ours: our controller reference by uid, and our manager's mark)
    not desired, not ours             left alone

A field that we do not set is not ours and is left alone. An object wrapped in `Once` is made and never changed, so its
mark has the word `once` instead of a digest.

Theory of operation. Everything that we make carries the annotation `corral.dev/applied: <manager>/<digest of what we
desired>`. An object is in sync when the digest is the present one and every field that we set is as we set it. Another
digest: we changed our mind. The same digest but another field: someone changed it, or the server spells our value in
another way. `act` tells these apart, because it sees the server's answer to our apply: what is still different there,
the server made so, and it writes those paths into `corral.dev/normalised` (path -> digest of the server's value). Here
such a difference counts as in sync. Without this, a normalised field would be applied for ever.

A comparison that found a child in sync is remembered, since most passes are about something else: the same wish beside
the same observed object, which is frozen and so the same as long as nobody has written to it, is in sync still.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from corral.engine.actions import Apply, Create, Delete, controller_reference, is_controlled_by, target
from corral.engine.differences import Wire, differences, digest, wire
from corral.engine.plan import NOTHING, Plan, Wait
from corral.kube.meta import Object, ObjectMeta, ObjectRef, ref
from corral.kube.unstructured import Unstructured

APPLIED = "corral.dev/applied"
NORMALISED = "corral.dev/normalised"
ONCE = "once"  # in place of a digest that nobody would ever compare, and that would be one of a generated secret
PATHS_SHOWN_MAX = 5
REMEMBERED_MAX = 4_096  # children; the oldest is forgotten, and compared anew

T = TypeVar("T", bound=Object)


class BadChild(ValueError):
    """Our own mistake: an object that this owner cannot have as a child."""


class Once(msgspec.Struct, frozen=True):
    """A child that is made once and never changed afterwards: a pod, a generated Secret."""

    object: Object


class _InSync(msgspec.Struct, frozen=True):
    child: Object  # as desired, without the mark
    manager: str
    present: Object


_in_sync: dict[str, _InSync] = {}  # by uid


def manager_name(kind: type[Object]) -> str:
    """The default field manager and controller name of a kind: `corral-toy`."""
    return f"corral-{kind.resource.kind.lower()}"


def children(owner: Object, desired: Iterable[Object | Once], observed: Iterable[Object], *, manager: str = "") -> Plan:
    """`observed`: every child the owner controls (`read.owned`), and any other object known under a desired name.

    The owner reference, the mark and the namespace are added here; `desired` says only what the kind means.
    Order: what is made and changed, as `desired` has it; then what is pruned, by name.
    """
    manager = manager or manager_name(type(owner))
    there = {ref(child): child for child in observed}
    wanted: dict[ObjectRef, Plan] = {}
    for entry in desired:
        once = isinstance(entry, Once)
        child = _placed(entry.object if isinstance(entry, Once) else entry, owner)
        name = ref(child)
        if name in wanted:
            raise BadChild(f"{ref(owner)}: {name} is desired twice")
        wanted[name] = _one_child(owner, child, there.get(name), manager, once=once)
    surplus = (there[name] for name in sorted(there.keys() - wanted.keys()))
    pruned = (_prune(owner, child) for child in surplus if _is_ours(child, owner, manager))
    return Plan(
        actions=(*(action for plan in wanted.values() for action in plan.actions), *pruned),
        waits=tuple(wait for plan in wanted.values() for wait in plan.waits),
    )


def _one_child(owner: Object, child: Object, present: Object | None, manager: str, *, once: bool) -> Plan:
    if present is None:
        make, message = Create if once else Apply, f"the {child.resource.kind} does not exist yet"
        return Plan(actions=(make(object=_marked(child, manager, once=once), reason="Missing", message=message),))
    if not is_controlled_by(present, owner):
        return Plan(waits=(name_taken(owner, present),))
    if present.metadata.deletion_timestamp is not None:
        message = f"{ref(present)} is being deleted; it is created again after that"
        return Plan(waits=(Wait(reason="ChildBeingDeleted", message=message, on=ref(present)),))
    if once or _is_remembered(child, manager, present):
        return NOTHING
    plan = _in_line(_marked(child, manager, once=False), present)
    if plan is NOTHING:
        _remember(child, manager, present)
    return plan


def _is_remembered(child: Object, manager: str, present: Object) -> bool:
    found = _in_sync.get(present.metadata.uid)
    return found is not None and found.present is present and found.manager == manager and found.child == child


def _remember(child: Object, manager: str, present: Object) -> None:
    _in_sync.pop(present.metadata.uid, None)
    if len(_in_sync) >= REMEMBERED_MAX:
        del _in_sync[next(iter(_in_sync))]
    _in_sync[present.metadata.uid] = _InSync(child, manager, present)


def _in_line(child: Object, present: Object) -> Plan:
    """Change what exists into what is desired; nothing when it is so already."""
    annotations, before = child.metadata.annotations, present.metadata.annotations
    decided_before = before.get(APPLIED) == annotations[APPLIED]
    differ = differences(type(child), comparable(child), wire(present))
    foreign = {path: value for path, value in differ.items() if not is_normalised(before, path, value)}
    if decided_before and not foreign:
        return NOTHING
    if decided_before:
        reason, message = "Drifted", f"someone else changed {paths_text(foreign)}; reverted"
    else:
        reason, message = "Changed", f"desired state changed: {paths_text(differ)}" if differ else "a field is removed"
    kept = {NORMALISED: before[NORMALISED]} if decided_before and NORMALISED in before else {}
    return Plan(
        actions=(
            Apply(
                object=_with_annotations(child, {**annotations, **kept}),
                over=target(present),
                drifted=tuple(sorted(foreign)) if decided_before else (),
                reason=reason,
                message=message,
            ),
        )
    )


def _prune(owner: Object, child: Object) -> Delete:
    message = f"no longer needed by {ref(owner)}"
    return Delete(target=target(child), reason="NoLongerDesired", message=message)


def _is_ours(child: Object, owner: Object, manager: str) -> bool:
    marked = child.metadata.annotations.get(APPLIED, "").startswith(f"{manager}/")
    return marked and is_controlled_by(child, owner) and child.metadata.deletion_timestamp is None


def name_taken(owner: Object, present: Object) -> Wait:
    """The one text for an object that stands where our child should be."""
    message = f"{ref(present)} exists and does not belong to {ref(owner)}: delete it, or choose another name"
    return Wait(reason="NameTaken", message=message, on=ref(present), stalled=True)


def paths_text(paths: Iterable[str]) -> str:
    """Field paths for a sentence, never values: they may be secret."""
    found = sorted(paths)
    more = f" and {len(found) - PATHS_SHOWN_MAX} more" if len(found) > PATHS_SHOWN_MAX else ""
    return ", ".join(found[:PATHS_SHOWN_MAX]) + more


def comparable(child: Object) -> Wire:
    """The fields of a child that are compared: all that it sets, without our own bookkeeping."""
    content = wire(child)
    annotations = content["metadata"].get("annotations", {})
    bookkeeping = {APPLIED, NORMALISED}
    content["metadata"]["annotations"] = {k: v for k, v in annotations.items() if k not in bookkeeping}
    for server_side in ("uid", "resourceVersion"):
        content["metadata"].pop(server_side, None)
    return content


def is_normalised(annotations: Mapping[str, str], path: str, value: Any) -> bool:
    return normalised_marks(annotations).get(path) == digest(value)


def normalised_marks(annotations: Mapping[str, str]) -> dict[str, str]:
    """What `act` wrote down; someone else's nonsense there is as good as nothing."""
    try:
        return msgspec.json.decode(annotations.get(NORMALISED, "{}"), type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def with_normalised(child: T, answer: Object) -> T | None:
    """`child` with the marks that the server's answer to its apply calls for; None when it has them already."""
    remaining = {
        path: digest(value) for path, value in differences(type(child), comparable(child), wire(answer)).items()
    }
    if remaining == normalised_marks(child.metadata.annotations):
        return None
    annotations = {key: value for key, value in child.metadata.annotations.items() if key != NORMALISED}
    if remaining:
        annotations[NORMALISED] = msgspec.json.encode(remaining, order="deterministic").decode()
    return _with_annotations(child, annotations)


def _placed(obj: Object, owner: Object) -> Object:
    """In its namespace, with its owner."""
    meta = obj.metadata
    namespace = (meta.namespace or owner.metadata.namespace) if obj.resource.namespaced else ""
    if owner.metadata.namespace not in ("", namespace):
        where = f"in namespace {namespace}" if namespace else "cluster-wide"
        raise BadChild(f"{ref(owner)} cannot own {ref(obj)} {where}: an owner reference does not cross namespaces")
    references = (*meta.owner_references, controller_reference(owner))
    return with_metadata(obj, msgspec.structs.replace(meta, namespace=namespace, owner_references=references))


def _marked(child: Object, manager: str, *, once: bool) -> Object:
    mark = f"{manager}/{ONCE if once else digest(wire(child))}"
    return _with_annotations(child, {**child.metadata.annotations, APPLIED: mark})


def _with_annotations(obj: T, annotations: Mapping[str, str]) -> T:
    return with_metadata(obj, msgspec.structs.replace(obj.metadata, annotations=annotations))


def with_metadata(obj: T, metadata: ObjectMeta) -> T:
    if isinstance(obj, Unstructured):
        return type(obj)(content={**obj.content, "metadata": msgspec.to_builtins(metadata)})
    return msgspec.structs.replace(obj, metadata=metadata)
