from typing import Annotated, Any

import msgspec
import pytest
import yaml
from msgspec import Meta

from corral.kube.crd import Column, Inexpressible, Scale, crd_of, keys, kind, rule, rules, to_yaml
from corral.kube.meta import Condition, Model, Object, Resource


@rules(rule("self.low <= self.high", "low is above high"))
class Range(Model, frozen=True, kw_only=True):
    low: int = 0
    high: int = 10


class ToySpec(Model, frozen=True, kw_only=True):
    range: Range = Range()
    replicas: Annotated[int, Meta(ge=0)] = 1


class ToyStatus(Model, frozen=True, kw_only=True):
    observed_generation: int = -1
    replicas: int = 0
    conditions: Annotated[tuple[Condition, ...], keys("type")] = ()


@kind(
    group="demo.corral.dev",
    version="v1alpha1",
    plural="toys",
    short_names=("ty",),
    categories=("corral",),
    columns=(Column("High", "integer", ".spec.range.high", priority=1),),
    scale=Scale(selector=".status.selector"),
    rules=(rule("self.metadata.name != 'none'", "a toy needs a name"),),
)
class Toy(Object, frozen=True, kw_only=True):
    """Something to play with."""

    spec: ToySpec
    status: ToyStatus = ToyStatus()


def the_manifest() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(to_yaml(crd_of(Toy)))
    return found


def the_version() -> dict[str, Any]:
    (version,) = the_manifest()["spec"]["versions"]
    return dict(version)


def test_a_kind_knows_where_it_is_served() -> None:
    assert Toy.resource == Resource("demo.corral.dev", "v1alpha1", "Toy", "toys", True)


def test_names_and_scope_are_what_kubectl_users_type() -> None:
    manifest = the_manifest()

    assert (manifest["apiVersion"], manifest["kind"]) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert manifest["metadata"]["name"] == "toys.demo.corral.dev"
    assert manifest["spec"]["scope"] == "Namespaced"
    assert manifest["spec"]["names"] == {
        "kind": "Toy",
        "listKind": "ToyList",
        "plural": "toys",
        "singular": "toy",
        "shortNames": ["ty"],
        "categories": ["corral"],
    }


def test_rules_stand_on_the_kind_and_on_the_part_they_belong_to() -> None:
    schema = the_version()["schema"]["openAPIV3Schema"]

    assert schema["x-kubernetes-validations"][0]["message"] == "a toy needs a name"
    part = schema["properties"]["spec"]["properties"]["range"]
    assert part["x-kubernetes-validations"] == [{"rule": "self.low <= self.high", "message": "low is above high"}]


def test_a_status_starts_before_any_generation() -> None:
    status = the_version()["schema"]["openAPIV3Schema"]["properties"]["status"]

    assert status["default"] == {"observedGeneration": -1, "replicas": 0}
    assert the_version()["subresources"]["status"] == {}


def test_a_status_without_an_observed_generation_is_refused() -> None:
    @kind(group="demo.corral.dev", version="v1", plural="cars")
    class Car(Object, frozen=True, kw_only=True):
        status: Range = Range()

    with pytest.raises(Inexpressible, match=r"Car\.status: expected the field observed_generation: int = -1"):
        crd_of(Car)


def test_columns_of_every_kind_surround_its_own() -> None:
    columns = the_version()["additionalPrinterColumns"]

    assert [column["name"] for column in columns] == ["Ready", "High", "Status", "Age", "Message"]
    assert columns[1] == {"name": "High", "type": "integer", "jsonPath": ".spec.range.high", "priority": 1}


def test_the_counts_of_the_scale_subresource_are_where_the_kind_says() -> None:
    assert the_version()["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        (Scale(".spec.range.low"), r"Jet: expected a count of at least 0 at \.spec\.range\.low"),
        (Scale(".spec.copies"), r"Jet: expected an integer at \.spec\.copies"),
    ],
)
def test_a_scale_path_that_the_server_would_not_take_is_refused(scale: Scale, says: str) -> None:
    @kind(group="demo.corral.dev", version="v1", plural="jets", scale=scale)
    class Jet(Object, frozen=True, kw_only=True):
        spec: ToySpec
        status: ToyStatus = ToyStatus()

    with pytest.raises(Inexpressible, match=says):
        crd_of(Jet)


def test_whole_numbers_are_written_without_a_fraction() -> None:
    class Bounded(Model, frozen=True, kw_only=True):
        x: Annotated[int, msgspec.Meta(ge=0)] = 0

    @kind(group="demo.corral.dev", version="v1", plural="trains")
    class Train(Object, frozen=True, kw_only=True):
        spec: Bounded = Bounded()

    assert "minimum: 0\n" in to_yaml(crd_of(Train))


def test_a_class_that_is_no_kind_of_ours_is_named() -> None:
    class Boat(Object, frozen=True, kw_only=True):
        pass

    with pytest.raises(LookupError, match=r"Boat is no kind of ours: put @kind"):
        crd_of(Boat)
