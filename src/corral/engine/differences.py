"""Where an object differs from what we want of it. Pure.

The comparison is one-sided: every field that we set must be there with our value; fields that we do not set belong to
others and are not looked at. Both sides are compared as the server would spell them (`corral.kube.canonical`).

Lists of maps that server-side apply merges by a key (containers, env, volumes, ...) are compared by that key, and
elements that others added are not ours. Every other list is compared element by element, and in length. A list
that the server merges but this table does not know looks different once, is found to be unchangeable, and is then
settled by its mark (see `corral.engine.children`); nothing worse happens.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from corral.kube.canonical import canonical
from corral.kube.codec import encode
from corral.kube.meta import Object

Wire: TypeAlias = dict[str, Any]

# Field name -> the fields of an element that are its key, each with the server's default.
MERGED_LISTS: Mapping[str, tuple[tuple[str, Any], ...]] = {
    "containers": (("name", None),),
    "initContainers": (("name", None),),
    "ephemeralContainers": (("name", None),),
    "volumes": (("name", None),),
    "env": (("name", None),),
    "imagePullSecrets": (("name", None),),
    "volumeMounts": (("mountPath", None),),
    "volumeDevices": (("devicePath", None),),
    "ports": (("containerPort", None), ("port", None), ("protocol", "TCP")),
    "hostAliases": (("ip", None),),
    "topologySpreadConstraints": (("topologyKey", None), ("whenUnsatisfiable", None)),
    "conditions": (("type", None),),
    "ownerReferences": (("uid", None),),
}
MERGED_SETS = frozenset({"finalizers"})

ABSENT: Any = None  # the wire has no null that means something other than "not set"


def wire(obj: Object) -> Wire:
    """The object as plain JSON values, in the server's spelling."""
    return msgspec.json.decode(encode(canonical(obj)), type=dict[str, Any])


def digest(value: object) -> str:
    """A short name for a JSON value, the same for the same value whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]


def differences(desired: Any, observed: Any, path: str = "") -> dict[str, Any]:
    """Field path -> what is observed there (None: nothing), for every field of `desired` that is not so."""
    if isinstance(desired, Mapping) and isinstance(observed, Mapping):
        found: dict[str, Any] = {}
        for name, value in desired.items():
            found |= _field_differences(name, value, observed.get(name, ABSENT), f"{path}.{name}" if path else name)
        return found
    return {} if desired == observed else {path: observed}


def _field_differences(name: str, desired: Any, observed: Any, path: str) -> dict[str, Any]:
    if not isinstance(desired, list) or not isinstance(observed, list):
        return differences(desired, observed, path)
    if name in MERGED_SETS:
        return {} if set(desired) <= set(observed) else {path: observed}
    if (keys := MERGED_LISTS.get(name)) and (ours := _by_key(desired, keys)) and (theirs := _by_key(observed, keys)):
        found: dict[str, Any] = {}
        for key, element in ours.items():
            found |= differences(element, theirs.get(key, ABSENT), f"{path}[{_shown(key)}]")
        return found
    return _element_differences(desired, observed, path)


def _element_differences(desired: list[Any], observed: list[Any], path: str) -> dict[str, Any]:
    if len(desired) != len(observed):
        return {path: observed}
    found: dict[str, Any] = {}
    for number, (ours, theirs) in enumerate(zip(desired, observed, strict=True)):
        found |= differences(ours, theirs, f"{path}[{number}]")
    return found


def _by_key(elements: Sequence[Any], keys: tuple[tuple[str, Any], ...]) -> dict[tuple[Any, ...], Any] | None:
    """None when these are not maps with a key of their own: then the order is all we have."""
    if not all(isinstance(element, Mapping) for element in elements):
        return None
    keyed = {tuple(element.get(name, default) for name, default in keys): element for element in elements}
    named = all(any(element.get(name) is not None for name, _ in keys) for element in elements)
    return keyed if named and len(keyed) == len(elements) else None


def _shown(key: tuple[Any, ...]) -> str:
    return "/".join(str(part) for part in key if part is not None)
