"""The operator's rights: what a declaration grants, that nothing else is granted, and that the files say the same."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.engine import Controller
from corral.engine.controller import AnyController, confined
from corral.engine.registry import KindController
from corral.install.__main__ import read, write
from corral.install.generated import FOLDERS, differences, generated
from corral.install.rbac import ACTS, OWN, READ, Grant, declared_by, granted, merged, namespaced_objects
from corral.kinds.registry import KINDS
from corral.kube.models.core_v1 import ConfigMap, Pod
from corral.kube.models.rbac_v1 import ClusterRole, Role
from examples.note import Note
from examples.note import controller as note_controller

GROUP = "demo.corral.dev"


def rules_in(text: str, kind: str, name: str) -> list[Mapping[str, Any]]:
    (role,) = [d for d in yaml.safe_load_all(text) if d["kind"] == kind and d["metadata"]["name"] == name]
    rules: list[Mapping[str, Any]] = role["rules"]
    return rules


def verbs(grants: Iterable[Grant], group: str, resource: str) -> frozenset[str]:
    found = [grant.verbs for grant in grants if (grant.group, grant.resource) == (group, resource)]
    assert len(found) <= 1
    return found[0] if found else frozenset()


@pytest.fixture
def plain() -> AnyController:
    return Controller.for_(Note, note_controller().reconciler)


def test_a_kind_is_read_and_only_its_status_is_written(plain: AnyController) -> None:
    grants = merged(declared_by(plain))
    assert verbs(grants, GROUP, "notes") == READ
    assert verbs(grants, GROUP, "notes/status") == {"patch"}
    assert verbs(grants, GROUP, "notes/finalizers") == {"update"}


def test_a_finalizer_needs_a_patch_of_the_object_itself(plain: AnyController) -> None:
    assert verbs(merged(declared_by(plain.finalizer("demo.corral.dev/x"))), GROUP, "notes") == READ | {"patch"}


def test_what_is_owned_is_written_and_what_is_watched_is_read(plain: AnyController) -> None:
    grants = merged(declared_by(plain.owns(ConfigMap).watches(Pod, to=lambda _pod, _read: ())))
    assert verbs(grants, "", "configmaps") == OWN
    assert verbs(grants, "", "pods") == READ


def test_what_one_owns_and_another_watches_is_one_grant_with_the_verbs_of_both(plain: AnyController) -> None:
    watching = plain.watches(ConfigMap, to=lambda _obj, _read: ())
    assert verbs(granted((watching, plain.owns(ConfigMap))), "", "configmaps") == OWN


def test_nothing_is_granted_that_no_controller_declares_and_no_act_needs() -> None:
    declared = {(g.group, g.resource) for entry in KINDS for g in declared_by(entry.build())}
    acts = {(g.group, g.resource) for g in ACTS}
    assert {(g.group, g.resource) for g in granted(entry.build() for entry in KINDS)} == declared | acts


def test_no_rule_has_a_wildcard_none_reaches_roles_and_nodes_are_only_read() -> None:
    rules = rules_in(generated(KINDS)["rbac/operator.yaml"], "ClusterRole", "corral")
    words = {word for rule in rules for part in ("apiGroups", "resources", "verbs") for word in rule[part]}
    assert not words & {"*", "escalate", "bind", "impersonate", "clusterroles"}
    assert {verb for rule in rules if "nodes" in rule["resources"] for verb in rule["verbs"]} == {
        "get",
        "list",
        "watch",
    }


def test_definitions_of_kinds_are_only_looked_at() -> None:
    rules = rules_in(generated(KINDS)["rbac/operator.yaml"], "ClusterRole", "corral")
    allowed = {verb for rule in rules if "customresourcedefinitions" in rule["resources"] for verb in rule["verbs"]}

    assert allowed == {"list", "watch"}


def test_the_lease_is_granted_in_the_operators_namespace_only_and_by_name_where_that_is_possible() -> None:
    text = generated(KINDS)["rbac/operator.yaml"]
    assert "leases" not in str(rules_in(text, "ClusterRole", "corral"))
    create, renew = rules_in(text, "Role", "corral")
    assert create["verbs"] == ["create"]
    assert (renew["verbs"], renew["resourceNames"]) == (["get", "patch"], ["corral"])


def test_who_may_edit_a_namespace_may_scale_what_scales_in_it() -> None:
    rules = rules_in(generated(KINDS)["rbac/people.yaml"], "ClusterRole", "corral-edit")
    scales = {resource for rule in rules for resource in rule["resources"] if resource.endswith("/scale")}
    assert "nodesets/scale" in scales
    assert "accountings/scale" not in scales


def test_a_file_of_a_kind_that_went_is_removed_and_all_others_are_as_generated(tmp_path: Path) -> None:
    note = (KindController(Note, note_controller),)
    write(tmp_path, generated(note), {})
    (tmp_path / "crds/olds.demo.corral.dev.yaml").write_text("left behind")
    (tmp_path / "rbac/operator.yaml").write_text("edited by hand")
    wanted = generated(note)
    assert differences(wanted, read(tmp_path)) == (
        "crds/olds.demo.corral.dev.yaml belongs to nothing",
        "rbac/operator.yaml is out of date",
    )
    write(tmp_path, wanted, read(tmp_path))
    assert differences(wanted, read(tmp_path)) == ()


def test_every_generated_file_is_a_resource_of_its_folder() -> None:
    files = generated(KINDS)
    for folder in FOLDERS:
        listed = yaml.safe_load(files[f"{folder}/kustomization.yaml"])["resources"]
        there = [name.partition("/")[2] for name in files if name.startswith(f"{folder}/")]
        assert sorted((*listed, "kustomization.yaml")) == sorted(there)


def test_an_operator_of_one_namespace_writes_in_it_and_beyond_it_only_reads_what_has_no_namespace() -> None:
    inside = [confined(entry.build(), "lab") for entry in KINDS if entry.kind.resource.namespaced]
    objects = namespaced_objects(inside, "lab")
    (beyond,) = [obj for obj in objects if isinstance(obj, ClusterRole)]
    (role,) = [obj for obj in objects if isinstance(obj, Role)]
    read = {name for rule in beyond.rules or () for name in rule.resources}
    asks = [rule for rule in beyond.rules or () if "subjectaccessreviews" in rule.resources]  # which changes nothing
    assert {verb for rule in beyond.rules or () if rule not in asks for verb in rule.verbs} <= READ
    assert [(rule.resources, rule.verbs) for rule in asks] == [(("subjectaccessreviews",), ("create",))]
    assert not {"secrets", "pods", "wukongs", "nodebridges"} & read
    assert {"secrets", "wukongs", "leases"} <= {name for rule in role.rules or () for name in rule.resources}
    assert role.metadata.namespace == "lab"
