"""Wukongs on a real API server: an operator and the stand-in beside the test, and facts to wait for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec
import yaml

from corral.engine import Clock, Manager, Metrics, system_clock
from corral.kinds.addresspool.controller import controller as pool_controller
from corral.kinds.addresspool.spec import AddressPool, AddressPoolSpec
from corral.kinds.nodebridge.controller import controller as bridge_controller
from corral.kinds.nodebridge.spec import NodeBridge
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.snapshots import VirtualMachineSnapshot
from corral.kinds.wukong.controller import controller
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.controller import controller as snapshot_controller
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec
from corral.kube import Client, HttpTransport, Precondition, Selector, load_credentials
from corral.kube.crd import crd_of, to_yaml
from corral.kube.definitions import define
from corral.kube.errors import NotFound
from corral.kube.meta import Condition, Object, ObjectMeta, ObjectRef, ref
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.core_v1 import PersistentVolume
from corral.kube.models.storage_v1 import StorageClass
from corral.kube.transport import Transport
from corral.testing.cluster import Cluster
from corral.testing.kubevirt_standin import KubeVirtStandIn
from corral.testing.kubevirt_standin.subresources import StandInApi
from corral.testing.vmcrds import as_yaml, crd_of_kind, vm_crds

WITHIN_S = 180.0
CLASS = "wukong-test"

WHOLE = """
cpu: 4
memory: 8Gi
disks:
- {name: root, size: 1Gi, image: 'docker://images.test/debian:13', boot: true, storageClassName: wukong-test}
- {name: data, size: 2Gi, storageClassName: wukong-test}
networks:
- {name: default}
- {name: lan, bridgeName: br0, vlanId: 42, ipConfig: {mode: static, address: 10.1.2.3/24, gateway: 10.1.2.1}}
- {name: san, bridgeName: br1, ipConfig: {mode: pool, pool: san}}
firmware: {bootloader: uefi, secureBoot: true, tpm: true}
clock: {timezone: Europe/Zurich}
watchdog: true
readinessProbe: {guestAgent: true}
livenessProbe: {tcpPort: 22}
gpus: [{name: gpu0, deviceName: nvidia.com/TU104GL_Tesla_T4}]
highAvailability:
  antiAffinity: true
  tolerations: [{key: vm, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
  spread: {}
  evictionStrategy: LiveMigrateIfPossible
service: {ports: [{name: ssh, port: 22}]}
networkPolicy: Service
liveResize: {maxCpu: 8, maxMemory: 8Gi}
"""


@contextmanager
def definitions(cluster: Cluster) -> Iterator[None]:
    """Those of others go afterwards: a cluster with KubeVirt's definitions is another cluster."""
    cluster.define(to_yaml(*(crd_of(kind) for kind in (Wukong, WukongSnapshot, AddressPool, NodeBridge))))
    cluster.define(as_yaml(vm_crds()))
    yield
    for kind in (VirtualMachine, VirtualMachineSnapshot):
        let_go(cluster, kind.resource.plural_and_group)
    names = [crd["metadata"]["name"] for crd in vm_crds()]
    cluster.kubectl("delete", "crd", *names, "--ignore-not-found", "--timeout=60s")


def let_go(cluster: Cluster, kind: str) -> None:
    """Of those that a test has left, and that no stand-in ends any more: their definition would never go."""
    found = cluster.try_kubectl("get", kind, "--all-namespaces", "--output=json").stdout
    for left in msgspec.json.decode(found or '{"items": []}')["items"]:
        name, namespace = left["metadata"]["name"], left["metadata"]["namespace"]
        none = '--patch={"metadata": {"finalizers": null}}'
        cluster.try_kubectl("patch", kind, name, f"--namespace={namespace}", "--type=merge", none)


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
async def playing(client: Client, namespace: str) -> AsyncIterator[KubeVirtStandIn]:
    """The others' controllers. What they could not play is told with whatever was not seen because of it."""
    grows = StorageClass(metadata=ObjectMeta(name=CLASS), provisioner="wukong.test/none", allow_volume_expansion=True)
    await client.apply(grows, field_manager="test", force=True)
    standin = KubeVirtStandIn(client, namespace=namespace, pace_s=0.2, real_binding=True)
    task = asyncio.create_task(standin.run())
    try:
        yield standin
    except AssertionError as error:
        for trouble in standin.troubles:
            error.add_note(f"the stand-in: {trouble}")
        raise
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        for volume in (await client.list(PersistentVolume)).items:
            if volume.spec.storage_class_name == CLASS:
                with suppress(NotFound):  # it went with its claim meanwhile
                    await client.delete(PersistentVolume, volume.metadata.name, precondition=Precondition())
        await client.delete(StorageClass, CLASS, precondition=Precondition())


def operator_over(way: Transport, clock: Clock | None = None) -> Manager:
    controllers = (controller(), snapshot_controller(), pool_controller(), bridge_controller())
    return Manager(Client(way), controllers, clock=clock or system_clock(), metrics=Metrics(), on_synced=lambda: None)


def way_to(cluster: Cluster) -> Transport:
    return HttpTransport(load_credentials(cluster.kubeconfig), component="operator")


@asynccontextmanager
async def operator(way: Transport) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(operator_over(way).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task
        await way.close()


@asynccontextmanager
async def operating(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[KubeVirtStandIn]:
    async with playing(client, namespace) as standin, operator(StandInApi(way_to(cluster), standin)):
        yield standin


async def apply(client: Client, namespace: str, spec: str, name: str = "vm") -> None:
    metadata = {"name": name, "namespace": namespace}
    manifest = msgspec.convert({"metadata": metadata, "spec": yaml.safe_load(spec)}, Wukong)
    await client.apply(manifest, field_manager="person", force=True)


async def make_pool(client: Client, namespace: str, name: str) -> None:
    pool = AddressPool(metadata=ObjectMeta(name=name, namespace=namespace), spec=AddressPoolSpec(subnet="10.9.0.0/24"))
    await client.create(pool, field_manager="person")


async def ready_reason(client: Client, namespace: str, reason: str) -> object:
    return reason_is((await client.get(Wukong, "vm", namespace)).status.conditions, reason)


async def snapshot_reason(client: Client, namespace: str, name: str, reason: str) -> object:
    return reason_is((await client.get(WukongSnapshot, name, namespace)).status.conditions, reason)


def reason_is(conditions: Iterable[Condition], reason: str) -> object:
    found = next((c.reason for c in conditions if c.type == "Ready"), "")
    return True if found == reason else found


async def phase_is(client: Client, namespace: str, phase: str, name: str = "vm") -> object:
    status = (await client.get(Wukong, name, namespace)).status
    told = {c.type: f"{c.status} {c.reason}: {c.message}" for c in status.conditions}
    return True if (status.phase, told.get("Ready", "")[:4]) == (phase, "True") else (status.phase, told)


async def is_gone(client: Client, kind: type[Object], name: str, namespace: str) -> object:
    try:
        return await client.get(kind, name, namespace)
    except NotFound:
        return True


async def are_gone(client: Client, namespace: str, things: Iterable[tuple[type[Object], str]]) -> object:
    """Wukongs delete machines, disks and networks themselves; the rest the server collects, a moment later."""
    found = [name for kind, name in things if await is_gone(client, kind, name, namespace) is not True]
    return found or True


async def none_is_left(client: Client, namespace: str, kinds: Iterable[type[Object]]) -> object:
    return await left_of(client, namespace, kinds) or True


async def left_of(client: Client, namespace: str, kinds: Iterable[type[Object]]) -> list[ObjectRef]:
    """Objects of these kinds, and volumes that claims of the namespace have or had."""
    where = Selector(namespace=namespace)
    volumes = (await client.list(PersistentVolume)).items
    claimed = [ref(v) for v in volumes if v.spec.claim_ref and v.spec.claim_ref.namespace == namespace]
    return claimed + [ref(one) for kind in kinds for one in (await client.list(kind, where)).items]


async def is_another(client: Client, kind: type[Object], name: str, namespace: str, uid: str) -> object:
    """Whether there is one, and not the one that was."""
    meta = (await client.get(kind, name, namespace)).metadata
    return True if meta.uid != uid and meta.deletion_timestamp is None else meta.uid


async def undefine(client: Client, kind: type[Object]) -> None:
    """With everything that is of the kind, as the server does it."""
    name = kind.resource.plural_and_group
    await client.delete(CustomResourceDefinition, name, precondition=Precondition())
    await until(lambda: is_gone(client, CustomResourceDefinition, name, ""))


async def define_again(client: Client, kind: type[Object]) -> None:
    definition = msgspec.convert(crd_of_kind(kind.resource.kind), CustomResourceDefinition)
    await define(client, [definition], field_manager="test")


async def is_taken(
    client: Client, namespace: str, name: str = "friday", disks: tuple[str, ...] = ("root", "data")
) -> object:
    status = (await client.get(WukongSnapshot, name, namespace)).status
    held = tuple(disk.name for disk in status.disks)
    return True if (status.phase, status.included_volumes, held) == ("Succeeded", disks, disks) else status


async def is_restored(client: Client, namespace: str, snapshot: str, name: str = "vm") -> object:
    runs = await phase_is(client, namespace, "Running", name)
    has = (await client.get(Wukong, name, namespace)).status.restored_from
    return runs if has == snapshot else f"restored from {has!r}, not from {snapshot!r}: {runs}"


async def take_snapshot(
    client: Client, namespace: str, name: str, disks: tuple[str, ...] = (), failure_deadline: str = "5m"
) -> None:
    asked = WukongSnapshotSpec(wukong_name="vm", disks=disks, failure_deadline=failure_deadline)
    snapshot = WukongSnapshot(metadata=ObjectMeta(name=name, namespace=namespace), spec=asked)
    await client.create(snapshot, field_manager="person")
