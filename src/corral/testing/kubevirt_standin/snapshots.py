"""KubeVirt's and the storage's part: snapshots come to be ready, and disks are set back to them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from corral.engine import controller_reference
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance, holds
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
    VolumeSnapshotSource,
    VolumeSnapshotSpec,
)
from corral.kinds.wukong.machine import backing_name
from corral.kube.errors import NotFound
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import PersistentVolumeClaim
from corral.testing.guests.pods import Guests
from corral.testing.kubevirt_standin.access import Access, made_at
from corral.testing.kubevirt_standin.volumes import CONTENT_MARK

UID_MARK = "standin/restore-uid"
FINALIZER = "snapshot.kubevirt.io/vmsnapshot-protection"

Where = tuple[str, str]


class Snapshots:
    def __init__(self, access: Access, being_restored: set[Where], guests: Guests | None = None) -> None:
        self._access = access
        self._guests = guests
        self._being_restored = being_restored
        self._gone: dict[Where, PersistentVolumeClaim] = {}  # claims as they were when they were deleted
        self.failing: dict[str, str] = {}  # VirtualMachineSnapshot, VolumeSnapshot or VirtualMachineRestore -> why
        self.without_snapshots: set[str] = set()  # volumes whose storage cannot do it

    async def step(self) -> None:
        machines = {(m.metadata.namespace, m.metadata.name): m for m in await self._access.all(VirtualMachine)}
        running = {(i.metadata.namespace, i.metadata.name): i for i in await self._access.all(VirtualMachineInstance)}
        for snapshot in await self._access.all(VirtualMachineSnapshot):
            where = (snapshot.metadata.namespace, snapshot.spec.source.name)
            await self._snapshot(snapshot, machines.get(where), running.get(where))
        for volume in await self._access.all(VolumeSnapshot):
            await self._volume(volume)
        for restore in await self._access.all(VirtualMachineRestore):
            where = (restore.metadata.namespace, restore.spec.target.name)
            if not restore.status.complete and where not in running and where in machines:
                await self._restore(restore, machines[where])

    async def _snapshot(
        self,
        snapshot: VirtualMachineSnapshot,
        machine: VirtualMachine | None,
        instance: VirtualMachineInstance | None,
    ) -> None:
        finalizers = snapshot.metadata.finalizers
        if snapshot.metadata.deletion_timestamp is not None:
            await self._let_go(snapshot)
        elif FINALIZER not in finalizers:
            await self._access.patch(snapshot, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        elif snapshot.status.phase == "":
            await self._access.set_status(snapshot, {"phase": "InProgress", "readyToUse": False})
        elif snapshot.status.phase == "InProgress" and machine is not None:
            status = self._taken(snapshot, machine, instance)
            if status["phase"] == "Succeeded":
                await self._keep(snapshot, machine, status["snapshotVolumes"]["includedVolumes"])
            await self._access.set_status(snapshot, status)

    def _taken(
        self, snapshot: VirtualMachineSnapshot, machine: VirtualMachine, instance: VirtualMachineInstance | None
    ) -> Mapping[str, Any]:
        if why := self.failing.get(snapshot.metadata.name):
            return {"phase": "Failed", "readyToUse": False, "error": {"message": why, "time": made_at(snapshot)}}
        volumes = machine.spec.template.spec.volumes
        included = [v.name for v in volumes if backing_name(v) and v.name not in self.without_snapshots]
        return {
            "phase": "Succeeded",
            "readyToUse": True,
            "creationTime": made_at(snapshot),
            "indications": _indications(instance),
            "virtualMachineSnapshotContentName": _content_name(snapshot),
            "snapshotVolumes": {
                "includedVolumes": included,
                "excludedVolumes": [v.name for v in volumes if v.name not in included],
            },
        }

    async def _keep(self, snapshot: VirtualMachineSnapshot, machine: VirtualMachine, included: list[str]) -> None:
        """The content, and a VolumeSnapshot for each volume, which goes with it. Whatever is there is not made again.

        The content has no owner: Kubernetes' collector takes an owner that is not served for one that is gone.
        """
        namespace, name = snapshot.metadata.namespace, _content_name(snapshot)
        claims = {v.name: backing_name(v) for v in machine.spec.template.spec.volumes if v.name in included}
        held = {volume: _held_by(snapshot, volume) for volume in claims}
        made = await self._access.find(VirtualMachineSnapshotContent, name, namespace)
        if made is None:
            await self._access.create(_content(snapshot, machine, held))
            made = await self._access.find(VirtualMachineSnapshotContent, name, namespace)
        owners = (controller_reference(made),) if made is not None else ()
        for volume, claim in claims.items():
            if await self._access.find(VolumeSnapshot, held[volume], namespace) is None:
                source = VolumeSnapshotSource(persistent_volume_claim_name=claim)
                metadata = ObjectMeta(name=held[volume], namespace=namespace, owner_references=owners)
                await self._access.create(VolumeSnapshot(metadata=metadata, spec=VolumeSnapshotSpec(source=source)))

    async def _let_go(self, snapshot: VirtualMachineSnapshot) -> None:
        meta = snapshot.metadata
        content = await self._access.find(VirtualMachineSnapshotContent, _content_name(snapshot), meta.namespace)
        if content is not None:
            await self._access.delete(content)
        if FINALIZER in meta.finalizers:
            left = [name for name in meta.finalizers if name != FINALIZER]
            await self._access.patch(snapshot, {"metadata": {"finalizers": left}})

    async def _volume(self, volume: VolumeSnapshot) -> None:
        if why := self.failing.get(volume.metadata.name) or await self._why_not_kept(volume):
            if volume.status.error is None:
                status = {"readyToUse": False, "error": {"message": why, "time": made_at(volume)}}
                await self._access.set_status(volume, status)
        elif not volume.status.ready_to_use:
            status = {"readyToUse": True, "creationTime": made_at(volume), "error": None}
            await self._access.set_status(volume, status)

    async def _why_not_kept(self, volume: VolumeSnapshot) -> str:
        """Empty: the content of its disk is copied, which happens once."""
        if self._guests is not None and not volume.status.ready_to_use:
            try:
                await self._guests.keep(volume)
            except NotFound as missing:
                return missing.message
        return ""

    async def _restore(self, restore: VirtualMachineRestore, machine: VirtualMachine) -> None:
        """In place: each claim goes, and one of the same name comes; then the machine's old spec; then it is told."""
        if why := self.failing.get(restore.metadata.name):
            if not restore.status.conditions:
                condition = {"type": "Failure", "status": "True", "reason": "", "message": why}
                await self._access.set_status(restore, {"complete": False, "conditions": [condition]})
            return
        namespace, name = restore.metadata.namespace, restore.spec.virtual_machine_snapshot_name
        snapshot = await self._access.find(VirtualMachineSnapshot, name, namespace)
        included = snapshot.status.snapshot_volumes.included_volumes if snapshot else ()
        for volume in machine.spec.template.spec.volumes:
            if snapshot is None or volume.name not in included:
                continue
            content = _held_by(snapshot, volume.name)
            if not await self._is_set_back((namespace, backing_name(volume)), restore, content):
                return
        await self._access.patch(machine, {"spec": {"template": {"spec": {"hostname": "as-it-was"}}}})
        await self._access.set_status(restore, {"complete": True, "restoreTime": made_at(restore)})
        self._being_restored.clear()

    async def _is_set_back(self, where: Where, restore: VirtualMachineRestore, content: str) -> bool:
        claim = await self._access.find(PersistentVolumeClaim, where[1], where[0])
        mark = {"restore.kubevirt.io/name": restore.metadata.name, UID_MARK: restore.metadata.uid}
        mark |= {CONTENT_MARK: content}
        if claim is None:
            before = self._gone[where].metadata
            metadata = ObjectMeta(
                name=where[1],
                namespace=where[0],
                labels=before.labels,
                annotations={**_of_people(before.annotations), **mark},
            )
            await self._access.create(PersistentVolumeClaim(metadata=metadata, spec=self._gone[where].spec))
            return False
        if claim.metadata.annotations.get(UID_MARK) == restore.metadata.uid:
            return claim.status.phase == "Bound"
        self._being_restored.add(where)
        self._gone[where] = msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, volume_name=""))
        await self._access.delete(claim)
        return False


def _content(snapshot: VirtualMachineSnapshot, machine: VirtualMachine, held: Mapping[str, str]) -> Object:
    """`held`: volume -> its VolumeSnapshot."""
    content = {
        "apiVersion": VirtualMachineSnapshotContent.resource.api_version,
        "kind": "VirtualMachineSnapshotContent",
        "metadata": {"name": _content_name(snapshot), "namespace": snapshot.metadata.namespace},
        "spec": {
            "virtualMachineSnapshotName": snapshot.metadata.name,
            "source": {"virtualMachine": {"metadata": {}, "spec": msgspec.to_builtins(machine.spec)}},
            "volumeBackups": [
                {"volumeName": volume, "persistentVolumeClaim": {}, "volumeSnapshotName": by}
                for volume, by in held.items()
            ],
        },
    }
    return VirtualMachineSnapshotContent.resource.untyped()(content=content)


def _of_people(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Without the volume controller's: a new claim that says it was bound already is taken for lost."""
    return {name: value for name, value in annotations.items() if ".kubernetes.io/" not in name}


def _held_by(snapshot: VirtualMachineSnapshot, volume: str) -> str:
    """The VolumeSnapshot of one of its volumes."""
    return f"vmsnapshot-{snapshot.metadata.uid}-volume-{volume}"


def _content_name(snapshot: VirtualMachineSnapshot) -> str:
    return f"vmsnapshot-content-{snapshot.metadata.uid}"


def _indications(instance: VirtualMachineInstance | None) -> list[str]:
    if instance is None:
        return []
    return ["Online", "GuestAgent" if holds(instance.status.conditions, "AgentConnected") else "NoGuestAgent"]
