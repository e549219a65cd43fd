"""The user's overrides, laid over what Corral makes: any field of a pod, a container, a service. Pure.

    map over map               key by key
    list of named things       by name (containers, volumes, env, ...): one of the same name is merged, another is added
    list of ports              by number (and protocol)
    any other list             replaced
    null                       takes the field away
    anything else              replaces ours, also when it is false, 0 or empty

The result is a typed object again; a value of the wrong type, or a field that there is not, is told with its path.
"""

import difflib
import functools
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from corral.kinds.parts import PodTemplate, ServiceTemplate
from corral.kube.codec import encode_value
from corral.kube.models.core_v1 import PodTemplateSpec, Service

M = TypeVar("M", bound=msgspec.Struct)

# What tells the members of a list apart, the first that they all have. As the API server's own merge keys.
IDENTITIES: tuple[tuple[str, ...], ...] = (
    ("name",),
    ("mountPath",),
    ("containerPort", "protocol"),
    ("port", "protocol"),
    ("ip",),
    ("topologyKey", "whenUnsatisfiable"),
)
# Lists of named things that are not merged by name: the name is not what tells them apart.
MERGED_BY: Mapping[str, tuple[str, ...]] = {"volumeMounts": ("mountPath",), "volumeDevices": ("devicePath",)}


class BadOverride(ValueError):
    """The user's override does not fit: which field, what was expected, what was found."""


def overridden(ours: M, theirs: Mapping[str, Any], *, what: str) -> M:
    """`ours` with the user's fields over it; `what` names the field of the manifest, for the message."""
    if not theirs:
        return ours
    if unknown := next(iter(unknown_fields(_shape(type(ours)), theirs, what)), None):
        raise BadOverride(unknown)
    merged = laid_over(msgspec.json.decode(encode_value(ours)), theirs)
    try:
        return msgspec.json.decode(msgspec.json.encode(merged), type=type(ours))
    except msgspec.ValidationError as error:
        raise BadOverride(f"{what}: {error}") from None


@functools.cache
def _shape(kind: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(kind)


def unknown_fields(shape: inspect.Type, given: Any, path: str) -> Iterable[str]:
    """Sentences about fields that the API has not got; the server would drop them without a word."""
    match shape:
        case inspect.StructType() if isinstance(given, Mapping):
            fields = {field.encode_name: field.type for field in shape.fields}
            for name, value in given.items():
                if name in fields:
                    yield from unknown_fields(fields[name], value, f"{path}.{name}")
                    continue
                meant = difflib.get_close_matches(name, fields, n=1)
                hint = f": did you mean {meant[0]}?" if meant else ""
                yield f"{path}.{name} is no field of {shape.cls.__name__}{hint}"
        case inspect.VarTupleType() | inspect.ListType() if isinstance(given, list | tuple):
            for place, member in enumerate(given):
                yield from unknown_fields(shape.item_type, member, f"{path}[{place}]")
        case inspect.DictType() if isinstance(given, Mapping):
            for name, value in given.items():
                yield from unknown_fields(shape.value_type, value, f"{path}.{name}")
        case inspect.UnionType():
            for one in shape.types:
                if isinstance(one, inspect.StructType | inspect.VarTupleType | inspect.DictType):
                    yield from unknown_fields(one, given, path)
        case inspect.Metadata():
            yield from unknown_fields(shape.type, given, path)
        case _:
            return


def laid_over(ours: Any, theirs: Any, field: str = "") -> Any:
    """Plain data over plain data, by the rule of the module's docstring."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        merged = dict(ours)
        for key, value in theirs.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = laid_over(ours.get(key), value, key)
        return merged
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return _lists(list(ours), list(theirs), field)
    return theirs


def pod_template(
    ours: PodTemplateSpec, theirs: PodTemplate, *, container: str, daemon: Mapping[str, Any], field: str = "spec"
) -> PodTemplateSpec:
    """The pod template with the user's: labels and annotations added (ours stay), pod and main container overridden.

    `container` is the name of the daemon's container in our template; `daemon` are the overrides of it. `field` is
    where in the manifest both are, for the message.
    """
    meta, spec = ours.metadata, ours.spec
    metadata = msgspec.structs.replace(
        meta,
        labels={**theirs.labels, **meta.labels},
        annotations={**theirs.annotations, **meta.annotations},
    )
    containers = tuple(
        overridden(one, daemon, what=f"{field}.{container}") if one.name == container else one
        for one in spec.containers
    )
    pod = overridden(msgspec.structs.replace(spec, containers=containers), theirs.spec, what=f"{field}.template.spec")
    return msgspec.structs.replace(ours, metadata=metadata, spec=pod)


def service(ours: Service, theirs: ServiceTemplate) -> Service:
    """The Service with the user's: `port` and `nodePort` are those of its first port."""
    meta = ours.metadata
    metadata = msgspec.structs.replace(
        meta, labels={**theirs.labels, **meta.labels}, annotations={**theirs.annotations, **meta.annotations}
    )
    spec = ours.spec
    if spec.ports and (theirs.port is not None or theirs.node_port is not None):
        first = spec.ports[0]
        first = msgspec.structs.replace(
            first,
            port=first.port if theirs.port is None else theirs.port,
            node_port=first.node_port if theirs.node_port is None else theirs.node_port,
        )
        spec = msgspec.structs.replace(spec, ports=(first, *spec.ports[1:]))
    return msgspec.structs.replace(
        ours, metadata=metadata, spec=overridden(spec, theirs.spec, what="spec.service.spec")
    )


def _lists(ours: list[Any], theirs: list[Any], field: str) -> list[Any]:
    members = [*ours, *theirs]
    if not theirs or not all(isinstance(member, Mapping) for member in members):
        return theirs
    identity = MERGED_BY.get(field) or next(
        (keys for keys in IDENTITIES if all(keys[0] in member for member in members)), None
    )
    if identity is None:
        return theirs
    merged = {_identity(member, identity): member for member in ours}
    for member in theirs:
        key = _identity(member, identity)
        merged[key] = laid_over(merged[key], member) if key in merged else member
    return list(merged.values())


def _identity(member: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(member.get(key, "TCP" if key == "protocol" else None) for key in keys)
