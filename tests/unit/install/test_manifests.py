"""The manifests as they are applied: all of deploy/, images from elsewhere, and an operator that is nobody special."""

from typing import Any

import yaml

from corral import __version__
from corral.install.manifests import IMAGE_KEY, as_object, read_deploy, read_quickstart, with_operator_image
from corral.install.policies import BINDING, POLICY
from corral.install.quickstart import IMAGES, controller, with_images, workers
from corral.install.rbac import NAME, NAMESPACE
from corral.kinds import names
from corral.kinds.registry import KINDS


def deployment(**changes: str) -> Any:
    (found,) = [d for d in with_operator_image(read_deploy(), **changes) if d["kind"] == "Deployment"]
    return found


def test_every_kind_is_defined_before_anything_that_is_not_a_namespace() -> None:
    kinds = [document["kind"] for document in read_deploy()]
    assert kinds[0] == "Namespace"
    assert kinds[1 : 1 + len(KINDS)] == ["CustomResourceDefinition"] * len(KINDS)


def test_everything_with_a_namespace_is_in_the_operators_own() -> None:
    objects = [as_object(document) for document in read_deploy()]
    assert {obj.metadata.namespace for obj in objects if obj.resource.namespaced} == {NAMESPACE}


def test_the_operators_image_is_that_of_this_version() -> None:
    (container,) = deployment()["spec"]["template"]["spec"]["containers"]
    assert container["image"] == names.CORRAL_IMAGE
    assert names.CORRAL_IMAGE.endswith(f":{__version__}")


def test_the_operator_has_no_rights_on_its_node() -> None:
    pod = deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["serviceAccountName"] == NAME
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_image_from_elsewhere_and_its_key_change_the_pod_and_nothing_else() -> None:
    changed = deployment(prefix="mirror.example/team/", key="abc")
    template = changed["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == f"mirror.example/team/{names.CORRAL_IMAGE}"
    assert template["metadata"]["annotations"] == {IMAGE_KEY: "abc"}
    assert changed["metadata"] == deployment()["metadata"]


def test_the_quickstart_is_a_cluster_of_three_workers() -> None:
    example = read_quickstart()
    assert (controller(example), workers(example)) == ("demo", 3)


def test_without_a_prefix_the_quickstart_is_applied_as_it_is_written() -> None:
    assert with_images(read_quickstart(), "") == read_quickstart()


def test_with_a_prefix_every_container_of_the_quickstart_says_where_its_image_is() -> None:
    text = yaml.safe_dump_all([dict(document) for document in with_images(read_quickstart(), "mirror.example")])
    for image in IMAGES:
        assert image == names.CORRAL_IMAGE or f"image: mirror.example/{image}" in text
    assert text.count("image: mirror.example/") >= len(read_quickstart()) + 1  # Accounting has a database too


def test_an_image_that_somebody_chose_stays() -> None:
    chosen = {"apiVersion": "v1", "kind": "NodeSet", "metadata": {}, "spec": {"slurmd": {"image": "mine:1"}}}
    assert with_images((chosen,), "mirror.example")[0]["spec"] == {"slurmd": {"image": "mine:1"}}


def test_every_policy_of_deploy_is_in_force() -> None:
    """Without a binding the server asks none."""
    documents = read_deploy()
    policies = [one["metadata"]["name"] for one in documents if one["kind"] == POLICY.kind]
    bound = [one["spec"]["policyName"] for one in documents if one["kind"] == BINDING.kind]
    assert policies == bound == ["corral-nodesets"]
