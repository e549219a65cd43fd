"""From an instance to the pod that runs it: QEMU with the disks, interfaces and data that the instance names. Pure."""

import json
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Interface, ip_interface
from pathlib import Path

import yaml

from corral.engine import controller_reference
from corral.kinds.wukong.api.kubevirt import DiskDevice, InstanceSpec, Interface, VirtualMachineInstance, Volume
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.machine import backing_name
from corral.kinds.wukong.names import NETWORK_DATA, USER_DATA
from corral.kube.meta import ObjectMeta
from corral.kube.models import core_v1 as core
from corral.kube.values import parse_quantity
from corral.testing.guests.disk import inside
from corral.testing.guests.processor import WORDS, Accelerator

DISKS, CLOUD_INIT, TOOLS = "/disks", "/cloud-init", "/guest-tools"
SEED = "/tmp/seed"  # noqa: S108 in the pod
SEED_DISK = f"{SEED}.iso"
MONITOR_PORT = 4444  # on the pod's loopback
LAN_SSH_PORT = 2200  # likewise, for the first interface; the next ones have the next ports
CONTAINER = "compute"

# $META_DATA is what KubeVirt adds to the two that it is given; the rest of the words are QEMU's.
START = f"""
set -eu
mkdir {SEED} && cp -L {CLOUD_INIT}/* {SEED}/
printf '%s' "$META_DATA" > {SEED}/meta-data
{" ".join(inside(Path(TOOLS), "/usr/bin/genisoimage"))} -quiet -V cidata -J -r -o {SEED_DISK} {SEED}/*
exec "$@"
"""


class NotPlayed(Exception):
    """The instance asks for something that these guests cannot do."""


def launcher(
    instance: VirtualMachineInstance,
    attachments: Mapping[str, NetworkAttachmentDefinition],
    addresses: Mapping[str, IPv4Interface],
    *,
    tools: Path,
    image: str,
    accelerator: Accelerator,
) -> core.Pod:
    """`addresses`: the static ones of its interfaces, by their MAC."""
    spec, meta = instance.spec, instance.metadata
    claims = {volume.name: backing_name(volume) for volume in spec.volumes if backing_name(volume)}
    command = ("/bin/bash", "-c", START, "start", *qemu(spec, attachments, addresses, accelerator))
    metadata = {"instance-id": f"{meta.name}.{meta.namespace}", "local-hostname": spec.hostname or meta.name}
    return core.Pod(
        metadata=ObjectMeta(
            name=pod_name(instance),
            namespace=meta.namespace,
            labels=meta.labels,
            owner_references=(controller_reference(instance),),
        ),
        spec=core.PodSpec(
            restart_policy="Never",
            termination_grace_period_seconds=5,
            automount_service_account_token=False,
            containers=(
                core.Container(
                    name=CONTAINER,
                    image=image,
                    command=command,
                    env=(core.EnvVar(name="META_DATA", value=json.dumps(metadata)),),
                    security_context=core.SecurityContext(privileged=True) if accelerator == "kvm" else None,
                    volume_mounts=(
                        core.VolumeMount(name="tools", mount_path=TOOLS, read_only=True),
                        core.VolumeMount(name="cloud-init", mount_path=CLOUD_INIT, read_only=True),
                        *(core.VolumeMount(name=f"disk-{n}", mount_path=f"{DISKS}/{n}") for n in claims),
                    ),
                ),
            ),
            volumes=(
                core.Volume(name="tools", host_path=core.HostPathVolumeSource(path=str(tools))),
                core.Volume(name="cloud-init", projected=core.ProjectedVolumeSource(sources=tuple(_secrets(spec)))),
                *(
                    core.Volume(
                        name=f"disk-{name}",
                        persistent_volume_claim=core.PersistentVolumeClaimVolumeSource(claim_name=claim),
                    )
                    for name, claim in claims.items()
                ),
            ),
        ),
    )


def pod_name(instance: VirtualMachineInstance) -> str:
    return f"virt-launcher-{instance.metadata.name}-{instance.metadata.uid[:5]}"


def static_addresses(network_data: bytes) -> Mapping[str, IPv4Interface]:
    """By the MAC that the data knows each interface by."""
    return {
        entry["match"]["macaddress"]: address
        for entry in yaml.safe_load(network_data)["ethernets"].values()
        for address in map(ip_interface, entry.get("addresses", ()))
        if isinstance(address, IPv4Interface)
    }


def _secrets(spec: InstanceSpec) -> Iterator[core.VolumeProjection]:
    """As KubeVirt reads them: user data from one Secret, network data from the other, under NoCloud's names."""
    for volume in spec.volumes:
        data = volume.cloud_init_no_cloud
        if data is None or data.secret_ref is None or data.network_data_secret_ref is None:
            continue
        for secret, key, path in (
            (data.secret_ref.name, USER_DATA, "user-data"),
            (data.network_data_secret_ref.name, NETWORK_DATA, "network-config"),
        ):
            items = (core.KeyToPath(key=key, path=path),)
            yield core.VolumeProjection(secret=core.SecretProjection(name=secret, items=items))


def qemu(
    spec: InstanceSpec,
    attachments: Mapping[str, NetworkAttachmentDefinition],
    addresses: Mapping[str, IPv4Interface],
    accelerator: Accelerator,
) -> tuple[str, ...]:
    """The command line, with QEMU's own idea of each thing that the instance names."""
    cpu, memory = spec.domain.cpu, spec.domain.memory
    if cpu is None or memory is None or memory.guest is None:
        raise NotPlayed("instance types are not known here: give cpu and memory")
    cores = (cpu.cores or 1) * (cpu.sockets or 1) * (cpu.threads or 1)
    volumes = {volume.name: volume for volume in spec.volumes}
    disks = (_disk(disk, volumes[disk.name]) for disk in spec.domain.devices.disks)
    for network in spec.networks:
        if network.multus is not None:
            _check_bridge(network.multus.network_name, attachments)
    nics = (_nic(n, nic, addresses.get(nic.mac_address or "")) for n, nic in enumerate(spec.domain.devices.interfaces))
    return (
        *inside(Path(TOOLS), "/usr/bin/qemu-system-x86_64"),
        *("-L", f"{TOOLS}/usr/share/qemu", "-L", f"{TOOLS}/usr/share/seabios"),
        *("-M", "q35", *WORDS[accelerator], "-smp", str(cores)),
        *("-m", f"{int(parse_quantity(memory.guest)) >> 20}M"),
        *("-nodefaults", "-display", "none", "-serial", "stdio"),  # what the guest says is the pod's log
        *("-monitor", f"tcp:127.0.0.1:{MONITOR_PORT},server,nowait"),
        *(word for words in (*disks, *nics) for word in words),
    )


def _disk(device: DiskDevice, volume: Volume) -> tuple[str, ...]:
    if device.disk is None or device.disk.bus != "virtio":
        raise NotPlayed(f"disk {device.name}: only virtio is played")
    is_seed = volume.cloud_init_no_cloud is not None
    if not is_seed and not backing_name(volume):
        raise NotPlayed(f"disk {device.name}: only claims and cloud-init's data are played")
    file = SEED_DISK if is_seed else f"{DISKS}/{volume.name}/disk.img"
    drive = {"file": file, "format": "raw", "if": "none", "id": device.name}
    drive |= {"readonly": "on"} if is_seed else {}
    drive |= {"cache": device.cache} if device.cache else {}
    options = {"drive": device.name}
    options |= {"serial": device.serial} if device.serial else {}
    options |= {"bootindex": str(device.boot_order)} if device.boot_order else {}
    return ("-drive", _options("", drive), "-device", _options("virtio-blk-pci", options))


def _check_bridge(name: str, attachments: Mapping[str, NetworkAttachmentDefinition]) -> None:
    """Multus would find it, and in it the bridge of the node."""
    if name not in attachments:
        raise NotPlayed(f"network {name}: there is no NetworkAttachmentDefinition of that name")
    if not json.loads(attachments[name].spec.config).get("bridge"):
        raise NotPlayed(f"network {name}: only bridges are played")


def _nic(number: int, nic: Interface, address: IPv4Interface | None) -> tuple[str, ...]:
    """The pod's network is QEMU's own, with the guest's port 22 at the pod's.

    A bridge is a subnet with nobody else in it and no way out; a static address in it is reached from the pod alone.
    """
    net = {"id": f"net{number}"}
    if nic.masquerade is not None:
        net |= {"hostfwd": "tcp::22-:22"}
    elif nic.bridge is not None:
        net |= {"restrict": "on"}
        if address is not None:
            forward = f"tcp:127.0.0.1:{LAN_SSH_PORT + number}-{address.ip}:22"
            net |= {"net": str(address.network), "hostfwd": forward}
    else:
        raise NotPlayed(f"interface {nic.name}: only masquerade and bridge are played")
    device = {"netdev": f"net{number}", "mac": nic.mac_address or "", "romfile": ""}
    return ("-netdev", _options("user", net), "-device", _options("virtio-net-pci", device))


def _options(kind: str, values: Mapping[str, str]) -> str:
    return ",".join([*([kind] if kind else []), *(f"{name}={value}" for name, value in values.items())])
