"""kubevirt.io/v1: VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar

import msgspec

from corral.kube.meta import EMPTY, Model, Object, ObjectMeta, Resource
from corral.kube.models.core_v1 import Affinity, Toleration, TopologySpreadConstraint
from corral.kube.values import IntOrString, Quantity, keys

GROUP = "kubevirt.io"
HOSTNAME_LABEL = "kubernetes.io/hostname"


class Present(Model, frozen=True, kw_only=True):
    """An empty object: that it is there says all."""


class Switch(Model, frozen=True, kw_only=True):
    enabled: bool | None = None


class NameRef(Model, frozen=True, kw_only=True):
    name: str = ""


class ReportedCondition(Model, frozen=True, kw_only=True):
    """A condition as KubeVirt and CDI write it: reason and message may be missing."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


def condition_of(conditions: tuple[ReportedCondition, ...], name: str) -> ReportedCondition | None:
    return next((condition for condition in conditions if condition.type == name), None)


def holds(conditions: tuple[ReportedCondition, ...], name: str) -> bool:
    found = condition_of(conditions, name)
    return found is not None and found.status == "True"


class Numa(Model, frozen=True, kw_only=True):
    guest_mapping_passthrough: Present | None = None


class Cpu(Model, frozen=True, kw_only=True):
    cores: int | None = None
    sockets: int | None = None
    max_sockets: int | None = None
    threads: int | None = None
    model: str | None = None
    dedicated_cpu_placement: bool | None = None
    isolate_emulator_thread: bool | None = None
    numa: Numa | None = None


class Hugepages(Model, frozen=True, kw_only=True):
    page_size: str | None = None


class Memory(Model, frozen=True, kw_only=True):
    guest: Quantity | None = None
    max_guest: Quantity | None = None
    hugepages: Hugepages | None = None


class Efi(Model, frozen=True, kw_only=True):
    secure_boot: bool | None = None
    persistent: bool | None = None


class Bootloader(Model, frozen=True, kw_only=True):
    bios: Present | None = None
    efi: Efi | None = None


class Firmware(Model, frozen=True, kw_only=True):
    bootloader: Bootloader | None = None


class Utc(Model, frozen=True, kw_only=True):
    offset_seconds: int | None = None


class Clock(Model, frozen=True, kw_only=True):
    timezone: str | None = None
    utc: Utc | None = None


class Machine(Model, frozen=True, kw_only=True):
    type: str = ""


class Features(Model, frozen=True, kw_only=True):
    smm: Switch | None = None


class DiskTarget(Model, frozen=True, kw_only=True):
    bus: str | None = None
    readonly: bool | None = None


class DiskDevice(Model, frozen=True, kw_only=True):
    name: str
    boot_order: int | None = None
    cache: str | None = None
    disk: DiskTarget | None = None
    cdrom: DiskTarget | None = None
    serial: str | None = None


class Binding(Model, frozen=True, kw_only=True):
    name: str


class Interface(Model, frozen=True, kw_only=True):
    name: str
    mac_address: str | None = None
    model: str | None = None
    state: str | None = None
    masquerade: Present | None = None
    bridge: Present | None = None
    sriov: Present | None = None
    binding: Binding | None = None


class HostDevice(Model, frozen=True, kw_only=True):
    name: str
    device_name: str | None = None


class Tpm(Model, frozen=True, kw_only=True):
    enabled: bool | None = None
    persistent: bool | None = None


class WatchdogAction(Model, frozen=True, kw_only=True):
    action: str | None = None


class Watchdog(Model, frozen=True, kw_only=True):
    name: str
    i6300esb: WatchdogAction | None = None


class Devices(Model, frozen=True, kw_only=True):
    disks: tuple[DiskDevice, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    autoattach_pod_interface: bool | None = None
    gpus: tuple[HostDevice, ...] = ()
    host_devices: tuple[HostDevice, ...] = ()
    tpm: Tpm | None = None
    watchdog: Watchdog | None = None
    rng: Present | None = None


class Domain(Model, frozen=True, kw_only=True):
    cpu: Cpu | None = None
    memory: Memory | None = None
    firmware: Firmware | None = None
    clock: Clock | None = None
    machine: Machine | None = None
    features: Features | None = None
    devices: Devices = Devices()


class MultusNetwork(Model, frozen=True, kw_only=True):
    network_name: str
    default: bool | None = None


class Network(Model, frozen=True, kw_only=True):
    name: str
    pod: Present | None = None
    multus: MultusNetwork | None = None


class ClaimVolume(Model, frozen=True, kw_only=True):
    claim_name: str
    hotpluggable: bool | None = None


class DataVolumeVolume(Model, frozen=True, kw_only=True):
    name: str
    hotpluggable: bool | None = None


class ContainerDisk(Model, frozen=True, kw_only=True):
    image: str
    image_pull_secret: str | None = None


class CloudInitNoCloud(Model, frozen=True, kw_only=True):
    secret_ref: NameRef | None = None
    network_data_secret_ref: NameRef | None = None


class Volume(Model, frozen=True, kw_only=True):
    name: str
    persistent_volume_claim: ClaimVolume | None = None
    data_volume: DataVolumeVolume | None = None
    container_disk: ContainerDisk | None = None
    cloud_init_no_cloud: CloudInitNoCloud | None = None


class TcpSocket(Model, frozen=True, kw_only=True):
    port: IntOrString


class HttpGet(Model, frozen=True, kw_only=True):
    port: IntOrString
    path: str | None = None
    scheme: str | None = None


class Probe(Model, frozen=True, kw_only=True):
    tcp_socket: TcpSocket | None = None
    http_get: HttpGet | None = None
    guest_agent_ping: Present | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    failure_threshold: int | None = None


class InstanceSpec(Model, frozen=True, kw_only=True):
    domain: Domain = Domain()
    networks: tuple[Network, ...] = ()
    volumes: tuple[Volume, ...] = ()
    hostname: str | None = None
    affinity: Affinity | None = None
    node_selector: Mapping[str, str] = EMPTY
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: Annotated[
        tuple[TopologySpreadConstraint, ...], keys("topologyKey", "whenUnsatisfiable")
    ] = ()
    priority_class_name: str | None = None
    eviction_strategy: str | None = None
    termination_grace_period_seconds: int | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None


class TemplateMeta(Model, frozen=True, kw_only=True):
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY


class Template(Model, frozen=True, kw_only=True):
    metadata: TemplateMeta = TemplateMeta()
    spec: InstanceSpec = InstanceSpec()


class Matcher(Model, frozen=True, kw_only=True):
    name: str | None = None
    kind: str | None = None


class VirtualMachineSpec(Model, frozen=True, kw_only=True):
    run_strategy: str | None = None
    instancetype: Matcher | None = None
    preference: Matcher | None = None
    template: Template = Template()


class VolumeSnapshotStatus(Model, frozen=True, kw_only=True):
    name: str
    enabled: bool
    reason: str = ""


class VirtualMachineStatus(Model, frozen=True, kw_only=True):
    printable_status: str = ""
    ready: bool = False
    created: bool = False
    observed_generation: int | None = None
    conditions: tuple[ReportedCondition, ...] = ()
    volume_snapshot_statuses: tuple[VolumeSnapshotStatus, ...] = ()


class VirtualMachine(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(GROUP, "v1", "VirtualMachine", "virtualmachines", True)

    spec: VirtualMachineSpec = VirtualMachineSpec()
    status: VirtualMachineStatus = VirtualMachineStatus()


class InstanceInterface(Model, frozen=True, kw_only=True):
    name: str = ""
    ip_address: str = ""
    ip_addresses: tuple[str, ...] = ()
    mac: str = ""
    interface_name: str = ""


class GuestOs(Model, frozen=True, kw_only=True):
    pretty_name: str = ""


class MigrationState(Model, frozen=True, kw_only=True):
    completed: bool = False
    failed: bool = False
    failure_reason: str = ""
    source_node: str = ""
    target_node: str = ""
    start_timestamp: datetime | None = None


class VolumeStatus(Model, frozen=True, kw_only=True):
    name: str
    target: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""


class InstanceStatus(Model, frozen=True, kw_only=True):
    phase: str = ""
    node_name: str = ""
    interfaces: tuple[InstanceInterface, ...] = ()
    conditions: tuple[ReportedCondition, ...] = ()
    guest_os_info: GuestOs = msgspec.field(default=GuestOs(), name="guestOSInfo")
    migration_state: MigrationState | None = None
    volume_status: tuple[VolumeStatus, ...] = ()
    fs_freeze_status: str = ""


class VirtualMachineInstance(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(GROUP, "v1", "VirtualMachineInstance", "virtualmachineinstances", True)

    spec: InstanceSpec = InstanceSpec()
    status: InstanceStatus = InstanceStatus()


class MigrationSpec(Model, frozen=True, kw_only=True):
    vmi_name: str | None = None
    added_node_selector: Mapping[str, str] = EMPTY


class MigrationStatus(Model, frozen=True, kw_only=True):
    phase: str = ""


class VirtualMachineInstanceMigration(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(
        GROUP, "v1", "VirtualMachineInstanceMigration", "virtualmachineinstancemigrations", True
    )

    spec: MigrationSpec = MigrationSpec()
    status: MigrationStatus = MigrationStatus()


def migration_to(
    node: str, instance: str, namespace: str, *, labels: Mapping[str, str]
) -> VirtualMachineInstanceMigration:
    """One move of an instance. `node` may be empty: the scheduler chooses."""
    return VirtualMachineInstanceMigration(
        metadata=ObjectMeta(generate_name=f"{instance}-", namespace=namespace, labels=labels),
        spec=MigrationSpec(vmi_name=instance, added_node_selector={HOSTNAME_LABEL: node} if node else EMPTY),
    )
