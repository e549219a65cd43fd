"""Server-side apply: who owns what, and what an apply does to the fields of others."""

import pytest

from corral.kube.errors import ApiError, Conflict, Invalid, NotFound
from corral.kube.unstructured import Unstructured
from corral.testing.contract import CONFIG_MAP, PLAYTHING, POD, World, managers


async def test_an_apply_creates_what_is_missing(world: World) -> None:
    made = await world.apply(world.config_map("a", {"k": "v"}), "us")

    assert made.get("data") == {"k": "v"}
    assert managers(made) == [("us", "Apply", "")]


async def test_the_same_apply_again_keeps_the_version(world: World) -> None:
    made = await world.apply(world.config_map("a", {"k": "v"}, labels={"x": "y"}), "us")

    again = await world.apply(world.config_map("a", {"k": "v"}, labels={"x": "y"}), "us")
    assert again == made


async def test_a_field_of_another_manager_is_a_conflict_that_names_both(world: World) -> None:
    made = await world.apply(world.config_map("a", {"k": "v"}), "them")

    with pytest.raises(Conflict, match=r'conflict with "them": \.data\.k') as caught:
        await world.apply(world.config_map("a", {"k": "other"}), "us")
    assert [(cause.field, cause.reason) for cause in caught.value.causes] == [(".data.k", "FieldManagerConflict")]
    assert await world.get(CONFIG_MAP, "a") == made


async def test_conflicts_with_several_managers_are_all_listed(world: World) -> None:
    await world.apply(world.config_map("a", {"k": "v", "l": "v"}), "them")
    made = await world.apply(world.config_map("a", {"m": "v"}), "others")

    with pytest.raises(Conflict) as caught:
        await world.apply(world.config_map("a", {"k": "1", "l": "1", "m": "1"}), "us")
    assert {cause.field for cause in caught.value.causes} == {".data.k", ".data.l", ".data.m"}
    assert {cause.message for cause in caught.value.causes} == {'conflict with "them"', 'conflict with "others"'}
    assert await world.get(CONFIG_MAP, "a") == made


async def test_a_patched_field_conflicts_with_an_apply(world: World) -> None:
    made = await world.apply(world.config_map("a", {"k": "v"}), "us")
    await world.merge(made, {"data": {"k": "by hand"}})

    with pytest.raises(Conflict, match=f'conflict with "{world.me}" using v1'):
        await world.apply(world.config_map("a", {"k": "v"}), "us")


async def test_what_someone_patched_is_theirs_and_stays_when_we_let_go(world: World) -> None:
    made = await world.apply(world.config_map("a", {"k": "v", "l": "v"}), "us")
    await world.merge(made, {"data": {"k": "by hand"}})
    with pytest.raises(Conflict) as caught:
        await world.apply(world.config_map("a", {"k": "third"}), "others")
    assert [cause.message for cause in caught.value.causes] == [f'conflict with "{world.me}" using v1']

    less = await world.apply(world.config_map("a", {"l": "v"}), "us")
    assert less.get("data") == {"k": "by hand", "l": "v"}


async def test_force_takes_the_field_over(world: World) -> None:
    await world.apply(world.config_map("a", {"k": "v", "l": "v"}), "them")
    taken = await world.apply(world.config_map("a", {"k": "ours"}), "us", force=True)

    assert taken.get("data") == {"k": "ours", "l": "v"}
    with pytest.raises(Conflict, match='conflict with "us"'):
        await world.apply(world.config_map("a", {"k": "v", "l": "v"}), "them")


async def test_an_equal_value_is_owned_by_both_and_stays_until_both_let_go(world: World) -> None:
    await world.apply(world.config_map("a", {"k": "v", "l": "v"}), "them")
    await world.apply(world.config_map("a", {"k": "v", "m": "v"}), "us")

    without_them = await world.apply(world.config_map("a", {"l": "v"}), "them")
    assert without_them.get("data") == {"k": "v", "l": "v", "m": "v"}
    without_us = await world.apply(world.config_map("a", {"m": "v"}), "us")
    assert without_us.get("data") == {"l": "v", "m": "v"}


async def test_what_is_no_longer_applied_is_removed_and_what_others_wrote_stays(world: World) -> None:
    made = await world.apply(
        world.config_map("a", {"k": "v", "l": "v"}, labels={"x": "y"}, annotations={"p": "q"}), "us"
    )
    await world.merge(made, {"data": {"theirs": "1"}, "metadata": {"labels": {"z": "w"}}})

    less = await world.apply(world.config_map("a", {"l": "v"}), "us")
    assert less.get("data") == {"l": "v", "theirs": "1"}
    assert less.metadata.labels == {"z": "w"}
    assert not less.metadata.annotations


async def test_finalizers_are_a_set_and_owner_references_go_by_uid(world: World) -> None:
    owner = await world.create(world.config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    await world.apply(world.config_map("a", finalizers=["corral.dev/x"], ownerReferences=[reference]), "us")
    both = await world.apply(world.config_map("a", finalizers=["corral.dev/y"]), "them")

    assert both.metadata.finalizers == ("corral.dev/x", "corral.dev/y")
    less = await world.apply(world.config_map("a"), "us")
    assert less.metadata.finalizers == ("corral.dev/y",)
    assert less.metadata.owner_references == ()
    await world.apply(world.config_map("a"), "them")


async def test_an_apply_can_insist_on_a_version(world: World) -> None:
    first = await world.apply(world.config_map("a", {"k": "1"}), "us")
    await world.apply(world.config_map("a", {"k": "2"}), "us")

    with pytest.raises(Conflict, match="the object has been modified"):
        await world.apply(world.config_map("a", {"k": "3"}, resourceVersion=first.metadata.resource_version), "us")


async def test_an_apply_meant_for_an_object_that_is_gone_does_not_create_another(world: World) -> None:
    first = await world.apply(world.config_map("a"), "us")
    await world.delete(first)

    with pytest.raises(Conflict, match="uid mismatch"):
        await world.apply(world.config_map("a", uid=first.metadata.uid), "us")
    with pytest.raises(NotFound):
        await world.get(CONFIG_MAP, "a")


async def test_a_version_alone_does_not_keep_an_apply_from_creating(world: World) -> None:
    """So a precondition for an apply needs the uid."""
    first = await world.apply(world.config_map("a"), "us")
    await world.delete(first)

    made = await world.apply(world.config_map("a", resourceVersion=first.metadata.resource_version), "us")
    assert made.metadata.uid != first.metadata.uid


async def test_an_apply_with_the_uid_of_another_is_refused(world: World) -> None:
    first = await world.apply(world.config_map("a"), "us")
    await world.delete(first)
    await world.apply(world.config_map("a"), "us")

    with pytest.raises(ApiError) as caught:
        await world.apply(world.config_map("a", uid=first.metadata.uid), "us")
    assert caught.value.status in (409, 422)


async def test_an_apply_that_is_only_tried_stores_nothing(world: World) -> None:
    tried = await world.apply(world.config_map("a"), "us", dry_run=True)

    assert tried.get("data") == {"a": "1"}
    with pytest.raises(NotFound):
        await world.get(CONFIG_MAP, "a")


async def test_an_apply_without_a_manager_is_invalid(world: World) -> None:
    path = f"/api/v1/namespaces/{world.namespace}/configmaps/a"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

    answer = await world.raw("PATCH", path, body=body, content_type="application/apply-patch+yaml")
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "fieldManager")


async def test_an_apply_with_managed_fields_is_refused(world: World) -> None:
    with pytest.raises(Invalid, match="managedFields must be nil"):
        await world.apply(world.config_map("a", managedFields=[{"manager": "x"}]), "us")


async def test_containers_are_merged_by_name(world: World) -> None:
    def pod(env: str) -> Unstructured:
        container = {
            "name": "main",
            "image": "none",
            "env": [{"name": env, "value": "1"}],
            "ports": [{"containerPort": 80}],
        }
        return world.thing(POD, "a", spec={"containers": [container], "schedulerName": "nobody"})

    made = await world.apply(pod("A"), "us")
    again = await world.apply(pod("A"), "us")

    assert again.metadata.resource_version == made.metadata.resource_version
    assert made.get("spec", "containers", 0, "env", 0, "name") == "A"


@pytest.mark.usefixtures("playthings")
async def test_lists_are_merged_as_the_schema_says(world: World) -> None:
    parts = [{"name": "1", "v": "a"}, {"name": "2", "v": "b"}]
    await world.apply(world.plaything("a", {"parts": parts, "words": ["a"], "tags": ["x"]}), "us")
    both = await world.apply(world.plaything("a", {"parts": [{"name": "3", "v": "c"}], "tags": ["y"]}), "them")

    assert both.get("spec", "parts") == (*parts, {"name": "3", "v": "c"})
    assert both.get("spec", "tags") == ("x", "y")
    less = await world.apply(world.plaything("a", {"parts": [{"name": "2", "v": "b"}]}), "us")
    assert less.get("spec") == {"parts": ({"name": "2", "v": "b"}, {"name": "3", "v": "c"}), "tags": ("y",)}


@pytest.mark.usefixtures("playthings")
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"words": ["b"]}, ".spec.words", id="a list without keys is one field"),
        pytest.param({"parts": [{"name": "1", "v": "z"}]}, '.spec.parts[name="1"].v', id="an item's field is named"),
    ],
)
async def test_conflicts_in_lists_name_the_field(world: World, spec: dict[str, object], field: str) -> None:
    await world.apply(world.plaything("a", {"parts": [{"name": "1", "v": "a"}], "words": ["a"]}), "them")

    with pytest.raises(Conflict) as caught:
        await world.apply(world.plaything("a", spec), "us")
    assert [cause.field for cause in caught.value.causes] == [field]


@pytest.mark.usefixtures("playthings")
async def test_status_is_applied_through_its_own_door_and_conditions_merge_by_type(world: World) -> None:
    def status(kind: str, value: str) -> Unstructured:
        return world.thing(PLAYTHING, "a", status={"conditions": [{"type": kind, "status": value}]})

    made = await world.apply(world.plaything("a", {"replicas": 1}), "us")
    await world.apply(status("Ready", "True"), "us", subresource="status")
    both = await world.apply(status("Stalled", "False"), "them", subresource="status")

    assert both.get("spec") == {"replicas": 1}
    assert both.metadata.generation == made.metadata.generation
    assert both.get("status", "conditions") == (
        {"type": "Ready", "status": "True"},
        {"type": "Stalled", "status": "False"},
    )
    assert managers(both) == [("them", "Apply", "status"), ("us", "Apply", ""), ("us", "Apply", "status")]
    with pytest.raises(Conflict):
        await world.apply(status("Ready", "False"), "them", subresource="status")
    assert await world.apply(status("Ready", "True"), "us", subresource="status") == both


@pytest.mark.usefixtures("playthings")
async def test_status_cannot_be_applied_to_what_is_missing(world: World) -> None:
    with pytest.raises(NotFound):
        await world.apply(world.thing(PLAYTHING, "a", status={"x": 1}), "us", subresource="status")


@pytest.mark.usefixtures("playthings")
async def test_an_apply_to_the_object_leaves_the_status_alone(world: World) -> None:
    made = await world.apply(world.thing(PLAYTHING, "a", spec={"replicas": 1}, status={"x": 1}), "us")

    assert made.get("status") is None
