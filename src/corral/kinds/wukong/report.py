"""What a Wukong's status says. Pure; written only when it differs, and times move only when a condition does."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from corral.engine import SUSPENDED, Outcome, Verdict, conditions, verdict
from corral.engine.actions import about
from corral.engine.status import first_few
from corral.kinds.wukong import names
from corral.kinds.wukong.addresses import told_address
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import condition_of
from corral.kinds.wukong.disks import Disk, State
from corral.kinds.wukong.facts import (
    UNTOLD_PHASES,
    Snapshot,
    failed_move,
    missing_networks,
    own_name,
    phase_of,
    stuck_in,
)
from corral.kinds.wukong.growth import Growth, growth
from corral.kinds.wukong.networks import attachment_of, is_pod_network, mac_of, networks_of
from corral.kinds.wukong.restore import left_out_text
from corral.kinds.wukong.schedule import as_scheduled, latest_due
from corral.kinds.wukong.spec import NetworkStatus, VolumeStatus, WukongStatus
from corral.kinds.wukong.spec_networks import NetworkConfig
from corral.kube.meta import Condition
from corral.kube.models.core_v1 import PersistentVolumeClaim

NETWORKS_CONFIGURED = "NetworksConfigured"
VOLUMES_BOUND = "VolumesBound"
DISKS_RESIZED = "DisksResized"
LIVE_MIGRATABLE = "LiveMigratable"
RESTART_REQUIRED = "RestartRequired"
ADDRESSES_AS_TOLD = "AddressesAsTold"
FAILED = frozenset({"failed", "refused"})
DISK_KINDS = frozenset(kind.resource.kind for kind in (DataVolume, PersistentVolumeClaim))
WHY_SMALLER = {Growth.REFUSED: "CannotGrow", Growth.FAILED: "GrowthFailed"}  # the first that is so
UP = frozenset({"Running", "Paused", "Migrating"})


def report(snapshot: Snapshot, outcome: Outcome) -> WukongStatus:
    wukong = snapshot.object
    is_suspended = wukong.spec.suspend and wukong.metadata.deletion_timestamp is None
    said = SUSPENDED if is_suspended else _verdict(snapshot, outcome)
    instance = snapshot.own_instance
    return WukongStatus(
        observed_generation=wukong.metadata.generation,
        phase=phase_of(snapshot),
        vm_name=own_name(snapshot),
        node_name=instance.status.node_name if instance else "",
        guest_os=instance.status.guest_os_info.pretty_name if instance else "",
        networks=tuple(_network(snapshot, network) for network in networks_of(wukong)),
        volumes=tuple(_volume(disk, _refusals(snapshot, outcome)) for disk in snapshot.disks),
        restored_from=_restored_from(snapshot),
        last_snapshot_due=latest_due(wukong, snapshot.scheduled, snapshot.now),
        failed_move=failed_move(snapshot),
        stuck=stuck_in(outcome.plan),
        conditions=conditions(
            wukong,
            wukong.status.conditions,
            said,
            snapshot.now,
            networks_configured(snapshot),
            volumes_bound(snapshot.disks),
            disks_resized(snapshot.disks),
            live_migratable(snapshot),
            restart_required(snapshot),
            *addresses_as_told(snapshot),
            *as_scheduled(wukong, snapshot.scheduled),
        ),
    )


def decided_by(status: WukongStatus) -> tuple[object, ...]:
    """What later passes read again: without it an event would be told twice, a snapshot taken or set back twice."""
    refused = tuple((volume.name, volume.error) for volume in status.volumes if volume.error)
    phase = status.phase if status.phase not in UNTOLD_PHASES else None
    return phase, status.stuck, status.failed_move, status.restored_from, status.last_snapshot_due, refused


def _restored_from(snapshot: Snapshot) -> str:
    """What is asked for once it is done; before that, what was done last."""
    asked = snapshot.object.spec.restore_from_snapshot
    return asked if snapshot.is_restored or not asked else snapshot.object.status.restored_from


def _verdict(snapshot: Snapshot, outcome: Outcome) -> Verdict:
    said = verdict(outcome, ready_message=_ready_text(snapshot))
    failures = [result.message for result in outcome.results if result.state in FAILED and result.message]
    return msgspec.structs.replace(said, message=first_few(failures)) if len(failures) > 1 else said


def _ready_text(snapshot: Snapshot) -> str:
    said, asked = f"the virtual machine is {phase_of(snapshot).lower()}", snapshot.object.spec.restore_from_snapshot
    return f"{said}; {left_out_text(snapshot.left_out, asked)}" if snapshot.left_out else said


def _refusals(snapshot: Snapshot, outcome: Outcome) -> dict[str, str]:
    """Why a disk could not be made or changed, by the name of its object. What was not tried again is still so."""
    volumes = snapshot.object.status.volumes
    before = {names.disk_name(snapshot.object.metadata.name, volume.name): volume.error for volume in volumes}
    told: dict[str, str] = {}
    for result in outcome.results:
        where = about(result.action)
        if where.kind in DISK_KINDS and result.state in FAILED:
            told[where.name] = result.message or result.reason
        elif where.kind in DISK_KINDS and result.state == "skipped":
            told.setdefault(where.name, before.get(where.name, ""))
    return told


def _network(snapshot: Snapshot, network: NetworkConfig) -> NetworkStatus:
    instance = snapshot.own_instance
    seen = {entry.name: entry for entry in instance.status.interfaces} if instance else {}
    found = seen.get(network.name)
    return NetworkStatus(
        name=network.name,
        interface=found.interface_name if found else "",
        ip_address=found.ip_address if found else "",
        mac_address=(found.mac if found else "") or mac_of(snapshot.object, network),
        address=told_address(snapshot, network),
        nad_name="" if is_pod_network(network) else attachment_of(snapshot.object, network),
        primary=network.primary,
    )


def _volume(disk: Disk, refusals: dict[str, str]) -> VolumeStatus:
    claim = disk.claim
    return VolumeStatus(
        name=disk.config.name,
        pvc_name=disk.name if claim else "",
        bound=disk.is_bound,
        size=str(claim.status.capacity.get("storage", "")) if claim else "",
        phase=disk.data_volume.status.phase if disk.data_volume else claim.status.phase if claim else "",
        progress="" if disk.state is State.READY else disk.progress,
        error=refusals.get(disk.name, "") or (disk.trouble if disk.state is State.FAILED else ""),
    )


def _condition(name: str, holds: bool, reason: str, message: str) -> Condition:
    return Condition(type=name, status="True" if holds else "False", reason=reason, message=message)


def _names(words: Iterable[str]) -> str:
    return ", ".join(words)


def networks_configured(snapshot: Snapshot) -> Condition:
    missing = _names(network.name for network in missing_networks(snapshot))
    if missing:
        return _condition(NETWORKS_CONFIGURED, False, "NetworksMissing", f"not there yet: {missing}")
    return _condition(NETWORKS_CONFIGURED, True, "NetworksReady", "every network is there")


def volumes_bound(disks: tuple[Disk, ...]) -> Condition:
    unbound = [disk for disk in disks if not disk.is_bound]
    if not unbound:
        return _condition(VOLUMES_BOUND, True, "VolumesReady", "every disk has its volume")
    waits = all(disk.state is State.AWAITS_MACHINE for disk in unbound)
    told = "; ".join(f"{disk.config.name} is {disk.state.value}" for disk in unbound)
    return _condition(VOLUMES_BOUND, False, "WaitForFirstConsumer" if waits else "VolumesNotBound", told)


def disks_resized(disks: tuple[Disk, ...]) -> Condition:
    growing = {disk.config.name: grown for disk in disks if (grown := growth(disk)) is not Growth.NONE}
    if not growing:
        return _condition(DISKS_RESIZED, True, "SizesAsAsked", "every volume has at least the size that was asked for")
    reason = next((WHY_SMALLER[state] for state in WHY_SMALLER if state in growing.values()), "Growing")
    return _condition(DISKS_RESIZED, False, reason, f"smaller yet: {_names(growing)}")


def live_migratable(snapshot: Snapshot) -> Condition:
    is_up = phase_of(snapshot) in UP  # told with the phase, not a moment before
    instance = snapshot.own_instance
    found = condition_of(instance.status.conditions, LIVE_MIGRATABLE) if instance and is_up else None
    if found is None:
        message = "KubeVirt says so only of a machine that runs"
        return Condition(type=LIVE_MIGRATABLE, status="Unknown", reason="NotRunning", message=message)
    return Condition(
        type=LIVE_MIGRATABLE, status=found.status, reason=found.reason or "KubeVirtSaysSo", message=found.message
    )


def restart_required(snapshot: Snapshot) -> Condition:
    machine = snapshot.own_machine
    found = condition_of(machine.status.conditions, RESTART_REQUIRED) if machine else None
    if found is None or found.status != "True":
        return _condition(RESTART_REQUIRED, False, "UpToDate", "the machine runs as its spec says")
    return _condition(RESTART_REQUIRED, True, found.reason or "SpecChanged", found.message)


def addresses_as_told(snapshot: Snapshot) -> Iterator[Condition]:
    """Whether the guest has the addresses that network data gives it, as far as KubeVirt sees; none, no condition.

    cloud-init reads network data at the first start of a guest. What is changed or plugged in later does not arrive.
    """
    told = {n.name: address for n in networks_of(snapshot.object) if (address := told_address(snapshot, n))}
    if not told:
        return
    has = _addresses_seen(snapshot) if phase_of(snapshot) in UP else {}
    differing = [
        f"{name} has {_names(sorted(has[name]))}, not {told[name]}" for name in told if _lacks(has, told, name)
    ]
    unseen = [name for name in told if not has.get(name)]
    if differing:
        message = f"{'; '.join(differing)}: network data is read at a guest's first start only; change it in the guest"
        yield _condition(ADDRESSES_AS_TOLD, False, "AddressDiffers", message)
    elif unseen:
        message = f"KubeVirt sees no address of {_names(unseen)}: the guest does not run, or has no agent that tells"
        yield Condition(type=ADDRESSES_AS_TOLD, status="Unknown", reason="NotSeen", message=message)
    else:
        yield _condition(ADDRESSES_AS_TOLD, True, "AsTold", "the guest has the addresses that it was told")


def _addresses_seen(snapshot: Snapshot) -> Mapping[str, frozenset[str]]:
    interfaces = snapshot.own_instance.status.interfaces if snapshot.own_instance else ()
    return {i.name: frozenset(filter(None, (i.ip_address, *i.ip_addresses))) for i in interfaces}


def _lacks(has: Mapping[str, frozenset[str]], told: Mapping[str, str], network: str) -> bool:
    return bool(has.get(network)) and told[network] not in has[network]
