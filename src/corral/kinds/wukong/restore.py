"""Bringing disks back from a WukongSnapshot: `restoreFromSnapshot`. Pure.

    a Wukong without a machine   its disks are filled from the snapshot's VolumeSnapshots, by CDI
    one that has a machine       is set back in place: halted, then a VirtualMachineRestore, then as it was

While KubeVirt sets disks back it deletes and makes claims: until it has finished, nothing of ours touches disks or the
machine. It happens once for each value of the field; taking the field out and setting it again asks for it again.
"""

import enum
from collections.abc import Mapping

import msgspec

from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import GROUP as KUBEVIRT_GROUP
from corral.kinds.wukong.api.kubevirt import VirtualMachine, condition_of
from corral.kinds.wukong.api.snapshots import MachineRef, RestoreSpec, VirtualMachineRestore
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.meta import EMPTY, Object, ObjectMeta


class Stage(enum.Enum):
    NONE = "none"  # nothing was asked for, or it is done
    WAITING = "waiting"  # for the snapshot
    FILLING = "filling"  # new disks, from it
    HALTING = "halting"  # the machine, before it is set back
    UNDER_WAY = "under way"  # hands off
    IMPOSSIBLE = "impossible"


class Restoring(msgspec.Struct, frozen=True, kw_only=True):
    stage: Stage = Stage.NONE
    reason: str = ""
    message: str = ""
    sources: Mapping[str, str] = EMPTY  # disk -> the VolumeSnapshot it is filled from

    @property
    def is_in_place(self) -> bool:
        return self.stage in (Stage.HALTING, Stage.UNDER_WAY)


DONE = Restoring()


def restoring(
    wukong: Wukong,
    source: WukongSnapshot | None,
    restore: VirtualMachineRestore | None,
    machine: VirtualMachine | None,
    disks: tuple[Object, ...],
    *,
    is_stopped: bool,
    is_served: bool,
) -> Restoring:
    """`disks`: what there is of them."""
    if is_restored(wukong, restore, machine, disks):
        return DONE
    asked = wukong.spec.restore_from_snapshot
    where = f"{wukong.metadata.namespace}/{asked}"
    if source is None:
        return _waiting(f"waiting for WukongSnapshot {where}")
    if source.status.phase == "Failed":
        return _impossible("RestoreImpossible", f"WukongSnapshot {where} has failed: {source.status.error}")
    if source.status.phase != "Succeeded":
        return _waiting(f"waiting until WukongSnapshot {where} is taken")
    if machine is None:
        sources = {disk.name: disk.volume_snapshot_name for disk in source.status.disks}
        return Restoring(stage=Stage.FILLING, sources=sources)
    return _in_place(wukong, source, restore, is_stopped=is_stopped, is_served=is_served)


def is_restored(
    wukong: Wukong, restore: VirtualMachineRestore | None, machine: VirtualMachine | None, disks: tuple[Object, ...]
) -> bool:
    asked, told = wukong.spec.restore_from_snapshot, wukong.status.restored_from
    if not asked or told == asked or (restore is not None and restore.status.complete):
        return True
    born = any(disk.metadata.annotations.get(names.RESTORED_ANNOTATION) == asked for disk in disks)
    return machine is not None and born and not told


def _in_place(
    wukong: Wukong, source: WukongSnapshot, restore: VirtualMachineRestore | None, *, is_stopped: bool, is_served: bool
) -> Restoring:
    name = source.metadata.name
    if source.spec.wukong_name != wukong.metadata.name:
        message = f"WukongSnapshot {name} is of Wukong {source.spec.wukong_name}: only a new Wukong can be made from it"
        return _impossible("RestoreImpossible", message)
    if not source.status.snapshot_name:
        message = f"WukongSnapshot {name} is of single disks: add a disk with source.snapshot, or make a new Wukong"
        return _impossible("RestoreImpossible", message)
    if not is_served:
        missing = VirtualMachineRestore.resource.plural_and_group
        return _impossible("SnapshotsMissing", f"this cluster does not have {missing}: install KubeVirt with snapshots")
    if restore is not None:
        return _under_way(restore, name)
    message = f"the machine stops before its disks are set back to WukongSnapshot {name}"
    return Restoring(stage=Stage.UNDER_WAY if is_stopped else Stage.HALTING, reason="Restoring", message=message)


def _under_way(restore: VirtualMachineRestore, name: str) -> Restoring:
    failed = condition_of(restore.status.conditions, "Failure")
    if failed is not None and failed.status == "True":
        why = failed.message or failed.reason or "KubeVirt does not say why"
        message = f"disks could not be set back to WukongSnapshot {name}: {why}; take restoreFromSnapshot out to go on"
        return Restoring(stage=Stage.UNDER_WAY, reason="RestoreFailed", message=message)
    message = f"KubeVirt sets the disks back to WukongSnapshot {name}"
    return Restoring(stage=Stage.UNDER_WAY, reason="Restoring", message=message)


def _waiting(message: str) -> Restoring:
    return Restoring(stage=Stage.WAITING, reason="SnapshotMissing", message=message)


def _impossible(reason: str, message: str) -> Restoring:
    return Restoring(stage=Stage.IMPOSSIBLE, reason=reason, message=message)


def machine_restore(wukong: Wukong, snapshot_name: str) -> VirtualMachineRestore:
    """`InPlace` keeps the names of claims; `WaitEventually` because it is us who stop the machine."""
    machine = names.machine_name(wukong.metadata.name)
    return VirtualMachineRestore(
        metadata=ObjectMeta(
            name=names.restore_name(wukong.metadata.name, snapshot_name),
            labels={**names.MANAGED_BY, names.WUKONG_LABEL: wukong.metadata.name},
        ),
        spec=RestoreSpec(
            target=MachineRef(api_group=KUBEVIRT_GROUP, kind="VirtualMachine", name=machine),
            virtual_machine_snapshot_name=snapshot_name,
            target_readiness_policy="WaitEventually",
            volume_restore_policy="InPlace",
            volume_ownership_policy="None",
        ),
    )
