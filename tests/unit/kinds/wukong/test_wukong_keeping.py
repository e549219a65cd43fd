"""What of a Wukong's data outlives it: what is to be kept stays in every order of events, and what is not ours, too."""

import pytest

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeResourceRequirements,
)
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)

ROOT = {"name": "root", "size": "10Gi", "image": "docker://images.test/debian:13", "boot": True}
DATA = {"name": "data", "size": "50Gi"}
KEPT = {"keepOnDelete": True}


def a_claim(name: str, **labels: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name, namespace=NAMESPACE, labels={f"vm.corral.dev/{key}": value for key, value in labels.items()}
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",), resources=VolumeResourceRequirements(requests={"storage": "50Gi"})
        ),
    )


async def test_a_disk_that_is_to_be_kept_since_a_moment_ago_is_kept_though_no_operator_saw_it() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.operator.stop()
    await world.patch(Wukong, "vm", {"spec": {"disks": [ROOT | KEPT, DATA | KEPT]}})
    await world.delete(Wukong, "vm")
    world.operator.start()
    await world.settled()

    assert world.names(Wukong) == []
    assert world.names(DataVolume) == ["vm-root"]
    assert world.names(PersistentVolumeClaim) == ["vm-data", "vm-root"]


async def test_a_disk_that_could_not_be_filled_is_kept_too_when_its_entry_is_taken_out() -> None:
    world = World()
    world.standin.volumes.failing["vm-root"] = "404 Not Found"
    await world.make(a_wukong(LARGE))
    await world.change({"disks": [ROOT | KEPT, DATA]})
    await world.change({"disks": [DATA]})
    assert world.names(DataVolume) == ["vm-root"]


async def test_a_claim_that_only_has_our_label_is_not_deleted_with_the_disks() -> None:
    """A person's copy of a disk, labelled so that it is found again."""
    world = World()
    await world.make(a_wukong(LARGE))
    await world.add(a_claim("backup-of-data", wukong="vm"), a_claim("copy", wukong="vm", disk="data"))
    await world.change({"disks": [ROOT]})
    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(PersistentVolumeClaim) == ["backup-of-data", "copy"]


async def test_a_claim_that_a_person_hands_over_by_its_label_is_a_disk_like_any_other() -> None:
    world = World()
    await world.begin(a_claim("vm-data", wukong="vm"))
    before = (await world.claim("vm-data")).metadata.uid
    await world.add(a_wukong(LARGE))
    assert (await world.wukong()).status.phase == "Running"
    assert (await world.claim("vm-data")).metadata.uid == before

    await world.change({"disks": [ROOT], "startStrategy": {"runStrategy": "Halted"}})
    assert world.names(PersistentVolumeClaim) == ["vm-root"], "known as a disk of ours without its entry, too"
