from datetime import UTC, datetime

import msgspec

from corral.kube.canonical import canonical
from corral.kube.meta import Model, Object, ObjectMeta
from corral.kube.models.apiextensions_v1 import JSONSchemaProps
from corral.kube.models.core_v1 import Container, EmptyDirVolumeSource, Pod, PodSpec, ResourceRequirements, Volume
from corral.kube.values import Duration


def a_pod(cpu: str, size: str = "1Gi") -> Pod:
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}, limits={"cpu": cpu}))
    scratch = Volume(name="scratch", empty_dir=EmptyDirVolumeSource(size_limit=size))
    return Pod(spec=PodSpec(containers=(container,), volumes=(scratch,)))


def test_two_spellings_of_a_quantity_become_one_however_deep_they_stand() -> None:
    assert canonical(a_pod("1000m", "1024Mi")) == canonical(a_pod("1", "1Gi")) == a_pod("1", "1Gi")


def test_what_is_canonical_is_returned_itself() -> None:
    pod = a_pod("500m")

    assert canonical(pod) is pod


def test_a_text_that_only_looks_like_a_quantity_is_left_alone() -> None:
    pod = Pod(
        metadata=ObjectMeta(labels={"size": "1000m"}), spec=PodSpec(containers=(Container(name="a", image="1000m"),))
    )

    assert canonical(pod) is pod


def test_a_time_loses_its_fraction_as_on_the_server() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 999_999, tzinfo=UTC)
    pod = msgspec.structs.replace(a_pod("1"), metadata=ObjectMeta(creation_timestamp=moment))

    assert canonical(pod).metadata.creation_timestamp == moment.replace(microsecond=0)


def test_a_duration_gets_its_canonical_text() -> None:
    class Waiting(Model, frozen=True, kw_only=True):
        wait: Duration | None = None

    assert canonical(Waiting(wait="90s")) == Waiting(wait="1m30s")
    assert canonical(Waiting()) == Waiting()


def test_a_type_that_contains_itself_is_no_endless_walk() -> None:
    class Nested(Object, frozen=True, kw_only=True):
        schema: JSONSchemaProps

    nested = Nested(schema=JSONSchemaProps(properties={"a": JSONSchemaProps(type="string")}))

    assert canonical(nested) is nested
