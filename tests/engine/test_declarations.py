"""What a controller declares, what its reader shows, and how a person names a kind."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from corral.engine import Controller, Key, Reader, Undeclared, UnknownKind, find, generation_changed, key_of
from corral.engine.reader import NEW_UID, OverlayReader, StoreReader, applied_over, index_functions
from corral.engine.store import Store, new_store
from corral.kube.client import Selector
from corral.kube.meta import Object, ObjectMeta, OwnerReference
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret
from corral.testing.toys import KINDS, Toy, ToyReconciler, ToySpec, toy_controller

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_toy(name: str = "bear", *, namespace: str = "lab", source: str = "", **meta: object) -> Toy:
    metadata = structs.replace(ObjectMeta(name=name, namespace=namespace, uid=f"u-{name}", generation=1), **meta)
    return Toy(metadata=metadata, spec=ToySpec(source=source))


def a_store(kind: type[Object], *objects: Object) -> Store[Object]:
    store, writer = new_store(kind, indexes=index_functions(toy_controller(), kind))
    writer.stage_begin()
    writer.stage(objects)
    writer.swap("1")
    return store


def a_reader(*toys: Toy) -> StoreReader:
    stores: dict[type[Object], Store[Object]] = {
        Toy: a_store(Toy, *toys),
        ConfigMap: a_store(ConfigMap),
        Secret: a_store(Secret),
    }
    return StoreReader(toy_controller(), stores, NOW)


def names(objects: tuple[Object, ...]) -> list[str]:
    return [obj.metadata.name for obj in objects]


def test_a_child_brings_its_owner_of_our_kind() -> None:
    (_, owned, *_) = toy_controller().watched
    ours = OwnerReference(api_version="test.corral.dev/v1", kind="Toy", name="bear", uid="u", controller=True)
    theirs = OwnerReference(api_version="other.dev/v1", kind="Toy", name="wolf", uid="w", controller=True)
    plain = OwnerReference(api_version="test.corral.dev/v1", kind="Toy", name="ant", uid="a")
    child = ConfigMap(metadata=ObjectMeta(name="c", namespace="lab", owner_references=(ours, theirs, plain)))

    assert list(owned.to(child, a_reader())) == [Key("lab", "bear")]


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"resource_version": "9"}, False),
        ({"generation": 2}, True),
        ({"deletion_timestamp": NOW}, True),
        ({"finalizers": ("f",)}, True),
        ({"annotations": {"a": "b"}}, True),
        ({"labels": {"a": "b"}}, True),
    ],
    ids=str,
)
def test_a_change_is_worth_a_pass_when(change: dict[str, object], counts: bool) -> None:
    assert generation_changed(a_toy(), a_toy(**change)) is counts  # type: ignore[arg-type]


def test_a_controller_is_a_value_that_no_method_changes() -> None:
    plain = Controller.for_(Toy, ToyReconciler())
    plain.owns(ConfigMap).finalizer("f")

    assert (len(plain.watched), plain.finalizer_name) == (1, "")


def test_one_kind_with_two_selectors_is_refused() -> None:
    with pytest.raises(ValueError, match="corral-toy watches ConfigMap twice with different selectors"):
        toy_controller().owns(ConfigMap, where=Selector(labels="a=b"))


def test_reading_what_was_not_declared_says_what_to_declare() -> None:
    read = a_reader()
    with pytest.raises(Undeclared, match=r"corral-toy does not watch Pod: declare it with \.owns\(Pod\)"):
        read.list(Pod)
    with pytest.raises(Undeclared, match="has no index 'colour' of Toy"):
        read.by_index(Toy, "colour", "red")


def test_a_reader_lists_in_order_and_by_labels() -> None:
    read = a_reader(a_toy("b"), a_toy("a", labels={"x": "1"}), a_toy("c", namespace="hall"))

    assert names(read.list(Toy)) == ["c", "a", "b"]
    assert names(read.list(Toy, "lab")) == ["a", "b"]
    assert names(read.list(Toy, labels={"x": "1"})) == ["a"]


def overlaid(top: Toy, *below: Toy) -> Reader:
    return OverlayReader(a_reader(*below), top, toy_controller().indexed)


def test_an_overlay_hides_the_object_of_its_name_and_nothing_else() -> None:
    read = overlaid(a_toy("bear", source="new"), a_toy("bear", source="old"), a_toy("wolf", source="old"))
    bear = read.get(Toy, "bear", "lab")

    assert bear is not None
    assert bear.spec.source == "new"
    assert names(read.list(Toy)) == ["bear", "wolf"]
    assert names(read.by_index(Toy, "source", ("lab", "new"))) == ["bear"]
    assert names(read.by_index(Toy, "source", ("lab", "old"))) == ["wolf"]
    assert names(read.list(Toy, "hall")) == []


def test_an_overlay_of_another_kind_does_not_meet_this_kinds_index() -> None:
    """An index function knows its own kind only: what lies on top may have none of its fields."""
    paper = ConfigMap(metadata=ObjectMeta(name="paper", namespace="lab"))
    read = OverlayReader(a_reader(a_toy("wolf", source="old")), paper, toy_controller().indexed)

    assert names(read.by_index(Toy, "source", ("lab", "old"))) == ["wolf"]


def test_a_manifest_over_a_live_object_keeps_what_the_server_gave_it() -> None:
    live = a_toy(finalizers=("f",), labels={"mine": "1"}, resource_version="7")
    manifest = Toy(metadata=ObjectMeta(name="bear", namespace="lab", labels={"new": "2"}), spec=ToySpec(copies=5))
    merged = applied_over(manifest, live)

    assert isinstance(merged, Toy)
    assert merged.spec.copies == 5
    assert merged.metadata.finalizers == ("f",)
    assert merged.metadata.labels == {"mine": "1", "new": "2"}
    assert (merged.metadata.uid, merged.metadata.generation) == ("u-bear", 2)


def test_a_new_manifest_gets_a_uid_that_no_object_has() -> None:
    fresh = applied_over(Toy(metadata=ObjectMeta(name="bear", namespace="lab")), None)

    assert fresh.metadata.uid == NEW_UID
    assert key_of(fresh) == Key("lab", "bear")


@pytest.mark.parametrize("word", ["toy", "Toys", "toys.test.corral.dev", "ty"])
def test_a_kind_is_found_by_what_people_type(word: str) -> None:
    assert find(KINDS, word).kind is Toy


def test_an_unknown_kind_is_told_with_those_that_are_known() -> None:
    with pytest.raises(UnknownKind, match=r"no kind 'bear' here; known kinds: toys\.test\.corral\.dev"):
        find(KINDS, "bear")
