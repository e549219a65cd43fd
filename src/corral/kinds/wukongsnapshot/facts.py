"""What a pass knows of a WukongSnapshot, and how far its two ways to be taken are. Pure.

the whole machine     one VirtualMachineSnapshot: KubeVirt freezes the guest by its agent and takes every volume
named disks           a VolumeSnapshot each, with the guest frozen meanwhile (see `quiesce`)
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
)
from corral.kinds.wukong.machine import backing_name
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_disks import DiskConfig
from corral.kinds.wukongsnapshot.quiesce import indications_of, is_frozen, was_frozen
from corral.kinds.wukongsnapshot.spec import DiskSnapshot, WukongSnapshot
from corral.kube.meta import Object
from corral.kube.values import parse_duration

UNSEEN = "SnapshotUnseen"  # the reason of the condition, by which a later pass knows it again
LOST_AFTER_S = 10.0  # a kind that a server stops to serve may look empty first


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: WukongSnapshot
    now: datetime
    absent: frozenset[type[Object]] = frozenset()
    wukong: Wukong | None = None
    machine: VirtualMachine | None = None
    instance: VirtualMachineInstance | None = None
    taken: VirtualMachineSnapshot | None = None
    content: VirtualMachineSnapshotContent | None = None
    volumes: tuple[VolumeSnapshot, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Of either way, in the same words."""

    begun: bool = False
    ready: bool = False
    to_thaw: bool = False  # the guest was frozen for it, and need not be any more; it is not over before that
    error: str = ""  # it failed, and stays so
    trouble: str = ""  # it may still come to be
    name: str = ""
    creation_time: datetime | None = None
    indications: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    disks: tuple[DiskSnapshot, ...] = ()


def is_of_disks(asked: WukongSnapshot) -> bool:
    return bool(asked.spec.disks)


def lacking(snapshot: Snapshot) -> tuple[type[Object], ...]:
    """What it cannot be taken without, nor looked at afterwards, and what this cluster does not serve now."""
    whole = (VirtualMachineSnapshot, VirtualMachineSnapshotContent)
    needed = (VolumeSnapshot,) if is_of_disks(snapshot.object) else whole
    return tuple(kind for kind in needed if kind in snapshot.absent)


def is_over(asked: WukongSnapshot) -> bool:
    return asked.status.phase in ("Succeeded", "Failed")


def was_taken(asked: WukongSnapshot) -> bool:
    """It cannot fail any more: it is there, or out of sight, or lost."""
    return asked.status.phase == "Succeeded" or asked.status.lost


def is_lost(snapshot: Snapshot) -> bool:
    """Of one that was taken, and whose holder is not there: whether it is not only out of sight for a moment."""
    asked = snapshot.object
    seen_last = [
        c.last_transition_time for c in asked.status.conditions if c.type == "Reconciling" and c.reason == UNSEEN
    ]
    ages_s = [(snapshot.now - at).total_seconds() for at in seen_last if at is not None]
    return asked.status.lost or any(age_s >= LOST_AFTER_S for age_s in ages_s)


def is_stalled(asked: WukongSnapshot) -> bool:
    return any(condition.type == "Stalled" and condition.status == "True" for condition in asked.status.conditions)


def progress(snapshot: Snapshot) -> Progress:
    return _of_volumes(snapshot) if is_of_disks(snapshot.object) else _of_machine(snapshot)


def _of_machine(snapshot: Snapshot) -> Progress:
    taken, content = snapshot.taken, snapshot.content
    if taken is None:
        return Progress()
    status = taken.status
    backups = content.spec.volume_backups if content else ()
    found = {b.volume_name: b.volume_snapshot_name for b in backups if b.volume_snapshot_name}
    included = status.snapshot_volumes.included_volumes
    # Whoever restores from it takes what is not named for empty, so all of it is named before it is called taken.
    is_held = content is not None and set(included) <= found.keys()
    said = status.error.message if status.error else ""
    if was_taken(snapshot.object) and not (status.ready_to_use and is_held):
        return Progress(trouble=said)
    failed = status.phase == "Failed"
    trouble = "" if failed or status.ready_to_use else said
    error = failed_before(snapshot.object) or ((said or "it says no reason") if failed else "")
    error = error or _silence_of_kubevirt(snapshot, trouble)
    return Progress(
        begun=True,
        ready=status.ready_to_use and is_held and not error,
        error=error,
        trouble=trouble,
        name=taken.metadata.name,
        creation_time=status.creation_time,
        indications=status.indications,
        included=included,
        excluded=_left_out(snapshot, status.snapshot_volumes.excluded_volumes),
        disks=tuple(DiskSnapshot(name=n, volume_snapshot_name=found[n]) for n in included if n in found),
    )


def failed_before(asked: WukongSnapshot) -> str:
    """Why; empty of one that is lost: what holds it may only be out of sight.

    Whatever is in the way by now, and whatever has come to be since: that is of another moment.
    """
    return asked.status.error if asked.status.phase == "Failed" and not asked.status.lost else ""


def _silence_of_kubevirt(snapshot: Snapshot, trouble: str) -> str:
    """KubeVirt keeps the deadline by itself, if it runs; empty if there is still time."""
    left_s = cut_within_s(snapshot)
    if left_s is None or left_s > 0:
        return ""
    within = snapshot.object.spec.failure_deadline
    return trouble or f"KubeVirt has not taken it within {within}; does its virt-controller run?"


def _left_out(snapshot: Snapshot, excluded: tuple[str, ...]) -> tuple[str, ...]:
    """Of what KubeVirt did not take, what could have been: it also lists the guest's data and disks out of images."""
    if is_over(snapshot.object):
        return snapshot.object.status.excluded_volumes  # the machine may have changed since
    volumes = snapshot.machine.spec.template.spec.volumes if snapshot.machine else ()
    without = {names.CLOUD_INIT_VOLUME, *(volume.name for volume in volumes if not backing_name(volume))}
    return tuple(name for name in excluded if name not in without)


def _of_volumes(snapshot: Snapshot) -> Progress:
    asked = snapshot.object
    found = {volume.metadata.name: volume for volume in snapshot.volumes}
    wanted = {disk: found.get(names.volume_snapshot_name(asked.metadata.name, disk)) for disk in asked.spec.disks}
    there = {disk: volume for disk, volume in wanted.items() if volume is not None}
    troubles = [f"{disk}: {v.status.error.message}" for disk, v in there.items() if v.status.error is not None]
    ready = [disk for disk, volume in there.items() if volume.status.ready_to_use]
    times = [volume.status.creation_time for volume in there.values() if volume.status.creation_time is not None]
    trouble, late = "; ".join(troubles), is_late(snapshot)
    if was_taken(asked) and len(ready) < len(wanted):
        return Progress(trouble=trouble)
    begun, cut = len(there) == len(wanted), len(times) == len(wanted)
    # Of one that is over the guest was thawed before; whoever has frozen it now is another.
    froze = not is_over(asked) and was_frozen(there.values())
    to_thaw = begun and (cut or late) and froze and is_frozen(snapshot.instance)
    error = failed_before(asked) or ("" if to_thaw else (trouble if late else "") or _silence(snapshot, there))
    return Progress(
        begun=begun,
        ready=len(ready) == len(wanted) and not to_thaw,
        to_thaw=to_thaw,
        error=error,
        trouble=trouble,
        creation_time=max(times, default=None),
        indications=indications_of(there.values()),
        included=tuple(ready),
        excluded=_others(snapshot),
        disks=tuple(DiskSnapshot(name=disk, volume_snapshot_name=there[disk].metadata.name) for disk in ready),
    )


def _silence(snapshot: Snapshot, there: Mapping[str, VolumeSnapshot]) -> str:
    """Of storage that has neither cut a disk in time nor said why; empty if there is still time."""
    left_s = cut_within_s(snapshot)
    if left_s is None or left_s > 0:
        return ""
    uncut = ", ".join(disk for disk, volume in there.items() if volume.status.creation_time is None)
    within = snapshot.object.spec.failure_deadline
    return f"the storage has not taken {uncut} within {within}; is there a snapshot controller, and a driver for it?"


def cut_within_s(snapshot: Snapshot) -> float | None:
    """How long whoever was asked may still take; None: for ever, or everything that was asked for is taken."""
    within = parse_duration(snapshot.object.spec.failure_deadline).total_seconds()
    asked = [obj.metadata.creation_timestamp or snapshot.now for obj in _untaken(snapshot)]
    return within - (snapshot.now - max(asked)).total_seconds() if within and asked else None


def _untaken(snapshot: Snapshot) -> list[Object]:
    taken = snapshot.taken
    of_machine = [taken] if taken is not None and not taken.status.ready_to_use else []
    return [*of_machine, *(volume for volume in snapshot.volumes if volume.status.creation_time is None)]


def fails_in_s(snapshot: Snapshot, so_far: Progress) -> float | None:
    """How long what is begun may still take; None: for ever. KubeVirt's time counts from when it was asked."""
    return late_in_s(snapshot) if so_far.trouble and is_of_disks(snapshot.object) else cut_within_s(snapshot)


def _others(snapshot: Snapshot) -> tuple[str, ...]:
    """Disks that are not in it. Once it is begun that stays as it was told: a Wukong changes, and goes."""
    asked, wukong = snapshot.object, snapshot.wukong
    if wukong is None or asked.status.phase not in (None, "Pending"):
        return asked.status.excluded_volumes
    return tuple(disk.name for disk in wukong.spec.disks if disk.name not in asked.spec.disks and has_volume(disk))


def has_volume(disk: DiskConfig) -> bool:
    """Whether there is something to snapshot: not of a disk that is read out of a container image."""
    return disk.source is None or disk.source.container_disk is None


def begun_at(snapshot: Snapshot) -> datetime | None:
    """From when on it could be taken, by what is known now; None as long as something that it needs is missing."""
    asked, wukong = snapshot.object, snapshot.wukong
    if asked.status.begun_at is not None:
        return asked.status.begun_at
    if wukong is None or snapshot.machine is None or lacking(snapshot):
        return None
    known = {disk.name for disk in wukong.spec.disks if has_volume(disk)}
    return snapshot.now if known.issuperset(asked.spec.disks) else None


def late_in_s(snapshot: Snapshot) -> float | None:
    """How long it may still be tried; None: for ever, or it has not begun."""
    within = parse_duration(snapshot.object.spec.failure_deadline).total_seconds()
    since = begun_at(snapshot)
    if not within or since is None:
        return None
    return within - (snapshot.now - since).total_seconds()


def is_late(snapshot: Snapshot) -> bool:
    left_s = late_in_s(snapshot)
    return left_s is not None and left_s <= 0
