"""From schemas to classes: which class each schema becomes, with which fields, types and defaults.

The rules, in order of what a reader of the models meets:
- A required field has no default, and what may be absent has one that is not written: (), EMPTY, None.
- Absent and zero are one where the Go type cannot tell them apart (`zero` in go_fields.json): `str = ""`, `int = 0`.
- A part that the server always writes (a plain Go struct) is never None: `resources: ResourceRequirements = ...()`.
- In a kind's own status everything has a default, so that `status` is there before the first report.
- Enumerations stay strings: a newer server has more words than this one.
"""

from collections.abc import Iterator, Mapping

import msgspec

from corral.kube.generate import names
from corral.kube.generate.documents import META, REF, Schema, Schemas
from corral.kube.generate.gofields import GoFields
from corral.kube.meta import Resource
from corral.kube.values import QUANTITY_PATTERN

APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

# Schemas that are not generated: the type that stands for them and the module it comes from.
KNOWN: Mapping[str, tuple[str, str]] = {
    META + "ObjectMeta": ("ObjectMeta", "corral.kube.meta"),
    META + "OwnerReference": ("OwnerReference", "corral.kube.meta"),
    META + "Condition": ("Condition", "corral.kube.meta"),
    META + "Time": ("datetime", "datetime"),
    META + "MicroTime": ("MicroTime", "corral.kube.values"),
    META + "FieldsV1": ("Json", "corral.kube.values"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ("Json", "corral.kube.values"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ("Quantity", "corral.kube.values"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ("IntOrString", "corral.kube.values"),
    APIEXTENSIONS + "JSON": ("Json", "corral.kube.values"),
}
# The schema of a schema says of these only that they are one thing or another.
EITHER: Mapping[str, str] = {
    APIEXTENSIONS + "JSONSchemaPropsOrArray": "JSONSchemaProps",
    APIEXTENSIONS + "JSONSchemaPropsOrBool": "JSONSchemaProps | bool",
    APIEXTENSIONS + "JSONSchemaPropsOrStringArray": "JSONSchemaProps | tuple[str, ...]",
}
ZERO = {"string": ("str", '""'), "integer": ("int", "0"), "boolean": ("bool", "False"), "number": ("float", "0.0")}
MAX_DOC = 100


class Type(msgspec.Struct, frozen=True):
    """How an annotation reads, what it needs to be imported, and the schemas it refers to."""

    text: str
    imports: frozenset[tuple[str, str]] = frozenset()
    refers: frozenset[str] = frozenset()

    def inside(self, outer: str, *imports: tuple[str, str]) -> "Type":
        return Type(outer.format(self.text), self.imports | set(imports), self.refers)


class Field(msgspec.Struct, frozen=True):
    attribute: str
    wire: str
    type: Type
    default: str | None = None  # Python text; None: required
    default_of: str = ""  # the schema whose instance the default is


class Class(msgspec.Struct, frozen=True):
    schema: str
    doc: str
    fields: tuple[Field, ...]
    resource: Resource | None = None

    @property
    def name(self) -> str:
        return names.class_name(self.schema)

    @property
    def constructible(self) -> bool:
        return all(field.default is not None for field in self.fields)


def classes(schemas: Schemas, go: Mapping[str, GoFields]) -> dict[str, Class]:
    """Every class to write, by the name of its schema: the kinds and what they reach."""
    return _Classes(schemas, go).all_reached()


class _Classes:
    """The classes made so far. A class is made after those whose instances are its defaults."""

    def __init__(self, schemas: Schemas, go: Mapping[str, GoFields]) -> None:
        self._schemas = schemas
        self._go = go
        self._made: dict[str, Class] = {}
        statuses = (_reference(schemas.by_name[kind]["properties"].get("status", {})) for kind in schemas.kinds)
        self._statuses = frozenset(filter(None, statuses))

    def all_reached(self) -> dict[str, Class]:
        seen: set[str] = set()
        waiting = set(self._schemas.kinds)
        while waiting:
            seen |= waiting
            waiting = {
                schema for name in waiting for field in self._class(name).fields for schema in field.type.refers
            } - seen
        return self._made

    def _class(self, name: str) -> Class:
        if name not in self._made:
            schema = self._schemas.by_name[name]
            resource = self._schemas.kinds.get(name)
            fields = tuple(self._fields(name, schema))
            self._made[name] = Class(name, _short(schema.get("description", "")), fields, resource)
        return self._made[name]

    def _fields(self, owner: str, schema: Schema) -> Iterator[Field]:
        inherited = {"apiVersion", "kind", "metadata"} if owner in self._schemas.kinds else set()
        taken = {"resource"} if inherited else set()
        for wire, part in sorted(schema.get("properties", {}).items()):
            if wire not in inherited:
                field = self._field(owner, wire, part, required=wire in schema.get("required", ()))
                yield _renamed(field, taken)
                taken.add(field.attribute)

    def _field(self, owner: str, wire: str, part: Schema, *, required: bool) -> Field:
        go, in_status = self._go.get(owner, GoFields()), owner in self._statuses
        attribute, kind, reference = names.attribute(wire), type_of(part), _reference(part)
        several = "()" if part.get("type") == "array" else "EMPTY" if kind.text.startswith("Mapping[") else None
        if several == "EMPTY":
            kind = kind.inside("{}", ("EMPTY", "corral.kube.meta"))
        if part.get("nullable") or (several and wire in go.null and not required):
            kind = kind.inside("{} | None")
        if several:
            return Field(attribute, wire, kind, None if required else several)
        if _is_time(part):
            return Field(attribute, wire, kind.inside("{} | None"), "None")
        if reference and (_always_written(part) or reference in self._statuses) and (in_status or not required):
            return self._part(attribute, wire, kind, reference, may_be_none=in_status)
        if part.get("type") in ZERO and kind.text != "bytes" and ((in_status and required) or wire in go.zero):
            return Field(attribute, wire, kind, ZERO[part["type"]][1])
        if required:
            return Field(attribute, wire, kind)
        return Field(attribute, wire, kind if kind.text.endswith("None") else kind.inside("{} | None"), "None")

    def _part(self, attribute: str, wire: str, kind: Type, reference: str, *, may_be_none: bool) -> Field:
        if reference == META + "ObjectMeta":
            return Field(attribute, wire, kind, "ObjectMeta()")
        if reference not in KNOWN and self._class(reference).constructible:
            return Field(attribute, wire, kind, f"{names.class_name(reference)}()", default_of=reference)
        return Field(attribute, wire, kind.inside("{} | None"), "None") if may_be_none else Field(attribute, wire, kind)


def _renamed(field: Field, taken: set[str]) -> Field:
    """Two wire names (`nat-outgoing`, `natOutgoing`) may make one attribute; the later one gets an underscore."""
    return msgspec.structs.replace(field, attribute=f"{field.attribute}_") if field.attribute in taken else field


def type_of(schema: Schema) -> Type:
    reference = _reference(schema)
    if reference in EITHER:
        return Type(EITHER[reference], refers=frozenset({APIEXTENSIONS + "JSONSchemaProps"}))
    if reference in KNOWN:
        return Type(KNOWN[reference][0], frozenset({KNOWN[reference]}))
    if reference:
        return Type(names.class_name(reference), refers=frozenset({reference}))
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        name = "Quantity" if schema.get("pattern") == QUANTITY_PATTERN else "IntOrString"
        return Type(name, frozenset({(name, "corral.kube.values")}))
    return _by_type(schema)


def _by_type(schema: Schema) -> Type:
    kind, form = schema.get("type"), schema.get("format")
    if kind == "array":
        return _list(schema)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return _element(schema["additionalProperties"]).inside("Mapping[str, {}]", ("Mapping", "collections.abc"))
    if kind == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        json = Type("Json", frozenset({("Json", "corral.kube.values")}))
        return json.inside("Mapping[str, {}]", ("Mapping", "collections.abc"))
    if kind == "string" and form == "date-time":
        return Type("datetime", frozenset({("datetime", "datetime")}))
    if kind == "string" and form == "byte":
        return Type("bytes")
    if kind in ZERO:
        return Type(ZERO[kind][0])
    return Type("Json", frozenset({("Json", "corral.kube.values")}))


def _element(schema: Schema) -> Type:
    return type_of(schema).inside("{} | None") if schema.get("nullable") else type_of(schema)


def _list(schema: Schema) -> Type:
    elements = _element(schema["items"]).inside("tuple[{}, ...]")
    if schema.get("x-kubernetes-list-type") == "map":
        keys = ", ".join(f'"{key}"' for key in schema["x-kubernetes-list-map-keys"])
        marked = f"Annotated[{{}}, keys({keys})]"
        return elements.inside(marked, ("Annotated", "typing"), ("keys", "corral.kube.values"))
    if schema.get("x-kubernetes-list-type") == "set":
        return elements.inside("Annotated[{}, UNIQUE]", ("Annotated", "typing"), ("UNIQUE", "corral.kube.values"))
    return elements


def _reference(schema: Schema) -> str:
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            return str(part["$ref"]).removeprefix(REF)
    return ""


def _is_time(part: Schema) -> bool:
    """A Go time that was never set is written as null, required or not."""
    return _reference(part) in (META + "Time", META + "MicroTime") or part.get("format") == "date-time"


def _always_written(part: Schema) -> bool:
    """kube-openapi gives plain Go structs the default {} and pointers none."""
    return part.get("default") == {}


def _short(description: str) -> str:
    sentence = description.partition(". ")[0].partition("\n")[0].rstrip(".").strip()
    return f"{sentence}." if sentence and len(sentence) < MAX_DOC and '"' not in sentence else ""
