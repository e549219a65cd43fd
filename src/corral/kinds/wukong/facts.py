"""What a pass knows of a Wukong, and what follows from it without any decision: its phase, its disks. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import TypeVar

import msgspec

from corral.engine import Plan, is_controlled_by
from corral.kinds.addresspool.spec import AddressPool
from corral.kinds.wukong import names
from corral.kinds.wukong.api.cdi import DataSource, DataVolume, Elsewhere
from corral.kinds.wukong.api.kubevirt import MigrationState, VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import VirtualMachineRestore
from corral.kinds.wukong.clones import NO_SOURCES, Name, copied_from
from corral.kinds.wukong.disks import TO_BE_MADE, Disk, State, disks_of, is_of
from corral.kinds.wukong.machine import backing_name, run_strategy
from corral.kinds.wukong.networks import attachment_of, is_pod_network, networks_of
from corral.kinds.wukong.restore import Restoring, is_restored, left_out, restoring
from corral.kinds.wukong.spec import Phase, Stuck, Wukong
from corral.kinds.wukong.spec_networks import NetworkConfig
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.meta import EMPTY, Object
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Secret, Service
from corral.kube.models.networking_v1 import NetworkPolicy
from corral.kube.models.storage_v1 import StorageClass

Kind = type[Object]
T = TypeVar("T", bound=Object)

# Which project brings a kind; a person who reads that it is missing knows what to install.
PROJECTS: Mapping[Kind, str] = {
    VirtualMachine: "KubeVirt",
    VirtualMachineInstance: "KubeVirt",
    DataVolume: "CDI",
    NetworkAttachmentDefinition: "Multus",
}

UNTOLD_PHASES: frozenset[Phase | None] = frozenset({None, "Pending", "Creating"})  # they are no news to anybody

BY_PRINTABLE_STATUS: Mapping[str, Phase] = {
    "Running": "Running",
    "Stopping": "Running",
    "Terminating": "Running",  # someone deletes it; a new one is made when it is gone
    "Paused": "Paused",
    "Migrating": "Migrating",
    "Stopped": "Stopped",
    "CrashLoopBackOff": "Error",
    "ErrorUnschedulable": "Error",
    "ErrImagePull": "Error",
    "ImagePullBackOff": "Error",
    "ErrorPvcNotFound": "Error",
    "DataVolumeError": "Error",
    "Unknown": "Error",
}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    object: Wukong
    now: datetime
    absent: frozenset[Kind] = frozenset()  # kinds that this cluster does not have
    machine: VirtualMachine | None = None
    instance: VirtualMachineInstance | None = None
    attachments: tuple[NetworkAttachmentDefinition, ...] = ()  # ours, and those that are named
    sharers: Mapping[str, tuple[Wukong, ...]] = EMPTY  # attachment of ours -> others that name it
    data_volumes: tuple[DataVolume, ...] = ()  # with our label, or with the name of a disk
    claims: tuple[PersistentVolumeClaim, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    data_sources: Mapping[Name, DataSource] = NO_SOURCES  # that its disks name, and those that these refer to
    # disk of another namespace -> why it may not be copied; empty if it may
    uncopied: Mapping[Elsewhere, str] = msgspec.field(default_factory=dict)
    secrets: tuple[Secret, ...] = ()  # that the guest needs
    cloud_init: Secret | None = None
    services: tuple[Service, ...] = ()  # ours, and one of the name that ours has
    network_policies: tuple[NetworkPolicy, ...] = ()  # likewise
    pools: Mapping[str, AddressPool] = EMPTY  # that its networks name
    leases: tuple[ConfigMap, ...] = ()  # of addresses that it has
    leased: tuple[ConfigMap, ...] = ()  # of addresses that anybody of the namespace has
    neighbours: tuple[Wukong, ...] = ()  # others of the namespace that have static addresses
    namesakes: Mapping[str, tuple[Wukong, ...]] = EMPTY  # network -> others with its static address, in one segment
    source: WukongSnapshot | None = None  # that the disks are to be restored from
    restores: tuple[VirtualMachineRestore, ...] = ()  # also of earlier wishes
    scheduled: tuple[WukongSnapshot, ...] = ()
    named_snapshots: frozenset[str] = frozenset()  # of these, what some Wukong is made from or set back to

    @cached_property
    def own_machine(self) -> VirtualMachine | None:
        """None for a machine of somebody else that stands under our name: it tells nothing of this Wukong."""
        return self.machine if self.machine is not None and is_controlled_by(self.machine, self.object) else None

    @cached_property
    def own_instance(self) -> VirtualMachineInstance | None:
        """Also one whose machine was deleted without it: it has the labels of the machine's template."""
        is_foreign = self.machine is not None and self.own_machine is None
        is_ours = self.instance is not None and is_of(self.object, self.instance)
        return self.instance if is_ours and not is_foreign else None

    @cached_property
    def disks(self) -> tuple[Disk, ...]:
        volumes, claims = _by_name(self.data_volumes), _by_name(self.claims)
        return disks_of(self.object, volumes, claims, self.classes, self.restoring.sources, self.data_sources)

    @cached_property
    def restore(self) -> VirtualMachineRestore | None:
        """The one that is asked for now."""
        wukong = self.object
        name = names.restore_name(wukong.metadata.name, wukong.spec.restore_from_snapshot)
        return _by_name(self.restores).get(name)

    @cached_property
    def restoring(self) -> Restoring:
        return restoring(
            self.object,
            self.source,
            self.restore,
            self.own_machine,
            self.disk_objects,
            is_stopped=self.instance is None and self.own_machine is not None and _is_halted(self.own_machine),
            absent=self.absent,
        )

    @property
    def disk_objects(self) -> tuple[Object, ...]:
        return (*self.data_volumes, *self.claims)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Disks that the snapshot which was asked for does not bring back."""
        return left_out(self.object, self.source)

    @property
    def is_restored(self) -> bool:
        return is_restored(self.object, self.source, self.restore, self.own_machine, self.disk_objects)

    @property
    def volumes_in_use(self) -> frozenset[str]:
        """The names of claims and DataVolumes that the machine has now, or is to have."""
        specs = [self.machine.spec.template.spec] if self.machine else []
        specs += [self.instance.spec] if self.instance else []
        return frozenset(backing_name(volume) for spec in specs for volume in spec.volumes)

    @property
    def networks_in_use(self) -> frozenset[str]:
        specs = [self.machine.spec.template.spec] if self.machine else []
        specs += [self.instance.spec] if self.instance else []
        return frozenset(network.multus.network_name for spec in specs for network in spec.networks if network.multus)


def copies_to_ask_about(snapshot: Snapshot) -> frozenset[Elsewhere]:
    """Disks of other namespaces that are to be copied now."""
    missing = (disk for disk in snapshot.disks if disk.state in TO_BE_MADE)
    sources = (copied_from(disk.filling, snapshot.object.metadata.namespace) for disk in missing)
    return frozenset(source for source in sources if source is not None)


def _is_halted(machine: VirtualMachine) -> bool:
    return machine.spec.run_strategy == "Halted" and machine.status.printable_status == "Stopped"


def _by_name(objects: Iterable[T]) -> Mapping[str, T]:
    return {obj.metadata.name: obj for obj in objects}


def missing_networks(snapshot: Snapshot) -> tuple[NetworkConfig, ...]:
    """One that somebody else put under the name of ours is not it: nobody named it."""
    wukong, there = snapshot.object, _by_name(snapshot.attachments)
    wanted = (network for network in networks_of(wukong) if not is_pod_network(network))
    return tuple(n for n in wanted if not _is_there(wukong, n, there.get(attachment_of(wukong, n))))


def _is_there(wukong: Wukong, network: NetworkConfig, found: NetworkAttachmentDefinition | None) -> bool:
    return found is not None and (network.nad_name is not None or is_controlled_by(found, wukong))


def needed_kinds(wukong: Wukong, disks: Iterable[Disk]) -> tuple[Kind, ...]:
    """What this Wukong cannot do without."""
    needed: list[Kind] = [VirtualMachine]
    if any(not is_pod_network(network) for network in networks_of(wukong)):
        needed.append(NetworkAttachmentDefinition)
    if any(disk.needs_cdi for disk in disks):
        needed.append(DataVolume)
    return tuple(needed)


def phase_of(snapshot: Snapshot) -> Phase:
    wukong, machine = snapshot.object, snapshot.own_machine
    if wukong.metadata.deletion_timestamp is not None:
        return "Deleting"
    said = BY_PRINTABLE_STATUS.get(machine.status.printable_status) if machine is not None else None
    if said is not None:
        return said  # also of a machine that runs while a disk that is to be plugged in has failed
    if failed_disks(snapshot):
        return "Error"
    begun = machine or snapshot.data_volumes or snapshot.claims or snapshot.cloud_init
    return "Creating" if begun else "Pending"


def failed_disks(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(disk.config.name for disk in snapshot.disks if disk.state is State.FAILED)


def stuck_in(whole: Plan) -> tuple[Stuck, ...]:
    """What waiting alone does not mend: kept in the status, so that a person is told of each once."""
    return tuple(Stuck(reason=wait.reason, message=wait.message) for wait in whole.waits if wait.stalled)


def failed_move(snapshot: Snapshot) -> str:
    """Why the last move of the machine failed, in KubeVirt's words; empty if it did not."""
    moving = _moving(snapshot)
    if moving is None or not moving.failed:
        return ""
    return f"{_move_text(moving)} failed: {moving.failure_reason or 'KubeVirt does not say why'}"


def unended_move(snapshot: Snapshot) -> tuple[str, float] | None:
    """A move under way, in words, and for how many seconds it has been; None if there is none."""
    moving = _moving(snapshot)
    if moving is None or moving.completed or moving.failed or moving.start_timestamp is None:
        return None
    return _move_text(moving), (snapshot.now - moving.start_timestamp).total_seconds()


def _moving(snapshot: Snapshot) -> MigrationState | None:
    return snapshot.own_instance.status.migration_state if snapshot.own_instance else None


def _move_text(moving: MigrationState) -> str:
    begun = f" (begun {moving.start_timestamp:%Y-%m-%dT%H:%M:%SZ})" if moving.start_timestamp else ""
    return f"migration from {moving.source_node or 'its node'} to {moving.target_node or 'another'}{begun}"


def is_meant_to_run(wukong: Wukong) -> bool:
    """At this moment, whatever it did before: not a machine that is started by hand, or runs to an end."""
    return run_strategy(wukong) == "Always"


def own_name(snapshot: Snapshot) -> str:
    return names.machine_name(snapshot.object.metadata.name)
