"""Bringing disks back from a WukongSnapshot: `restoreFromSnapshot`. Pure.

    a Wukong without a machine   its disks are filled from the snapshot's VolumeSnapshots, by CDI
    one that has a machine       is set back in place: halted, then its disks come back, then as it was
        the whole machine        by a VirtualMachineRestore; until KubeVirt has finished, nothing of ours touches disks
        single disks             each is deleted and made again from its VolumeSnapshot, by CDI

It happens once for each value of the field; taking the field out and setting it again asks for it again. A disk that
was made from a snapshot says so (an annotation), for as long as the field does.
"""

import enum
from collections.abc import Iterable, Mapping

import msgspec

from corral.kinds.wukong import names
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import GROUP as KUBEVIRT_GROUP
from corral.kinds.wukong.api.kubevirt import VirtualMachine, condition_of
from corral.kinds.wukong.api.snapshots import MachineRef, RestoreSpec, VirtualMachineRestore
from corral.kinds.wukong.disks import AWAITS_MACHINE
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_disks import DiskConfig
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.meta import EMPTY, Object, ObjectMeta


class Stage(enum.Enum):
    NONE = "none"  # nothing was asked for, or it is done
    WAITING = "waiting"  # for the snapshot
    FILLING = "filling"  # new disks, from it
    HALTING = "halting"  # the machine, before it is set back
    UNDER_WAY = "under way"  # hands off
    REPLACING = "replacing"  # disks of a machine that is halted
    IMPOSSIBLE = "impossible"


class Restoring(msgspec.Struct, frozen=True, kw_only=True):
    stage: Stage = Stage.NONE
    reason: str = ""
    message: str = ""
    sources: Mapping[str, str] = EMPTY  # disk -> the VolumeSnapshot it is filled from

    @property
    def is_in_place(self) -> bool:
        return self.stage in (Stage.HALTING, Stage.UNDER_WAY, Stage.REPLACING)

    def replaces(self, disk: str) -> bool:
        return self.stage is Stage.REPLACING and disk in self.sources


DONE = Restoring()
FILLED = AWAITS_MACHINE | {"Succeeded"}  # phases of a DataVolume


def restoring(
    wukong: Wukong,
    source: WukongSnapshot | None,
    restore: VirtualMachineRestore | None,
    machine: VirtualMachine | None,
    disks: tuple[Object, ...],
    *,
    is_stopped: bool,
    absent: frozenset[type[Object]],
) -> Restoring:
    """`disks`: what there is of them."""
    if is_restored(wukong, source, restore, machine, disks):
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
        return _filling(wukong, source)
    return _in_place(wukong, source, restore, is_stopped=is_stopped, absent=absent)


def _filling(wukong: Wukong, source: WukongSnapshot) -> Restoring:
    """A disk that the snapshot does not name is made without it, so nothing is made before it names all that it has."""
    name, sources = source.metadata.name, _sources(source)
    unnamed = [volume for volume in source.status.included_volumes if volume not in sources]
    if unnamed:
        return _waiting(f"waiting until WukongSnapshot {name} says which VolumeSnapshots hold {', '.join(unnamed)}")
    if not sources.keys() & {disk.name for disk in wukong.spec.disks}:
        held = f"has {', '.join(sources)}, which spec.disks does not" if sources else "has no disk in it"
        return _impossible("RestoreImpossible", f"no disk can be made from WukongSnapshot {name}: it {held}")
    return Restoring(stage=Stage.FILLING, sources=sources)


def left_out(wukong: Wukong, source: WukongSnapshot | None) -> tuple[str, ...]:
    """Disks that a restore does not bring back though it is of all of them: as the spec says, or as they were."""
    if source is None or source.metadata.name != wukong.spec.restore_from_snapshot:
        return ()
    if source.spec.disks and source.spec.wukong_name == wukong.metadata.name:
        return ()  # of these alone, on purpose
    held = _sources(source)
    return tuple(disk.name for disk in wukong.spec.disks if disk.name not in held and not _is_from_image(disk))


def _is_from_image(disk: DiskConfig) -> bool:
    return disk.source is not None and disk.source.container_disk is not None


def left_out_text(disks: Iterable[str], snapshot: str) -> str:
    return f"not from WukongSnapshot {snapshot}, which lacks it: {', '.join(disks)}"


def _sources(source: WukongSnapshot) -> Mapping[str, str]:
    return {disk.name: disk.volume_snapshot_name for disk in source.status.disks}


def is_from(disk: Object, snapshot: str) -> bool:
    return disk.metadata.annotations.get(names.RESTORED_ANNOTATION) == snapshot


def is_restored(
    wukong: Wukong,
    source: WukongSnapshot | None,
    restore: VirtualMachineRestore | None,
    machine: VirtualMachine | None,
    disks: tuple[Object, ...],
) -> bool:
    asked, told = wukong.spec.restore_from_snapshot, wukong.status.restored_from
    if not asked or told == asked or (restore is not None and restore.status.complete):
        return True
    if machine is None or source is None:
        return False
    filled = {disk.metadata.name for disk in disks if is_from(disk, asked) and _is_filled(disk)}
    held = {disk.name for disk in source.status.disks} & {disk.name for disk in wukong.spec.disks}
    return bool(held) and {names.disk_name(wukong.metadata.name, disk) for disk in held} <= filled


def _is_filled(disk: Object) -> bool:
    return isinstance(disk, DataVolume) and disk.status.phase in FILLED


def _in_place(
    wukong: Wukong,
    source: WukongSnapshot,
    restore: VirtualMachineRestore | None,
    *,
    is_stopped: bool,
    absent: frozenset[type[Object]],
) -> Restoring:
    name = source.metadata.name
    if source.spec.wukong_name != wukong.metadata.name:
        message = f"WukongSnapshot {name} is of Wukong {source.spec.wukong_name}: only a new Wukong can be made from it"
        return _impossible("RestoreImpossible", message)
    is_whole = bool(source.status.snapshot_name)
    needed = VirtualMachineRestore if is_whole else DataVolume
    if needed in absent:
        missing, brings = needed.resource.plural_and_group, "KubeVirt with snapshots" if is_whole else "CDI"
        return _impossible("SnapshotsMissing", f"this cluster does not serve {missing}: install {brings}")
    if restore is not None:
        return _under_way(restore, name)
    message = f"the machine stops before its disks are set back to WukongSnapshot {name}"
    if not is_stopped:
        return Restoring(stage=Stage.HALTING, reason="Restoring", message=message)
    if is_whole:
        return Restoring(stage=Stage.UNDER_WAY, reason="Restoring", message=message)
    sources = _sources(source)
    message = f"CDI sets {', '.join(sources)} back to WukongSnapshot {name}"
    return Restoring(stage=Stage.REPLACING, reason="Restoring", message=message, sources=sources)


def _under_way(restore: VirtualMachineRestore, name: str) -> Restoring:
    failed = condition_of(restore.status.conditions, "Failure")
    if failed is not None and failed.status == "True":
        why = failed.message or failed.reason or "KubeVirt does not say why"
        message = f"disks could not be set back to WukongSnapshot {name}: {why}; remove restoreFromSnapshot to continue"
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
