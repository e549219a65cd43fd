"""Where an object differs from what we want of it. Pure.

The comparison is one-sided: every field that we set must be there with our value; fields that we do not set belong to
others and are not looked at. Both sides are compared as the server would spell them (`corral.kube.canonical`).

How lists are compared follows from their types, as server-side apply merges them (`corral.kube.values`): lists with
`keys` element by element, where elements that others added are not ours; `UNIQUE` lists as sets; every other list is
one value, in order. For objects without a class every list is one value; where the server merges it all the same, it
looks different once, is found to be unchangeable, and is then settled by its mark (see `corral.engine.children`).
"""

import hashlib
import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

import msgspec

from corral.kube.canonical import canonical
from corral.kube.codec import encode
from corral.kube.meta import Object, ObjectMeta
from corral.kube.unstructured import Unstructured
from corral.kube.values import UNIQUE, keys

Wire: TypeAlias = dict[str, Any]
Differences: TypeAlias = dict[str, Any]
"""Field path -> what is observed there (None: nothing)."""


class Shape(msgspec.Struct, frozen=True):
    """What a type says about merging: of a part, its class; of a list or map, its elements; of a list, its keys."""

    struct: type[msgspec.Struct] | None = None
    element: "Shape | None" = None
    keys: tuple[str, ...] = ()
    is_set: bool = False


UNKNOWN = Shape()


def wire(obj: Object) -> Wire:
    """The object as plain JSON values, in the server's spelling."""
    return msgspec.json.decode(encode(canonical(obj)), type=dict[str, Any])


def digest(value: object) -> str:
    """A short name for a JSON value, the same for the same value whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]


def differences(kind: type[Object], desired: Wire, observed: Wire) -> Differences:
    """Every field of `desired` that is not so in `observed`, both in wire form."""
    shape = UNKNOWN if issubclass(kind, Unstructured) else Shape(struct=kind)
    return _compared(desired, observed, shape, "")


def _compared(desired: Any, observed: Any, shape: Shape, path: str) -> Differences:
    if desired == observed:
        return {}
    if isinstance(desired, Mapping) and isinstance(observed, Mapping):
        found: Differences = {}
        for name, value in desired.items():
            below = _shapes(shape.struct).get(name, UNKNOWN) if shape.struct else shape.element or UNKNOWN
            found |= _compared(value, observed.get(name), below, f"{path}.{name}" if path else name)
        return found
    if isinstance(desired, list) and isinstance(observed, list):
        return _lists_compared(desired, observed, shape, path)
    return {path: observed}


def _lists_compared(desired: list[Any], observed: list[Any], shape: Shape, path: str) -> Differences:
    element = shape.element or UNKNOWN
    if shape.is_set:
        return {} if all(item in observed for item in desired) else {path: observed}
    if shape.keys:
        return _keyed_compared(desired, observed, shape, path)
    if len(desired) != len(observed):
        return {path: observed}
    found: Differences = {}
    for number, (ours, theirs) in enumerate(zip(desired, observed, strict=True)):
        found |= _compared(ours, theirs, element, f"{path}[{number}]")
    return found


def _keyed_compared(desired: list[Any], observed: list[Any], shape: Shape, path: str) -> Differences:
    """A key that we leave to the server's default (a port's protocol) matches any; the exact matches go first."""
    found: Differences = {}
    left = list(observed)
    for ours in sorted(desired, key=lambda item: -sum(name in item for name in shape.keys)):
        stated = {name: ours[name] for name in shape.keys if name in ours}
        match = next((o for o in left if all(o.get(name) == value for name, value in stated.items())), None)
        if match is not None:
            left.remove(match)
        shown = "/".join(str(value) for value in stated.values())
        found |= _compared(ours, match, shape.element or UNKNOWN, f"{path}[{shown}]")
    return found


@cache
def _shapes(struct: type[msgspec.Struct]) -> dict[str, Shape]:
    """The shape of each field, by its name on the wire."""
    fields = msgspec.structs.fields(struct)
    shapes = {field.encode_name: _shape(field.type) for field in fields}
    return {**shapes, **METADATA} if struct is ObjectMeta else shapes


def _shape(declared: Any) -> Shape:
    origin, arguments = get_origin(declared), get_args(declared)
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        return Shape(struct=declared)
    if origin in (Union, types.UnionType):
        return next((found for part in arguments if (found := _shape(part)) != UNKNOWN), UNKNOWN)
    if origin is Annotated:
        return _marked(_shape(arguments[0]), arguments[1:])
    if origin is tuple:
        return Shape(element=_shape(arguments[0]))
    if origin is Mapping:
        return Shape(element=_shape(arguments[1]))
    return UNKNOWN


def _marked(shape: Shape, marks: tuple[Any, ...]) -> Shape:
    said: dict[str, Any] = {}
    for mark in marks:
        said |= (mark.extra_json_schema or {}) if isinstance(mark, msgspec.Meta) else {}
    return Shape(
        struct=shape.struct,
        element=shape.element,
        keys=tuple(said.get("x-kubernetes-list-map-keys", ())),
        is_set=said.get("x-kubernetes-list-type") == "set",
    )


# ObjectMeta is written by hand, without marks.
METADATA: Mapping[str, Shape] = {
    "ownerReferences": _marked(UNKNOWN, (keys("uid"),)),
    "finalizers": _marked(UNKNOWN, (UNIQUE,)),
}
