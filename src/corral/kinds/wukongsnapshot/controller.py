"""WukongSnapshot's controller: what is watched, how it is observed."""

from collections.abc import Iterable

import msgspec

from corral.engine import Controller, Key, KindController, Outcome, OutsideFailed, Plan, Reader, is_controlled_by
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
)
from corral.kinds.wukong.power import INSTANCES
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.facts import Snapshot
from corral.kinds.wukongsnapshot.plan import made, plan, report
from corral.kinds.wukongsnapshot.quiesce import FROZEN_AT_MOST_S, Freeze, Thaw, can_freeze, is_frozen
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotStatus
from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.meta import Object

BY_WUKONG = "wukong"
OPTIONAL: tuple[type[Object], ...] = (VirtualMachineSnapshot, VirtualMachineSnapshotContent, VolumeSnapshot)


class WukongSnapshotReconciler:
    _client: Client

    def use(self, client: Client) -> None:
        self._client = client

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        asked = read.get(WukongSnapshot, key.name, key.namespace)
        if asked is None:
            return None
        wukong = read.get(Wukong, asked.spec.wukong_name, key.namespace)
        machine = _machine_of(wukong, read)
        taken = read.get(VirtualMachineSnapshot, key.name, key.namespace)
        content = taken.status.virtual_machine_snapshot_content_name if taken else ""
        return Snapshot(
            object=asked,
            now=read.now,
            absent=frozenset(kind for kind in OPTIONAL if not read.serves(kind)),
            wukong=wukong,
            machine=machine,
            instance=read.get(VirtualMachineInstance, machine.metadata.name, key.namespace) if machine else None,
            taken=taken,
            content=read.get(VirtualMachineSnapshotContent, content, key.namespace) if content else None,
            volumes=read.owned(VolumeSnapshot, asked),
        )

    def plan(self, snapshot: Snapshot, /) -> Plan:
        return plan(snapshot)

    def later(self, snapshot: Snapshot, /) -> Plan:
        return made(snapshot)

    async def perform(self, call: msgspec.Struct, _snapshot: Snapshot, /) -> None:
        match call:
            case Freeze():
                action, options = "freeze", {"unfreezeTimeout": f"{FROZEN_AT_MOST_S}s"}
            case Thaw():
                action, options = "unfreeze", {}
            case _:
                raise OutsideFailed("InternalError", f"a WukongSnapshot cannot {type(call).__name__}", stalled=True)
        try:
            await self._client.act(INSTANCES, call.instance, call.namespace, action=action, options=options)
        except KubeError as error:
            raise OutsideFailed("GuestNotFrozen", f"KubeVirt did not {action} the guest: {error}") from error

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> WukongSnapshotStatus:
        return report(snapshot, outcome)


def _machine_of(wukong: Wukong | None, read: Reader) -> VirtualMachine | None:
    """Not one of somebody else under its name: that is neither frozen nor snapshot."""
    if wukong is None:
        return None
    found = read.get(VirtualMachine, names.machine_name(wukong.metadata.name), wukong.metadata.namespace)
    return found if found is not None and is_controlled_by(found, wukong) else None


def of_wukong(obj: Wukong | VirtualMachine | VirtualMachineInstance, read: Reader) -> Iterable[Key]:
    """A machine is called as its Wukong."""
    where = obj.metadata.namespace
    found = read.by_index(WukongSnapshot, BY_WUKONG, (where, obj.metadata.name))
    return [Key(where, snapshot.metadata.name) for snapshot in found]


def freezes_otherwise(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> bool:
    """Not everything that a guest does concerns its snapshots."""
    return (can_freeze(old), is_frozen(old)) != (can_freeze(new), is_frozen(new))


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
        .watches(VirtualMachineInstance, to=of_wukong, when=freezes_otherwise, optional=True)
        .indexes(WukongSnapshot, BY_WUKONG, _wukong_of)
    )


KINDS = (KindController(WukongSnapshot, controller, ("wks",)),)
