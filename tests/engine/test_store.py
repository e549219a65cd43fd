"""The store: one writer, many readers, lists swapped in at once, old news ignored."""

from random import Random

import msgspec
import pytest

from corral.engine.store import Added, Deleted, Key, Store, StoreWriter, Updated, new_store
from corral.kube.meta import ObjectMeta, OwnerReference
from corral.kube.models.core_v1 import ConfigMap

COLOUR = "colour"


def colours(obj: ConfigMap) -> tuple[str, ...]:
    return tuple(obj.data.values())


def a_map(
    name: str = "a",
    version: int | str = 1,
    *,
    uid: str = "",
    colour: str = "red",
    owner: str = "",
    namespace: str = "lab",
) -> ConfigMap:
    owners = (
        (OwnerReference(api_version="v1", kind="ConfigMap", name="o", uid=owner, controller=True),) if owner else ()
    )
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=uid or f"uid-{name}", resource_version=str(version), owner_references=owners
    )
    return ConfigMap(metadata=metadata, data={"colour": colour})


def a_store(*objects: ConfigMap, version: int | str = 1) -> tuple[Store[ConfigMap], StoreWriter[ConfigMap]]:
    store, writer = new_store(ConfigMap, indexes={COLOUR: colours})
    writer.stage_begin()
    writer.stage(objects)
    writer.swap(str(version))
    return store, writer


def test_a_put_of_something_new_is_an_addition_that_readers_see() -> None:
    store, writer = a_store()

    assert writer.put(a_map("a", 5)) == (Added(a_map("a", 5)),)
    assert store.get("lab", "a") == a_map("a", 5)
    assert (len(store), store.version, store.version_seen) == (1, "5", 5)


def test_a_put_of_something_known_is_an_update_with_both_states() -> None:
    _, writer = a_store(a_map("a", 1))

    assert writer.put(a_map("a", 2, colour="blue")) == (Updated(a_map("a", 1), a_map("a", 2, colour="blue")),)


def test_a_deletion_gives_the_last_state_that_readers_could_see() -> None:
    store, writer = a_store(a_map("a", 1))

    assert writer.gone(a_map("a", 2, colour="blue")) == (Deleted(a_map("a", 1)),)
    assert Key("lab", "a") not in store
    assert store.by_index(COLOUR, "red") == ()


@pytest.mark.parametrize("version", [3, 4])
def test_an_event_that_is_not_newer_than_what_is_known_is_ignored(version: int) -> None:
    store, writer = a_store(a_map("a", 4))

    assert writer.put(a_map("a", version, colour="blue")) == ()
    assert store.get("lab", "a") == a_map("a", 4)


def test_versions_are_compared_as_numbers_and_not_as_text() -> None:
    _, writer = a_store(a_map("a", 9))

    assert writer.put(a_map("a", 10)) == (Updated(a_map("a", 9), a_map("a", 10)),)


def test_a_late_event_does_not_bring_back_what_is_gone() -> None:
    store, writer = a_store(a_map("a", 4))
    writer.gone(a_map("a", 6))

    assert writer.put(a_map("a", 5)) == ()
    assert len(store) == 0


def test_a_late_event_does_not_bring_back_what_a_list_showed_to_be_gone() -> None:
    store, writer = a_store(a_map("a", 4))
    writer.stage_begin()
    writer.swap("9")

    assert writer.put(a_map("a", 8)) == ()
    assert len(store) == 0


def test_a_late_event_of_what_came_and_went_unseen_before_a_list_is_ignored() -> None:
    store, writer = a_store(version=9)

    assert writer.put(a_map("a", 8)) == ()
    assert len(store) == 0


def test_an_object_that_left_a_selector_and_came_back_is_seen_again() -> None:
    _, writer = a_store(a_map("a", 4))
    writer.gone(a_map("a", 6))

    assert writer.put(a_map("a", 7)) == (Added(a_map("a", 7)),)


def test_a_late_deletion_does_not_remove_what_came_back() -> None:
    store, writer = a_store(a_map("a", 7))

    assert writer.gone(a_map("a", 6)) == ()
    assert len(store) == 1


def test_recreation_under_the_same_name_is_a_deletion_and_an_addition() -> None:
    _, writer = a_store(a_map("a", 4, uid="first"))

    changes = writer.put(a_map("a", 9, uid="second"))

    assert changes == (Deleted(a_map("a", 4, uid="first")), Added(a_map("a", 9, uid="second")))


def test_the_deletion_of_a_predecessor_does_not_remove_its_successor() -> None:
    store, writer = a_store(a_map("a", 9, uid="second"))

    assert writer.gone(a_map("a", 8, uid="first")) == ()
    assert store.get("lab", "a") == a_map("a", 9, uid="second")


def test_versions_that_are_no_numbers_are_trusted_to_come_in_order() -> None:
    store, writer = a_store(a_map("a", "zulu"), version="zulu")

    assert writer.put(a_map("a", "alpha")) == (Updated(a_map("a", "zulu"), a_map("a", "alpha")),)
    assert (store.version, store.version_seen) == ("alpha", None)


def test_readers_see_the_old_list_until_the_swap() -> None:
    store, writer = a_store(a_map("a", 1))
    writer.stage_begin()
    writer.stage([a_map("b", 2)])

    assert list(store) == [a_map("a", 1)]
    assert writer.swap("2") == (Deleted(a_map("a", 1)), Added(a_map("b", 2)))
    assert list(store) == [a_map("b", 2)]


def test_a_swap_reports_only_what_differs() -> None:
    _, writer = a_store(a_map("same", 1), a_map("changed", 1))
    writer.stage_begin()
    writer.stage([a_map("same", 1), a_map("changed", 2)])

    assert writer.swap("2") == (Updated(a_map("changed", 1), a_map("changed", 2)),)


def test_a_swap_finds_an_object_that_was_recreated_meanwhile() -> None:
    _, writer = a_store(a_map("a", 1, uid="first"))
    writer.stage_begin()
    writer.stage([a_map("a", 5, uid="second")])

    assert writer.swap("5") == (Deleted(a_map("a", 1, uid="first")), Added(a_map("a", 5, uid="second")))


def test_a_list_that_broke_off_leaves_no_trace() -> None:
    store, writer = a_store(a_map("a", 1))
    writer.stage_begin()
    writer.stage([a_map("ghost", 2)])
    writer.stage_begin()
    writer.stage([a_map("a", 1)])

    assert writer.swap("3") == ()
    assert list(store) == [a_map("a", 1)]


def test_what_goes_while_the_list_is_coming_is_not_in_it() -> None:
    store, writer = a_store()
    writer.stage_begin()
    writer.stage([a_map("a", 1), a_map("b", 1)])
    writer.unstage(a_map("a", 2))

    assert writer.swap("2") == (Added(a_map("b", 1)),)
    assert store.get("lab", "a") is None


def test_a_list_of_a_lower_version_is_the_truth_and_starts_another_history() -> None:
    store, writer = a_store(a_map("a", 90), version=100)
    writer.stage_begin()
    writer.stage([a_map("a", 50, colour="blue")])

    assert writer.swap("60") == (Updated(a_map("a", 90), a_map("a", 50, colour="blue")),)
    assert (store.version_seen, store.history) == (60, 1)
    assert writer.put(a_map("a", 61)) != ()


def test_the_same_version_with_another_state_is_noticed_by_a_list() -> None:
    """After a restored backup versions are given out a second time."""
    _, writer = a_store(a_map("a", 90), version=100)
    writer.stage_begin()
    writer.stage([a_map("a", 90, colour="blue")])

    assert writer.swap("120") == (Updated(a_map("a", 90), a_map("a", 90, colour="blue")),)


def test_bookmarks_move_the_version_forward_and_late_events_do_not_move_it_back() -> None:
    store, writer = a_store(version=5)
    writer.progress("9")
    writer.put(a_map("late", 7))

    assert store.version_seen == 9


def test_an_index_follows_the_field_when_it_changes() -> None:
    store, writer = a_store(a_map("a", 1, colour="red"), a_map("b", 1, colour="red"))
    writer.put(a_map("a", 2, colour="blue"))

    assert store.by_index(COLOUR, "red") == (a_map("b", 1),)
    assert store.by_index(COLOUR, "blue") == (a_map("a", 2, colour="blue"),)


def test_objects_are_found_by_namespace_and_by_owner() -> None:
    store, _ = a_store(a_map("a", owner="boss"), a_map("b", namespace="office"))

    assert store.in_namespace("office") == (a_map("b", namespace="office"),)
    assert store.owned_by("boss") == (a_map("a", owner="boss"),)
    assert store.owned_by("nobody") == ()


def test_an_answer_is_by_name_and_the_very_same_while_nothing_in_it_changes() -> None:
    store, writer = a_store(a_map("b"), a_map("a"))
    answer = store.by_index(COLOUR, "red")
    writer.put(a_map("elsewhere", 2, colour="blue"))

    assert answer == (a_map("a"), a_map("b"))
    assert store.by_index(COLOUR, "red") is answer


@pytest.mark.parametrize("seed", range(20))
def test_an_index_shows_at_every_moment_what_a_search_would_find(seed: int) -> None:
    luck, (store, writer) = Random(seed), a_store()
    for version in range(2, 80):
        name, colour = luck.choice("abcdef"), luck.choice(("red", "blue"))
        (writer.gone if luck.random() < 0.3 else writer.put)(a_map(name, version, colour=colour))
        for asked in ("red", "blue"):
            found = (obj for obj in store if obj.data["colour"] == asked)
            assert store.by_index(COLOUR, asked) == tuple(sorted(found, key=lambda obj: obj.metadata.name))


def test_an_owner_that_is_not_the_controller_owns_nothing() -> None:
    other = OwnerReference(api_version="v1", kind="ConfigMap", name="o", uid="aunt")
    metadata = ObjectMeta(name="a", namespace="lab", uid="u", resource_version="1", owner_references=(other,))
    store, _ = a_store(ConfigMap(metadata=metadata, data={"colour": "red"}))

    assert store.owned_by("aunt") == ()


def test_an_index_added_late_covers_what_is_there_and_what_is_being_listed() -> None:
    store, writer = a_store(a_map("a"))
    writer.stage_begin()
    writer.stage([a_map("a"), a_map("b")])
    writer.add_index("name", lambda obj: (obj.metadata.name,))

    assert store.by_index("name", "a") == (a_map("a"),)
    writer.swap("2")
    assert store.by_index("name", "b") == (a_map("b"),)


def test_two_indexes_of_one_name_are_refused() -> None:
    _, writer = a_store()

    with pytest.raises(ValueError, match="has an index 'colour' already"):
        writer.add_index(COLOUR, colours)


def test_an_index_function_that_fails_leaves_the_store_as_it_was() -> None:
    store, writer = new_store(ConfigMap, indexes={"digit": lambda obj: (int(obj.data["colour"]),)})
    writer.stage_begin()
    writer.stage([a_map("a", 1, colour="7")])
    writer.swap("1")

    with pytest.raises(ValueError, match="invalid literal"):
        writer.put(a_map("a", 2, colour="red"))
    assert store.by_index("digit", 7) == (a_map("a", 1, colour="7"),)
    assert store.get("lab", "a") == a_map("a", 1, colour="7")


def test_objects_are_trimmed_before_they_are_kept_and_shown() -> None:
    def without_data(obj: ConfigMap) -> ConfigMap:
        return msgspec.structs.replace(obj, data={})

    store, writer = new_store(ConfigMap, trim=without_data)
    writer.stage_begin()
    writer.stage([a_map("a", 1)])

    assert writer.swap("1") == (Added(without_data(a_map("a", 1))),)
    assert writer.put(a_map("b", 2)) == (Added(without_data(a_map("b", 2))),)
    assert all(not obj.data for obj in store)


def test_a_reader_may_keep_iterating_while_the_writer_writes() -> None:
    store, writer = a_store(a_map("a"), a_map("b"))

    seen = [writer.put(a_map(f"new-{obj.metadata.name}", 5)) for obj in store]

    assert len(seen) == 2
    assert len(store) == 4


def test_a_cached_object_cannot_be_changed() -> None:
    """The mechanism against cache pollution: switch it off (frozen=False) and this fails."""
    store, _ = a_store(a_map("a"))
    cached = store.get("lab", "a")
    assert cached is not None

    with pytest.raises(AttributeError):
        cached.metadata.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        cached.data = {}  # type: ignore[misc]
