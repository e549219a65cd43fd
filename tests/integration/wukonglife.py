"""Wukongs on a real API server: an operator and the stand-in beside the test, and facts to wait for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec
import yaml

from corral.engine import Manager, Metrics, system_clock
from corral.kinds.addresspool.controller import controller as pool_controller
from corral.kinds.addresspool.spec import AddressPool, AddressPoolSpec
from corral.kinds.wukong.controller import controller
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.controller import controller as snapshot_controller
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec
from corral.kube import Client, HttpTransport, Precondition, load_credentials
from corral.kube.crd import crd_of, to_yaml
from corral.kube.errors import NotFound
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import PersistentVolume
from corral.kube.models.storage_v1 import StorageClass
from corral.testing.cluster import Cluster
from corral.testing.guests import Guests
from corral.testing.kubevirt_standin import KubeVirtStandIn
from corral.testing.kubevirt_standin.subresources import StandInApi
from corral.testing.vmcrds import as_yaml, vm_crds

WITHIN_S = 180.0
CLASS = "wukong-test"


@contextmanager
def definitions(cluster: Cluster) -> Iterator[None]:
    """Those of others go afterwards: a cluster with KubeVirt's definitions is another cluster."""
    cluster.define(to_yaml(crd_of(Wukong), crd_of(WukongSnapshot), crd_of(AddressPool)))
    cluster.define(as_yaml(vm_crds()))
    yield
    names = [crd["metadata"]["name"] for crd in vm_crds()]
    cluster.kubectl("delete", "crd", *names, "--wait=false", "--ignore-not-found")


async def until(holds: Callable[[], Awaitable[object]], within_s: float = WITHIN_S) -> None:
    """Wait for a fact; the last thing seen is in the message."""
    seen: object = None
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    seen = await holds()
                except NotFound as error:
                    seen = str(error)
                if seen is True:
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s; seen last: {seen}") from None


@asynccontextmanager
async def operating(
    cluster: Cluster, client: Client, namespace: str, guests: Guests | None = None
) -> AsyncIterator[KubeVirtStandIn]:
    grows = StorageClass(metadata=ObjectMeta(name=CLASS), provisioner="wukong.test/none", allow_volume_expansion=True)
    await client.apply(grows, field_manager="test", force=True)
    standin = KubeVirtStandIn(client, namespace=namespace, pace_s=0.2, real_binding=True, guests=guests)
    stop = asyncio.Event()
    controllers = (controller(), snapshot_controller(), pool_controller())
    way = StandInApi(HttpTransport(load_credentials(cluster.kubeconfig), component="operator"), standin)
    ours = Client(way)
    manager = Manager(ours, controllers, clock=system_clock(), metrics=Metrics(), on_synced=lambda: None)
    tasks = [asyncio.create_task(manager.run(stop)), asyncio.create_task(standin.run())]
    try:
        yield standin
    finally:
        stop.set()
        tasks[1].cancel()
        with suppress(asyncio.CancelledError):
            await tasks[1]
        await tasks[0]
        await way.close()
        for volume in (await client.list(PersistentVolume)).items:
            if volume.spec.storage_class_name == CLASS:
                await client.delete(PersistentVolume, volume.metadata.name, precondition=Precondition())
        await client.delete(StorageClass, CLASS, precondition=Precondition())


async def apply(client: Client, namespace: str, spec: str, name: str = "vm") -> None:
    metadata = {"name": name, "namespace": namespace}
    manifest = msgspec.convert({"metadata": metadata, "spec": yaml.safe_load(spec)}, Wukong)
    await client.apply(manifest, field_manager="person", force=True)


async def make_pool(client: Client, namespace: str, name: str) -> None:
    pool = AddressPool(metadata=ObjectMeta(name=name, namespace=namespace), spec=AddressPoolSpec(subnet="10.9.0.0/24"))
    await client.create(pool, field_manager="person")


async def phase_is(client: Client, namespace: str, phase: str) -> object:
    status = (await client.get(Wukong, "vm", namespace)).status
    told = {c.type: f"{c.status} {c.reason}: {c.message}" for c in status.conditions}
    return True if (status.phase, told.get("Ready", "")[:4]) == (phase, "True") else (status.phase, told)


async def is_gone(client: Client, kind: type[Object], name: str, namespace: str) -> object:
    try:
        return await client.get(kind, name, namespace)
    except NotFound:
        return True


async def is_taken(
    client: Client, namespace: str, name: str = "friday", disks: tuple[str, ...] = ("root", "data")
) -> object:
    status = (await client.get(WukongSnapshot, name, namespace)).status
    held = tuple(disk.name for disk in status.disks)
    return True if (status.phase, status.included_volumes, held) == ("Succeeded", disks, disks) else status


async def is_restored(client: Client, namespace: str, snapshot: str) -> object:
    if (await client.get(Wukong, "vm", namespace)).status.restored_from != snapshot:
        return f"not restored from {snapshot!r}: {await phase_is(client, namespace, 'Running')}"
    return await phase_is(client, namespace, "Running")


async def take_snapshot(
    client: Client, namespace: str, name: str, disks: tuple[str, ...] = (), failure_deadline: str = "5m"
) -> None:
    asked = WukongSnapshotSpec(wukong_name="vm", disks=disks, failure_deadline=failure_deadline)
    snapshot = WukongSnapshot(metadata=ObjectMeta(name=name, namespace=namespace), spec=asked)
    await client.create(snapshot, field_manager="person")
