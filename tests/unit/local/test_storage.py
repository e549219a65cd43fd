from datetime import UTC, datetime
from pathlib import Path

import msgspec

from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeStatus,
    VolumeResourceRequirements,
)
from corral.local.storage import Make, Remove, plan, volume_for

DIRECTORY = Path("/volumes")


def a_claim(
    storage_class: str = "corral-shared", volume_name: str = "", deleted: datetime | None = None
) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="lab", uid="u1", deletion_timestamp=deleted),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteMany",),
            storage_class_name=storage_class,
            volume_name=volume_name,
            resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
        ),
    )


def a_volume(phase: str) -> PersistentVolume:
    volume = volume_for(a_claim(), DIRECTORY)
    return msgspec.structs.replace(volume, status=PersistentVolumeStatus(phase=phase))


def test_a_claim_without_a_volume_gets_one_that_any_node_can_use() -> None:
    (step,) = plan((a_claim(),), (), DIRECTORY)

    assert isinstance(step, Make)
    assert step.volume.spec.host_path is not None
    assert step.volume.spec.host_path.path == "/volumes/pvc-u1"
    assert step.volume.spec.node_affinity is None
    assert step.volume.spec.claim_ref is not None
    assert step.volume.spec.claim_ref.uid == "u1"


def test_a_claim_whose_volume_is_not_bound_yet_gets_no_second_one() -> None:
    assert plan((a_claim(),), (a_volume("Available"),), DIRECTORY) == ()


def test_claims_of_other_classes_bound_claims_and_deleted_claims_are_left_alone() -> None:
    claims = (a_claim("other"), a_claim(volume_name="pvc-u1"), a_claim(deleted=datetime(2026, 1, 1, tzinfo=UTC)))

    assert plan(claims, (), DIRECTORY) == ()


def test_a_released_volume_is_removed() -> None:
    assert plan((), (a_volume("Released"),), DIRECTORY) == (Remove(a_volume("Released")),)


def test_a_bound_volume_and_a_volume_of_somebody_else_stay() -> None:
    foreign = msgspec.structs.replace(a_volume("Released"), metadata=ObjectMeta(name="pvc-u1"))

    assert plan((), (a_volume("Bound"), foreign), DIRECTORY) == ()
