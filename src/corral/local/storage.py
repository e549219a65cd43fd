"""Decide which volumes to make for claims and which to remove. Pure; `provisioner.py` carries it out.

A volume is a directory in the cluster's own. All nodes see the same disk, so it may be used from every node at once
(ReadWriteMany). Sizes are recorded and not enforced. A released volume goes with its directory, contents and all.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    HostPathVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from corral.local.objects import PROVISIONER, STORAGE_CLASS

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


class Make(msgspec.Struct, frozen=True):
    volume: PersistentVolume


class Remove(msgspec.Struct, frozen=True):
    volume: PersistentVolume


def plan(
    claims: Iterable[PersistentVolumeClaim], volumes: Iterable[PersistentVolume], directory: Path
) -> tuple[Make | Remove, ...]:
    existing = {volume.metadata.name: volume for volume in volumes}
    wanted = (volume_for(claim, directory) for claim in claims if lacks_volume(claim))
    return (
        *(Make(volume) for volume in wanted if volume.metadata.name not in existing),
        *(Remove(volume) for volume in existing.values() if is_released(volume)),
    )


def lacks_volume(claim: PersistentVolumeClaim) -> bool:
    return (
        claim.spec.storage_class_name == STORAGE_CLASS
        and claim.spec.volume_mode != "Block"  # a directory is no disk; the claim stays Pending
        and not claim.spec.volume_name
        and claim.metadata.deletion_timestamp is None
    )


def is_released(volume: PersistentVolume) -> bool:
    """Its claim is gone. Also true again after a crash between removing the directory and the volume."""
    return (
        volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
        and volume.status.phase in ("Released", "Failed")
    )


def volume_for(claim: PersistentVolumeClaim, directory: Path) -> PersistentVolume:
    """The name follows from the claim's uid, so the same claim never gets a second volume."""
    name = f"pvc-{claim.metadata.uid}"
    return PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={PROVISIONED_BY: PROVISIONER}),
        spec=PersistentVolumeSpec(
            access_modes=claim.spec.access_modes,
            capacity={"storage": claim.spec.resources.requests["storage"]},
            host_path=HostPathVolumeSource(path=str(directory / name), type="Directory"),
            persistent_volume_reclaim_policy="Delete",
            storage_class_name=STORAGE_CLASS,
            volume_mode="Filesystem",
            claim_ref=ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
                uid=claim.metadata.uid,
            ),
        ),
    )
