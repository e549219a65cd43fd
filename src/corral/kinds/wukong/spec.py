"""Wukong: a virtual machine with its networks and disks."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from corral.kinds.parts import BasicStatus
from corral.kinds.wukong.spec_disks import IMAGE_RULE, Amount, DiskConfig
from corral.kinds.wukong.spec_guest import CloudInit, CloudInitUser
from corral.kinds.wukong.spec_machine import (
    ClockConfig,
    CpuOptions,
    Device,
    FirmwareConfig,
    HighAvailability,
    LiveResize,
    ProbeConfig,
    ServiceConfig,
    StartStrategy,
    TypeRef,
)
from corral.kinds.wukong.spec_networks import NetworkConfig
from corral.kube.crd import Column, keys, kind, rule, rules
from corral.kube.meta import Model, Object
from corral.kube.values import Duration

GROUP = "vm.corral.dev"
VERSION = "v1alpha1"
CATEGORIES = ("corral", "vm")
NAME_MAX = 50  # children are called <wukong>-<disk>; KubeVirt makes labels of a machine's name

Phase = Literal["Pending", "Creating", "Running", "Stopped", "Paused", "Migrating", "Error", "Deleting"]


class SnapshotPolicy(Model, frozen=True, kw_only=True):
    """Snapshots of the whole machine by a schedule. The newest good one is never deleted."""

    schedule: Annotated[
        str,
        Meta(min_length=9, max_length=64, pattern=r"^[0-9*,/ -]+$", description="As in a crontab, in UTC: 0 3 * * *"),
    ]
    max_count: Annotated[int, Meta(ge=1, le=1000, description="How many good ones are kept.")] = 7
    max_age: Annotated[
        Annotated[Duration, Meta(max_length=16)] | None, Meta(description="Older ones are deleted. Default: never.")
    ] = None


@rules(
    rule(
        "has(self.instancetype) || (has(self.cpu) && has(self.memory))",
        "a machine needs cpu and memory, or an instancetype that says both",
    ),
    rule(
        "!has(self.instancetype) || "
        "(!has(self.cpu) && !has(self.memory) && !has(self.cpuOptions) && !has(self.hugepages))",
        "the instancetype says cpu and memory; leave cpu, memory, cpuOptions and hugepages out",
    ),
    rule(
        "!has(self.liveResize) || !has(self.instancetype)",
        "liveResize is for cpu and memory; an instancetype says both itself",
    ),
    rule(
        "!has(self.liveResize) || !has(self.liveResize.maxCpu) || (has(self.cpu) && "
        "self.cpu <= self.liveResize.maxCpu && (!has(self.cpuOptions) || self.cpuOptions.sockets == 1))",
        "liveResize.maxCpu is at least cpu; processors are plugged as sockets, so cpuOptions.sockets stays 1",
    ),
    rule(
        "!has(self.liveResize) || !has(self.liveResize.maxMemory) || (has(self.memory) && "
        "quantity(self.memory).compareTo(quantity('1Gi')) >= 0 && "
        "quantity(self.memory).compareTo(quantity(self.liveResize.maxMemory)) <= 0)",
        "liveResize.maxMemory is at least memory, and memory at least 1Gi: KubeVirt plugs it into no smaller guest",
    ),
    rule(
        "!has(self.liveResize) || !has(self.liveResize.maxMemory) || !has(self.cpuOptions) || !self.cpuOptions.numa",
        "memory cannot be plugged into a guest that sees the node's NUMA layout: leave maxMemory or numa out",
    ),
    rule("self.disks.filter(d, d.boot).size() <= 1", "one disk boots"),
    rule("!has(self.networks) || self.networks.filter(n, n.primary).size() <= 1", "one network is primary"),
    rule(
        "!has(self.networks) || !self.networks.exists(n, n.primary) || !self.networks.exists(n, n.name == 'default')",
        "a primary network takes the place of the pod's: leave the network `default` out",
    ),
    rule(
        "!has(self.highAvailability.restartPolicy) || !has(self.startStrategy.runStrategy)",
        "restartPolicy and runStrategy say the same in two ways: set one of them",
    ),
    rule(
        "!has(self.cloudInitUser) || !has(self.cloudInit) || self.cloudInit.userDataSecret == ''",
        "user data of your own has its users in it: leave cloudInitUser out",
    ),
    rule(
        "!has(self.cloudInit) || !has(self.cloudInit.mounts) || "
        "self.cloudInit.mounts.all(m, m.disk == '' || self.disks.exists(d, d.name == m.disk))",
        "a mount names a disk that is not in disks",
    ),
    rule("!has(self.cpuOptions) || !self.cpuOptions.numa || has(self.hugepages)", "numa needs hugepages"),
    rule(
        "!has(self.cpuOptions) || !self.cpuOptions.isolateEmulatorThread || self.cpuOptions.dedicated",
        "isolateEmulatorThread needs dedicated",
    ),
)
class WukongSpec(Model, frozen=True, kw_only=True):
    cpu: Annotated[Annotated[int, Meta(ge=1, le=64)] | None, Meta(description="Cores.")] = None
    cpu_options: CpuOptions | None = None
    memory: Annotated[
        Annotated[
            Amount,
            rule("quantity(self).isGreaterThan(quantity('1Mi'))", "memory is an amount like 2Gi"),
        ]
        | None,
        Meta(description="What the guest sees."),
    ] = None
    hugepages: Literal["2Mi", "1Gi"] | None = None
    live_resize: LiveResize | None = None
    instancetype: TypeRef | None = None
    preference: TypeRef | None = None
    os_image: Annotated[
        str,
        IMAGE_RULE,
        Meta(max_length=2048, description="What the boot disk is filled with if it does not say so itself."),
    ] = ""
    ssh_key_secret: Annotated[
        str, Meta(max_length=253, description="A Secret with public keys, for every user of the guest.")
    ] = ""
    cloud_init_user: CloudInitUser | None = None
    cloud_init: CloudInit | None = None
    networks: Annotated[tuple[NetworkConfig, ...], keys("name"), Meta(max_length=16)] = ()
    disks: Annotated[tuple[DiskConfig, ...], keys("name"), Meta(min_length=1, max_length=32)]
    high_availability: HighAvailability = HighAvailability()
    start_strategy: StartStrategy = StartStrategy()
    gpus: Annotated[tuple[Device, ...], keys("name"), Meta(max_length=16)] = ()
    host_devices: Annotated[tuple[Device, ...], keys("name"), Meta(max_length=16)] = ()
    firmware: FirmwareConfig = FirmwareConfig()
    machine_type: Annotated[str, Meta(max_length=64)] = ""
    clock: ClockConfig | None = None
    watchdog: Annotated[bool, Meta(description="A guest that hangs is reset.")] = False
    readiness_probe: ProbeConfig | None = None
    liveness_probe: ProbeConfig | None = None
    service: ServiceConfig | None = None
    network_policy: Annotated[
        Literal["Closed", "Service", "Namespace"] | None,
        Meta(
            description="Who may connect to the guest in the pod network: nobody; anybody, to the service's ports; "
            "pods of its namespace. Default: whoever the cluster's own policies let in."
        ),
    ] = None
    restore_from_snapshot: Annotated[
        str,
        Meta(
            max_length=253, description="A WukongSnapshot: a new Wukong is made from it, one that exists is set back."
        ),
    ] = ""
    snapshot_policy: SnapshotPolicy | None = None
    suspend: Annotated[bool, Meta(description="Change nothing until this is taken away.")] = False


class NetworkStatus(Model, frozen=True, kw_only=True):
    """`address` is what the guest is told, `ipAddress` what KubeVirt sees that it has."""

    name: str
    interface: str = ""
    ip_address: str = ""
    mac_address: str = ""
    address: str = ""
    nad_name: str = ""
    primary: bool = False


class VolumeStatus(Model, frozen=True, kw_only=True):
    """`size` is what the volume really has; `error` is why it cannot be made."""

    name: str
    pvc_name: str = ""
    bound: bool = False
    size: str = ""
    phase: str = ""
    progress: str = ""
    error: str = ""


class Stuck(Model, frozen=True, kw_only=True):
    """Something that a person has to do something about. Conditions show the first few, this shows all."""

    reason: str
    message: str


class WukongStatus(BasicStatus, frozen=True, kw_only=True):
    phase: Phase | None = None
    vm_name: str = ""
    node_name: str = ""
    guest_os: str = ""
    networks: tuple[NetworkStatus, ...] = ()
    volumes: tuple[VolumeStatus, ...] = ()
    restored_from: str = ""
    last_snapshot_due: datetime | None = None
    failed_move: Annotated[str, Meta(description="Why its last move to another node failed; empty: it did not.")] = ""
    stuck: tuple[Stuck, ...] = ()


@kind(
    group=GROUP,
    version=VERSION,
    plural="wukongs",
    short_names=("wk",),
    categories=CATEGORIES,
    columns=(
        Column("Phase", "string", ".status.phase"),
        Column("Node", "string", ".status.nodeName"),
        Column("Address", "string", ".status.networks[0].ipAddress"),
        Column("Restart", "string", '.status.conditions[?(@.type=="RestartRequired")].status', priority=1),
        Column("Migratable", "string", '.status.conditions[?(@.type=="LiveMigratable")].status', priority=1),
    ),
    rules=(
        rule(f"self.metadata.name.size() <= {NAME_MAX}", f"a Wukong's name has at most {NAME_MAX} characters"),
        rule("!self.metadata.name.contains('.')", "a Wukong's name has no dots: the guest is called so"),
    ),
)
class Wukong(Object, frozen=True, kw_only=True):
    """A virtual machine with its networks and disks."""

    spec: WukongSpec
    status: WukongStatus = WukongStatus()
