from collections.abc import Mapping

import pytest

from corral.kube.codec import decode, encode
from corral.kube.errors import Subject
from corral.kube.meta import ref
from corral.kube.unstructured import Unstructured, class_of
from tests.unit.kube.memory import DEPLOYMENTS, Pod

CONTENT = {"metadata": {"name": "web", "namespace": "lab"}, "spec": {"ports": [{"port": 80}], "hosts": ["a", "b"]}}


def a_deployment() -> Unstructured:
    return DEPLOYMENTS.untyped()(content=CONTENT)


def test_it_knows_its_resource_and_its_metadata() -> None:
    deployment = a_deployment()

    assert deployment.resource == DEPLOYMENTS
    assert str(ref(deployment)) == "Deployment lab/web"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (("spec", "ports", 0, "port"), 80),
        (("spec", "hosts"), ("a", "b")),
        (("spec", "hosts", -1), "b"),
        (("spec", "hosts", 2), None),
        (("spec", "nothing", "here"), None),
        (("metadata", "name", "deeper"), None),
    ],
)
def test_a_path_leads_to_a_value_or_to_nothing(path: tuple[str | int, ...], found: object) -> None:
    assert a_deployment().get(*path) == found


def test_nothing_in_it_can_be_changed() -> None:
    deployment = a_deployment()

    with pytest.raises(TypeError):
        deployment.content["spec"] = {}  # type: ignore[index]
    port = deployment.get("spec", "ports", 0)
    assert isinstance(port, Mapping)
    with pytest.raises(TypeError):
        port["port"] = 81  # type: ignore[index]
    with pytest.raises(AttributeError):
        deployment.content = {}  # type: ignore[misc]
    assert isinstance(deployment.get("spec", "hosts"), tuple)


def test_it_is_not_changed_by_what_it_was_made_from() -> None:
    content: dict[str, dict[str, object]] = {"metadata": {"name": "web"}, "spec": {"replicas": 1}}
    deployment = DEPLOYMENTS.untyped()(content=content)
    content["spec"]["replicas"] = 2

    assert deployment.get("spec", "replicas") == 1


def test_it_keeps_every_field_on_the_way_to_the_wire_and_back() -> None:
    deployment = a_deployment()
    body = encode(deployment)

    assert body.startswith(b'{"apiVersion":"apps/v1","kind":"Deployment",')
    back = decode(DEPLOYMENTS.untyped(), body, Subject("get", "Deployment"))
    assert back.get("spec") == deployment.get("spec")
    assert back.metadata == deployment.metadata


def test_a_kind_is_a_class_or_a_resource() -> None:
    assert class_of(Pod) is Pod
    assert class_of(DEPLOYMENTS) is DEPLOYMENTS.untyped()
