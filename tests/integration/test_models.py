"""The generated models against a real API server: nothing that it says is lost, and its schema is the one we have."""

import asyncio
import importlib
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.kube import ObjectMeta, Selector
from corral.kube import models as package
from corral.kube.canonical import canonical
from corral.kube.codec import encode
from corral.kube.generate import files
from corral.kube.meta import Object
from corral.kube.models.coordination_v1 import Lease, LeaseSpec
from corral.kube.models.core_v1 import Container, EmptyDirVolumeSource, Pod, PodSpec, Volume
from corral.kube.unstructured import Unstructured, untyped
from corral.kube.values import MicroTime, canonical_quantity, micro_time
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster

OBJECTS = [entry for entry in yaml.safe_load_all((Path(__file__).parent / "objects.yaml").read_text()) if entry]
WANTED = msgspec.toml.decode((Path(files.__file__).parent / "kinds.toml").read_bytes(), type=files.Wanted)


def every_kind() -> Iterator[type[Object]]:
    for found in pkgutil.iter_modules(package.__path__):
        for value in vars(importlib.import_module(f"{package.__name__}.{found.name}")).values():
            if isinstance(value, type) and issubclass(value, Object) and value.__module__.endswith(found.name):
                yield value


KINDS = {(kind.resource.api_version, kind.resource.kind): kind for kind in every_kind()}
KEPT = [kind for kind in KINDS.values() if not kind.__name__.endswith("Review")]  # a review is an answer, kept nowhere


def lost(said: Any, kept: Any, path: str = "") -> Iterator[str]:
    """The paths of what the server said and the model did not keep. Nothing said is nothing lost: null, "", 0, []."""
    if isinstance(said, dict) and isinstance(kept, dict):
        for key, value in said.items():
            yield from lost(value, kept.get(key), f"{path}.{key}")
    elif isinstance(said, list) and isinstance(kept, list) and len(said) == len(kept):
        for index, (one, other) in enumerate(zip(said, kept, strict=True)):
            yield from lost(one, other, f"{path}[{index}]")
    elif said != kept and said not in (None, "", 0, [], False):
        yield f"{path}: {said!r} became {kept!r}"


def left_out_on_purpose(path: str) -> bool:
    """managedFields; and the claims inside a StatefulSet, whose apiVersion and kind the class knows."""
    return path.startswith(
        (
            ".metadata.managedFields",
            ".spec.volumeClaimTemplates[0].apiVersion: ",
            ".spec.volumeClaimTemplates[0].kind: ",
        )
    )


def what_is_lost(obj: Unstructured, kind: type[Object]) -> list[str]:
    said = msgspec.json.decode(encode(obj))
    kept = msgspec.json.decode(encode(msgspec.json.decode(encode(obj), type=kind)))
    return [path for path in lost(said, kept) if not left_out_on_purpose(path)]


@pytest.mark.parametrize(
    "manifest", OBJECTS, ids=lambda manifest: f"{manifest['kind']}-{manifest['metadata'].get('name', '')}"
)
async def test_a_full_object_loses_nothing(corral_cluster: Cluster, manifest: dict[str, Any]) -> None:
    kind = KINDS[manifest["apiVersion"], manifest["kind"]]
    if kind.resource.namespaced:
        manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}
    async with corral_cluster.client() as client:
        kept = await client.create(untyped(kind.resource)(content=manifest), field_manager="test", dry_run=True)

    assert what_is_lost(kept, kind) == []


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.__name__)
async def test_no_object_of_the_cluster_loses_anything(corral_cluster: Cluster, kind: type[Object]) -> None:
    async with corral_cluster.client() as client:
        found = await client.list(kind.resource, Selector())

    assert {obj.metadata.name: what for obj in found.items if (what := what_is_lost(obj, kind))} == {}


async def test_the_checked_in_models_are_those_of_this_server(corral_cluster: Cluster) -> None:
    async with corral_cluster.client() as client:
        where = await client.openapi_paths()
        bodies = {path: await client.openapi(where[path]) for path in WANTED.paths}
    documents = {path: msgspec.json.decode(body, type=dict[str, Any]) for path, body in bodies.items()}

    assert files.changes(files.model_files(WANTED, documents, Path.cwd()), Path(package.__path__[0])) == {}


def a_pod_with(size: int | str) -> Pod:
    volume = Volume(name="v", empty_dir=EmptyDirVolumeSource(size_limit=size))
    spec = PodSpec(containers=(Container(name="c", image="i"),), volumes=(volume,))
    return Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=spec)


QUANTITIES = st.builds(
    "{}{}".format,
    st.from_regex(r"[0-9]{1,7}(\.[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "Pi", "e3", "E2", "e-2"]),
)


@settings(max_examples=5, deadline=None, derandomize=True)
@given(quantities=st.lists(QUANTITIES, min_size=20, max_size=20))
def test_a_canonical_quantity_is_what_the_server_writes(corral_cluster: Cluster, quantities: list[str]) -> None:
    """The server keeps some texts as they are ("01", "1.500"); then both mean the same."""
    for sent, kept in zip(quantities, asyncio.run(sizes_kept(corral_cluster, quantities)), strict=True):
        assert kept in (canonical_quantity(sent), sent)
        assert canonical_quantity(kept) == canonical_quantity(sent)


async def sizes_kept(cluster: Cluster, quantities: list[str]) -> list[int | str]:
    async with cluster.client() as client:
        pods = [await client.create(a_pod_with(size), field_manager="test", dry_run=True) for size in quantities]
    return [
        source.size_limit
        for pod in pods
        for volume in pod.spec.volumes
        if (source := volume.empty_dir) and source.size_limit is not None
    ]


async def test_the_canonical_form_of_an_object_is_what_the_server_keeps(corral_cluster: Cluster) -> None:
    async with corral_cluster.client() as client:
        kept = await client.create(a_pod_with("1024Mi"), field_manager="test", dry_run=True)

    desired = canonical(a_pod_with("1024Mi")).spec.volumes
    assert [volume for volume in kept.spec.volumes if volume.name == "v"] == list(desired)


def a_lease(renewed: MicroTime) -> Lease:
    return Lease(metadata=ObjectMeta(name="l", namespace="default"), spec=LeaseSpec(renew_time=renewed))


async def test_a_micro_time_on_the_second_is_kept_as_it_is(corral_cluster: Cluster) -> None:
    noon = micro_time(datetime(2026, 1, 31, 12, tzinfo=UTC))
    async with corral_cluster.client() as client:
        kept = await client.create(a_lease(noon), field_manager="test", dry_run=True)

    assert kept.spec.renew_time == noon
