"""Volumes of a VirtualMachine: disks that are cloned from its claims, and what cloud-init is told. Pure."""

import base64
import binascii
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from corral.kinds.wukong import names
from corral.kinds.wukong.importing.parts import CannotImport, Document, Imported, Notes, Taken, without_nothing

CONTAINER_DISK_SIZE = "1Gi"  # nothing is made of that size: the disk is read from its image
KINDS = ("disk", "cdrom", "lun")
COPY_IN_THE_WAY = "its copy would stand where its claim stands"
CLOUD_INIT = ("cloudInitNoCloud", "cloudInitConfigDrive")
NETWORK_DATA = ("networkData", "networkDataBase64", "networkDataSecretRef")


def sizes_of(namespace: str, templates: Any, claims: Iterable[Document]) -> Mapping[str, str]:
    """How large each claim of the namespace is; one that names no namespace may be of any."""
    theirs = [claim for claim in claims if _is_in(claim, namespace)]
    exact = sorted(theirs, key=lambda claim: bool((claim.get("metadata") or {}).get("namespace")))
    return dict(_sizes((*(templates or ()), *exact)))


def _is_in(claim: Document, namespace: str) -> bool:
    where = (claim.get("metadata") or {}).get("namespace", "")
    return not where or not namespace or where == namespace


def _sizes(claims: Iterable[Document]) -> Iterator[tuple[str, str]]:
    for claim in claims:
        spec = claim.get("spec") or {}
        asked = spec if "resources" in spec else spec.get("storage") or spec.get("pvc") or {}
        size = ((asked.get("resources") or {}).get("requests") or {}).get("storage")
        if size:
            yield str(claim["metadata"]["name"]), str(size)


def disks(
    machine: str, devices: Taken, volumes: Mapping[str, Taken], sizes: Mapping[str, str], notes: Notes
) -> list[dict[str, Any]]:
    every = devices.each("disks")
    known = {str(device.get("name")) for device in every}
    orders = sorted(device.get("bootOrder") for device in every if device.has("bootOrder"))
    if len(orders) > 1:
        notes.add("one disk boots: the next ones in the boot order are not tried")
    found = (_disk(machine, device, volumes, sizes, known, notes) for device in every)
    return [
        {**disk, "boot": True} if orders and device.get("bootOrder") == orders[0] else disk
        for device, disk in zip(every, found, strict=True)
        if disk is not None
    ]


def _disk(
    machine: str,
    device: Taken,
    volumes: Mapping[str, Taken],
    sizes: Mapping[str, str],
    known: Collection[str],
    notes: Notes,
) -> dict[str, Any] | None:
    """None for what is no disk of its own: cloud-init's data."""
    called, kind = str(device.get("name")), next((kind for kind in KINDS if device.has(kind)), KINDS[0])
    device.get("serial")  # ours says the disk's name, which mounts rely on
    target, volume = device.into(kind), volumes.get(called)
    bus = target.get("bus")
    source = _source(machine, called, volume, sizes) if volume else None
    if source is None:
        return None
    if kind != KINDS[0]:
        notes.add(f"disks[{called}] was a {kind} and is a disk here")
    name = _free_name(machine, called, source, known)
    if name != called:
        is_ours = called == names.CLOUD_INIT_VOLUME
        why = "that is the name of the disk with cloud-init's data" if is_ours else COPY_IN_THE_WAY
        notes.add(f"disks[{called}] is called {name} here: {why}")
    return without_nothing({"name": name, **source, "bus": bus, "cache": device.get("cache")})


def _free_name(machine: str, disk: str, source: Mapping[str, Any], known: Collection[str]) -> str:
    claim, name = (source["source"].get("pvc") or {}).get("name", ""), disk
    while (
        name == names.CLOUD_INIT_VOLUME or names.disk_name(machine, name) == claim or (name != disk and name in known)
    ):
        name = f"{name}-copy"
    return name


def _source(machine: str, disk: str, volume: Taken, sizes: Mapping[str, str]) -> dict[str, Any] | None:
    volume.get("name")
    if volume.has("containerDisk"):
        image = volume.into("containerDisk")
        source = without_nothing({"image": image.get("image"), "pullSecret": image.get("imagePullSecret")})
        return {"size": CONTAINER_DISK_SIZE, "source": {"containerDisk": source}}
    by_claim, by_volume = volume.into("persistentVolumeClaim"), volume.into("dataVolume")
    for backing in (by_claim, by_volume):
        backing.get("hotpluggable")
    claim = by_claim.get("claimName") or by_volume.get("name")
    if not claim:
        return None
    if claim not in sizes:
        raise CannotImport(
            f"VirtualMachine {machine}: how large disk {disk} is stands in its claim {claim}: give that manifest too "
            f"(kubectl get pvc {claim} -o yaml)"
        )
    return {"size": sizes[claim], "source": {"pvc": {"name": claim}}}


def cloud_init(
    machine: str, namespace: str, volumes: Mapping[str, Taken], notes: Notes
) -> tuple[dict[str, Any], tuple[Imported, ...]]:
    for volume in volumes.values():
        kind = next((kind for kind in CLOUD_INIT if volume.has(kind)), None)
        if kind is None:
            continue
        data = volume.into(kind)
        if kind != CLOUD_INIT[0]:
            notes.add("cloud-init's data was a config drive and is a NoCloud disk here")
        if any(data.has(field) for field in NETWORK_DATA):
            notes.add(
                "cloud-init's network data is left out: a Wukong writes it from its networks; an address that stood "
                "there belongs into their ipConfig"
            )
        secret = data.into("secretRef").get("name")
        if secret:
            return {"userDataSecret": secret}, ()
        text = data.get("userData") or _decoded(machine, data.get("userDataBase64"))
        return _as_secret(machine, namespace, text) if text else ({}, ())
    return {}, ()


def _decoded(machine: str, text: Any) -> str:
    try:
        return base64.b64decode(text or "").decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CannotImport(f"VirtualMachine {machine}: its userDataBase64 is no text: {error}") from error


def _as_secret(machine: str, namespace: str, text: str) -> tuple[dict[str, Any], tuple[Imported, ...]]:
    name = f"{machine}-user-data"
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": without_nothing({"name": name, "namespace": namespace}),
        "stringData": {names.USER_DATA: text},
    }
    told = Imported(manifest, (f"user data stood in the machine; it is in Secret {name} now",))
    return {"userDataSecret": name}, (told,)
