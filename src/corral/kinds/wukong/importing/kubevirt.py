"""KubeVirt's VirtualMachine: what of it a Wukong can say, and what it cannot. Pure.

Its disks are cloned from the claims that it has (CDI does that), so that the machine that is there stays as it is until
a person deletes it. User data that stands inline becomes a Secret beside the Wukong.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import GROUP
from corral.kinds.wukong.importing.parts import (
    CannotImport,
    Document,
    Imported,
    Taken,
    left_out,
    metadata,
    ours,
    without_nothing,
)
from corral.kinds.wukong.spec_networks import POD_NETWORK

__all__ = ["GROUP", "machine"]

CLUSTER_WIDE = "VirtualMachineCluster"
CONTAINER_DISK_SIZE = "1Gi"  # nothing is made of that size: the disk is read from its image


def machine(document: Document, claims: Mapping[str, Document]) -> tuple[Imported, ...]:
    whole = Taken(document.get("spec"), "spec.")
    name = str((document.get("metadata") or {}).get("name", ""))
    template = whole.into("template")
    template.get("metadata")
    inner = template.into("spec")
    domain = inner.into("domain")
    devices = domain.into("devices")
    sizes = {**_sizes(whole.get("dataVolumeTemplates")), **_sizes(claims.values())}
    volumes = {str(volume.get("name")): volume for volume in inner.each("volumes")}
    init, secrets = _cloud_init(name, document, volumes)
    spec = {
        **_size(domain),
        "instancetype": _type(whole.get("instancetype")),
        "preference": _type(whole.get("preference")),
        "disks": list(_disks(name, devices, volumes, sizes)),
        "networks": list(_networks(inner, devices)),
        "cloudInit": without_nothing({**init, "hostname": _other_than(inner.get("hostname"), name)}),
        "startStrategy": _power(whole),
        "highAvailability": without_nothing(
            {
                "nodeSelector": inner.get("nodeSelector"),
                "tolerations": inner.get("tolerations"),
                "affinity": inner.get("affinity"),
                "priorityClassName": inner.get("priorityClassName"),
                "evictionStrategy": inner.get("evictionStrategy"),
            }
        ),
        "gpus": [
            without_nothing({"name": g.get("name"), "deviceName": g.get("deviceName")}) for g in devices.each("gpus")
        ],
        "hostDevices": [
            without_nothing({"name": d.get("name"), "deviceName": d.get("deviceName")})
            for d in devices.each("hostDevices")
        ],
        "firmware": _firmware(domain, devices),
        "machineType": domain.into("machine").get("type"),
        "clock": _clock(domain),
        "readinessProbe": _probe(inner.into("readinessProbe")),
        "livenessProbe": _probe(inner.into("livenessProbe")),
    }
    devices.get("rng")
    aside = f"the machine {name} stays as it is; a Wukong of that name needs it gone: delete it, but keep its claims"
    notes = (aside, *left_out(whole.unread()))
    return (*secrets, Imported(ours("Wukong", document, spec), notes))


def _sizes(claims: Any) -> dict[str, str]:
    found = {}
    for claim in claims or ():
        spec = claim.get("spec") or {}
        asked = spec if "resources" in spec else spec.get("storage") or spec.get("pvc") or {}
        size = ((asked.get("resources") or {}).get("requests") or {}).get("storage")
        if size:
            found[str(claim["metadata"]["name"])] = str(size)
    return found


def _size(domain: Taken) -> dict[str, Any]:
    cpu, memory = domain.into("cpu"), domain.into("memory")
    sockets, threads = cpu.get("sockets") or 1, cpu.get("threads") or 1
    asked = (domain.get("resources") or {}).get("requests") or {}
    cores = (cpu.get("cores") or 1) * sockets * threads if domain.has("cpu") else asked.get("cpu")
    options = {
        "sockets": sockets if sockets > 1 else None,
        "threads": threads if threads > 1 else None,
        "model": cpu.get("model"),
        "dedicated": cpu.get("dedicatedCpuPlacement"),
        "isolateEmulatorThread": cpu.get("isolateEmulatorThread"),
    }
    return {
        "cpu": int(cores) if cores is not None else None,
        "cpuOptions": without_nothing(options),
        "memory": memory.get("guest") or asked.get("memory"),
        "hugepages": (memory.get("hugepages") or {}).get("pageSize"),
    }


def _type(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not found:
        return None
    return {"name": found.get("name"), "clusterWide": str(found.get("kind", CLUSTER_WIDE)).startswith(CLUSTER_WIDE)}


def _disks(
    name: str, devices: Taken, volumes: Mapping[str, Taken], sizes: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    every = devices.each("disks")
    first = min((device.get("bootOrder") for device in every if device.has("bootOrder")), default=None)
    for device in every:
        called = str(device.get("name"))
        device.get("serial")  # ours says the disk's name, which mounts rely on
        volume = volumes.get(called)
        target = device.get("disk") or device.get("lun") or device.get("cdrom") or {}
        found = _source(name, called, volume, sizes) if volume else None
        if found is None:
            continue
        boots = first is not None and device.get("bootOrder") == first
        yield without_nothing(
            {
                "name": called,
                **found,
                "bus": target.get("bus"),
                "cache": device.get("cache"),
                "boot": True if boots else None,
            }
        )


def _source(machine: str, disk: str, volume: Taken, sizes: Mapping[str, str]) -> dict[str, Any] | None:
    """None for what is no disk of its own: cloud-init's data."""
    volume.get("name")
    image = volume.get("containerDisk")
    if image:
        source = without_nothing({"image": image.get("image"), "pullSecret": image.get("imagePullSecret")})
        return {"size": CONTAINER_DISK_SIZE, "source": {"containerDisk": source}}
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or (volume.get("dataVolume") or {}).get("name")
    if not claim:
        return None
    if claim not in sizes:
        raise CannotImport(
            f"VirtualMachine {machine}: how large disk {disk} is stands in its claim {claim}: give that manifest too "
            f"(kubectl get pvc {claim} -o yaml)"
        )
    return {"size": sizes[claim], "source": {"pvc": {"name": claim}}}


def _networks(inner: Taken, devices: Taken) -> Iterator[dict[str, Any]]:
    interfaces = {str(i.get("name")): i for i in devices.each("interfaces")}
    for network in inner.each("networks"):
        called = str(network.get("name"))
        interface = interfaces.get(called, Taken({}))
        mac, multus = interface.get("macAddress"), network.get("multus")
        bindings = ("masquerade", "bridge", "sriov")
        kind = next((binding for binding in bindings if interface.has(binding)), "")
        if network.has("pod"):
            yield without_nothing({"name": POD_NETWORK, "macAddress": mac})
        elif multus:
            found = {
                "name": called,
                "nadName": str(multus.get("networkName", "")).rpartition("/")[2],
                "type": "sriov" if kind == "sriov" else None,
                "macAddress": mac,
                "primary": multus.get("default"),
            }
            yield without_nothing(found)


def _cloud_init(
    name: str, document: Document, volumes: Mapping[str, Taken]
) -> tuple[dict[str, Any], tuple[Imported, ...]]:
    for volume in volumes.values():
        found = volume.get("cloudInitNoCloud") or volume.get("cloudInitConfigDrive")
        if not found:
            continue
        secret = (found.get("secretRef") or {}).get("name")
        if secret:
            return {"userDataSecret": secret}, ()
        text = found.get("userData") or base64.b64decode(found.get("userDataBase64") or "").decode(errors="replace")
        if text:
            return {"userDataSecret": f"{name}-user-data"}, (_secret(name, document, text),)
    return {}, ()


def _secret(name: str, document: Document, text: str) -> Imported:
    kept = {"name": f"{name}-user-data", "namespace": metadata(document).get("namespace")}
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": without_nothing(kept),
        "stringData": {names.USER_DATA: text},
    }
    return Imported(manifest, (f"user data stood in the machine; it is in Secret {name}-user-data now",))


def _other_than(hostname: Any, name: str) -> Any:
    return hostname if hostname != name else None


def _power(whole: Taken) -> dict[str, Any]:
    strategy, running = whole.get("runStrategy"), whole.get("running")
    if strategy:
        return {"runStrategy": strategy}
    return {"autoStart": False} if running is False else {}


def _firmware(domain: Taken, devices: Taken) -> dict[str, Any]:
    efi = (domain.into("firmware").get("bootloader") or {}).get("efi")
    tpm = devices.get("tpm")
    features = domain.into("features")
    for implied in ("smm", "acpi"):
        features.get(implied)
    return without_nothing(
        {
            "bootloader": "uefi" if efi is not None else None,
            "secureBoot": efi.get("secureBoot", True) if efi is not None else None,
            "persistent": bool((efi or {}).get("persistent") or (tpm or {}).get("persistent")) or None,
            "tpm": True if tpm is not None else None,
        }
    )


def _clock(domain: Taken) -> dict[str, Any] | None:
    clock = domain.into("clock")
    zone, utc = clock.get("timezone"), clock.has("utc")
    return {"timezone": zone} if zone else {"timezone": ""} if utc else None


def _probe(probe: Taken) -> dict[str, Any] | None:
    tcp, http = probe.get("tcpSocket"), probe.get("httpGet")
    agent = probe.has("guestAgentPing")
    if not (tcp or http or agent):
        return None
    return without_nothing(
        {
            "guestAgent": agent or None,
            "tcpPort": (tcp or {}).get("port"),
            "httpPort": (http or {}).get("port"),
            "httpPath": (http or {}).get("path"),
            "initialDelaySeconds": probe.get("initialDelaySeconds"),
            "periodSeconds": probe.get("periodSeconds"),
            "failureThreshold": probe.get("failureThreshold"),
        }
    )
