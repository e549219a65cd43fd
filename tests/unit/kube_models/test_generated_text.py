"""The generator on a third party's CRD and on a small OpenAPI document: what comes out is read back and used."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml

from corral.kube.crd import crd_of, kind, to_yaml
from corral.kube.generate.classes import classes
from corral.kube.generate.documents import Schemas, from_crd, from_openapi
from corral.kube.generate.files import Wanted, apply, changes, crd_files, model_files
from corral.kube.generate.gofields import GoFields
from corral.kube.generate.writing import modules
from corral.kube.meta import Object

HERE = Path(__file__).parent
WIDGETS = yaml.load((HERE / "widgets.yaml").read_text(), Loader=yaml.CSafeLoader)
TOY = "io.k8s.api.toys.v1.Toy"


def a_document(**properties: Any) -> dict[str, Any]:
    """An OpenAPI document of a group with one kind, Toy, whose spec has these properties."""
    identity = {"group": "toys", "version": "v1", "kind": "Toy"}
    reference = {"allOf": [{"$ref": f"#/components/schemas/{TOY}Spec"}], "default": {}}
    return {
        "paths": {
            "/apis/toys/v1/balls": {"get": {"x-kubernetes-group-version-kind": identity}},
            "/apis/toys/v1/namespaces/{namespace}/balls": {"get": {"x-kubernetes-group-version-kind": identity}},
        },
        "components": {
            "schemas": {
                TOY: {"properties": {"spec": reference}, "x-kubernetes-group-version-kind": [identity]},
                f"{TOY}Spec": {"properties": properties},
            }
        },
    }


def text_of(schemas: Schemas, go: dict[str, GoFields] | None = None) -> str:
    (text,) = modules(classes(schemas, go or {})).values()
    return text


def the_field(name: str, schema: dict[str, Any], go: GoFields) -> str:
    text = text_of(from_openapi(a_document(**{name: schema}), ["Toy"]), {f"{TOY}Spec": go})
    return text.partition("class ToySpec(Model, frozen=True, kw_only=True):\n    ")[2].partition("\n")[0]


def loaded(text: str) -> dict[str, Any]:
    module = ModuleType("generated_for_a_test")
    sys.modules[module.__name__] = module  # where msgspec looks for the names in annotations
    exec(text, vars(module))
    return vars(module)


@pytest.mark.parametrize(
    ("schema", "go", "line"),
    [
        pytest.param({"type": "integer"}, GoFields(), "x: int | None = None", id="absent is not zero"),
        pytest.param({"type": "integer"}, GoFields(zero=("x",)), "x: int = 0", id="absent is zero in Go"),
        pytest.param({"type": "string"}, GoFields(zero=("x",)), 'x: str = ""', id="absent is empty in Go"),
        pytest.param({"type": "array", "items": {"type": "string"}}, GoFields(), "x: tuple[str, ...] = ()", id="list"),
        pytest.param(
            {"type": "array", "items": {"type": "string"}},
            GoFields(null=("x",)),
            "x: tuple[str, ...] | None = ()",
            id="a list that the server may send as null",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
            GoFields(),
            "x: Mapping[str, bytes] = EMPTY",
            id="map of bytes",
        ),
        pytest.param(
            {"type": "string", "enum": ["A"]}, GoFields(), "x: str | None = None", id="enumerations stay open"
        ),
    ],
)
def test_a_field_reads(schema: dict[str, Any], go: GoFields, line: str) -> None:
    assert the_field("x", schema, go) == line


def test_two_wire_names_for_one_attribute_both_survive() -> None:
    document = a_document(**{"nat-outgoing": {"type": "string"}, "natOutgoing": {"type": "string"}})
    spec = loaded(text_of(from_openapi(document, ["Toy"])))["ToySpec"]

    assert msgspec.convert({"nat-outgoing": "a", "natOutgoing": "b"}, spec) == spec(nat_outgoing="a", nat_outgoing_="b")


def test_a_kind_knows_where_it_is_served() -> None:
    text = text_of(from_openapi(a_document(), ["Toy"]))

    assert 'resource: ClassVar[Resource] = Resource("toys", "v1", "Toy", "balls", True)' in text


def test_a_kind_that_the_server_does_not_serve_is_named_with_those_it_does() -> None:
    with pytest.raises(LookupError, match="the server serves no Car here; it serves Toy"):
        from_openapi(a_document(), ["Car"])


def test_a_part_that_the_server_always_writes_is_never_none() -> None:
    assert "    spec: ToySpec = ToySpec()" in text_of(from_openapi(a_document(x={"type": "string"}), ["Toy"]))


def test_a_part_that_contains_itself_is_generated_and_decodes() -> None:
    itself = {"allOf": [{"$ref": f"#/components/schemas/{TOY}Spec"}]}
    spec = loaded(text_of(from_openapi(a_document(inner=itself), ["Toy"])))["ToySpec"]

    assert msgspec.json.decode(b'{"inner": {"inner": {}}}', type=spec) == spec(inner=spec(inner=spec()))


def test_a_third_partys_object_survives_decoding_and_encoding() -> None:
    widget = loaded(text_of(from_crd(WIDGETS, "v1beta1")))["Widget"]
    wire = {
        "metadata": {"name": "w", "namespace": "lab"},
        "spec": {
            "size": 3,
            "sides": [{"name": "left", "macAddress": "02:00"}],
            "memory": "2Gi",
            "port": 80,
            "parent": {"uid": "1"},
            "raw": {"any": ["thing"]},
            "template": {"apiVersion": "v1", "kind": "Pod"},
            "class": "a",
            "ratio": 0.5,
        },
        "status": {"phase": "Ready", "since": "2026-01-31T12:00:00Z", "nodeIPs": ["10.0.0.1"]},
    }

    assert msgspec.json.decode(msgspec.json.encode(msgspec.convert(wire, widget))) == wire


def test_nested_objects_of_a_crd_are_named_by_their_path_and_share_a_class_when_they_look_the_same() -> None:
    text = text_of(from_crd(WIDGETS, "v1beta1"))

    assert "class WidgetSpecSides(Model" in text
    assert "class WidgetSpecSpares(Model" not in text
    assert 'sides: Annotated[tuple[WidgetSpecSides, ...], keys("name")]\n' in text
    assert "spares: tuple[WidgetSpecSides, ...] = ()" in text
    assert "parent: WidgetSpecParent | None = None" in text
    assert "memory: Quantity | None = None" in text
    assert "status: WidgetStatus = WidgetStatus()" in text


def test_a_version_that_a_crd_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(LookupError, match=r"widgets\.parts\.example\.com: no version v9, only v1beta1"):
        from_crd(WIDGETS, "v9")


@pytest.mark.parametrize(
    "tool", [("mypy", "--strict"), ("ruff", "format", "--isolated", "--line-length=120", "--check")]
)
def test_the_text_satisfies(tool: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "widgets.py").write_text(text_of(from_crd(WIDGETS, "v1beta1")))

    done = subprocess.run([sys.executable, "-m", *tool, str(tmp_path / "widgets.py")], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_without_the_kind_is_named() -> None:
    wanted = Wanted(served={}, files={"widgets.yaml": ("Gadget/v1",)})

    with pytest.raises(LookupError, match=r"widgets\.yaml has no CustomResourceDefinition for the kind Gadget"):
        model_files(wanted, {}, HERE)


def test_own_kinds_are_written_one_definition_a_file() -> None:
    @kind(group="demo.corral.dev", version="v1", plural="kites")
    class Kite(Object, frozen=True, kw_only=True):
        colour: str = "red"

    assert crd_files([Kite]) == {"kites.demo.corral.dev.yaml": to_yaml(crd_of(Kite))}


def test_what_is_no_longer_wanted_is_removed_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old_v1.py").write_text("gone")
    wanted = Wanted(served={"toys/v1": ("Toy",)}, files={"widgets.yaml": ("Widget/v1beta1",)})
    texts = model_files(wanted, {"apis/toys/v1": a_document()}, HERE)

    first = changes(texts, tmp_path)
    apply(first, tmp_path)

    assert first.keys() == {"__init__.py", "old_v1.py", "parts_v1beta1.py", "toys_v1.py"}
    assert not (tmp_path / "old_v1.py").exists()
    assert changes(texts, tmp_path) == {}
