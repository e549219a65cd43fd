"""What to do for a Wukong that is being deleted. Pure."""

from collections.abc import Iterable

from corral.engine import NOTHING, Delete, Plan, RemoveFinalizer, Wait, target
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.attachments import let_go, owned
from corral.kinds.wukong.diskplan import held_by, own_disk_objects
from corral.kinds.wukong.disks import is_kept
from corral.kinds.wukong.facts import Snapshot
from corral.kube.meta import Object, ref
from corral.kube.models.core_v1 import PersistentVolumeClaim

FINALIZER = "vm.corral.dev/cleanup"


def farewell(snapshot: Snapshot) -> Plan:
    """Machine, disks, networks, finalizer: each when the one before is gone. What is gone already is as good."""
    wukong = snapshot.object
    if FINALIZER not in wukong.metadata.finalizers:
        return NOTHING
    stages = (
        ([snapshot.own_machine] if snapshot.own_machine else [], "the Wukong is being deleted"),
        # KubeVirt ends it before its machine is gone; one that is left was let loose (`--cascade=orphan`).
        ([snapshot.own_instance] if snapshot.own_instance else [], "its virtual machine is gone"),
        (_disks_to_delete(snapshot), "the disk is not kept when its Wukong is deleted"),
    )
    for there, why in stages:
        if there:
            return _ended(there, why)
    if left := owned(snapshot):
        actions = let_go(snapshot, left, reason="WukongDeleted", message="no machine uses the network any more")
        return Plan(actions=tuple(actions), waits=_gone(left))
    gone = "its machine, disks and networks are gone"
    kept = [obj.metadata.name for obj in own_disk_objects(snapshot) if is_kept(wukong, obj)]
    message = f"{gone}; kept: {', '.join(kept)}" if kept else gone
    leave = RemoveFinalizer(
        target=target(wukong), present=wukong.metadata.finalizers, finalizer=FINALIZER, message=message
    )
    return Plan(actions=(leave,))


def _disks_to_delete(snapshot: Snapshot) -> list[DataVolume | PersistentVolumeClaim]:
    return [obj for obj in own_disk_objects(snapshot) if not is_kept(snapshot.object, obj)]


def _ended(there: Iterable[Object], why: str) -> Plan:
    actions = tuple(
        Delete(target=target(obj), reason="WukongDeleted", message=why)
        for obj in there
        if obj.metadata.deletion_timestamp is None
    )
    return Plan(actions=actions, waits=_gone(there))


def _gone(there: Iterable[Object]) -> tuple[Wait, ...]:
    return tuple(Wait(reason="Deleting", message=_holding_text(obj), on=ref(obj)) for obj in there)


def _holding_text(obj: Object) -> str:
    return f"waiting until {ref(obj)} is gone{held_by(obj)}"
