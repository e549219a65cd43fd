"""500 Wukongs with two disks and two networks each, with the real definitions of KubeVirt, CDI and Multus.

Their controllers are played by the stand-in, in a process of its own; disks wait for their machine
(WaitForFirstConsumer), so that everything that Corral makes can be made at once. Wukongs are there before the operator
starts; the clock runs from its first write to its last VirtualMachine. The baseline posts the same objects by a bare
loop over aiohttp, 16 at a time, beside the same stand-in. Then all machines come to run, a quiet minute follows, and
everything is deleted.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from bench.audit import LEASES
from bench.claims import Claim, Run
from bench.lab import CHECKOUT, Kubectl, Operator, namespace, operator, until
from bench.process import Settings
from bench.server import bare_post, bare_session, our_client
from bench.world import at_once
from corral.engine.differences import wire
from corral.kinds.registry import KINDS
from corral.kinds.wukong.cloudinit import cloud_init_secret
from corral.kinds.wukong.disks import disks_of, new_object
from corral.kinds.wukong.machine import virtual_machine
from corral.kinds.wukong.networks import own_attachments
from corral.kinds.wukong.spec import Wukong, WukongSpec
from corral.kube.crd import crd_of, to_yaml
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.storage_v1 import StorageClass
from corral.testing.kubevirt_standin import KubeVirtStandIn
from corral.testing.vmcrds import as_yaml, vm_crds

AT_ONCE = 16
CHILDREN = 5  # network, cloud-init, DataVolume, claim, machine
SETTLE_S = 20.0
CLASS = "bench-wukong"
OURS = "wukongs"
NEEDED = frozenset(entry.kind.resource.plural_and_group for entry in KINDS) | {"virtualmachines.kubevirt.io"}

CREATION = Claim(
    key="wukong-creation",
    title="Networks, disks, guests' data and machines of 500 Wukongs",
    unit="x the bare time",
    bound=1.3,
    compare="ratio",
    measured="from the operator's first write to its last VirtualMachine",
    measured_unit="s",
    baseline="a bare aiohttp loop, the same objects, 16 at a time",
)
CHILD_WRITES = Claim(
    key="wukong-child-writes",
    title="Writes of the operator for a child of a Wukong, until all machines run",
    unit="writes",
    bound=1.2,
    compare="ratio",
    measured="writes of children",
    measured_unit="",
    baseline="children",
)
STATUS = Claim(
    key="wukong-status",
    title="Writes of a Wukong's status until its machine runs",
    unit="writes",
    bound=6.0,
    compare="ratio",
    measured="writes of status",
    measured_unit="",
    baseline="Wukongs",
)
QUIET = Claim(
    key="wukong-quiet",
    title="Requests of the operator in a quiet minute with 500 Wukongs, other than of its lease",
    unit="in a minute",
    bound=0.0,
    measured="requests",
    measured_unit="in a minute",
    baseline="CPU, in % of a core",
)
GROWTH = Claim(
    key="wukong-growth",
    title="The second half of the machines takes as long as the first",
    unit="x the first half's time",
    bound=1.3,
    compare="ratio",
    measured="the second half",
    measured_unit="s",
    baseline="the first half",
)
CLAIMS = (CREATION, CHILD_WRITES, STATUS, QUIET, GROWTH)

SPEC = msgspec.convert(
    {
        "cpu": 2,
        "memory": "4Gi",
        "disks": [
            {"name": "root", "size": "1Gi", "image": "docker://images.test/debian:13", "storageClassName": CLASS},
            {"name": "data", "size": "2Gi", "storageClassName": CLASS},
        ],
        "networks": [{"name": "default"}, {"name": "lan", "bridgeName": "br0", "vlanId": 42}],
    },
    WukongSpec,
)


class Took(msgspec.Struct, frozen=True, kw_only=True):
    made_s: float
    half_made_s: float
    child_writes: int
    status_writes: int
    quiet_requests: float
    quiet_cpu_share: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    count = settings.sizes.wukongs
    cluster = Kubectl(settings.kubeconfig)
    ours = to_yaml(*(crd_of(entry.kind) for entry in KINDS))
    cluster("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=f"{ours}\n{as_yaml(vm_crds())}")
    # `api-resources` also renews what kubectl remembers of the server.
    until("the definitions are served", lambda: set(cluster("api-resources", "-o", "name").split()) >= NEEDED)
    asyncio.run(with_class(settings))
    for run in range(settings.sizes.runs):
        with namespace(settings, f"bare-vms-{run}") as kubectl, standin(settings, kubectl.namespace):
            bare_s = asyncio.run(bare(settings, kubectl.namespace, count))
            kubectl("delete", "virtualmachines,datavolumes,pvc", "--all")
        with namespace(settings, f"vms-{run}") as kubectl:
            ours_took = lived(settings, kubectl, count)
        yield {
            CREATION.key: Run(ours_took.made_s, bare_s),
            CHILD_WRITES.key: Run(ours_took.child_writes, count * CHILDREN),
            STATUS.key: Run(ours_took.status_writes, count),
            QUIET.key: Run(ours_took.quiet_requests, ours_took.quiet_cpu_share * 100),
            GROWTH.key: Run(ours_took.made_s - ours_took.half_made_s, ours_took.half_made_s),
        }


def lived(settings: Settings, kubectl: Kubectl, count: int) -> Took:
    asyncio.run(people_ask(settings, kubectl.namespace, count))
    with standin(settings, kubectl.namespace), operator(settings, images=()) as running:
        made_s, half_made_s = machines_made(running, count)
        until(f"{count} Wukongs run", lambda: running_count(kubectl) == count)
        sent = [one for one in running.sent(0.0) if one.is_write]
        quiet, share = still(running, settings.sizes.idle_s)
        kubectl("delete", "wukongs", "--all", "--wait=false")
        until("all Wukongs are gone", lambda: not kubectl("get", "wukongs", "-o", "name").split())
    return Took(
        made_s=made_s,
        half_made_s=half_made_s,
        child_writes=sum(one.resource not in (OURS, "events") for one in sent),
        status_writes=sum((one.resource, one.subresource) == (OURS, "status") for one in sent),
        quiet_requests=quiet,
        quiet_cpu_share=share,
    )


def a_wukong(number: int, where: str) -> Wukong:
    return Wukong(metadata=ObjectMeta(name=f"vm-{number}", namespace=where, uid=f"bench-{number}"), spec=SPEC)


def children_of(wukong: Wukong) -> list[Object]:
    """The same objects that Corral makes, in the same order, without owners."""
    disks = disks_of(wukong, {}, {}, ())
    made = [*own_attachments(wukong), cloud_init_secret(wukong, {}), *(new_object(wukong, disk) for disk in disks)]
    placed = [*made, virtual_machine(wukong, disks, None, None)]
    where = wukong.metadata.namespace
    return [msgspec.structs.replace(o, metadata=msgspec.structs.replace(o.metadata, namespace=where)) for o in placed]


async def with_class(settings: Settings) -> None:
    waits = StorageClass(
        metadata=ObjectMeta(name=CLASS), provisioner="bench.test/none", volume_binding_mode="WaitForFirstConsumer"
    )
    async with our_client(settings) as client:
        await client.apply(waits, field_manager="bench", force=True)


async def people_ask(settings: Settings, where: str, count: int) -> None:
    async with our_client(settings) as client:
        plain = [
            msgspec.structs.replace(w, metadata=ObjectMeta(name=w.metadata.name, namespace=where))
            for w in (a_wukong(number, where) for number in range(count))
        ]

        async def make(wukong: Wukong) -> None:
            await client.create(wukong, field_manager="bench-person")

        await at_once(plain, make, workers=AT_ONCE)


async def bare(settings: Settings, where: str, count: int) -> float:
    every = [children_of(a_wukong(number, where)) for number in range(count)]
    bodies = [[(type(o).resource.path(where), json.dumps(wire(o)).encode()) for o in objects] for objects in every]
    async with bare_session(settings, connections=AT_ONCE) as session:

        async def post(objects: list[tuple[str, bytes]]) -> None:
            for path, body in objects:
                await bare_post(session, path, body)

        began_s = time.monotonic()
        await at_once(bodies, post, workers=AT_ONCE)
        return time.monotonic() - began_s


def machines_made(running: Operator, count: int) -> tuple[float, float]:
    """From the operator's first write until all machines were made, and until half of them were."""

    def machines() -> list[float]:
        made = (one for one in running.sent(0.0) if one.resource == "virtualmachines" and one.status == 201)
        return sorted(one.at for one in made)

    until(f"{count} machines", lambda: len(machines()) >= count)
    began = min(one.at for one in running.sent(0.0) if one.is_write)
    times = machines()[:count]
    return times[-1] - began, times[count // 2 - 1] - began


def running_count(kubectl: Kubectl) -> int:
    told = kubectl("get", "wukongs", "-o", "jsonpath={.items[*].status.phase}")
    return told.split().count("Running")


def still(running: Operator, seconds: float) -> tuple[float, float]:
    """Requests other than of the lease, and the share of a core, in a quiet minute."""
    time.sleep(SETTLE_S)
    began, began_cpu_s = time.time(), running.cpu_s
    time.sleep(seconds)
    requests = [one for one in running.sent(began) if one.resource != LEASES and one.verb != "watch"]
    return len(requests) * 60 / seconds, (running.cpu_s - began_cpu_s) / seconds


@contextmanager
def standin(settings: Settings, where: str) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.wukong", msgspec.json.encode(settings).decode(), where]
    process = subprocess.Popen(command, cwd=CHECKOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


async def play(settings: Settings, where: str) -> None:
    async with our_client(settings) as client:
        await KubeVirtStandIn(client, namespace=where, pace_s=0.1, real_binding=True).run()


if __name__ == "__main__":
    asyncio.run(play(msgspec.json.decode(sys.argv[1], type=Settings), sys.argv[2]))
