"""Single disks are snapshot while the guest's file systems are frozen, where its agent can do that. Pure.

    1  freeze       KubeVirt thaws by itself after a while, so that nobody who dies leaves a frozen guest behind;
                    one that does not freeze within `failureDeadline` is snapshot as it is, which is told
    2  snapshots    made when KubeVirt says that the guest is frozen; each says how the guest was
    3  thaw         when the storage has cut every one of them; what it copies afterwards does not need the guest

A whole machine needs none of this: KubeVirt does the same for its own snapshots.
"""

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from corral.engine import Outside
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance, holds
from corral.kinds.wukong.api.snapshots import VolumeSnapshot
from corral.kube.meta import ref

FROZEN_AT_MOST_S = 60
ONLINE, AGENT, NO_AGENT, TIMEOUT = "Online", "GuestAgent", "NoGuestAgent", "QuiesceTimeout"  # KubeVirt's words


class Freeze(msgspec.Struct, frozen=True, kw_only=True):
    instance: str
    namespace: str


class Thaw(msgspec.Struct, frozen=True, kw_only=True):
    instance: str
    namespace: str


def can_freeze(instance: VirtualMachineInstance | None) -> bool:
    if instance is None or instance.status.phase != "Running":
        return False
    found = instance.status.conditions
    return holds(found, "AgentConnected") and not holds(found, "Paused")


def is_frozen(instance: VirtualMachineInstance | None) -> bool:
    return instance is not None and instance.status.fs_freeze_status == "frozen"


def indications_now(instance: VirtualMachineInstance | None) -> tuple[str, ...]:
    if instance is None or instance.status.phase != "Running":
        return ()
    return (ONLINE, AGENT if is_frozen(instance) else TIMEOUT if can_freeze(instance) else NO_AGENT)


def indications_of(volumes: Iterable[VolumeSnapshot]) -> tuple[str, ...]:
    """Of all of them together: frozen only if each of them was taken from a frozen guest."""
    said = {word for volume in volumes for word in _said(volume)}
    agent = (AGENT,) if AGENT in said and not said & {NO_AGENT, TIMEOUT} else ()
    return (*(word for word in (ONLINE, NO_AGENT, TIMEOUT) if word in said), *agent)


def _said(volume: VolumeSnapshot) -> tuple[str, ...]:
    written = tuple(filter(None, volume.metadata.annotations.get(names.INDICATIONS_ANNOTATION, "").split(",")))
    asked, cut = volume.metadata.creation_timestamp, volume.status.creation_time
    late = asked is not None and cut is not None and cut - asked > timedelta(seconds=FROZEN_AT_MOST_S)
    return tuple(TIMEOUT if late and word == AGENT else word for word in written)


def was_frozen(volumes: Iterable[VolumeSnapshot]) -> bool:
    return any(
        AGENT in volume.metadata.annotations.get(names.INDICATIONS_ANNOTATION, "").split(",") for volume in volumes
    )


def freeze(instance: VirtualMachineInstance) -> Outside:
    meta = instance.metadata
    call = Freeze(instance=meta.name, namespace=meta.namespace)
    message = (
        f"its file systems are to be whole in the snapshot; KubeVirt thaws it after {FROZEN_AT_MOST_S} s at the latest"
    )
    return Outside(system="KubeVirt", subject=str(ref(instance)), call=call, reason="GuestFrozen", message=message)


def thaw(instance: VirtualMachineInstance) -> Outside:
    meta = instance.metadata
    call = Thaw(instance=meta.name, namespace=meta.namespace)
    message = "the storage has every disk as it was"
    return Outside(system="KubeVirt", subject=str(ref(instance)), call=call, reason="GuestThawed", message=message)
