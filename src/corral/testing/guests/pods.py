"""The pods that play virt-launcher: made for instances, held still while disks are copied, told of larger ones."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Interface
from pathlib import Path

import msgspec

from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import VolumeSnapshot
from corral.kinds.wukong.machine import backing_name
from corral.kinds.wukong.names import NETWORK_DATA
from corral.kube.client import Client, Selector
from corral.kube.errors import NotFound
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod, Secret
from corral.testing.guests.contents import Contents
from corral.testing.guests.launcher import (
    CONTAINER,
    MONITOR_PORT,
    NotPlayed,
    launcher,
    pod_name,
    static_addresses,
)
from corral.testing.guests.processor import Accelerator

MANAGER = "kubevirt-standin"


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """What its pod says of a guest: Pending, Running, Succeeded (it was shut down from within), Failed."""

    phase: str
    node: str = ""
    address: str = ""


class Guests:
    """`image` is a container image with bash; QEMU itself comes from the folder `tools`."""

    def __init__(
        self, client: Client, contents: Contents, *, tools: Path, image: str, accelerator: Accelerator
    ) -> None:
        self._client = client
        self._tools, self._image, self._accelerator = tools, image, accelerator
        self.contents = contents

    async def start(self, instance: VirtualMachineInstance) -> None:
        """Raises NotPlayed."""
        try:
            pod = await self._pod_of(instance)
        except NotFound as missing:  # a claim or a Secret that it names: nothing that others should wait for
            raise NotPlayed(missing.message) from missing
        await self._client.create(pod, field_manager=MANAGER)

    async def _pod_of(self, instance: VirtualMachineInstance) -> Pod:
        namespace = instance.metadata.namespace
        found = (await self._client.list(NetworkAttachmentDefinition, Selector(namespace=namespace))).items
        await self._check_disks(instance)
        return launcher(
            instance,
            {attachment.metadata.name: attachment for attachment in found},
            await self._addresses(instance),
            tools=self._tools,
            image=self._image,
            accelerator=self._accelerator,
        )

    async def look(self, instance: VirtualMachineInstance) -> Guest | None:
        """None: it was never started, or somebody deleted its pod."""
        try:
            pod = await self._client.get(Pod, pod_name(instance), instance.metadata.namespace)
        except NotFound:
            return None
        return Guest(
            phase=pod.status.phase or "Pending", node=pod.spec.node_name or "", address=pod.status.pod_ip or ""
        )

    async def keep(self, snapshot: VolumeSnapshot) -> None:
        """The disk's content as it is at one moment, as after a power cut. NotFound: there is no such claim."""
        namespace, claim_name = snapshot.metadata.namespace, snapshot.spec.source.persistent_volume_claim_name or ""
        claim = await self._client.get(PersistentVolumeClaim, claim_name, namespace)
        async with self._still(claim):
            await asyncio.to_thread(self.contents.keep, snapshot.metadata.name, claim.spec.volume_name or "")

    async def grow(self, claim: PersistentVolumeClaim, size_bytes: int) -> None:
        """The disk, and the guest that has it sees that while it runs."""
        await asyncio.to_thread(self.contents.grow, claim.spec.volume_name or "", size_bytes)
        for pod in await self._users(claim):
            disk = _disk_of(pod, claim.metadata.name)
            await self._say(pod.metadata.name, pod.metadata.namespace, f"block_resize {disk} {size_bytes}B")

    async def _check_disks(self, instance: VirtualMachineInstance) -> None:
        for name in filter(None, map(backing_name, instance.spec.volumes)):
            claim = await self._client.get(PersistentVolumeClaim, name, instance.metadata.namespace)
            if not self.contents.has_disk(claim.spec.volume_name or ""):
                has = f"of storage class {claim.spec.storage_class_name} "
                raise NotPlayed(f"claim {name} {has}has no disk in it: give the disk a storageClassName that has")

    async def _addresses(self, instance: VirtualMachineInstance) -> Mapping[str, IPv4Interface]:
        found: dict[str, IPv4Interface] = {}
        for volume in instance.spec.volumes:
            data = volume.cloud_init_no_cloud
            if data is not None and data.network_data_secret_ref is not None:
                name = data.network_data_secret_ref.name
                secret = await self._client.get(Secret, name, instance.metadata.namespace)
                found |= static_addresses(secret.data[NETWORK_DATA])
        return found

    @asynccontextmanager
    async def _still(self, claim: PersistentVolumeClaim) -> AsyncIterator[None]:
        """No guest writes to the claim for as long as it lasts."""
        held = []
        try:
            for pod in await self._users(claim):
                held.append((pod.metadata.name, pod.metadata.namespace))
                await self._say(*held[-1], "stop")
            yield
        finally:
            for where in held:
                await self._say(*where, "cont")

    async def _users(self, claim: PersistentVolumeClaim) -> list[Pod]:
        pods = (await self._client.list(Pod, Selector(namespace=claim.metadata.namespace))).items
        return [pod for pod in pods if _disk_of(pod, claim.metadata.name) and pod.status.phase == "Running"]

    async def _say(self, pod: str, namespace: str, words: str) -> None:
        """To QEMU's monitor; it has obeyed when it answers the question behind."""
        script = (
            f"exec 3<>/dev/tcp/127.0.0.1/{MONITOR_PORT}; "
            f"printf '{words}\\ninfo status\\n' >&3; grep -m1 'VM status' <&3"
        )
        done = await self._client.exec(pod, namespace, ("timeout", "30", "bash", "-c", script), container=CONTAINER)
        if done.exit_code != 0:
            why = done.stderr.decode(errors="replace")
            raise RuntimeError(f"QEMU in pod {namespace}/{pod} did not obey {words!r}: {why}")


def _disk_of(pod: Pod, claim: str) -> str:
    """What QEMU calls the disk on the claim; empty for pods that run no guest with it."""
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name == claim and volume.name.startswith("disk-"):
            return volume.name.removeprefix("disk-")
    return ""
