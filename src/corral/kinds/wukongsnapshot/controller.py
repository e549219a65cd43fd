"""WukongSnapshot's controller: what is watched, how it is observed."""

from collections.abc import Iterable

from corral.engine import Controller, Key, KindController, Outcome, Plan, Reader
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
)
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.facts import Snapshot
from corral.kinds.wukongsnapshot.plan import plan, report
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotStatus

BY_WUKONG = "wukong"


class WukongSnapshotReconciler:
    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        asked = read.get(WukongSnapshot, key.name, key.namespace)
        if asked is None:
            return None
        wukong = asked.spec.wukong_name
        taken = read.get(VirtualMachineSnapshot, key.name, key.namespace)
        content = taken.status.virtual_machine_snapshot_content_name if taken else ""
        return Snapshot(
            object=asked,
            now=read.now,
            absent=frozenset(kind for kind in (VirtualMachineSnapshot, VolumeSnapshot) if not read.serves(kind)),
            wukong=read.get(Wukong, wukong, key.namespace),
            machine=read.get(VirtualMachine, names.machine_name(wukong), key.namespace),
            taken=taken,
            content=read.get(VirtualMachineSnapshotContent, content, key.namespace) if content else None,
            volumes=read.owned(VolumeSnapshot, asked),
        )

    def plan(self, snapshot: Snapshot, /) -> Plan:
        return plan(snapshot)

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> WukongSnapshotStatus:
        return report(snapshot, outcome)


def of_wukong(obj: Wukong | VirtualMachine, read: Reader) -> Iterable[Key]:
    """A machine is called as its Wukong."""
    where = obj.metadata.namespace
    found = read.by_index(WukongSnapshot, BY_WUKONG, (where, obj.metadata.name))
    return [Key(where, snapshot.metadata.name) for snapshot in found]


def of_content(content: VirtualMachineSnapshotContent, _read: Reader) -> Iterable[Key]:
    return (Key(content.metadata.namespace, content.spec.virtual_machine_snapshot_name),)


def _wukong_of(snapshot: WukongSnapshot) -> Iterable[tuple[str, str]]:
    return ((snapshot.metadata.namespace, snapshot.spec.wukong_name),)


def controller() -> Controller[WukongSnapshot, Snapshot]:
    return (
        Controller.for_(WukongSnapshot, WukongSnapshotReconciler())
        .owns(VirtualMachineSnapshot, optional=True)
        .owns(VolumeSnapshot, optional=True)
        .watches(VirtualMachineSnapshotContent, to=of_content, optional=True)
        .watches(Wukong, to=of_wukong)
        .watches(VirtualMachine, to=of_wukong, optional=True)
        .indexes(WukongSnapshot, BY_WUKONG, _wukong_of)
    )


KINDS = (KindController(WukongSnapshot, controller, ("wks",)),)
