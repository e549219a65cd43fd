"""From a Struct to the structural schema that a CustomResourceDefinition holds.

The promise goes both ways: what the schema accepts, the Struct decodes; what the Struct encodes, the schema accepts.
What Kubernetes cannot express is refused here, with the field's path and what to write instead.

How Python reads as schema:
    x: int                    required, 64 bits
    x: int = 3                optional; the server writes 3 into the object
    x: X | None = None        optional; an explicit null counts as absent
    x: X | None               required, and may be null
    x: Part = Part()          optional; the server writes the whole part, and into a given one what it lacks
    tuple[X, ...], Mapping[str, X]    lists and maps; absent and empty are one
    Literal["A", "B"], Enum   enumerations
    datetime                  an RFC 3339 time
    int | str                 int-or-string; see Quantity, IntOrString, Duration in `corral.kube.values`
    Json                      anything, kept as it is; Mapping[str, Json] any object
Bounds, descriptions and CEL rules come from `Annotated`; a field's own docstring describes it too.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec import inspect as types

Schema = dict[str, Any]


# The format alone lets through what is no time for Python: a zone of +24:00, a comma before the fraction, the year 0.
# And where a string has a format, the server lets any list pass (kube-openapi's type check returns early for it); no
# list has both a minimum of one element and a maximum of none.
TIME: Mapping[str, Any] = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[12][0-9]{3}-[0-9-]{5}T[0-9:]{8}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
    "minItems": 1,
    "maxItems": 0,
}
# Not `format: byte`, because of the lists, and because the server takes an empty text for no base64.
BASE64: Mapping[str, Any] = {
    "type": "string",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}


class Inexpressible(TypeError):
    """A type that no structural schema can say."""


def schema_of(struct: type[msgspec.Struct], rules: Mapping[type, list[Any]] = {}) -> Schema:
    """The schema of one Struct with everything inside it. `rules` are the CEL rules that belong to whole types."""
    return _Schemas(rules).of(types.type_info(struct), struct.__name__)


class _Schemas:
    def __init__(self, rules: Mapping[type, list[Any]]) -> None:
        self._rules = rules
        self._inside: list[type] = []

    def of(self, shape: types.Type, path: str) -> Schema:
        match shape:
            case types.Metadata():
                return self._annotated(shape, path)
            case types.StructType():
                return self._struct(shape, path)
            case types.UnionType():
                return self._union(shape, path)
            case types.VarTupleType():
                bounds = _bounds(minItems=shape.min_length, maxItems=shape.max_length)
                return {"type": "array", "items": self.of(shape.item_type, f"{path}[]"), **bounds}
            case types.DictType():
                return self._map(shape, path)
            case _ if _is_json(shape):
                return {"x-kubernetes-preserve-unknown-fields": True}
            case _:
                return _scalar(shape, path)

    def _annotated(self, shape: types.Metadata, path: str) -> Schema:
        schema = self.of(shape.type, path)
        extra = shape.extra_json_schema or {}
        if "x-kubernetes-embedded-resource" in extra:
            schema = {"type": "object", **schema, "x-kubernetes-preserve-unknown-fields": True}
        validations = [*schema.get("x-kubernetes-validations", ()), *extra.get("x-kubernetes-validations", ())]
        schema = _atomic_if_keys_may_be_absent({**schema, **extra})
        return {**schema, "x-kubernetes-validations": validations} if validations else schema

    def _struct(self, shape: types.StructType, path: str) -> Schema:
        if shape.cls in self._inside:
            raise Inexpressible(f"{path}: {shape.cls.__name__} contains itself; a schema is finite, use Json here")
        if shape.tag is not None or shape.array_like:
            raise Inexpressible(
                f"{path}: {shape.cls.__name__} is tagged or written as an array; Kubernetes has only plain objects"
            )
        self._inside.append(shape.cls)
        documented = _field_docs(shape.cls)
        properties = {field.encode_name: self._field(field, documented, path) for field in shape.fields}
        self._inside.pop()
        schema: Schema = {"type": "object", **_description(shape.cls)}
        if properties:
            schema["properties"] = properties
        if required := [field.encode_name for field in shape.fields if field.required]:
            schema["required"] = required
        if shape.cls in self._rules:
            schema["x-kubernetes-validations"] = self._rules[shape.cls]
        return schema

    def _field(self, field: types.Field, documented: Mapping[str, str], path: str) -> Schema:
        where = f"{path}.{field.encode_name}"
        shape = field.type if field.required else _without_none(field.type)
        schema = self.of(shape, where)
        if field.name in documented and "description" not in _annotations(shape):
            schema = {**schema, "description": documented[field.name]}
        default = None if _is_given(self._inside[-1]) else _default(field, where)
        return schema if default is None else {**schema, "default": default}

    def _union(self, shape: types.UnionType, path: str) -> Schema:
        some = [part for part in shape.types if not isinstance(part, types.NoneType)]
        if len(some) < len(shape.types):
            rest = some[0] if len(some) == 1 else types.UnionType(tuple(some))
            return {**self.of(rest, path), "nullable": True}
        if {type(part) for part in some} == {types.IntType, types.StrType}:
            return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
        kinds = " or ".join(type(part).__name__.removesuffix("Type") for part in some)
        raise Inexpressible(f"{path}: either {kinds} cannot be said; use one type with an optional field for each case")

    def _map(self, shape: types.DictType, path: str) -> Schema:
        if not isinstance(shape.key_type, types.StrType):
            raise Inexpressible(f"{path}: the keys of a map are strings in JSON; use Mapping[str, ...]")
        bounds = _bounds(minProperties=shape.min_length, maxProperties=shape.max_length)
        if _is_json(shape.value_type):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **bounds}
        return {"type": "object", "additionalProperties": self.of(shape.value_type, f"{path}{{}}"), **bounds}


def _scalar(shape: types.Type, path: str) -> Schema:
    match shape:
        case types.BoolType():
            return {"type": "boolean"}
        case types.IntType():
            low = shape.ge if shape.gt is None else shape.gt + 1
            high = shape.le if shape.lt is None else shape.lt - 1
            return {
                "type": "integer",
                "format": "int64",
                **_bounds(minimum=low, maximum=high, multipleOf=shape.multiple_of),
            }
        case types.StrType():
            bounds = _bounds(minLength=shape.min_length, maxLength=shape.max_length, pattern=shape.pattern)
            return {"type": "string", **bounds}
        case types.DateTimeType():
            return dict(TIME)
        case types.BytesType():
            if shape.min_length is not None or shape.max_length is not None:
                raise Inexpressible(f"{path}: the server would count base64 letters, not bytes; bound it with a rule")
            return dict(BASE64)
        case types.LiteralType():
            return {"type": _type_of_all(shape.values, path), "enum": list(shape.values)}
        case types.EnumType():
            values = tuple(member.value for member in shape.cls)
            return {"type": _type_of_all(values, path), "enum": list(values)}
        case _:
            name = type(shape).__name__.removesuffix("Type")
            raise Inexpressible(
                f"{path}: {name} has no place in a Kubernetes object; {INSTEAD.get(name, 'use another type')}"
            )


INSTEAD = {
    "Float": "use Quantity or an int in a smaller unit, floats differ between readers",
    "List": "use tuple[X, ...], objects are frozen",
    "Set": "use Annotated[tuple[X, ...], UNIQUE]",
    "FrozenSet": "use Annotated[tuple[X, ...], UNIQUE]",
    "Tuple": "use tuple[X, ...] or a Struct with a name for each part",
    "TimeDelta": "use Duration (1h30m), JSON's own form is no Kubernetes duration",
    "Decimal": "use Quantity",
    "Dict": "use Mapping[str, X]",
}


def _type_of_all(values: tuple[Any, ...], path: str) -> str:
    if all(isinstance(value, str) for value in values):
        return "string"
    if all(isinstance(value, int) for value in values):
        return "integer"
    raise Inexpressible(f"{path}: the words of an enumeration are all strings or all integers, got {values}")


def _bounds(**bounds: Any) -> Schema:
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _default(field: types.Field, path: str) -> Any:
    """The default that the server shall write; None when absent says it all."""
    if field.default_factory is not NODEFAULT:
        raise Inexpressible(
            f"{path}: a default that is computed cannot be written into a schema; give the value itself"
        )
    if field.default is NODEFAULT or _says_nothing(field.default):
        return None
    return _spelled_out(field.default)


def _says_nothing(value: Any) -> bool:
    return value is None or (not value and isinstance(value, (tuple, Mapping)))


def _spelled_out(value: Any) -> Any:
    """With the defaults inside: the server checks a default against the rules before it fills in anything."""
    if isinstance(value, msgspec.Struct):
        parts = ((field.encode_name, getattr(value, field.name)) for field in msgspec.structs.fields(value))
        return {name: _spelled_out(part) for name, part in parts if not _says_nothing(part)}
    if isinstance(value, Mapping):
        return {key: _spelled_out(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_spelled_out(part) for part in value]
    return msgspec.to_builtins(value)


def _is_json(shape: types.Type) -> bool:
    """`Json` is `object`, which msgspec calls a custom type; a plain Any means the same."""
    return isinstance(shape, types.AnyType) or (isinstance(shape, types.CustomType) and shape.cls is object)


def _annotations(shape: types.Type) -> Mapping[str, Any]:
    return (shape.extra_json_schema or {}) if isinstance(shape, types.Metadata) else {}


def _without_none(shape: types.Type) -> types.Type:
    if isinstance(shape, types.Metadata):
        return types.Metadata(_without_none(shape.type), shape.extra_json_schema, shape.extra)
    if not isinstance(shape, types.UnionType):
        return shape
    some = tuple(part for part in shape.types if not isinstance(part, types.NoneType))
    return some[0] if len(some) == 1 else types.UnionType(some)


def _atomic_if_keys_may_be_absent(schema: Schema) -> Schema:
    """The server merges by keys only if they are always there. `protocol`, a key of a container's ports, may not be."""
    element = schema.get("items", {})
    present = {name for name, field in element.get("properties", {}).items() if "default" in field}
    if present.union(element.get("required", ())).issuperset(schema.get("x-kubernetes-list-map-keys", ())):
        return schema
    return {name: value for name, value in schema.items() if not name.startswith("x-kubernetes-list-")}


def _is_given(struct: type) -> bool:
    """A part of Kubernetes itself (a pod template, a condition) used in a kind of ours.

    Its defaults are not written into objects: "" and 0 mean absent there, and Kubernetes fills in its own later.
    """
    return struct.__module__ == "corral.kube.meta" or struct.__module__.startswith("corral.kube.models.")


def _description(struct: type) -> Schema:
    own = not _is_given(struct) and vars(struct).get("__doc__")
    return {"description": inspect.getdoc(struct)} if own else {}


@cache
def _field_docs(struct: type) -> Mapping[str, str]:
    """The string that stands under a field describes it. Python does not keep it, so it is read from the source."""
    found: dict[str, str] = {}
    for owner in reversed(struct.__mro__):
        if issubclass(owner, msgspec.Struct) and owner is not msgspec.Struct:
            found |= dict(_strings_under_fields(owner))
    return found


def _strings_under_fields(struct: type) -> Iterator[tuple[str, str]]:
    try:
        definition = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    except (OSError, TypeError):
        return  # made without a source file
    statements = definition.body if isinstance(definition, ast.ClassDef) else []
    for pair in pairwise(statements):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                yield field, inspect.cleandoc(text)
