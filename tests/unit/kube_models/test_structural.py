"""How Python types read as structural schema. That a server accepts it is tested in tests/integration/test_crd.py."""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from corral.kube.crd import EMBEDDED, UNIQUE, keys, rule
from corral.kube.meta import EMPTY, Model
from corral.kube.models.core_v1 import Container
from corral.kube.structural import BASE64, TIME, Inexpressible, schema_of
from corral.kube.values import QUANTITY_PATTERN, Duration, IntOrString, Json, Quantity


class Part(Model, frozen=True, kw_only=True):
    """A part."""

    name: str
    weight: int = 2


class Colour(enum.Enum):
    RED = "Red"
    BLUE = "Blue"


INTEGER = {"type": "integer", "format": "int64"}
PART = {
    "type": "object",
    "description": "A part.",
    "properties": {"name": {"type": "string"}, "weight": {**INTEGER, "default": 2}},
    "required": ["name"],
}
EITHER = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def schema_of_field(declared: Any, **default: Any) -> dict[str, Any]:
    field = ("x", declared, default["default"]) if default else ("x", declared)
    struct = msgspec.defstruct("Holder", [field], bases=(Model,), frozen=True, kw_only=True)
    found: dict[str, Any] = schema_of(struct)["properties"]["x"]
    return found


@pytest.mark.parametrize(
    ("declared", "schema"),
    [
        pytest.param(bool, {"type": "boolean"}, id="bool"),
        pytest.param(int, INTEGER, id="int"),
        pytest.param(Annotated[int, Meta(gt=0, lt=9)], {**INTEGER, "minimum": 1, "maximum": 8}, id="open bounds"),
        pytest.param(
            Annotated[str, Meta(min_length=1, max_length=9, pattern="^a")],
            {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a"},
            id="bounded text",
        ),
        pytest.param(datetime, TIME, id="time"),
        pytest.param(bytes, BASE64, id="bytes"),
        pytest.param(Literal["A", "B"], {"type": "string", "enum": ["A", "B"]}, id="words"),
        pytest.param(Literal[2, 1], {"type": "integer", "enum": [1, 2]}, id="numbers"),
        pytest.param(Colour, {"type": "string", "enum": ["Red", "Blue"]}, id="Enum"),
        pytest.param(Quantity, {**EITHER, "pattern": QUANTITY_PATTERN}, id="Quantity"),
        pytest.param(IntOrString, EITHER, id="IntOrString"),
        pytest.param(int | str, EITHER, id="int or str"),
        pytest.param(Json, {"x-kubernetes-preserve-unknown-fields": True}, id="Json"),
        pytest.param(
            Annotated[Json, EMBEDDED],
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True},
            id="a whole object",
        ),
        pytest.param(
            Mapping[str, Json], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, id="any object"
        ),
        pytest.param(Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}, id="map"),
        pytest.param(Part, PART, id="part"),
        pytest.param(int | None, {**INTEGER, "nullable": True}, id="required but null"),
        pytest.param(
            Annotated[tuple[Part, ...], keys("name"), Meta(max_length=3)],
            {
                "type": "array",
                "items": PART,
                "maxItems": 3,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            id="list by key",
        ),
        pytest.param(
            Annotated[tuple[str, ...], UNIQUE],
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            id="set",
        ),
    ],
)
def test_a_required_field_reads(declared: Any, schema: dict[str, Any]) -> None:
    assert schema_of_field(declared) == schema


@pytest.mark.parametrize(
    ("declared", "default", "schema"),
    [
        pytest.param(int, 3, {**INTEGER, "default": 3}, id="value"),
        pytest.param(bool, False, {"type": "boolean", "default": False}, id="false is a value"),
        pytest.param(int | None, None, INTEGER, id="None means absent"),
        pytest.param(tuple[int, ...], (), {"type": "array", "items": INTEGER}, id="an empty list means absent"),
        pytest.param(Mapping[str, int], EMPTY, {"type": "object", "additionalProperties": INTEGER}, id="so does a map"),
        pytest.param(Colour, Colour.RED, {"type": "string", "enum": ["Red", "Blue"], "default": "Red"}, id="Enum"),
        pytest.param(Part, Part(name="a"), {**PART, "default": {"name": "a", "weight": 2}}, id="parts are spelled out"),
    ],
)
def test_an_optional_field_reads(declared: Any, default: Any, schema: dict[str, Any]) -> None:
    assert schema_of_field(declared, default=default) == schema


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (float, "Holder.x: Float has no place in a Kubernetes object; use Quantity"),
        (list[int], r"Holder.x: List has no place .* use tuple\[X, ...\]"),
        (tuple[int, str], "Holder.x: Tuple has no place"),
        (timedelta, "Holder.x: TimeDelta has no place .* use Duration"),
        (Mapping[int, str], "Holder.x: the keys of a map are strings"),
        (Part | str, "Holder.x: either (Struct or Str|Str or Struct) cannot be said"),
        (Mapping[str, tuple[float, ...]], r"Holder.x\{\}\[\]: Float has no place"),
        (Annotated[bytes, Meta(max_length=3)], "Holder.x: the server would count base64 letters"),
        (Literal["a", 1], "Holder.x: the words of an enumeration are all strings or all integers"),
    ],
)
def test_what_no_schema_can_say_is_refused_with_its_path(declared: Any, says: str) -> None:
    with pytest.raises(Inexpressible, match=says):
        schema_of_field(declared)


def test_a_default_that_is_computed_is_refused() -> None:
    class Holder(Model, frozen=True, kw_only=True):
        x: tuple[int, ...] = msgspec.field(default_factory=lambda: (1,))

    with pytest.raises(Inexpressible, match=r"Holder\.x: a default that is computed"):
        schema_of(Holder)


class Node(Model, frozen=True, kw_only=True):
    inner: "Node | None" = None


def test_a_type_that_contains_itself_is_refused() -> None:
    with pytest.raises(Inexpressible, match=r"Node\.inner: Node contains itself"):
        schema_of(Node)


class Documented(Model, frozen=True, kw_only=True):
    plain: int = 1
    """What stands under a field."""
    part: Part | None = None
    """Here, the part is a wheel."""
    annotated: Annotated[int, Meta(description="Said in place.")] = 1
    """Not read."""
    silent: int = 1


def test_a_field_is_described_by_its_annotation_or_the_text_under_it_or_its_type() -> None:
    properties = schema_of(Documented)["properties"]

    described = {name: schema.get("description") for name, schema in properties.items()}
    assert described == {
        "plain": "What stands under a field.",
        "part": "Here, the part is a wheel.",
        "annotated": "Said in place.",
        "silent": None,
    }


def test_rules_on_one_field_add_up() -> None:
    found = schema_of_field(
        Annotated[int, rule("self > 0", "too small"), rule("self < 9", "too big", reason="FieldValueInvalid")]
    )

    assert found["x-kubernetes-validations"] == [
        {"rule": "self > 0", "message": "too small"},
        {"rule": "self < 9", "message": "too big", "reason": "FieldValueInvalid"},
    ]


def test_a_part_of_kubernetes_brings_its_shape_without_its_zeros() -> None:
    container = schema_of_field(Container)

    assert container["required"] == ["name"]
    assert container["properties"]["image"] == {"type": "string"}
    assert container["properties"]["env"]["x-kubernetes-list-map-keys"] == ["name"]


def test_a_list_whose_keys_may_be_absent_is_one_value() -> None:
    assert schema_of_field(Container)["properties"]["ports"].keys() == {"type", "items"}


def test_a_duration_is_a_text_with_a_pattern() -> None:
    assert schema_of_field(Duration).keys() == {"type", "pattern"}
