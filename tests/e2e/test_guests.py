"""A Wukong whose guest really boots: what we say to KubeVirt and to cloud-init is what a Debian understands."""

import asyncio
import json
import os
import platform
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import yaml

from corral.kinds.wukong import names
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
)
from corral.kinds.wukong.cloudinit import cloud_init_secret
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube import Client, NotFound, Precondition
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service
from corral.kube.models.storage_v1 import StorageClass
from corral.local import builds
from corral.testing.cluster import Cluster
from corral.testing.guests import qemu_root
from corral.testing.guests.disk import UP, DataKind, complaints, inside
from corral.testing.guests.launcher import LAN_SSH_PORT, pod_name
from corral.testing.guests.local import STORAGE
from corral.testing.localcluster import as_at_a_terminal
from tests.integration.wukonglife import (
    apply,
    definitions,
    is_gone,
    is_restored,
    is_taken,
    left_of,
    operator,
    phase_is,
    take_snapshot,
    until,
    way_to,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="guests are Debians of amd64"),
]

LOOKS_EVERY_S = 2.0
READY_WITHIN_S = 1500.0  # QEMU and the Debian are made, if this machine has none
BOOT_WITHIN_S = 1500.0  # 90 s of an emulated processor, of which others want their share
# The disk that boots is not the first one, the address is not one that anybody hands out.
SPEC = """
cpu: 1
memory: 768Mi
sshKeySecret: keys
cloudInitUser: {name: ada, groups: [sudo]}
disks:
- {name: data, size: 96Mi, storageClassName: guests}
- {name: root, size: 1Gi, boot: true, image: 'docker://images.test/debian:13', storageClassName: guests}
networks:
- {name: default}
- {name: lan, bridgeName: br0, ipConfig: {mode: static, address: 10.1.2.3/24}}
cloudInit:
  hostname: box
  users: [{name: eve, sudo: '', groups: [], lockPasswd: true}]
  mounts: [{path: /srv, disk: data}]
  runCommands: ["echo 'made: #by corral' > /srv/made"]
"""
SMALLER = SPEC.replace("size: 96Mi", "size: 64Mi")
GROWN_BYTES = 96 << 20
LOOK = """
hostname; id -nG ada; id -nG eve; cat /srv/made; findmnt -no SOURCE,FSTYPE /srv
echo $(( $(findmnt -bno SIZE /) >> 20 )); ip -br address show to 10.1.2.0/24; tr -d '\n' < /run/cloud-init/status.json
"""


@pytest.fixture
def _definitions(corral_cluster: Cluster) -> Iterator[None]:
    with definitions(corral_cluster):
        yield


@pytest.mark.parametrize(("kind", "key"), [("cloud-config", "userdata"), ("network-config", "networkdata")])
def test_cloud_init_has_nothing_against_what_it_is_told(kind: DataKind, key: str) -> None:
    metadata = {"name": "vm", "namespace": "lab", "uid": "some-uid"}
    wukong = msgspec.convert({"metadata": metadata, "spec": yaml.safe_load(SPEC)}, Wukong)
    keys = Secret(metadata=ObjectMeta(name="keys"), data={"authorized_keys": b"ssh-ed25519 AAAA one"})
    assert complaints(kind, cloud_init_secret(wukong, {"keys": keys}).data[key]) == ""


class Person:
    """Who has a key, and reaches guests over the LAN: through the pod, in which the bridge is played."""

    def __init__(self, cluster: Cluster, client: Client, namespace: str, folder: Path) -> None:
        self._cluster, self._client, self._namespace = cluster, client, namespace
        self._tools, self._key = qemu_root(), folder / "key"

    async def public_key(self) -> bytes:
        program = inside(self._tools, "/usr/bin/ssh-keygen")
        await self._run(*program, "-q", "-t", "ed25519", "-N", "", "-f", str(self._key))
        return self._key.with_suffix(".pub").read_bytes()

    async def says(self, script: str) -> tuple[int, str]:
        """What a script says that is run in the guest, and how it ended; 255 when the guest was not reached."""
        instance = await self._client.get(VirtualMachineInstance, "vm", self._namespace)
        kubectl = f"{builds.binary('kubectl')} --kubeconfig={self._cluster.kubeconfig} --namespace={self._namespace}"
        reach = f"{kubectl} exec -i {pod_name(instance)} -- nc 127.0.0.1 {LAN_SSH_PORT + 1}"
        known = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "ConnectTimeout=20")
        options = (f"ProxyCommand={reach}", "LogLevel=ERROR", *known)
        program = inside(self._tools, "/usr/bin/ssh")
        words = (*program, "-i", str(self._key), *(f"-o{option}" for option in options), "ada@guest", script)
        return await self._run(*words)

    async def sees_it_up(self) -> object:
        """On its console: each look by ssh would cost an emulated guest seconds. cloud-init has ended then."""
        instance = await self._client.get(VirtualMachineInstance, "vm", self._namespace)
        shown = await asyncio.to_thread(
            self._cluster.try_kubectl, "logs", pod_name(instance), f"--namespace={self._namespace}"
        )
        await asyncio.sleep(LOOKS_EVERY_S)
        return True if UP in shown.stdout else (shown.stdout[-500:], shown.stderr)

    async def _run(self, *command: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode(errors="replace")


@pytest.mark.usefixtures("_definitions")
async def test_a_guest_boots_as_its_wukong_says_is_set_back_and_goes_and_a_kept_disk_comes_to_the_next_one(
    corral_cluster: Cluster, client: Client, corral_namespace: str, tmp_path: Path
) -> None:
    ns = corral_namespace
    person = Person(corral_cluster, client, ns, tmp_path)
    keys = Secret(metadata=ObjectMeta(name="keys", namespace=ns), data={"authorized_keys": await person.public_key()})
    await client.create(keys, field_manager="person")
    async with playing_guests(corral_cluster, client), operator(way_to(corral_cluster)):
        await apply(client, ns, SMALLER)
        await until(lambda: phase_is(client, ns, "Running"))
        await until(person.sees_it_up, BOOT_WITHIN_S)
        _, said = await person.says(LOOK)
        host, ada, eve, made, mount, size_mb, address, status = said.strip().splitlines()
        assert (host, set(ada.split()), eve) == ("box", {"ada", "sudo"}, "eve")
        assert (made, mount.split()[1]) == ("made: #by corral", "ext4")
        assert int(size_mb) > 900, "the file system did not grow to the disk's size"
        assert "10.1.2.3/24" in address
        stages = [stage for stage in json.loads(status)["v1"].values() if isinstance(stage, dict)]
        assert [(stage["errors"], stage["recoverable_errors"]) for stage in stages if any(stage.values())] == [
            ([], {})
        ] * 4

        await apply(client, ns, SPEC)
        await until(lambda: data_has(client, ns, "96Mi"))
        seen = await person.says("lsblk --bytes --nodeps --noheadings --output SIZE /dev/disk/by-id/virtio-data")
        assert seen == (0, f"{GROWN_BYTES}\n"), "the guest that runs does not see that its disk has grown"

        await person.says("echo friday | sudo tee /srv/day /root/day; sync")
        await take_snapshot(client, ns, "friday")
        await until(lambda: is_taken(client, ns, "friday", ("data", "root")))
        await person.says("echo monday | sudo tee /srv/day /root/day; sync")
        await apply(client, ns, SPEC + "restoreFromSnapshot: friday\n")
        await until(lambda: is_restored(client, ns, "friday"))
        await until(person.sees_it_up, BOOT_WITHIN_S)
        assert await person.says("sudo cat /srv/day /root/day; hostname") == (0, "friday\nfriday\nbox\n")

        await apply(client, ns, SPEC.replace("size: 96Mi,", "size: 96Mi, keepOnDelete: true,"))
        await until(lambda: is_marked_as_kept(client, ns))
        await gone(client, ns)
        await apply(client, ns, SPEC)
        await until(lambda: phase_is(client, ns, "Running"))
        await until(person.sees_it_up, BOOT_WITHIN_S)
        ended, said = await person.says("cat /srv/day; sudo ls /root/day")
        assert said.startswith("friday\n"), "a new guest made a new file system on the disk that was kept"
        assert ended != 0, "the root disk is not a new one"

        await gone(client, ns)
        await client.delete(WukongSnapshot, "friday", ns, precondition=Precondition())
        await until(lambda: nothing_is_left(client, ns))


@asynccontextmanager
async def playing_guests(cluster: Cluster, client: Client) -> AsyncIterator[None]:
    """As a person does it: by the command. It has nothing to complain of, and ends with Ctrl-C."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "corral.testing.kubevirt_standin", "--guests"),
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=PIPE,
        stderr=STDOUT,
        preexec_fn=as_at_a_terminal,
    )
    assert program.stdout is not None
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            began = (await program.stdout.readuntil(b"machines are played until Ctrl-C\n")).decode()
        assert f"Disks of storage class {STORAGE.metadata.name} boot" in began
        yield
    except BaseException as error:
        error.add_note(f"the command said after its beginning: {await ended(program)}")
        raise
    else:
        assert (await ended(program), program.returncode) == ("", 0)
    finally:
        for volume in (await client.list(PersistentVolume)).items:
            if volume.spec.storage_class_name == STORAGE.metadata.name:
                with suppress(NotFound):  # it went with its claim meanwhile
                    await client.delete(PersistentVolume, volume.metadata.name, precondition=Precondition())
        await client.delete(StorageClass, STORAGE.metadata.name, precondition=Precondition())


async def ended(program: Process) -> str:
    if program.returncode is None:
        program.send_signal(signal.SIGINT)
    said, _ = await program.communicate()
    return said.decode(errors="replace")


async def gone(client: Client, ns: str) -> None:
    await client.delete(Wukong, "vm", ns, precondition=Precondition())
    await until(lambda: is_gone(client, Wukong, "vm", ns))


async def data_has(client: Client, ns: str, size: str) -> object:
    volumes = {volume.name: volume for volume in (await client.get(Wukong, "vm", ns)).status.volumes}
    return True if volumes["data"].size == size else volumes


async def is_marked_as_kept(client: Client, ns: str) -> object:
    marks = (await client.get(PersistentVolumeClaim, "vm-data", ns)).metadata.annotations
    return True if marks.get(names.KEEP_ANNOTATION) == "true" else marks


async def nothing_is_left(client: Client, namespace: str) -> object:
    """Of what a Wukong may have made. The person's key and Kubernetes' own ConfigMap stay."""
    kinds: tuple[type[Object], ...] = (
        Pod,
        PersistentVolumeClaim,
        DataVolume,
        VirtualMachine,
        VirtualMachineInstance,
        NetworkAttachmentDefinition,
        VirtualMachineRestore,
        VirtualMachineSnapshot,
        VirtualMachineSnapshotContent,
        VolumeSnapshot,
        Service,
        Secret,
        ConfigMap,
    )
    others = {"keys", "kube-root-ca.crt"}
    return [found for found in await left_of(client, namespace, kinds) if found.name not in others] or True
