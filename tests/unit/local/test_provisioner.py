"""What the provisioner knows of a kind: what its watch has told, and nothing before the first full picture."""

from pathlib import Path

import pytest

from corral.kube.client import Client, Gone, Put
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeResourceRequirements,
)
from corral.kube.watch import Event, InitDone, InitGone, InitPut, InitStart
from corral.local.objects import STORAGE_CLASS
from corral.local.provisioner import Picture, carry_out
from corral.testing.apiserver import FakeApiServer, Fault


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


def claim(name: str) -> PersistentVolumeClaim:
    spec = PersistentVolumeClaimSpec(
        access_modes=("ReadWriteMany",),
        storage_class_name=STORAGE_CLASS,
        resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
    )
    return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="lab", uid=name), spec=spec)


@pytest.mark.looptime
async def test_a_claim_that_cannot_be_served_keeps_no_other_waiting(tmp_path: Path) -> None:
    server = FakeApiServer()
    server.fail_next(Fault.FORBID, method="POST", times=1)
    claims, volumes = Picture[PersistentVolumeClaim](), Picture[PersistentVolume]()
    claims.see(InitPut((claim("first"), claim("second"))))
    claims.see(InitDone("7"))

    assert not await carry_out(Client(server.connect("storage")), claims, volumes, tmp_path)
    assert [one["metadata"]["name"] for one in server.all_of(PersistentVolume)] == ["pvc-second"]
