"""The models as they are checked in."""

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

from corral.kube import models
from corral.kube.codec import encode
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import Container, PersistentVolumeClaimSpec, Pod, PodSpec, Secret
from corral.kube.models.discovery_v1 import EndpointSlice


def every_class() -> Iterator[type[msgspec.Struct]]:
    for found in pkgutil.iter_modules(models.__path__):
        module = importlib.import_module(f"{models.__name__}.{found.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__:
                yield value


def test_every_class_has_types_that_msgspec_can_decode() -> None:
    for found in every_class():
        msgspec.json.Decoder(found)


def test_every_class_is_frozen_and_invisible_to_the_garbage_collector() -> None:
    loose = [
        found for found in every_class() if not (found.__struct_config__.frozen and not found.__struct_config__.gc)
    ]

    assert loose == []


def test_every_kind_has_a_status_from_the_start() -> None:
    kinds = (found for found in every_class() if issubclass(found, Object))
    fields = (field for found in kinds for field in msgspec.structs.fields(found) if field.name == "status")

    assert [field for field in fields if field.required] == []


def test_absent_fields_are_not_written() -> None:
    pod = Pod(metadata=ObjectMeta(name="a"), spec=PodSpec(containers=(Container(name="main"),)))

    assert msgspec.json.decode(encode(pod)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main"}]},
    }


@pytest.mark.parametrize("class_name", ["", "fast"])
def test_an_empty_text_is_kept_where_it_means_something(class_name: str) -> None:
    """An empty storage class means "no dynamic volume", an absent one "the default"."""
    assert msgspec.to_builtins(PersistentVolumeClaimSpec(storage_class_name=class_name)) == {
        "storageClassName": class_name
    }


def test_a_null_list_is_decoded() -> None:
    body = b'{"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": null, "ports": null}'

    assert msgspec.json.decode(body, type=EndpointSlice).endpoints is None


def test_the_data_of_a_secret_is_not_shown() -> None:
    secret = Secret(
        metadata=ObjectMeta(name="s", namespace="lab"), data={"key": b"hunter2"}, string_data={"k": "hunter3"}
    )

    assert f"{secret} {secret!r}" == "Secret(lab/s) Secret(lab/s)"
