"""What the provisioner knows of a kind: what its watch has told, and nothing before the first full picture."""

from corral.kube.client import Gone, Put
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import PersistentVolume
from corral.kube.watch import Event, InitDone, InitGone, InitPut, InitStart
from corral.local.provisioner import Picture


def volume(name: str, uid: str = "") -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}"))


def seen(*events: Event[PersistentVolume]) -> Picture[PersistentVolume]:
    picture = Picture[PersistentVolume]()
    for event in events:
        picture.see(event)
    return picture


def names(picture: Picture[PersistentVolume]) -> list[str]:
    return [one.metadata.name for one in picture]


def test_half_a_picture_is_none() -> None:
    picture = seen(InitStart(), InitPut((volume("a"),)))
    assert not picture.is_complete
    assert names(picture) == []


def test_a_full_picture_lacks_what_went_while_it_came() -> None:
    picture = seen(InitStart(), InitPut((volume("a"), volume("b"))), InitGone(volume("a")), InitDone("7"))
    assert picture.is_complete
    assert names(picture) == ["b"]


def test_changes_follow_the_picture() -> None:
    picture = seen(InitStart(), InitPut((volume("a"),)), InitDone("7"), Put(volume("b")), Gone(volume("a")))
    assert names(picture) == ["b"]


def test_a_new_picture_drops_what_went_during_a_gap_and_an_unfinished_one_changes_nothing() -> None:
    picture = seen(InitStart(), InitPut((volume("a"), volume("b"))), InitDone("7"))
    picture.see(InitStart())
    picture.see(InitPut((volume("c"),)))
    assert names(picture) == ["a", "b"]
    picture.see(InitStart())
    picture.see(InitPut((volume("b"),)))
    picture.see(InitDone("9"))
    assert names(picture) == ["b"]


def test_one_that_was_made_again_under_its_name_is_another() -> None:
    picture = seen(
        InitStart(), InitDone("7"), Put(volume("a", "old")), Put(volume("a", "new")), Gone(volume("a", "old"))
    )
    assert [one.metadata.uid for one in picture] == ["new"]
