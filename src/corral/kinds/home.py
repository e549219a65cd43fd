"""The /home that login nodes and workers of a cluster share. Pure.

The claim is made once and is nobody's child: it outlives the Controller, as people's files must. To have them gone,
delete the claim.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.kinds import names
from corral.kube.meta import Model, ObjectMeta
from corral.kube.models.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PodSpec,
    Volume,
    VolumeMount,
    VolumeResourceRequirements,
)

FOLDER = "/home"
VOLUME = "home"


class Home(Model, frozen=True, kw_only=True):
    """A volume that all login nodes and workers share."""

    existing_claim: Annotated[str, Meta(max_length=253, description="Use this claim; default: Corral creates one.")] = (
        ""
    )
    storage_class_name: Annotated[str, Meta(max_length=253, description="Empty: the default class.")] = ""
    size: Annotated[str, Meta(max_length=32, description="Size of the new claim, as a quantity.")] = "10Gi"
    access_modes: Annotated[tuple[str, ...], Meta(max_length=4)] = ("ReadWriteMany",)


def claim_name(cluster: str, home: Home) -> str:
    return home.existing_claim or names.home_name(cluster)


def claim(cluster: str, home: Home) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=names.home_name(cluster), labels=names.labels("home", cluster, cluster=cluster)),
        spec=PersistentVolumeClaimSpec(
            access_modes=home.access_modes,
            storage_class_name=home.storage_class_name or None,
            resources=VolumeResourceRequirements(requests={"storage": home.size}),
        ),
    )


def with_home(pod: PodSpec, cluster: str, home: Home | None, *, container: str) -> PodSpec:
    """The pod with /home in its `container`; unchanged where the cluster has none."""
    if home is None:
        return pod
    source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(cluster, home))
    mount = VolumeMount(name=VOLUME, mount_path=FOLDER)
    containers = tuple(
        msgspec.structs.replace(one, volume_mounts=(*one.volume_mounts, mount)) if one.name == container else one
        for one in pod.containers
    )
    volumes = (*pod.volumes, Volume(name=VOLUME, persistent_volume_claim=source))
    return msgspec.structs.replace(pod, containers=containers, volumes=volumes)
