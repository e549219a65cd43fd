"""Deletion: preconditions, finalizers, dependents, namespaces."""

from typing import Any

import pytest

from corral.kube.errors import Conflict, Invalid, NotFound
from corral.kube.selection import Precondition
from corral.testing.contract import CONFIG_MAP, NAMESPACE, POD, World, owned_by

KEEP: dict[str, Any] = {"finalizers": ["contract.corral.dev/keep"]}


async def test_a_deleted_object_is_gone(world: World) -> None:
    made = await world.create(world.config_map("a"))
    await world.delete(made)

    with pytest.raises(NotFound):
        await world.get(CONFIG_MAP, "a")
    with pytest.raises(NotFound):
        await world.delete(made)


async def test_a_deleted_pod_is_marked_and_then_gone_and_answered_with_the_version_of_its_end(world: World) -> None:
    made = await world.create(world.pod("a"))

    last = await world.delete(made)
    assert last is not None
    assert last.metadata.uid == made.metadata.uid
    marked, gone = await world.events(POD, 2, since=made.metadata.resource_version)
    assert marked[:2] == ("MODIFIED", "a")
    assert gone == ("DELETED", "a", last.metadata.resource_version)


async def test_a_deleted_config_map_is_answered_without_it(world: World) -> None:
    made = await world.create(world.config_map("a"))

    assert await world.delete(made) is None


@pytest.mark.parametrize("what", ["uid", "version"])
async def test_a_delete_meant_for_another_state_is_a_conflict(world: World, what: str) -> None:
    first = await world.create(world.config_map("a"))
    second = await world.merge(first, {"data": {"b": "2"}})
    stale = {
        "uid": Precondition(uid="11111111-1111-4111-8111-111111111111"),
        "version": Precondition(resource_version=first.metadata.resource_version),
    }[what]

    with pytest.raises(Conflict):
        await world.delete(second, precondition=stale)
    assert await world.get(CONFIG_MAP, "a") == second


async def test_a_delete_of_exactly_what_was_seen_is_done(world: World) -> None:
    made = await world.create(world.config_map("a"))
    await world.delete(made, precondition=Precondition.of(made))

    with pytest.raises(NotFound):
        await world.get(CONFIG_MAP, "a")


async def test_a_delete_that_is_only_tried_deletes_nothing(world: World) -> None:
    made = await world.create(world.config_map("a"))
    await world.delete(made, dry_run=True)

    assert await world.get(CONFIG_MAP, "a") == made


async def test_a_finalizer_keeps_an_object_until_it_is_removed(world: World) -> None:
    made = await world.create(world.config_map("a", **KEEP))
    marked = await world.delete(made)

    assert marked is not None
    assert marked.metadata.deletion_timestamp
    assert int(marked.metadata.resource_version) > int(made.metadata.resource_version)
    assert await world.get(CONFIG_MAP, "a") == marked
    await world.merge(made, {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await world.get(CONFIG_MAP, "a")


async def test_the_answer_to_the_removal_of_the_last_finalizer_has_not_the_version_of_the_deletion(
    world: World,
) -> None:
    """Whoever waits for caches to reach that answer's version does not wait for the deletion."""
    made = await world.create(world.config_map("a", **KEEP))
    marked = await world.delete(made)
    assert marked is not None
    answer = await world.merge(made, {"metadata": {"finalizers": None}})

    (event,) = await world.events(CONFIG_MAP, 1, since=marked.metadata.resource_version)
    assert answer.metadata.resource_version == marked.metadata.resource_version
    assert event[0] == "DELETED"
    assert int(event[2]) > int(marked.metadata.resource_version)


async def test_deleting_twice_changes_nothing(world: World) -> None:
    made = await world.create(world.config_map("a", **KEEP))
    marked = await world.delete(made)

    assert await world.delete(made) == marked
    await world.merge(made, {"metadata": {"finalizers": None}})


async def test_an_object_being_deleted_can_be_changed_but_gets_no_new_finalizer(world: World) -> None:
    made = await world.create(world.config_map("a", **KEEP))
    await world.delete(made)

    changed = await world.merge(made, {"data": {"b": "2"}})
    assert changed.get("data", "b") == "2"
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        await world.merge(made, {"metadata": {"finalizers": [*KEEP["finalizers"], "contract.corral.dev/more"]}})
    await world.merge(made, {"metadata": {"finalizers": None}})


@pytest.mark.usefixtures("playthings")
async def test_marking_for_deletion_counts_as_a_generation(world: World) -> None:
    made = await world.create(world.plaything("a", {"x": 1}, **KEEP))
    marked = await world.delete(made)

    assert marked is not None
    assert (made.metadata.generation, marked.metadata.generation) == (1, 2)
    await world.merge(made, {"metadata": {"finalizers": None}})


async def test_dependents_go_when_their_owner_is_gone(world: World) -> None:
    owner = await world.create(world.config_map("owner"))
    child = await world.create(world.config_map("child", **owned_by(owner)))
    grandchild = await world.create(world.config_map("grandchild", **owned_by(child)))
    await world.delete(owner)

    await world.until_gone(child)
    await world.until_gone(grandchild)


async def test_a_dependent_of_an_owner_that_never_was_goes(world: World) -> None:
    owner = await world.create(world.config_map("owner"))
    await world.delete(owner)
    child = await world.create(world.config_map("child", **owned_by(owner)))

    await world.until_gone(child)


async def test_a_dependent_with_another_owner_stays(world: World) -> None:
    first = await world.create(world.config_map("first"))
    second = await world.create(world.config_map("second"))
    references = [*owned_by(first)["ownerReferences"], *owned_by(second)["ownerReferences"]]
    child = await world.create(world.config_map("child", ownerReferences=references))
    await world.delete(first)

    events = await world.events(CONFIG_MAP, 2, since=child.metadata.resource_version)
    assert [event[:2] for event in events] == [("DELETED", "first"), ("MODIFIED", "child")]
    left = await world.get(CONFIG_MAP, "child")
    assert [each.name for each in left.metadata.owner_references] == ["second"]


async def test_an_owner_deleted_in_the_foreground_goes_after_what_blocks_it(world: World) -> None:
    owner = await world.create(world.config_map("owner"))
    child = await world.create(world.config_map("child", **owned_by(owner, blocks=True)))
    marked = await world.delete(owner, propagation="Foreground")

    assert marked is not None
    assert marked.metadata.finalizers == ("foregroundDeletion",)
    await world.until_gone(owner)
    events = await world.events(CONFIG_MAP, 3, since=child.metadata.resource_version)
    assert [event[:2] for event in events if event[0] == "DELETED"] == [("DELETED", "child"), ("DELETED", "owner")]


async def test_an_owner_deleted_in_the_foreground_waits_for_a_dependent_that_is_kept(world: World) -> None:
    owner = await world.create(world.config_map("owner"))
    child = await world.create(world.config_map("child", **owned_by(owner, blocks=True), **KEEP))
    await world.delete(owner, propagation="Foreground")

    events = await world.events(CONFIG_MAP, 2, since=child.metadata.resource_version)
    assert [event[:2] for event in events] == [("MODIFIED", "owner"), ("MODIFIED", "child")]
    assert (await world.get(CONFIG_MAP, "owner")).metadata.finalizers == ("foregroundDeletion",)
    await world.merge(child, {"metadata": {"finalizers": None}})
    await world.until_gone(owner)


async def test_an_owner_can_leave_its_dependents_behind(world: World) -> None:
    owner = await world.create(world.config_map("owner"))
    await world.create(world.config_map("child", **owned_by(owner)))
    await world.delete(owner, propagation="Orphan")
    await world.until_gone(owner)

    assert (await world.get(CONFIG_MAP, "child")).metadata.owner_references == ()


async def test_a_namespace_takes_its_content_with_it(world: World) -> None:
    space = await world.create(world.thing(NAMESPACE, f"{world.namespace}-x"))
    child = await world.create(world.config_map("a", namespace=space.metadata.name))
    marked = await world.delete(space)

    assert marked is not None
    assert marked.get("status", "phase") == "Terminating"
    await world.until_gone(child)
    await world.until_gone(space)
