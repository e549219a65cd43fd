"""What to do for a WukongSnapshot, and what its status says. Pure.

KubeVirt takes the snapshot: a VirtualMachineSnapshot of the same name, made once. A moment cannot be taken again: one
that failed stays failed, and one that someone deleted afterwards is told as lost, not made anew.
"""

from datetime import datetime

import msgspec

from corral.engine import NOTHING, Once, Outcome, Plan, Wait, children, conditions, verdict
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import GROUP as KUBEVIRT_GROUP
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.snapshots import (
    MachineRef,
    SnapshotSpec,
    SnapshotStatus,
    VirtualMachineSnapshot,
)
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import Phase, WukongSnapshot, WukongSnapshotStatus
from corral.kube.meta import Condition, ObjectMeta

WHOLE = "Whole"
BY_KUBEVIRT: dict[str, Phase] = {"Succeeded": "Succeeded", "Failed": "Failed"}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: WukongSnapshot
    now: datetime
    is_served: bool = True  # whether this cluster has VirtualMachineSnapshots
    wukong: Wukong | None = None
    machine: VirtualMachine | None = None
    taken: VirtualMachineSnapshot | None = None


def plan(snapshot: Snapshot) -> Plan:
    asked, taken = snapshot.object, snapshot.taken
    if asked.metadata.deletion_timestamp is not None:
        return NOTHING
    if not snapshot.is_served:
        missing = VirtualMachineSnapshot.resource.plural_and_group
        message = f"this cluster does not have {missing}: install KubeVirt with snapshots; the work goes on then"
        return _wait("SnapshotsMissing", message, stalled=True)
    if taken is None:
        return _begin(snapshot)
    return children(asked, [Once(taken_by(asked))], [taken]) + _end(taken.status)


def _begin(snapshot: Snapshot) -> Plan:
    asked = snapshot.object
    if is_over(asked):
        return _wait("SnapshotLost", f"VirtualMachineSnapshot {asked.metadata.name} is gone; it cannot be taken again")
    where = f"{asked.metadata.namespace}/{asked.spec.wukong_name}"
    if snapshot.wukong is None:
        return _wait("WukongMissing", f"waiting for Wukong {where}")
    if snapshot.machine is None:
        return _wait("MachineMissing", f"waiting for the virtual machine of Wukong {where}")
    return children(asked, [Once(taken_by(asked))], [])


def _end(status: SnapshotStatus) -> Plan:
    if status.phase == "Failed":
        return _wait("SnapshotFailed", f"KubeVirt could not take it: {_error(status)}", stalled=True)
    return NOTHING if status.ready_to_use else _wait("SnapshotUnderWay", "KubeVirt is taking the snapshot")


def _wait(reason: str, message: str, *, stalled: bool = False) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message, stalled=stalled),))


def _error(status: SnapshotStatus) -> str:
    return status.error.message if status.error and status.error.message else "it says no reason"


def taken_by(asked: WukongSnapshot) -> VirtualMachineSnapshot:
    """Called as what asked for it: whatever is lost on the way, there is never a second one."""
    machine = names.machine_name(asked.spec.wukong_name)
    return VirtualMachineSnapshot(
        metadata=ObjectMeta(
            name=asked.metadata.name,
            labels={**names.MANAGED_BY, names.WUKONG_LABEL: asked.spec.wukong_name},
        ),
        spec=SnapshotSpec(
            source=MachineRef(api_group=KUBEVIRT_GROUP, kind="VirtualMachine", name=machine),
            failure_deadline=asked.spec.failure_deadline,
        ),
    )


def is_over(asked: WukongSnapshot) -> bool:
    return asked.status.phase in ("Succeeded", "Failed")


def report(snapshot: Snapshot, outcome: Outcome) -> WukongSnapshotStatus:
    asked, taken = snapshot.object, snapshot.taken
    said = verdict(outcome, ready_message="the snapshot is taken")
    if taken is None and is_over(asked):
        gone = msgspec.structs.replace(asked.status, phase="Failed", error=said.message)
        return msgspec.structs.replace(
            gone, conditions=conditions(asked, asked.status.conditions, said, snapshot.now, whole(None))
        )
    status = taken.status if taken else SnapshotStatus()
    return WukongSnapshotStatus(
        observed_generation=asked.metadata.generation,
        phase=BY_KUBEVIRT.get(status.phase, "Creating") if taken else "Pending",
        snapshot_name=taken.metadata.name if taken else "",
        creation_time=status.creation_time,
        error=_error(status) if status.phase == "Failed" else "",
        indications=status.indications,
        included_volumes=status.snapshot_volumes.included_volumes,
        excluded_volumes=status.snapshot_volumes.excluded_volumes,
        conditions=conditions(asked, asked.status.conditions, said, snapshot.now, whole(taken)),
    )


def whole(taken: VirtualMachineSnapshot | None) -> Condition:
    """Whether every disk is in it: storage that cannot do snapshots is left out by KubeVirt, without an error."""
    if taken is None or not taken.status.ready_to_use:
        return Condition(type=WHOLE, status="Unknown", reason="NotTaken", message="there is no snapshot yet")
    left_out = taken.status.snapshot_volumes.excluded_volumes
    if left_out:
        message = f"their storage cannot do snapshots: {', '.join(left_out)}"
        return Condition(type=WHOLE, status="False", reason="DisksLeftOut", message=message)
    return Condition(type=WHOLE, status="True", reason="EveryDisk", message="every disk is in it")
