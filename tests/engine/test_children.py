"""What becomes of an owner's children: make, change, put back, prune, or leave alone."""

import sys
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
import pytest
from msgspec import structs

from corral.engine import Apply, Create, Delete, Once, Plan, children, controller_reference
from corral.engine.children import APPLIED, NORMALISED, BadChild, with_metadata, with_normalised
from corral.engine.differences import Differences, Wire, differences
from corral.kube.meta import EMPTY, Object, ObjectMeta, Resource
from corral.kube.models.apps_v1 import Deployment, DeploymentSpec
from corral.kube.models.core_v1 import (
    ConfigMap,
    Container,
    Namespace,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Secret,
)
from corral.kube.models.meta_v1 import LabelSelector
from corral.kube.unstructured import untyped
from corral.testing.toys import Toy

T = TypeVar("T", bound=Object)

OWNER = Toy(metadata=ObjectMeta(name="bear", namespace="lab", uid="u-bear"))


def a_map(name: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data or {"k": "v"})


def made(desired: T, **changes: object) -> T:
    """The child as the server has it after we made it; then with fields changed by others."""
    (action,) = children(OWNER, [desired], []).actions
    assert isinstance(action, Apply)
    obj = action.object
    meta = structs.replace(obj.metadata, uid="u-child", resource_version="7")
    return structs.replace(with_metadata(obj, meta), **changes)  # type: ignore[return-value]


def the_apply(plan: Plan) -> Apply:
    (action,) = plan.actions
    assert isinstance(action, Apply)
    return action


def a_deployment(cpu: str = "500m", sidecar: bool = False) -> Deployment:
    resources = ResourceRequirements(limits={"cpu": cpu})
    own = Container(name="main", image="main:1", resources=resources)
    containers = (Container(name="injected", image="mesh:1"), own) if sidecar else (own,)
    template = PodTemplateSpec(spec=PodSpec(containers=containers))
    spec = DeploymentSpec(selector=LabelSelector(match_labels={"app": "d"}), template=template, replicas=2)
    return Deployment(metadata=ObjectMeta(name="d"), spec=spec)


def test_what_is_missing_is_made_with_owner_namespace_and_mark() -> None:
    action = the_apply(children(OWNER, [a_map()], []))

    assert (action.over, action.reason) == (None, "Missing")
    assert action.object.metadata.namespace == "lab"
    assert action.object.metadata.owner_references == (controller_reference(OWNER),)
    assert action.object.metadata.annotations[APPLIED].startswith("corral-toy/")


def test_what_is_as_desired_needs_nothing() -> None:
    assert children(OWNER, [a_map()], [made(a_map())]) == Plan()


def test_a_change_of_mind_is_no_drift() -> None:
    action = the_apply(children(OWNER, [a_map(k="new")], [made(a_map(k="old"))]))

    assert (action.reason, action.drifted) == ("Changed", ())
    assert action.message == "desired state changed: data.k"
    assert action.over is not None
    assert action.over.uid == "u-child"


def test_a_field_that_we_drop_is_a_change_of_mind() -> None:
    action = the_apply(children(OWNER, [a_map(k="v")], [made(a_map(k="v", gone="x"))]))

    assert (action.reason, action.message) == ("Changed", "a field is removed")


def test_what_someone_else_changed_is_put_back_and_named() -> None:
    action = the_apply(children(OWNER, [a_map(k="v")], [made(a_map(k="v"), data={"k": "theirs"})]))

    assert (action.reason, action.drifted) == ("Drifted", ("data.k",))
    assert action.message == "someone else changed data.k; reverted"


def test_a_field_that_we_do_not_set_is_left_alone() -> None:
    assert children(OWNER, [a_map(k="v")], [made(a_map(k="v"), data={"k": "v", "theirs": "x"})]) == Plan()


def test_another_spelling_of_a_quantity_is_no_difference() -> None:
    present = structs.replace(made(a_deployment(cpu="1000m")), spec=a_deployment(cpu="1").spec)

    assert children(OWNER, [a_deployment(cpu="1000m")], [present]) == Plan()


def test_an_element_that_someone_added_to_a_keyed_list_is_left_alone() -> None:
    present = structs.replace(made(a_deployment()), spec=a_deployment(sidecar=True).spec)

    assert children(OWNER, [a_deployment()], [present]) == Plan()


def test_drift_within_a_keyed_list_is_named_by_its_key() -> None:
    present = structs.replace(made(a_deployment("500m")), spec=a_deployment("2", sidecar=True).spec)
    action = the_apply(children(OWNER, [a_deployment("500m")], [present]))

    assert action.drifted == ("spec.template.spec.containers[main].resources.limits.cpu",)


def test_what_the_server_spells_otherwise_is_applied_once_and_then_settled() -> None:
    desired = a_map(k="V")
    present = made(desired, data={"k": "v"})  # this server writes small letters
    first = the_apply(children(OWNER, [desired], [present]))
    marked = with_normalised(first.object, present)
    assert marked is not None
    meta = structs.replace(present.metadata, annotations=marked.metadata.annotations)

    assert children(OWNER, [desired], [structs.replace(present, metadata=meta)]) == Plan()


def test_a_settled_field_that_someone_changes_further_is_drift_again() -> None:
    desired = a_map(k="V")
    marked = with_normalised(made(desired), made(desired, data={"k": "v"}))
    assert marked is not None
    meta = structs.replace(made(desired).metadata, annotations=marked.metadata.annotations)
    present = made(desired, data={"k": "other"}, metadata=meta)

    action = the_apply(children(OWNER, [desired], [present]))
    assert action.drifted == ("data.k",)
    assert NORMALISED in action.object.metadata.annotations


def test_nonsense_in_the_mark_counts_as_nothing() -> None:
    present = made(a_map())
    meta = structs.replace(present.metadata, annotations={**present.metadata.annotations, NORMALISED: "]["})

    assert children(OWNER, [a_map()], [structs.replace(present, metadata=meta)]) == Plan()


def test_made_once_is_created_and_never_changed() -> None:
    secret = Secret(metadata=ObjectMeta(name="s"), data={"k": b"v"})
    (create,) = children(OWNER, [Once(secret)], []).actions
    assert isinstance(create, Create)
    assert create.object.metadata.annotations[APPLIED].endswith("/once"), "no digest of what may be secret"
    other = structs.replace(create.object, data={"k": b"rotated"})

    assert children(OWNER, [Once(secret)], [other]) == Plan()


def test_a_name_that_is_taken_is_waited_for_and_not_touched() -> None:
    foreign = a_map()
    foreign = with_metadata(foreign, structs.replace(foreign.metadata, namespace="lab"))
    plan = children(OWNER, [a_map()], [foreign])

    assert plan.actions == ()
    assert [(w.reason, w.stalled) for w in plan.waits] == [("NameTaken", True)]
    assert "ConfigMap lab/a exists and does not belong to Toy lab/bear" in plan.waits[0].message


def test_the_children_of_an_earlier_owner_of_that_name_are_not_ours() -> None:
    earlier = structs.replace(OWNER, metadata=structs.replace(OWNER.metadata, uid="u-earlier"))
    (action,) = children(earlier, [a_map()], []).actions
    assert isinstance(action, Apply)

    assert children(OWNER, [a_map()], [action.object]).waits[0].reason == "NameTaken"
    assert children(OWNER, [], [action.object]) == Plan()


def test_a_child_being_deleted_is_waited_for() -> None:
    present = made(a_map())
    going = structs.replace(present.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    plan = children(OWNER, [a_map()], [structs.replace(present, metadata=going)])

    assert plan.actions == ()
    assert plan.waits[0].reason == "ChildBeingDeleted"


def test_what_is_no_longer_desired_is_deleted_as_it_was_seen() -> None:
    (action,) = children(OWNER, [], [made(a_map())]).actions

    assert isinstance(action, Delete)
    assert (action.target.uid, action.target.resource_version) == ("u-child", "7")


@pytest.mark.parametrize(
    "annotations",
    [pytest.param(EMPTY, id="no mark"), pytest.param({APPLIED: "another/1234"}, id="another manager's mark")],
)
def test_what_we_did_not_make_is_never_pruned(annotations: dict[str, str]) -> None:
    present = made(a_map())
    meta = structs.replace(present.metadata, annotations=annotations)

    assert children(OWNER, [], [structs.replace(present, metadata=meta)]) == Plan()


def test_a_kind_without_a_class_can_be_a_child() -> None:
    widgets = Resource("example.com", "v1", "Widget", "widgets", True)
    widget = untyped(widgets)(content={"metadata": {"name": "w"}, "spec": {"size": 3}})
    present = the_apply(children(OWNER, [widget], [])).object

    assert children(OWNER, [widget], [present]) == Plan()


def test_a_child_desired_twice_is_our_mistake() -> None:
    with pytest.raises(BadChild, match="ConfigMap lab/a is desired twice"):
        children(OWNER, [a_map(), a_map()], [])


def test_an_owner_does_not_reach_beyond_its_namespace() -> None:
    with pytest.raises(BadChild, match="Toy lab/bear cannot own Namespace x cluster-wide"):
        children(OWNER, [Namespace(metadata=ObjectMeta(name="x"))], [])


def test_messages_name_fields_and_never_values() -> None:
    desired = Secret(metadata=ObjectMeta(name="s"), data={"password": b"hunter2"})
    action = the_apply(children(OWNER, [desired], [made(desired, data={"password": b"stolen"})]))

    assert "data.password" in action.message
    assert "hunter2" not in action.message
    assert msgspec.json.encode(action.message).count(b"aHVudGVyMg") == 0


def test_many_differences_are_counted_not_listed() -> None:
    many = {f"k{n}": "v" for n in range(8)}
    action = the_apply(children(OWNER, [a_map(**many)], [made(a_map(**many), data={"theirs": "x"})]))

    assert action.message == "someone else changed data.k0, data.k1, data.k2, data.k3, data.k4 and 3 more; reverted"


def test_what_was_found_in_sync_is_not_compared_again_until_one_side_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counted(kind: type[Object], desired: Wire, observed: Wire) -> Differences:
        compared.append(kind.__name__)
        return differences(kind, desired, observed)

    monkeypatch.setattr(sys.modules[BadChild.__module__], "differences", counted)
    wish, present = a_map(k="v"), made(a_map(k="v"))
    for _ in range(3):
        assert children(OWNER, [a_map(k="v")], [present]) == Plan()
    assert len(compared) == 1
    drifted = structs.replace(present, data={"k": "other"})
    assert the_apply(children(OWNER, [wish], [drifted])).reason == "Drifted"
    assert the_apply(children(OWNER, [a_map(k="new")], [present])).reason == "Changed"
    assert the_apply(children(OWNER, [wish], [present], manager="another")).reason == "Changed"
    heir = Toy(metadata=structs.replace(OWNER.metadata, uid="u-heir"))
    assert [wait.reason for wait in children(heir, [wish], [present]).waits] == ["NameTaken"]


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    module, remembered = sys.modules[BadChild.__module__], dict[str, object]()
    monkeypatch.setattr(module, "REMEMBERED_MAX", 2)
    monkeypatch.setattr(module, "_in_sync", remembered)
    for number in range(5):
        child = made(a_map())
        present = with_metadata(child, structs.replace(child.metadata, uid=f"u-{number}"))
        assert children(OWNER, [a_map()], [present]) == Plan()
    assert list(remembered) == ["u-3", "u-4"]
