"""What of a machine's template reaches its running instance at once, and what has to wait for a restart. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from corral.kinds.wukong.api.kubevirt import (
    Cpu,
    Devices,
    InstanceSpec,
    Interface,
    Memory,
    VirtualMachineInstance,
    VirtualMachineSpec,
)
from corral.kinds.wukong.machine import is_hotpluggable
from corral.kube.values import parse_quantity

TYPE_MARKS = ("instancetype-name", "preference-name")


def plugged(template: InstanceSpec, running: InstanceSpec) -> InstanceSpec:
    """The running spec with what can be plugged as the template has it.

    These are hot-pluggable volumes, bridged interfaces, and more sockets and memory within what it was started with.
    """
    mine, theirs = template.domain.devices, running.domain.devices
    fixed = [v for v in running.volumes if not is_hotpluggable(v)]
    volumes = (*fixed, *(v for v in template.volumes if is_hotpluggable(v)))
    kept = {volume.name for volume in volumes}
    disks = tuple(d for d in theirs.disks if d.name in kept)
    known = {disk.name for disk in disks}
    added = tuple(d for d in mine.disks if d.name in kept and d.name not in known)
    interfaces = _interfaces(mine, theirs)
    names = {interface.name for interface in interfaces}
    networks = {network.name: network for network in (*running.networks, *template.networks)}
    devices = msgspec.structs.replace(theirs, disks=(*disks, *added), interfaces=interfaces)
    return msgspec.structs.replace(
        running,
        volumes=volumes,
        networks=tuple(network for name, network in networks.items() if name in names),
        domain=msgspec.structs.replace(
            running.domain,
            devices=devices,
            cpu=_more_sockets(template.domain.cpu, running.domain.cpu),
            memory=_more_memory(template.domain.memory, running.domain.memory),
        ),
    )


def _more_sockets(mine: Cpu | None, theirs: Cpu | None) -> Cpu | None:
    """Fewer sockets, or another maximum, wait for a restart."""
    if mine is None or theirs is None or theirs.max_sockets is None:
        return theirs
    grows = (theirs.sockets or 1) < (mine.sockets or 1) <= theirs.max_sockets
    return msgspec.structs.replace(theirs, sockets=mine.sockets) if grows else theirs


def _more_memory(mine: Memory | None, theirs: Memory | None) -> Memory | None:
    if mine is None or theirs is None or theirs.max_guest is None or mine.guest is None or theirs.guest is None:
        return theirs
    has, asked, most = (parse_quantity(amount) for amount in (theirs.guest, mine.guest, theirs.max_guest))
    return msgspec.structs.replace(theirs, guest=mine.guest) if has < asked <= most else theirs


def _interfaces(mine: Devices, theirs: Devices) -> tuple[Interface, ...]:
    absent = {interface.name for interface in mine.interfaces if interface.state == "absent"}
    stay = tuple(interface for interface in theirs.interfaces if interface.name not in absent)
    known = {interface.name for interface in stay}
    new = tuple(i for i in mine.interfaces if i.bridge is not None and i.name not in known | absent)
    return (*stay, *new)


def type_marks(machine: VirtualMachineSpec) -> Mapping[str, str]:
    """What KubeVirt writes on an instance of the types that it was started with; its spec does not name them."""
    types = {"instancetype": machine.instancetype, "preference": machine.preference}
    return {
        f"kubevirt.io/{'cluster-' if 'Cluster' in (matcher.kind or '') else ''}{what}-name": matcher.name or ""
        for what, matcher in types.items()
        if matcher is not None
    }


def needs_restart(machine: VirtualMachineSpec, instance: VirtualMachineInstance, *, plugs: bool = True) -> bool:
    """Whether something is left that cannot change under a guest that runs. `plugs`: what can be plugged can."""
    template, running = machine.template.spec, instance.spec
    has = {name: value for name, value in instance.metadata.annotations.items() if name.endswith(TYPE_MARKS)}
    reached = plugged(template, running) if plugs else running
    return has != type_marks(machine) or _compared(template) != _compared(reached)


def _compared(spec: InstanceSpec) -> tuple[object, ...]:
    """Without the order of lists, which plugging changes."""
    domain, devices = spec.domain, spec.domain.devices
    lists = (spec.volumes, spec.networks, devices.disks, devices.interfaces, devices.gpus, devices.host_devices)
    return (
        *(sorted(msgspec.json.encode(entry) for entry in entries) for entries in lists),
        (domain.cpu, domain.memory, domain.firmware, domain.clock, domain.machine, devices.tpm, devices.watchdog),
        (spec.hostname, spec.priority_class_name, spec.readiness_probe, spec.liveness_probe),
    )


def as_patch(spec: InstanceSpec) -> Mapping[str, Any]:
    devices = spec.domain.devices
    return {
        "spec": {
            "volumes": msgspec.to_builtins(spec.volumes),
            "networks": msgspec.to_builtins(spec.networks),
            "domain": {
                "cpu": msgspec.to_builtins(spec.domain.cpu),
                "memory": msgspec.to_builtins(spec.domain.memory),
                "devices": {
                    "disks": msgspec.to_builtins(devices.disks),
                    "interfaces": msgspec.to_builtins(devices.interfaces),
                },
            },
        }
    }
