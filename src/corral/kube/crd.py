"""Own kinds: a frozen Struct is the kind, and its CustomResourceDefinition follows from it.

    @kind(group="demo.corral.dev", version="v1alpha1", plural="toys", short_names=("ty",))
    class Toy(Object, frozen=True, kw_only=True):
        \"""One sentence for kubectl explain.\"""

        spec: ToySpec
        status: ToyStatus = ToyStatus()

How fields read as schema is told in `corral.kube.structural`. CEL rules with their messages stand where they belong:
on a field (`Annotated[int, rule("self >= 0", "must not be negative")]`), on a part (`@rules(...)`), on the kind.
Nothing here talks to a server, and a kind is described when asked (`crd_of`), not when it is imported.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
import yaml
from msgspec import Meta

from corral.kube.codec import encode
from corral.kube.meta import Object, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.structural import Inexpressible, Schema, schema_of
from corral.kube.values import UNIQUE, keys

__all__ = (
    "kind", "rules", "crd_of", "to_yaml", "own_kinds",
    "Column", "Scale", "rule", "keys", "UNIQUE", "EMBEDDED", "Inexpressible",
)  # fmt: skip

K = TypeVar("K", bound=type[Object])
S = TypeVar("S", bound=type[msgspec.Struct])

# Marks a Json field that holds a whole object, with apiVersion and kind.
EMBEDDED = Meta(extra_json_schema={"x-kubernetes-embedded-resource": True})


def rule(cel: str, message: str, *, reason: str = "", message_expression: str = "", field: str = "") -> Meta:
    """A CEL rule and what a user reads who breaks it. `oldSelf` makes it a rule about changes."""
    optional = {"reason": reason, "messageExpression": message_expression, "fieldPath": field}
    entry = {"rule": cel, "message": message, **{name: value for name, value in optional.items() if value}}
    return Meta(extra_json_schema={"x-kubernetes-validations": [entry]})


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`. `priority` 1 and more shows only with `-o wide`."""

    name: str
    type: Literal["string", "integer", "number", "boolean", "date"]
    path: str
    description: str = ""
    priority: int = 0
    format: str = ""


READY = Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status')
STATUS = Column("Status", "string", '.status.conditions[?(@.type=="Ready")].reason')
AGE = Column("Age", "date", ".metadata.creationTimestamp")
MESSAGE = Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', priority=1)


class Scale(msgspec.Struct, frozen=True):
    """Where `kubectl scale` and autoscalers find the counts, as JSON paths."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ""


class _Definition(msgspec.Struct, frozen=True):
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Column, ...]
    scale: Scale | None
    rules: tuple[Meta, ...]


_definitions: dict[type[Object], _Definition] = {}
_rules_of_types: dict[type, list[Any]] = {}


def kind(
    *,
    group: str,
    version: str,
    plural: str,
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    columns: tuple[Column, ...] = (),
    scale: Scale | None = None,
    rules: tuple[Meta, ...] = (),
) -> Callable[[K], K]:
    """Makes a Struct a kind of its own: sets its `resource` and keeps what its CustomResourceDefinition needs.

    `columns` are those of this kind alone: Ready, Status (if its status has conditions) and Age are added.
    """

    def made(cls: K) -> K:
        cls.resource = Resource(group, version, cls.__name__, plural, namespaced)
        _definitions[cls] = _Definition(short_names, categories, columns, scale, rules)
        return cls

    return made


def rules(*found: Meta) -> Callable[[S], S]:
    """CEL rules that concern several fields of one part: `@rules(rule("self.min <= self.max", "min is above max"))`."""

    def made(cls: S) -> S:
        _rules_of_types[cls] = _entries(found)
        return cls

    return made


def own_kinds() -> tuple[type[Object], ...]:
    """The kinds whose modules have been imported, in the order of their names."""
    return tuple(sorted(_definitions, key=lambda own: own.resource.plural_and_group))


def crd_of(own: type[Object]) -> CustomResourceDefinition:
    """Raises Inexpressible for a field that no schema can say, and LookupError for a class that is no kind of ours."""
    definition = _definitions.get(own)
    if definition is None:
        raise LookupError(f"{own.__name__} is no kind of ours: put @kind(group=..., version=..., plural=...) on it")
    return msgspec.convert(_manifest(own, definition), CustomResourceDefinition)


def to_yaml(*crds: CustomResourceDefinition) -> str:
    """One file for `kubectl apply --server-side -f`."""
    manifests = [_whole_numbers(msgspec.json.decode(encode(crd))) for crd in crds]
    return yaml.dump_all(manifests, Dumper=yaml.CSafeDumper, sort_keys=False, width=120, explicit_start=True)


def _manifest(own: type[Object], definition: _Definition) -> Schema:
    resource, name = own.resource, own.resource.kind
    names = {"plural": resource.plural, "singular": name.lower(), "kind": name, "listKind": f"{name}List"}
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {**names, "shortNames": definition.short_names, "categories": definition.categories},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(own, definition)],
        },
    }


def _version(own: type[Object], definition: _Definition) -> Schema:
    schema = _schema(own, definition)
    subresources: Schema = {"status": {}} if "status" in schema["properties"] else {}
    if definition.scale:
        _check_scale(own, schema, definition.scale)
        subresources["scale"] = _scale(definition.scale)
    version: Schema = {
        "name": own.resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if subresources:
        version["subresources"] = subresources
    version["additionalPrinterColumns"] = [_column(column) for column in _columns(schema, definition.columns)]
    return version


def _columns(schema: Schema, own: tuple[Column, ...]) -> tuple[Column, ...]:
    """Every kind reads alike: READY, its own columns, STATUS (the reason), AGE; the message with `-o wide`."""
    reports = "conditions" in schema["properties"].get("status", {}).get("properties", {})
    return (READY, *own, STATUS, AGE, MESSAGE) if reports else (*own, AGE)


def _schema(own: type[Object], definition: _Definition) -> Schema:
    schema = schema_of(own, _rules_of_types)
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    if "status" in schema["properties"]:
        _check_status(own, schema["properties"]["status"])
    if found := _entries(definition.rules):
        schema["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), *found]
    return schema


def _check_status(own: type[Object], status: Schema) -> None:
    """`kubectl wait` compares generations; without -1 it returns before anyone has looked at the object."""
    if status.get("properties", {}).get("observedGeneration", {}).get("default") != -1 or "default" not in status:
        expected = "observed_generation: int = -1 and the kind `status: ... = ...()`"
        raise Inexpressible(f"{own.__name__}.status: expected the field {expected}")


def _check_scale(own: type[Object], schema: Schema, scale: Scale) -> None:
    """The server refuses objects with a negative count, whatever the schema says, and the Struct has to agree."""
    for path in (scale.spec, scale.status):
        field: Schema = schema
        for step in path.removeprefix(".").split("."):
            field = field.get("properties", {}).get(step, {})
        if field.get("type") != "integer":
            raise Inexpressible(f"{own.__name__}: expected an integer at {path} for the scale subresource")
        if path == scale.spec and field.get("minimum", -1) < 0:
            raise Inexpressible(f"{own.__name__}: expected a count of at least 0 at {path}: Annotated[int, Meta(ge=0)]")


def _entries(found: tuple[Meta, ...]) -> list[Any]:
    return [entry for meta in found for entry in (meta.extra_json_schema or {})["x-kubernetes-validations"]]


def _scale(scale: Scale) -> Schema:
    paths = {"specReplicasPath": scale.spec, "statusReplicasPath": scale.status}
    return {**paths, "labelSelectorPath": scale.selector} if scale.selector else paths


def _whole_numbers(value: Any) -> Any:
    """Bounds are floats in the model; `minimum: 0` reads better than 0.0."""
    if isinstance(value, dict):
        return {key: _whole_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _column(column: Column) -> Schema:
    optional = {"description": column.description, "priority": column.priority, "format": column.format}
    shown = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | {key: value for key, value in optional.items() if value}
