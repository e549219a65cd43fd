"""KubeVirt's VirtualMachine: what of it a Wukong can say, and what it cannot. Pure.

Its disks are cloned from the claims that it has (CDI does that), so that the machine that is there stays as it is until
a person deletes it. User data that stands inline becomes a Secret beside the Wukong.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from corral.kinds.wukong.api.kubevirt import GROUP
from corral.kinds.wukong.importing.kubevirt_disks import cloud_init, disks, sizes_of
from corral.kinds.wukong.importing.kubevirt_networks import networks
from corral.kinds.wukong.importing.parts import (
    CannotImport,
    Document,
    Imported,
    Notes,
    Taken,
    left_out,
    metadata,
    ours,
    without_nothing,
)
from corral.kube.values import parse_quantity

__all__ = ["GROUP", "machine"]

CLUSTER_WIDE = "VirtualMachineCluster"
PLUGGED_AT_LEAST, PLUGGED_BY = 1 << 30, 2 << 20  # memory that can be plugged, in bytes


def machine(document: Document, claims: Iterable[Document]) -> tuple[Imported, ...]:
    whole, notes = Taken(document.get("spec"), "spec."), Notes()
    meta = metadata(document)
    name, namespace = str(meta.get("name", "")), str(meta.get("namespace", ""))
    template = whole.into("template")
    template.into("metadata")
    inner = template.into("spec")
    domain = inner.into("domain")
    devices = domain.into("devices")
    sizes = sizes_of(namespace, whole.get("dataVolumeTemplates"), claims)
    volumes = {str(volume.get("name")): volume for volume in inner.each("volumes")}
    init, secrets = cloud_init(name, namespace, volumes, notes)
    typed = _type(whole.into("instancetype"))
    spec = {
        **({} if typed else _size(name, domain, notes)),
        "instancetype": typed,
        "preference": _type(whole.into("preference")),
        "disks": disks(name, devices, volumes, sizes, notes),
        "networks": networks(namespace, inner, devices, notes),
        "cloudInit": without_nothing({**init, "hostname": _other_than(inner.get("hostname"), name)}),
        "startStrategy": _power(whole),
        "highAvailability": without_nothing({field: inner.get(field) for field in PLACEMENT}),
        "gpus": [_device(gpu) for gpu in devices.each("gpus")],
        "hostDevices": [_device(device) for device in devices.each("hostDevices")],
        "firmware": _firmware(domain, devices),
        "machineType": domain.into("machine").get("type"),
        "clock": _clock(domain),
        "watchdog": _watchdog(devices, notes),
        "readinessProbe": _probe(inner.into("readinessProbe")),
        "livenessProbe": _probe(inner.into("livenessProbe")),
    }
    devices.get("rng")
    aside = f"the machine {name} stays as it is; a Wukong of that name needs it gone: delete it, but keep its claims"
    return (*secrets, Imported(ours("Wukong", document, spec), (aside, *notes, *left_out(whole.unread()))))


PLACEMENT = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "evictionStrategy")


def _size(name: str, domain: Taken, notes: Notes) -> dict[str, Any]:
    """As KubeVirt reckons: what is written, else limits, else requests; and one processor if nothing says it."""
    cpu, memory, resources = domain.into("cpu"), domain.into("memory"), domain.into("resources")
    requests, limits = resources.into("requests"), resources.into("limits")
    each, sockets, threads = (int(cpu.get(word) or 0) for word in ("cores", "sockets", "threads"))
    if each or sockets or threads:
        each, sockets, threads = each or 1, sockets or 1, threads or 1
    else:
        asked = limits.get("cpu") or requests.get("cpu") or 1
        each, sockets, threads = math.ceil(parse_quantity(str(asked))), 1, 1
    guest = memory.get("guest") or limits.get("memory") or requests.get("memory")
    if not guest:
        raise CannotImport(
            f"VirtualMachine {name} does not say how much memory it has: give it an instancetype, or that"
        )
    requests.repeats("memory", guest)
    numa = cpu.into("numa").has("guestMappingPassthrough")
    most_sockets, most_memory = cpu.get("maxSockets"), memory.get("maxGuest")
    if most_sockets and each > 1:
        notes.add(f"processors are plugged as sockets of one core here; a socket of this machine has {each}")
    if most_memory and (numa or not _is_pluggable(guest, most_memory)):
        notes.add(
            f"spec.template.spec.domain.memory.maxGuest is left out: {most_memory} cannot be plugged into a guest of "
            f"{guest}: it takes 1Gi at least, steps of 2Mi, and no NUMA layout of the node"
        )
        most_memory = None
    options = {
        "sockets": sockets if sockets > 1 and not most_sockets else None,
        "threads": threads if threads > 1 else None,
        "model": cpu.get("model"),
        "dedicated": cpu.get("dedicatedCpuPlacement"),
        "isolateEmulatorThread": cpu.get("isolateEmulatorThread"),
        "numa": numa or None,
    }
    most = {"maxCpu": most_sockets * each * threads if most_sockets else None, "maxMemory": most_memory}
    return {
        "cpu": each * sockets * threads,
        "cpuOptions": without_nothing(options),
        "memory": guest,
        "hugepages": memory.into("hugepages").get("pageSize"),
        "liveResize": without_nothing(most),
    }


def _is_pluggable(guest: Any, most: Any) -> bool:
    has, may = parse_quantity(str(guest)), parse_quantity(str(most))
    return PLUGGED_AT_LEAST <= has <= may and may % PLUGGED_BY == 0


def _type(found: Taken) -> dict[str, Any] | None:
    name = found.get("name")
    kind = str(found.get("kind") or CLUSTER_WIDE)
    return {"name": name, "clusterWide": kind.startswith(CLUSTER_WIDE)} if name else None


def _device(device: Taken) -> dict[str, Any]:
    return without_nothing({"name": device.get("name"), "deviceName": device.get("deviceName")})


def _other_than(hostname: Any, name: str) -> Any:
    return hostname if hostname != name else None


def _power(whole: Taken) -> dict[str, Any]:
    strategy, running = whole.get("runStrategy"), whole.get("running")
    if strategy:
        return {"runStrategy": strategy}
    return {"autoStart": False} if running is False else {}


def _firmware(domain: Taken, devices: Taken) -> dict[str, Any]:
    bootloader = domain.into("firmware").into("bootloader")
    bootloader.into("bios")
    efi, tpm = bootloader.get("efi"), devices.get("tpm")
    has_tpm = tpm is not None and tpm.get("enabled") is not False
    features = domain.into("features")
    for implied in ("smm", "acpi"):
        features.get(implied)
    return without_nothing(
        {
            "bootloader": "uefi" if efi is not None else None,
            "secureBoot": efi.get("secureBoot", True) if efi is not None else None,
            "persistent": bool((efi or {}).get("persistent") or (has_tpm and tpm.get("persistent"))) or None,
            "tpm": True if has_tpm else None,
        }
    )


def _clock(domain: Taken) -> dict[str, Any] | None:
    clock = domain.into("clock")
    zone, is_utc = clock.get("timezone"), clock.has("utc")
    clock.into("utc")
    return {"timezone": zone} if zone else {"timezone": ""} if is_utc else None


def _watchdog(devices: Taken, notes: Notes) -> bool | None:
    if not devices.has("watchdog"):
        return None
    watchdog = devices.into("watchdog")
    watchdog.get("name")
    action = watchdog.into("i6300esb").get("action") or "reset"
    if action != "reset":
        notes.add(f"the watchdog resets a guest that hangs; this one was to {action} it")
    return True


def _probe(probe: Taken) -> dict[str, Any] | None:
    tcp, http, agent = probe.into("tcpSocket"), probe.into("httpGet"), probe.has("guestAgentPing")
    ports: Mapping[str, Any] = {"tcpPort": tcp.get("port"), "httpPort": http.get("port")}
    if not (any(ports.values()) or agent):
        return None
    return without_nothing(
        {
            "guestAgent": agent or None,
            **ports,
            "httpPath": http.get("path"),
            "initialDelaySeconds": probe.get("initialDelaySeconds"),
            "periodSeconds": probe.get("periodSeconds"),
            "failureThreshold": probe.get("failureThreshold"),
        }
    )
