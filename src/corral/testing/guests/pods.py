"""The pods that play virt-launcher: made for instances, held still while their disks are copied."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import VolumeSnapshot
from corral.kube.client import Client, Selector
from corral.kube.errors import NotFound
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.testing.guests.contents import Contents
from corral.testing.guests.launcher import CONTAINER, MONITOR_PORT, Lan, launcher, pod_name
from corral.testing.guests.processor import Accelerator


class Guests:
    """`image` is a container image with bash; QEMU itself comes from the folder `tools`."""

    def __init__(
        self,
        client: Client,
        contents: Contents,
        *,
        tools: Path,
        image: str,
        lans: Mapping[str, Lan],
        accelerator: Accelerator,
    ) -> None:
        self._client, self._lans = client, lans
        self._tools, self._image, self._accelerator = tools, image, accelerator
        self.contents = contents

    async def is_up(self, instance: VirtualMachineInstance) -> bool:
        """Whether QEMU runs for this instance; its pod is made if there is none."""
        namespace = instance.metadata.namespace
        try:
            pod = await self._client.get(Pod, pod_name(instance), namespace)
        except NotFound:
            found = (await self._client.list(NetworkAttachmentDefinition, Selector(namespace=namespace))).items
            attachments = {attachment.metadata.name: attachment for attachment in found}
            made = launcher(
                instance,
                attachments,
                self._lans,
                tools=self._tools,
                image=self._image,
                accelerator=self._accelerator,
            )
            await self._client.create(made, field_manager="kubevirt-standin")
            return False
        return pod.status.phase == "Running"

    async def keep(self, snapshot: VolumeSnapshot) -> None:
        """The disk's content as it is at one moment, as after a power cut."""
        namespace, claim_name = snapshot.metadata.namespace, snapshot.spec.source.persistent_volume_claim_name or ""
        claim = await self._client.get(PersistentVolumeClaim, claim_name, namespace)
        async with self._still(claim):
            await asyncio.to_thread(self.contents.keep, snapshot.metadata.name, claim.spec.volume_name)

    @asynccontextmanager
    async def _still(self, claim: PersistentVolumeClaim) -> AsyncIterator[None]:
        """No guest writes to the claim for as long as it lasts."""
        pods = (await self._client.list(Pod, Selector(namespace=claim.metadata.namespace))).items
        users = [pod.metadata for pod in pods if _uses(pod, claim.metadata.name) and pod.status.phase == "Running"]
        for meta in users:
            await self._say(meta.name, meta.namespace, "stop")
        try:
            yield
        finally:
            for meta in users:
                await self._say(meta.name, meta.namespace, "cont")

    async def _say(self, pod: str, namespace: str, word: str) -> None:
        """To QEMU's monitor; it has obeyed when it answers the question behind."""
        script = (
            f"exec 3<>/dev/tcp/127.0.0.1/{MONITOR_PORT}; printf '{word}\\ninfo status\\n' >&3; grep -m1 'VM status' <&3"
        )
        done = await self._client.exec(pod, namespace, ("timeout", "30", "bash", "-c", script), container=CONTAINER)
        if done.exit_code != 0:
            raise RuntimeError(f"QEMU in pod {namespace}/{pod} did not {word}: {done.stderr.decode(errors='replace')}")


def _uses(pod: Pod, claim: str) -> bool:
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return any(found is not None and found.claim_name == claim for found in claims)
