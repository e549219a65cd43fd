"""Our classes for the kinds of KubeVirt, CDI and Multus, held against their real definitions, field by field."""

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from corral.kinds.wukong.api.cdi import DataSource, DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
)
from corral.kube.meta import Object
from corral.testing.vmcrds import crd_of_kind, go_texts

pytestmark = pytest.mark.cluster  # the definitions are downloaded by Go

KINDS: tuple[type[Object], ...] = (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VirtualMachineRestore,
    VolumeSnapshot,
    DataVolume,
    DataSource,
    NetworkAttachmentDefinition,
    NodeNetworkConfigurationPolicy,
    NodeNetworkState,
)
SCALARS = {str: "string", int: "integer", bool: "boolean"}
OURS = "corral.kinds.wukong.api"

Schema = Mapping[str, Any]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_in_the_real_definition(kind: type[Object]) -> None:
    spec = crd_of_kind(kind.__name__)["spec"]
    resource, scope = kind.resource, "Namespaced" if kind.resource.namespaced else "Cluster"
    assert (spec["group"], spec["names"]["plural"], spec["scope"]) == (resource.group, resource.plural, scope)
    version = next(found for found in spec["versions"] if found["name"] == resource.version)
    assert list(faults(kind, version["schema"]["openAPIV3Schema"], kind.__name__)) == []


def faults(struct: type[msgspec.Struct], schema: Schema, path: str) -> Iterator[str]:
    """What the definition does not have, has otherwise, or allows to be absent where our decoder does not."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        if field.encode_name == "metadata":
            continue
        where, found = f"{path}.{field.encode_name}", schema.get("properties", {}).get(field.encode_name)
        if found is None:
            yield f"{where} does not exist"
            continue
        if field.required and field.encode_name not in schema.get("required", ()):
            yield f"{where} may be absent"
        yield from faults_of_type(hints[field.name], found, where)


def faults_of_type(hint: Any, schema: Schema, where: str) -> Iterator[str]:
    hint, keys = _plain(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        if schema.get("type") != "array":
            yield f"{where} is no list"
            return
        if list(schema.get("x-kubernetes-list-map-keys", ())) != keys:
            yield f"{where} is merged by {schema.get('x-kubernetes-list-map-keys')}, not {keys}"
        yield from faults_of_type(arguments[0], schema["items"], f"{where}[]")
    elif origin is not None and issubclass(origin, Mapping):
        if schema.get("type") != "object":
            yield f"{where} is no map"
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint.__module__.startswith(OURS) and schema.get("x-kubernetes-preserve-unknown-fields") is None:
            yield from faults(hint, schema, where)
    elif hint in SCALARS and schema.get("type") != SCALARS[hint]:
        yield f"{where} is {schema.get('type')}, not {SCALARS[hint]}"


def _plain(hint: Any) -> tuple[Any, list[str]]:
    """Without None and marks; and the keys of a list that is merged by keys."""
    keys: list[str] = []
    while True:
        if get_origin(hint) is Annotated:
            hint, *marks = get_args(hint)
            for mark in marks:
                keys += (getattr(mark, "extra_json_schema", None) or {}).get("x-kubernetes-list-map-keys", [])
        elif get_origin(hint) in (Union, types.UnionType):
            left = [part for part in get_args(hint) if part is not type(None)]
            if len(left) != 1:
                return None, keys  # int or string
            hint = left[0]
        else:
            return hint, keys


def test_a_backtick_in_a_go_text_is_read_as_one() -> None:
    source = 'var X = map[string]string{\n\t"one": `a: ` + "`" + `b`,\n\t"two": `c`,\n}\n'
    assert go_texts(source) == {"one": "a: `b", "two": "c"}
