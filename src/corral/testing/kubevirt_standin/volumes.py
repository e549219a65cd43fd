"""CDI's and the storage controllers' part: DataVolumes fill their claims, claims get volumes, volumes grow."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corral.engine import controller_reference
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.diskplan import UPLOAD_READY
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    HostPathVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)
from corral.kube.models.storage_v1 import StorageClass
from corral.kube.values import parse_quantity
from corral.testing.guests.contents import Contents
from corral.testing.guests.pods import Guests
from corral.testing.kubevirt_standin.access import Access

IMPORT_PHASES = ("ImportScheduled", "ImportInProgress")
CONTENT_MARK = "standin/content"  # the VolumeSnapshot that a claim is set back to
PROGRESS = ("0.00%", "48.20%", "100.0%")


class Volumes:
    """`real_binding`: a real volume controller runs and binds claims to the volumes that are made here.

    `of_class`: claims of other storage classes are left to the cluster. Empty: all of them are bound here.
    """

    def __init__(
        self,
        access: Access,
        *,
        real_binding: bool,
        provisions: bool = True,
        csi: bool = False,
        of_class: str = "",
        guests: Guests | None = None,
    ) -> None:
        self._provisions = provisions
        self._access = access
        self._of_class = of_class
        self._guests = guests
        self._real_binding = real_binding
        self._waiting_phase = "PendingPopulation" if csi else "WaitForFirstConsumer"
        self.being_restored: set[tuple[str, str]] = set()  # claims that KubeVirt has in its hands
        self.failing: dict[str, str] = {}  # DataVolume -> why its import fails
        self.retried: dict[str, str] = {}  # DataVolume -> why its import fails, and is tried again
        self.uploaded: set[str] = set()  # DataVolumes that a person has filled

    async def step(self, data_volumes: tuple[DataVolume, ...], consumed: frozenset[tuple[str, str]]) -> None:
        """`consumed`: namespace and name of the claims that a machine waits for."""
        classes = {c.metadata.name: c for c in await self._access.all(StorageClass)}
        claims = {_where(c): c for c in await self._access.all(PersistentVolumeClaim)}
        there = await self._access.all(PersistentVolume) if self._real_binding else ()
        volumes = {v.metadata.name for v in there}
        filled = {_where(v): v for v in data_volumes}

        async def fill(volume: DataVolume) -> None:
            where = _where(volume)
            if volume.metadata.deletion_timestamp is None and where not in self.being_restored:
                await self._fill(volume, claims.get(where), classes, is_consumed=where in consumed)

        async def bind(claim: PersistentVolumeClaim) -> None:
            if claim.metadata.deletion_timestamp is None and self._of_class in ("", claim.spec.storage_class_name):
                waits = _waits_for_consumer(claim, classes) and _where(claim) not in consumed
                await self._bind(claim, filled.get(_where(claim)), volumes, waits=waits)

        await self._access.each(data_volumes, fill)
        await self._access.each(claims.values(), bind)
        await self._access.each([v for v in there if self._is_left(v)], self._reclaim)

    async def _fill(
        self,
        volume: DataVolume,
        claim: PersistentVolumeClaim | None,
        classes: Mapping[str, StorageClass],
        *,
        is_consumed: bool,
    ) -> None:
        phase = volume.status.phase
        if claim is None:
            await self._access.create(_claim_of(volume))
            return
        if volume.metadata.name in self.failing and phase in IMPORT_PHASES:
            await self._failed(volume)
        elif volume.metadata.name in self.retried and phase == "ImportInProgress":
            await self._tried_again(volume)
        elif volume.spec.source is not None and volume.spec.source.upload is not None:
            await self._receive(volume, claim)
        elif phase in ("", "Pending"):
            waits = _waits_for_consumer(claim, classes) and not is_consumed
            await self._set(volume, self._waiting_phase if waits else "ImportScheduled")
        elif phase == self._waiting_phase and is_consumed:
            await self._set(volume, "ImportScheduled")
        elif phase == "ImportScheduled":
            await self._set(volume, "ImportInProgress", PROGRESS[0])
        elif phase == "ImportInProgress":
            await self._imported(volume, claim)

    async def _receive(self, volume: DataVolume, claim: PersistentVolumeClaim) -> None:
        """A disk that a person uploads."""
        following = {"": "UploadScheduled", "Pending": "UploadScheduled", "UploadScheduled": UPLOAD_READY}
        phase = volume.status.phase
        if phase in following:
            await self._set(volume, following[phase])
        elif phase == UPLOAD_READY and volume.metadata.name in self.uploaded and claim.status.phase == "Bound":
            await self._set(volume, "Succeeded", PROGRESS[-1])

    async def _imported(self, volume: DataVolume, claim: PersistentVolumeClaim) -> None:
        if volume.status.progress in PROGRESS[:-1]:
            await self._set(volume, "ImportInProgress", PROGRESS[PROGRESS.index(volume.status.progress) + 1])
        elif claim.status.phase == "Bound":
            await self._set(volume, "Succeeded", PROGRESS[-1])

    async def _failed(self, volume: DataVolume) -> None:
        why = _not_running(self.failing[volume.metadata.name])
        await self._access.set_status(volume, {"phase": "Failed", "conditions": [why]})

    async def _tried_again(self, volume: DataVolume) -> None:
        """The importer's pod crashes and is started again; the phase stays."""
        if not volume.status.conditions:
            why = _not_running(self.retried[volume.metadata.name])
            await self._access.set_status(volume, {"conditions": [why]})

    async def _set(self, volume: DataVolume, phase: str, progress: str = "N/A") -> None:
        status: dict[str, Any] = {"phase": phase, "progress": progress, "claimName": volume.metadata.name}
        await self._access.set_status(volume, status)

    async def _bind(
        self, claim: PersistentVolumeClaim, filled: DataVolume | None, volumes: set[str], *, waits: bool
    ) -> None:
        asked = claim.spec.resources.requests.get("storage", "1Gi")
        has = claim.status.capacity.get("storage", "0")
        if claim.status.phase == "Bound" and parse_quantity(asked) > parse_quantity(has):
            if self._guests is not None:
                await self._guests.grow(claim, int(parse_quantity(asked)))
            await self._access.set_status(claim, {"capacity": {"storage": asked}})
        elif claim.status.phase in ("", "Pending") and not waits:
            name = _volume_name(claim.metadata.uid)
            if not self._real_binding:
                await self._access.set_status(claim, {"phase": "Bound", "capacity": {"storage": asked}})
            elif self._provisions and name not in volumes:
                await self._access.create(_volume_for(claim, name, await self._placed(claim, filled, name)))

    def _is_left(self, volume: PersistentVolume) -> bool:
        """Whether it was made here and its claim is gone."""
        claim = volume.spec.claim_ref
        is_ours = claim is not None and volume.metadata.name == _volume_name(claim.uid or "")
        where = claim.namespace if claim else ""
        return is_ours and volume.status.phase == "Released" and self._access.namespace in ("", where)

    async def _reclaim(self, volume: PersistentVolume) -> None:
        await self._access.delete(volume)
        if self._guests is not None:
            await asyncio.to_thread(self._guests.contents.remove, volume.metadata.name)

    async def _placed(self, claim: PersistentVolumeClaim, filled: DataVolume | None, volume: str) -> Path:
        """Where a new volume is, with its content."""
        if self._guests is None:
            return Path("/nonexistent", volume)
        contents = self._guests.contents
        size = int(parse_quantity(claim.spec.resources.requests.get("storage", "1Gi")))
        source = _content_of(claim, filled, contents)
        await asyncio.to_thread(contents.make, volume, size, source)
        return contents.path(volume)


def _not_running(why: str) -> Mapping[str, str]:
    return {"type": "Running", "status": "False", "reason": "Error", "message": why}


def _volume_name(claim_uid: str) -> str:
    return f"standin-{claim_uid}"


def _where(obj: DataVolume | PersistentVolumeClaim) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name


def _content_of(claim: PersistentVolumeClaim, filled: DataVolume | None, contents: Contents) -> Path | None:
    snapshot = claim.metadata.annotations.get(CONTENT_MARK, "")
    source = filled.spec.source if filled else None
    if not snapshot and source is not None and source.snapshot is not None:
        snapshot = source.snapshot.name
    if snapshot:
        return contents.kept(snapshot)
    return contents.image if source is not None and source.blank is None else None


def _waits_for_consumer(claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass]) -> bool:
    found = classes.get(claim.spec.storage_class_name or "")
    return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"


def _claim_of(volume: DataVolume) -> PersistentVolumeClaim:
    storage = volume.spec.storage
    assert storage is not None
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=volume.metadata.name,
            namespace=volume.metadata.namespace,
            labels=volume.metadata.labels,
            annotations=volume.metadata.annotations,
            owner_references=(controller_reference(volume),),
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=storage.access_modes or ("ReadWriteOnce",),
            resources=storage.resources,
            storage_class_name=storage.storage_class_name,
            volume_mode=storage.volume_mode,
        ),
    )


def _volume_for(claim: PersistentVolumeClaim, name: str, place: Path) -> PersistentVolume:
    where = claim.metadata
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            access_modes=claim.spec.access_modes,
            capacity={"storage": claim.spec.resources.requests.get("storage", "1Gi")},
            claim_ref=ObjectReference(namespace=where.namespace, name=where.name, uid=where.uid),
            storage_class_name=claim.spec.storage_class_name or "",
            volume_mode=claim.spec.volume_mode,
            persistent_volume_reclaim_policy="Retain",
            host_path=HostPathVolumeSource(path=str(place)),
        ),
    )
