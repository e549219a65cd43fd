"""How the machine itself is written: processor, firmware, where it runs, when it starts."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from corral.kinds.parts import Port
from corral.kinds.wukong.spec_disks import Amount
from corral.kube.crd import keys, rule, rules
from corral.kube.meta import EMPTY, Model
from corral.kube.models.core_v1 import Toleration
from corral.kube.values import Json

RunStrategy = Literal["Always", "RerunOnFailure", "Manual", "Halted", "Once"]
ShortName = Annotated[str, Meta(min_length=1, max_length=253)]


class CpuOptions(Model, frozen=True, kw_only=True):
    """`cpu` is the number of cores; this is how they look to the guest."""

    sockets: Annotated[int, Meta(ge=1, le=16)] = 1
    threads: Annotated[int, Meta(ge=1, le=8)] = 1
    model: Annotated[str, Meta(max_length=64, description="host-passthrough, host-model or a model's name.")] = ""
    dedicated: Annotated[bool, Meta(description="Each core has a processor of the node to itself.")] = False
    isolate_emulator_thread: bool = False
    numa: Annotated[bool, Meta(description="The guest sees the node's NUMA layout; needs hugepages.")] = False


@rules(
    rule("has(self.maxCpu) || has(self.maxMemory)", "liveResize says maxCpu, maxMemory or both"),
    rule(
        "!has(self.maxMemory) || quantity(self.maxMemory).asInteger() % 2097152 == 0",
        "maxMemory is a multiple of 2Mi, as KubeVirt asks",
    ),
)
class LiveResize(Model, frozen=True, kw_only=True):
    """How far `cpu` and `memory` can grow under a guest that runs. Each is a reserve that costs the guest a little."""

    max_cpu: Annotated[int, Meta(ge=1, le=64)] | None = None
    max_memory: Amount | None = None


@rules(
    rule("!self.secureBoot || self.bootloader == 'uefi'", "secureBoot needs bootloader uefi"),
    rule("!self.persistent || self.bootloader == 'uefi' || self.tpm", "persistent is for uefi variables and the TPM"),
)
class FirmwareConfig(Model, frozen=True, kw_only=True):
    bootloader: Literal["bios", "uefi"] = "bios"
    secure_boot: bool = False
    tpm: bool = False
    persistent: Annotated[bool, Meta(description="UEFI variables and the TPM's content outlive a restart.")] = False


class ClockConfig(Model, frozen=True, kw_only=True):
    timezone: Annotated[str, Meta(max_length=64, description="Empty: UTC.")] = ""


class Spread(Model, frozen=True, kw_only=True):
    """Machines with the same labels are spread over nodes or zones."""

    topology_key: ShortName = "kubernetes.io/hostname"
    max_skew: Annotated[int, Meta(ge=1, le=100)] = 1
    required: bool = False


class HighAvailability(Model, frozen=True, kw_only=True):
    """Where the machine may run, and what happens when its node goes away."""

    restart_policy: Literal["Always", "OnFailure", "Never"] | None = None
    anti_affinity: Annotated[bool, Meta(description="Never on one node with another Wukong of the same group.")] = False
    group: Annotated[
        str,
        Meta(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"),
        Meta(description="Whom antiAffinity and spread are about. Empty: every Wukong of the namespace."),
    ] = ""
    node_selector: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY
    tolerations: Annotated[tuple[Toleration, ...], Meta(max_length=64)] = ()
    affinity: Annotated[Mapping[str, Json], Meta(description="Any affinity of a pod, instead of antiAffinity.")] = EMPTY
    spread: Spread | None = None
    priority_class_name: Annotated[str, Meta(max_length=253)] = ""
    eviction_strategy: Literal["None", "LiveMigrate", "LiveMigrateIfPossible", "External"] | None = None


class StartStrategy(Model, frozen=True, kw_only=True):
    run_strategy: RunStrategy | None = None
    auto_start: bool = True


@rules(
    rule(
        "[self.guestAgent, has(self.tcpPort), has(self.httpPort)].filter(x, x).size() == 1",
        "a probe is one of guestAgent, tcpPort, httpPort",
    )
)
class ProbeConfig(Model, frozen=True, kw_only=True):
    guest_agent: bool = False
    tcp_port: Port | None = None
    http_port: Port | None = None
    http_path: Annotated[str, Meta(max_length=1024)] = "/"
    initial_delay_seconds: Annotated[int, Meta(ge=0, le=3600)] = 30
    period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 10
    failure_threshold: Annotated[int, Meta(ge=1, le=100)] = 3


class Device(Model, frozen=True, kw_only=True):
    """A device of the node. KubeVirt must permit its kind."""

    name: Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    device_name: Annotated[str, Meta(min_length=1, max_length=253, description="nvidia.com/TU104GL_Tesla_T4")]


class ExposedPort(Model, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=15, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    port: Port
    target_port: Annotated[Port | None, Meta(description="In the guest. Default: the same.")] = None
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class ServiceConfig(Model, frozen=True, kw_only=True):
    """A Service, called as the Wukong, that leads to ports of its guest in the pod network."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    ports: Annotated[tuple[ExposedPort, ...], keys("name"), Meta(min_length=1, max_length=64)]


class TypeRef(Model, frozen=True, kw_only=True):
    """An instance type or a preference of KubeVirt."""

    name: ShortName
    cluster_wide: bool = True
