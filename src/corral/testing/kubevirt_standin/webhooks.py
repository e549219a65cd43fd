"""What the admission webhooks of KubeVirt and CDI would refuse, as far as we depend on it. Pure."""

import re
from collections.abc import Iterator

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import InstanceSpec, Memory, VirtualMachine
from corral.kinds.wukong.machine import is_hotpluggable
from corral.kube.meta import Object, ref
from corral.kube.values import parse_quantity

GIBIBYTE = 1 << 30
PLUGGED_BYTES = 2 << 20  # memory is plugged in blocks of this size
HOTPLUG_BUSES = frozenset({"scsi", "virtio"})
HOST_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
RUN_STRATEGIES = frozenset({"Always", "Halted", "Manual", "RerunOnFailure", "Once"})


def refusals(obj: Object) -> Iterator[str]:
    match obj:
        case DataVolume():
            yield from (f"{ref(obj)}: {told}" for told in _of_data_volume(obj))
        case VirtualMachine():
            yield from (f"{ref(obj)}: {told}" for told in _of_machine(obj))
        case _:
            return


def _of_data_volume(volume: DataVolume) -> Iterator[str]:
    spec = volume.spec
    if (spec.source is None) == (spec.source_ref is None):
        yield "one of source and sourceRef is needed"
    if spec.storage is None or not spec.storage.resources.requests.get("storage"):
        yield "no size is asked for"
    registry = spec.source.registry if spec.source else None
    if registry is not None and not (registry.url or "").startswith(("docker://", "oci-archive://")):
        yield f"registry url {registry.url}: only docker:// and oci-archive:// are known"


def _of_machine(machine: VirtualMachine) -> Iterator[str]:
    if machine.spec.run_strategy not in RUN_STRATEGIES:
        yield f"run strategy {machine.spec.run_strategy} is not known"
    yield from _of_instance(machine.spec.template.spec)
    domain = machine.spec.template.spec.domain
    if machine.spec.instancetype is not None and (domain.cpu is not None or domain.memory is not None):
        yield "an instance type and cpu or memory are both given"


def _of_instance(spec: InstanceSpec) -> Iterator[str]:
    devices = spec.domain.devices
    volumes = [volume.name for volume in spec.volumes]
    disks = [disk.name for disk in devices.disks]
    if len(set(volumes)) != len(volumes) or len(set(disks)) != len(disks):
        yield "a volume or disk is there twice"
    if set(disks) - set(volumes):
        yield f"disks without a volume: {sorted(set(disks) - set(volumes))}"
    plugged = {volume.name for volume in spec.volumes if is_hotpluggable(volume)}
    for disk in devices.disks:
        bus = disk.disk.bus if disk.disk else None
        if disk.name in plugged and bus not in HOTPLUG_BUSES:
            yield f"disk {disk.name} cannot be plugged into bus {bus}"
    if spec.hostname and not HOST_NAME.fullmatch(spec.hostname):
        yield f"{spec.hostname} is no host name"
    networks, interfaces = {n.name for n in spec.networks}, {i.name for i in devices.interfaces}
    if networks != interfaces:
        yield f"networks and interfaces differ: {sorted(networks ^ interfaces)}"
    for interface in devices.interfaces:
        bindings = (interface.masquerade, interface.bridge, interface.sriov, interface.binding)
        if sum(binding is not None for binding in bindings) != 1:
            yield f"interface {interface.name} has not exactly one binding"
    cpu, memory = spec.domain.cpu, spec.domain.memory
    if cpu is not None and cpu.max_sockets is not None and (cpu.sockets or 1) > cpu.max_sockets:
        yield f"{cpu.sockets} sockets are more than maxSockets, {cpu.max_sockets}"
    if memory is not None and memory.max_guest is not None:
        yield from _of_plugged_memory(memory)
    orders = [disk.boot_order for disk in devices.disks if disk.boot_order is not None]
    if len(set(orders)) != len(orders):
        yield "two disks have one boot order"
    firmware, features = spec.domain.firmware, spec.domain.features
    efi = firmware.bootloader.efi if firmware and firmware.bootloader else None
    if efi is not None and efi.secure_boot and not (features and features.smm and features.smm.enabled):
        yield "secure boot needs smm"


def _of_plugged_memory(memory: Memory) -> Iterator[str]:
    least, most = parse_quantity(memory.guest or "0"), parse_quantity(memory.max_guest or "0")
    if not GIBIBYTE <= least <= most:
        yield f"memory of {memory.guest} is not between 1Gi and maxGuest, {memory.max_guest}"
    if most % PLUGGED_BYTES:
        yield f"maxGuest {memory.max_guest} is not a multiple of 2Mi"
