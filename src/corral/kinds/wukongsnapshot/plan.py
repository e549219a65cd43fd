"""What to do for a WukongSnapshot, and what its status says. Pure.

Whatever takes it carries the name of what asked for it and is made once. A moment cannot be taken again: one that
failed stays failed with the reason that it failed for, whatever comes or goes afterwards. One that was taken cannot
fail any more: what holds it may be lost, which is told and not made anew, and is good again if it is found after all.
"""

import msgspec

from corral.engine import NOTHING, Once, Outcome, Plan, Wait, children, conditions, verdict
from corral.kinds.telling import trouble
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import GROUP as KUBEVIRT_GROUP
from corral.kinds.wukong.api.snapshots import (
    MachineRef,
    SnapshotSpec,
    VirtualMachineSnapshot,
    VolumeSnapshot,
    VolumeSnapshotSource,
    VolumeSnapshotSpec,
)
from corral.kinds.wukongsnapshot.facts import (
    LOST_AFTER_S,
    UNSEEN,
    Progress,
    Snapshot,
    begun_at,
    failed_before,
    fails_in_s,
    has_volume,
    is_late,
    is_lost,
    is_of_disks,
    is_over,
    lacking,
    progress,
)
from corral.kinds.wukongsnapshot.quiesce import can_freeze, freeze, indications_now, is_frozen, thaw
from corral.kinds.wukongsnapshot.spec import Phase, WukongSnapshot, WukongSnapshotStatus
from corral.kube.meta import Condition, Object, ObjectMeta

WHOLE = "Whole"
FREEZE_AGAIN_S = 20.0  # a guest that has not frozen by then is asked again


def plan(snapshot: Snapshot) -> Plan:
    asked, whole = snapshot.object, _decided(snapshot)
    return trouble(asked, asked.status.conditions, whole) + whole


def _decided(snapshot: Snapshot) -> Plan:
    asked = snapshot.object
    if asked.metadata.deletion_timestamp is not None:
        return NOTHING
    if (missing := lacking(snapshot)) and not failed_before(asked):
        named = " and ".join(kind.resource.plural_and_group for kind in missing)
        brings = "CSI snapshots" if is_of_disks(asked) else "KubeVirt with snapshots"
        message = f"this cluster does not serve {named}: install {brings}; Corral continues after that"
        return _wait("SnapshotsMissing", message, stalled=True)
    so_far = progress(snapshot)
    if not so_far.begun:
        return _begin(snapshot, so_far)
    return made(snapshot) + _end(snapshot, so_far)


def _there(snapshot: Snapshot) -> list[Object]:
    return [*([snapshot.taken] if snapshot.taken else []), *snapshot.volumes]


def _begin(snapshot: Snapshot, so_far: Progress) -> Plan:
    asked = snapshot.object
    if why := failed_before(asked):
        return _failed(why)
    if is_over(asked) and not is_lost(snapshot):
        message = f"what holds snapshot {asked.metadata.name} is not there, or not ready{_why(so_far)}; looking again"
        return Plan(waits=(Wait(reason=UNSEEN, message=message),), again_after_s=LOST_AFTER_S)
    if is_over(asked):
        message = f"what held snapshot {asked.metadata.name} is gone{_why(so_far)}; it cannot be taken again"
        return _wait("SnapshotLost", message, stalled=True)
    where = f"{asked.metadata.namespace}/{asked.spec.wukong_name}"
    if snapshot.wukong is None:
        return _wait("WukongMissing", f"waiting for Wukong {where}")
    disks = {disk.name for disk in snapshot.wukong.spec.disks}
    unknown = [name for name in asked.spec.disks if name not in disks]
    if unknown:
        message = f"Wukong {where} has no disk {', '.join(unknown)}; it has {', '.join(sorted(disks))}"
        return _wait("DiskUnknown", message, stalled=True)
    of_images = [d.name for d in snapshot.wukong.spec.disks if d.name in asked.spec.disks and not has_volume(d)]
    if of_images:
        message = f"disk {', '.join(of_images)} of Wukong {where} is read out of a container image: it has no volume"
        return _wait("DiskWithoutVolume", message, stalled=True)
    if snapshot.machine is None:
        return _wait("MachineMissing", f"waiting for the virtual machine of Wukong {where}")
    instance = snapshot.instance
    can = instance is not None and can_freeze(instance) and not is_late(snapshot)
    if is_of_disks(asked) and instance is not None and can and not is_frozen(instance):
        waits = (
            Wait(reason="GuestFreezing", message=f"waiting until KubeVirt has frozen the guest of Wukong {where}"),
        )
        return Plan(actions=(freeze(instance),), waits=waits, again_after_s=FREEZE_AGAIN_S)
    return made(snapshot)


def made(snapshot: Snapshot) -> Plan:
    asked = snapshot.object
    return children(asked, [Once(obj) for obj in wanted(asked, indications_now(snapshot.instance))], _there(snapshot))


def _end(snapshot: Snapshot, so_far: Progress) -> Plan:
    if so_far.to_thaw and snapshot.instance is not None:
        waits = (Wait(reason="GuestThawing", message="waiting until KubeVirt has thawed the guest"),)
        return Plan(actions=(thaw(snapshot.instance),), waits=waits)
    if so_far.error:
        return _failed(so_far.error)
    if so_far.ready:
        return NOTHING
    by = "the storage" if is_of_disks(snapshot.object) else "KubeVirt"
    waits = (Wait(reason="SnapshotUnderWay", message=f"{by} is taking the snapshot{_why(so_far)}"),)
    left_s = fails_in_s(snapshot, so_far)
    return Plan(waits=waits, again_after_s=max(left_s, 1.0) if left_s is not None else None)


def _why(so_far: Progress) -> str:
    return f" ({so_far.trouble})" if so_far.trouble else ""


def _failed(why: str) -> Plan:
    return _wait("SnapshotFailed", f"it could not be taken: {why}", stalled=True)


def _wait(reason: str, message: str, *, stalled: bool = False) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message, stalled=stalled),))


def wanted(asked: WukongSnapshot, indications: tuple[str, ...] = ()) -> tuple[Object, ...]:
    """Called as what asked for it: whatever is lost on the way, there is never a second one."""
    labels = {**names.MANAGED_BY, names.WUKONG_LABEL: asked.spec.wukong_name}
    if is_of_disks(asked):
        return tuple(_volume(asked, disk, labels, indications) for disk in asked.spec.disks)
    machine = names.machine_name(asked.spec.wukong_name)
    of = MachineRef(api_group=KUBEVIRT_GROUP, kind="VirtualMachine", name=machine)
    return (
        VirtualMachineSnapshot(
            metadata=ObjectMeta(name=asked.metadata.name, labels=labels),
            spec=SnapshotSpec(source=of, failure_deadline=asked.spec.failure_deadline),
        ),
    )


def _volume(asked: WukongSnapshot, disk: str, labels: dict[str, str], indications: tuple[str, ...]) -> VolumeSnapshot:
    name = names.volume_snapshot_name(asked.metadata.name, disk)
    claim = names.disk_name(asked.spec.wukong_name, disk)
    return VolumeSnapshot(
        metadata=ObjectMeta(
            name=name,
            labels={**labels, names.DISK_LABEL: disk},
            annotations={names.INDICATIONS_ANNOTATION: ",".join(indications)},
        ),
        spec=VolumeSnapshotSpec(
            source=VolumeSnapshotSource(persistent_volume_claim_name=claim),
            volume_snapshot_class_name=asked.spec.volume_snapshot_class_name or None,
        ),
    )


def report(snapshot: Snapshot, outcome: Outcome) -> WukongSnapshotStatus:
    asked, so_far = snapshot.object, progress(snapshot)
    said = verdict(outcome, ready_message="the snapshot is taken")
    if not so_far.begun and is_over(asked):
        told = conditions(asked, asked.status.conditions, said, snapshot.now, whole(Progress()))
        if failed_before(asked) or lacking(snapshot) or not is_lost(snapshot):  # it may be there when it is served
            return msgspec.structs.replace(asked.status, conditions=told)
        return msgspec.structs.replace(asked.status, phase="Failed", lost=True, error=said.message, conditions=told)
    return WukongSnapshotStatus(
        observed_generation=asked.metadata.generation,
        phase=_phase(so_far),
        snapshot_name=so_far.name,
        begun_at=begun_at(snapshot),
        creation_time=so_far.creation_time,
        error=so_far.error,
        indications=so_far.indications,
        included_volumes=so_far.included,
        excluded_volumes=so_far.excluded,
        disks=so_far.disks,
        conditions=conditions(asked, asked.status.conditions, said, snapshot.now, whole(so_far)),
    )


def _phase(so_far: Progress) -> Phase:
    if not so_far.begun:
        return "Pending"
    return "Failed" if so_far.error else "Succeeded" if so_far.ready else "Creating"


def whole(so_far: Progress) -> Condition:
    """Whether every disk is in it: KubeVirt leaves out what has storage without snapshots, and is silent about it."""
    if not so_far.ready:
        return Condition(type=WHOLE, status="Unknown", reason="NotTaken", message="there is no snapshot yet")
    if so_far.excluded:
        message = f"not in it: {', '.join(so_far.excluded)}"
        return Condition(type=WHOLE, status="False", reason="DisksLeftOut", message=message)
    return Condition(type=WHOLE, status="True", reason="EveryDisk", message="every disk is in it")
