"""snapshot.kubevirt.io/v1beta1: snapshots of machines and their restores; snapshot.storage.k8s.io/v1: of volumes."""

from datetime import datetime
from typing import ClassVar

from corral.kinds.wukong.api.kubevirt import ReportedCondition
from corral.kube.meta import Model, Object, Resource

GROUP = "snapshot.kubevirt.io"
STORAGE_GROUP = "snapshot.storage.k8s.io"


class MachineRef(Model, frozen=True, kw_only=True):
    api_group: str | None = None
    kind: str
    name: str


class SnapshotSpec(Model, frozen=True, kw_only=True):
    source: MachineRef
    deletion_policy: str | None = None
    failure_deadline: str | None = None


class SnapshotError(Model, frozen=True, kw_only=True):
    message: str = ""


class SnapshotVolumes(Model, frozen=True, kw_only=True):
    included_volumes: tuple[str, ...] = ()
    excluded_volumes: tuple[str, ...] = ()


class SnapshotStatus(Model, frozen=True, kw_only=True):
    phase: str = ""
    ready_to_use: bool = False
    creation_time: datetime | None = None
    error: SnapshotError | None = None
    indications: tuple[str, ...] = ()
    snapshot_volumes: SnapshotVolumes = SnapshotVolumes()
    virtual_machine_snapshot_content_name: str = ""


class VirtualMachineSnapshot(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(GROUP, "v1beta1", "VirtualMachineSnapshot", "virtualmachinesnapshots", True)

    spec: SnapshotSpec
    status: SnapshotStatus = SnapshotStatus()


class VolumeBackup(Model, frozen=True, kw_only=True):
    volume_name: str
    volume_snapshot_name: str = ""


class ContentSpec(Model, frozen=True, kw_only=True):
    virtual_machine_snapshot_name: str = ""
    volume_backups: tuple[VolumeBackup, ...] = ()


class VirtualMachineSnapshotContent(Object, frozen=True, kw_only=True):
    """What KubeVirt keeps of a machine: its spec, which is not needed here, and a VolumeSnapshot for each volume."""

    resource: ClassVar[Resource] = Resource(
        GROUP, "v1beta1", "VirtualMachineSnapshotContent", "virtualmachinesnapshotcontents", True
    )

    spec: ContentSpec = ContentSpec()


class VolumeSnapshotSource(Model, frozen=True, kw_only=True):
    persistent_volume_claim_name: str | None = None


class VolumeSnapshotSpec(Model, frozen=True, kw_only=True):
    source: VolumeSnapshotSource
    volume_snapshot_class_name: str | None = None


class VolumeSnapshotStatus(Model, frozen=True, kw_only=True):
    ready_to_use: bool = False
    creation_time: datetime | None = None
    error: SnapshotError | None = None


class VolumeSnapshot(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(STORAGE_GROUP, "v1", "VolumeSnapshot", "volumesnapshots", True)

    spec: VolumeSnapshotSpec
    status: VolumeSnapshotStatus = VolumeSnapshotStatus()


class RestoreSpec(Model, frozen=True, kw_only=True):
    target: MachineRef
    virtual_machine_snapshot_name: str
    target_readiness_policy: str | None = None
    volume_restore_policy: str | None = None
    volume_ownership_policy: str | None = None


class RestoreStatus(Model, frozen=True, kw_only=True):
    complete: bool = False
    restore_time: datetime | None = None
    conditions: tuple[ReportedCondition, ...] = ()


class VirtualMachineRestore(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(GROUP, "v1beta1", "VirtualMachineRestore", "virtualmachinerestores", True)

    spec: RestoreSpec
    status: RestoreStatus = RestoreStatus()
