"""What to do for the disks of a Wukong: made, marked, grown, set back, and deleted when nobody wants them. Pure."""

from collections.abc import Iterable

from corral.engine import NOTHING, Create, Delete, EmitEvent, Patch, Plan, Wait, target
from corral.engine.children import name_taken
from corral.kinds.wukong import names
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.clones import copied_from, forbidden_text
from corral.kinds.wukong.disks import Disk, State, is_disk_of, is_kept, is_of, keep_text, new_object
from corral.kinds.wukong.facts import Snapshot
from corral.kinds.wukong.growth import Growth, growth, growth_text
from corral.kinds.wukong.restore import Stage, is_from, left_out_text
from corral.kube.meta import Object, ref
from corral.kube.models.core_v1 import PersistentVolumeClaim

UPLOAD_READY = "UploadReady"  # the phase in which CDI waits for a person
BINDS_WITHIN_S = 15.0  # a claim, if there is a volume for it


def disks(snapshot: Snapshot) -> Plan:
    whole = NOTHING
    for disk in snapshot.disks:
        whole += _disk(snapshot, disk)
    return whole


def _disk(snapshot: Snapshot, disk: Disk) -> Plan:
    what = f"disk {disk.config.name}"
    if _is_set_back(snapshot, disk):
        return _made_way(_there(disk), snapshot.object.spec.restore_from_snapshot)
    match disk.state:
        case State.MISSING if disk.filling is not None and DataVolume in snapshot.absent:
            return NOTHING  # told by `plan`
        case State.MISSING if (
            snapshot.restoring.stage in (Stage.WAITING, Stage.IMPOSSIBLE) and not snapshot.own_machine
        ):
            return NOTHING  # what it is to be filled with is not known yet; told by `plan`
        case State.MISSING if (held := _held_back(snapshot, disk)) is not None:
            return Plan(waits=(held,))
        case State.MISSING:
            made, message = new_object(snapshot.object, disk), f"{what} does not exist yet"
            known_by = (names.WUKONG_LABEL, names.DISK_LABEL)
            lacks = disk.config.name in snapshot.left_out and snapshot.restoring.stage is Stage.FILLING
            told = not_restored(snapshot, (disk.config.name,) if lacks else ())
            return told + Plan(actions=(Create(object=made, known_by=known_by, reason="Missing", message=message),))
        case State.TAKEN:
            return Plan(waits=(name_taken(snapshot.object, _there(disk)),))
        case State.GOING:
            return Plan(waits=(_going(snapshot, disk),))
        case State.ORPHANED:
            return Plan(waits=(_orphaned(snapshot, disk),))
        case State.FAILED:
            failed = Wait(reason="DiskFailed", message=_failed_text(disk), stalled=True)
            return _marked(snapshot, disk) + Plan(waits=(failed,))
        case State.FILLING | State.UNBOUND if disk.missing_class:
            return _marked(snapshot, disk) + _without_class(snapshot, disk)
        case State.FILLING:
            return _marked(snapshot, disk) + Plan(waits=(_filling(disk),))
        case State.UNBOUND:
            message = f"{what}: waiting for a volume for claim {disk.name}"
            return _marked(snapshot, disk) + Plan(waits=(Wait(reason="DiskNotBound", message=message),))
        case _:
            return _marked(snapshot, disk) + _grown(disk)


def _held_back(snapshot: Snapshot, disk: Disk) -> Wait | None:
    """A copy from another namespace waits until that namespace allows it."""
    namespace, filling = snapshot.object.metadata.namespace, disk.filling
    if filling is not None and filling.source_ref is not None:
        where = f"{filling.source_ref.namespace or namespace}/{filling.source_ref.name}"
        message = f"disk {disk.config.name}: waiting for DataSource {where} to name a claim or a snapshot"
        return Wait(reason="DataSourceMissing", message=message)
    source = copied_from(filling, namespace)
    why = snapshot.uncopied.get(source, forbidden_text(source, namespace)) if source is not None else ""
    if not why:
        return None
    return Wait(reason="CloneForbidden", message=f"disk {disk.config.name}: {why}", stalled=True)


def _going(snapshot: Snapshot, disk: Disk) -> Wait:
    """Somebody deleted it. Under a machine it stays until that stops: whoever is to save something does so before."""
    there = _there(disk)
    said = f"disk {disk.config.name}: {ref(there)} is being deleted{held_by(there)}"
    is_used = snapshot.own_instance is not None and disk.name in snapshot.volumes_in_use
    if is_used and there.metadata.finalizers:
        message = f"{said}; its data is lost when the machine stops, so copy it first; a new disk is made after that"
        return Wait(reason="DiskBeingDeleted", message=message, stalled=True)
    return Wait(reason="DiskBeingDeleted", message=f"{said}; a new one is made when it is gone")


def _orphaned(snapshot: Snapshot, disk: Disk) -> Wait:
    """Kubernetes' collector takes the claim of a DataVolume along. It cannot yet if CDI's definition went with it."""
    claim = _there(disk).metadata
    keep = (
        f"kubectl patch pvc {claim.name} --namespace {claim.namespace} --type merge "
        """--patch '{"metadata": {"ownerReferences": null}}'"""
    )
    message = (
        f"disk {disk.config.name}: the DataVolume of claim {claim.name} is gone, so Kubernetes deletes the claim too, "
        f"with its data; to keep it: {keep}"
    )
    return Wait(reason="DiskOrphaned", message=message, stalled=DataVolume in snapshot.absent)


def held_by(obj: Object) -> str:
    """Who keeps something that is being deleted."""
    return f", held by {', '.join(obj.metadata.finalizers)}" if obj.metadata.finalizers else ""


def not_restored(snapshot: Snapshot, disks: tuple[str, ...]) -> Plan:
    """Told when it happens; afterwards the condition says so for as long as the snapshot is named."""
    if not disks:
        return NOTHING
    wukong = snapshot.object
    message = left_out_text(disks, wukong.spec.restore_from_snapshot)
    event = EmitEvent(regarding=target(wukong), reason="DiskNotInSnapshot", message=message, type="Warning")
    return Plan(actions=(event,))


def _is_set_back(snapshot: Snapshot, disk: Disk) -> bool:
    """Whether what there is of it has to go, because it is not from the snapshot."""
    if not snapshot.restoring.replaces(disk.config.name) or disk.state in (State.MISSING, State.TAKEN, State.GOING):
        return False
    return not is_from(_there(disk), snapshot.object.spec.restore_from_snapshot)


def _made_way(obj: Object, snapshot: str) -> Plan:
    """A claim of CDI's goes with its DataVolume."""
    message = f"it is made again from WukongSnapshot {snapshot}"
    return Plan(actions=(Delete(target=target(obj), reason="DiskSetBack", message=message),))


def _there(disk: Disk) -> Object:
    found = disk.data_volume or disk.claim
    assert found is not None  # noqa: S101 - only states of something that exists come here
    return found


def _failed_text(disk: Disk) -> str:
    said = f": {disk.trouble}" if disk.trouble else ""
    again = "delete it to try again" if disk.data_volume else "its volume is lost"
    return f"disk {disk.config.name}: {ref(_there(disk))} failed{said}; {again}"


def _without_class(snapshot: Snapshot, disk: Disk) -> Plan:
    """A volume that a person made of a class that is none is bound in a moment; so nobody is called for that long."""
    there = _there(disk)
    made = there.metadata.creation_timestamp or snapshot.now
    left_s = BINDS_WITHIN_S - (snapshot.now - made).total_seconds()
    message = (
        f"disk {disk.config.name}: waiting for StorageClass {disk.missing_class}, which does not exist; create it, "
        f"or a volume of that class for {ref(there)}"
    )
    wait = Wait(reason="StorageClassMissing", message=message, stalled=left_s <= 0)
    return Plan(waits=(wait,), again_after_s=left_s if left_s > 0 else None)


def _filling(disk: Disk) -> Wait:
    phase = disk.data_volume.status.phase if disk.data_volume else ""
    if phase == UPLOAD_READY:
        where = _there(disk).metadata
        upload = f"virtctl image-upload dv {where.name} --namespace {where.namespace} --no-create --image-path FILE"
        message = f"disk {disk.config.name}: waiting for its image to be uploaded: {upload}"
        return Wait(reason="UploadAwaited", message=message, stalled=True)
    far = f", {disk.progress}" if disk.progress else ""
    trouble = f" ({disk.trouble})" if disk.trouble else ""
    return Wait(reason="DiskFilling", message=f"disk {disk.config.name}: {phase or 'not started'}{far}{trouble}")


def _marked(snapshot: Snapshot, disk: Disk) -> Plan:
    """The keep policy is written on the objects, where it still stands when the entry of the spec is gone.

    Which snapshot it is from is forgotten with the wish, so that the same wish can be made again. One that a person
    had us take over, by a label, says from then on which disk it is.
    """
    keep = keep_text(keep=disk.config.keep_on_delete)
    forget = not snapshot.object.spec.restore_from_snapshot
    actions = []
    for obj in (obj for obj in (disk.data_volume, disk.claim) if obj is not None):
        written, labels = obj.metadata.annotations, obj.metadata.labels
        marks: dict[str, str | None] = (
            {names.KEEP_ANNOTATION: keep} if written.get(names.KEEP_ANNOTATION) != keep else {}
        )
        marks |= {names.RESTORED_ANNOTATION: None} if forget and names.RESTORED_ANNOTATION in written else {}
        is_unnamed = is_of(snapshot.object, obj) and labels.get(names.DISK_LABEL) != disk.config.name
        metadata = {"annotations": marks} if marks else {}
        metadata |= {"labels": {names.DISK_LABEL: disk.config.name}} if is_unnamed else {}
        if metadata:
            message = "labels that say which disk it is, whether it is kept, and which snapshot it is from"
            patch = Patch(target=target(obj), merge={"metadata": metadata}, reason="DiskMarked", message=message)
            actions.append(patch)
    return Plan(actions=tuple(actions))


def _grown(disk: Disk) -> Plan:
    claim, size = disk.claim, disk.config.size
    match growth(disk):
        case Growth.TO_ASK if claim is not None:
            merge = {"spec": {"resources": {"requests": {"storage": size}}}}
            message = f"disk {disk.config.name} grows to {size}"
            return Plan(actions=(Patch(target=target(claim), merge=merge, reason="DiskGrows", message=message),))
        case Growth.REFUSED:
            name = disk.storage_class.metadata.name if disk.storage_class else "of its claim"
            message = (
                f"disk {disk.config.name} cannot grow to {size}: StorageClass {name} does not allow expansion; if its "
                "storage can do it, set allowVolumeExpansion there"
            )
            return Plan(waits=(Wait(reason="DiskCannotGrow", message=message, stalled=True),))
        case Growth.UNDER_WAY:
            message = _with_words(f"disk {disk.config.name} is growing to {size}", disk)
            return Plan(waits=(Wait(reason="DiskGrowing", message=message),))
        case Growth.FAILED:
            message = _with_words(f"disk {disk.config.name} does not grow to {size}, its storage refuses", disk)
            return Plan(waits=(Wait(reason="DiskGrowthFailed", message=message, stalled=True),))
        case _:
            return NOTHING


def _with_words(said: str, disk: Disk) -> str:
    words = growth_text(disk)
    return f"{said} ({words})" if words else said


def leftovers(snapshot: Snapshot) -> Plan:
    """Disks that the spec no longer has, once the machine has let go of them."""
    wanted = {disk.name for disk in snapshot.disks}
    return Plan(
        actions=tuple(
            Delete(target=target(obj), reason="DiskNoLongerDesired", message="the spec no longer has this disk")
            for obj in own_disk_objects(snapshot)
            if obj.metadata.name not in wanted | snapshot.volumes_in_use
            and not is_kept(snapshot.object, obj)
            and obj.metadata.deletion_timestamp is None
        )
    )


def own_disk_objects(snapshot: Snapshot) -> Iterable[DataVolume | PersistentVolumeClaim]:
    """A claim that CDI made goes with its DataVolume."""
    wukong = snapshot.object
    filled = {volume.metadata.name for volume in snapshot.data_volumes}
    alone = [claim for claim in snapshot.claims if claim.metadata.name not in filled and is_disk_of(wukong, claim)]
    return [*(volume for volume in snapshot.data_volumes if is_disk_of(wukong, volume)), *alone]
