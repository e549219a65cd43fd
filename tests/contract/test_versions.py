"""Versions, identities and generations: what a write leaves on an object."""

import pytest

from corral.kube.errors import AlreadyExists, Conflict, NotFound
from corral.kube.selection import Precondition
from corral.testing.contract import CONFIG_MAP, PLAYTHING, SECRET, World


async def test_an_object_reads_back_as_it_was_created(world: World) -> None:
    made = await world.create(world.config_map("a", {"k": "v"}, labels={"x": "y"}))

    found = await world.get(CONFIG_MAP, "a")
    assert found == made
    assert found.get("data") == {"k": "v"}
    assert found.metadata.labels == {"x": "y"}
    assert found.metadata.uid
    assert found.metadata.creation_timestamp


@pytest.mark.usefixtures("playthings")
async def test_of_what_was_made_the_metadata_is_told(world: World) -> None:
    """Also by the part of the server that serves custom kinds."""
    for kind, wanted in ((CONFIG_MAP, world.config_map("a", {"k": "v"})), (PLAYTHING, world.plaything("a"))):
        told = await world.client.make(wanted, field_manager=world.me)

        assert told == (await world.get(kind, "a")).metadata


async def test_every_write_has_a_higher_version_than_all_before(world: World) -> None:
    first = await world.create(world.config_map("a"))
    second = await world.create(world.config_map("b"))
    third = await world.merge(first, {"data": {"a": "2"}})

    versions = [int(each.metadata.resource_version) for each in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_a_write_that_changes_nothing_keeps_the_version(world: World) -> None:
    made = await world.create(world.config_map("a", {"k": "v"}))

    again = await world.merge(made, {"data": {"k": "v"}})
    assert again.metadata.resource_version == made.metadata.resource_version


async def test_what_is_missing_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await world.get(CONFIG_MAP, "a")


async def test_a_second_create_is_refused_and_changes_nothing(world: World) -> None:
    made = await world.create(world.config_map("a", {"k": "v"}))

    with pytest.raises(AlreadyExists):
        await world.create(world.config_map("a", {"k": "other"}))
    assert await world.get(CONFIG_MAP, "a") == made


async def test_a_name_can_be_generated(world: World) -> None:
    made = await world.create(world.config_map("", generateName="made-"))

    assert made.metadata.name.startswith("made-")
    assert len(made.metadata.name) == len("made-") + 5


async def test_an_object_made_again_under_its_name_is_another(world: World) -> None:
    first = await world.create(world.config_map("a"))
    await world.delete(first)
    second = await world.create(world.config_map("a"))

    assert second.metadata.uid != first.metadata.uid


async def test_a_patch_of_an_old_version_is_a_conflict_and_changes_nothing(world: World) -> None:
    first = await world.create(world.config_map("a"))
    second = await world.merge(first, {"data": {"a": "2"}})

    with pytest.raises(Conflict, match="the object has been modified"):
        await world.merge(first, {"data": {"a": "3"}}, precondition=Precondition.of(first))
    assert await world.get(CONFIG_MAP, "a") == second


async def test_a_patch_meant_for_another_object_of_that_name_is_a_conflict(world: World) -> None:
    first = await world.create(world.config_map("a"))
    await world.delete(first)
    second = await world.create(world.config_map("a"))

    with pytest.raises(Conflict):
        await world.merge(second, {"data": {"a": "3"}}, precondition=Precondition(uid=first.metadata.uid))
    assert await world.get(CONFIG_MAP, "a") == second


async def test_a_dry_run_answers_but_stores_nothing(world: World) -> None:
    dry = await world.create(world.config_map("a"), dry_run=True)
    assert dry.metadata.uid
    with pytest.raises(NotFound):
        await world.get(CONFIG_MAP, "a")

    made = await world.create(world.config_map("a"))
    changed = await world.merge(made, {"data": {"b": "2"}}, dry_run=True)
    assert changed.get("data", "b") == "2"
    assert await world.get(CONFIG_MAP, "a") == made


async def test_text_in_a_secret_is_stored_encoded(world: World) -> None:
    made = await world.create(world.thing(SECRET, "a", stringData={"k": "v"}))

    assert made.get("data") == {"k": "dg=="}
    assert made.get("stringData") is None


@pytest.mark.usefixtures("playthings")
async def test_the_generation_counts_changes_of_the_spec_only(world: World) -> None:
    made = await world.create(world.plaything("a", {"replicas": 1}))
    assert made.metadata.generation == 1

    labelled = await world.merge(made, {"metadata": {"labels": {"x": "y"}}})
    reported = await world.merge(made, {"status": {"seen": 1}}, subresource="status")
    assert (labelled.metadata.generation, reported.metadata.generation) == (1, 1)

    changed = await world.merge(made, {"spec": {"replicas": 2}})
    assert changed.metadata.generation == 2


async def test_kinds_without_a_spec_have_no_generation(world: World) -> None:
    made = await world.create(world.config_map("a"))

    changed = await world.merge(made, {"data": {"a": "2"}})
    assert changed.metadata.generation == 0


@pytest.mark.usefixtures("playthings")
async def test_status_and_the_rest_are_written_through_different_doors(world: World) -> None:
    made = await world.create(world.thing(PLAYTHING, "a", spec={"replicas": 1}, status={"seen": 1}))
    assert made.get("status") is None

    through_main = await world.merge(made, {"status": {"seen": 1}})
    assert through_main.metadata.resource_version == made.metadata.resource_version

    change = {"status": {"seen": 2}, "spec": {"replicas": 9}, "metadata": {"labels": {"x": "y"}}}
    through_status = await world.merge(made, change, subresource="status")
    assert through_status.get("status") == {"seen": 2}
    assert through_status.get("spec") == {"replicas": 1}
    assert not through_status.metadata.labels
