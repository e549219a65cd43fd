"""500 Wukongs with two disks and two networks each, with the real definitions of KubeVirt, CDI and Multus.

Their controllers are played by a stand-in (`bench.kubevirt`) in a process of its own; disks wait for their machine
(WaitForFirstConsumer), so that everything that Corral makes can be made at once. Wukongs are there before the operator
starts; the clock runs from its first write to its last VirtualMachine. The baseline sends the same requests by a bare
loop over aiohttp (`bench.wukong_bare`), beside the same stand-in. Then all machines come to run, and a quiet minute
follows. Growth is seen by half as many Wukongs. Each of these has a new cluster of its own.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from bench.audit import LEASES
from bench.claims import Claim, Run
from bench.lab import CHECKOUT, Kubectl, Operator, operator, until
from bench.process import Settings
from bench.server import our_client
from bench.world import at_once, renew
from bench.wukong_bare import AT_ONCE, CLASS, a_wukong, asked_alike, posted
from corral.kinds.registry import KINDS
from corral.kinds.wukong.spec import Wukong
from corral.kube.crd import crd_of, to_yaml
from corral.kube.meta import ObjectMeta
from corral.kube.models.storage_v1 import StorageClass
from corral.testing.vmcrds import as_yaml, vm_crds

CHILDREN = 5  # network, cloud-init, DataVolume, claim, machine
SETTLE_S = 20.0
LOOK_EVERY_S = 2.0  # a list of hundreds costs the server more than what it tells
WHERE = "vms"
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
    baseline="a bare aiohttp loop with the same requests, 16 Wukongs at a time, each machine when its disk awaits it",
)
POSTED = Claim(
    key="wukong-posted",
    title="The same, against a loop that only posts the children: no finalizer, nothing applied",
    unit="x the bare time",
    bound=None,
    compare="ratio",
    measured="from the operator's first write to its last VirtualMachine",
    measured_unit="s",
    baseline="a bare aiohttp loop, the same children, 16 Wukongs at a time, each machine when its disk awaits it",
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
    title="Time until its machine is made, for a Wukong of 500",
    unit="x that of a Wukong of 250",
    bound=1.3,
    compare="ratio",
    measured="from the first write to the last VirtualMachine, for each of 500",
    measured_unit="ms",
    baseline="for each of 250",
)
GROWTH_CPU = Claim(
    key="wukong-growth-cpu",
    title="CPU of the operator until it runs, for a Wukong of 500",
    unit="x that of a Wukong of 250",
    bound=1.3,
    compare="ratio",
    measured="user and system time, for each of 500",
    measured_unit="ms",
    baseline="for each of 250",
)
CLAIMS = (CREATION, POSTED, CHILD_WRITES, STATUS, QUIET, GROWTH, GROWTH_CPU)


class Came(msgspec.Struct, frozen=True, kw_only=True):
    """How so many Wukongs came to run."""

    count: int
    made_s: float
    cpu_s: float
    child_writes: int
    status_writes: int

    @property
    def made_ms_each(self) -> float:
        return self.made_s * 1000 / self.count

    @property
    def cpu_ms_each(self) -> float:
        return self.cpu_s * 1000 / self.count


class Rested(msgspec.Struct, frozen=True, kw_only=True):
    requests: float
    cpu_share: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    count = settings.sizes.wukongs
    for _ in range(settings.sizes.runs):
        with room(settings), standin(settings):
            asyncio.run(people_ask(settings, count))
            posted_s = asyncio.run(posted(settings, WHERE))
        with room(settings), standin(settings):
            asyncio.run(people_ask(settings, count))
            asked_s = asyncio.run(asked_alike(settings, WHERE))
        with room(settings) as kubectl:
            half, _ = lived(settings, kubectl, count // 2, rests_s=0.0)
        with room(settings) as kubectl:
            whole, rested = lived(settings, kubectl, count, rests_s=settings.sizes.idle_s)
        yield {
            CREATION.key: Run(whole.made_s, asked_s),
            POSTED.key: Run(whole.made_s, posted_s),
            CHILD_WRITES.key: Run(whole.child_writes, count * CHILDREN),
            STATUS.key: Run(whole.status_writes, count),
            QUIET.key: Run(rested.requests, rested.cpu_share * 100),
            GROWTH.key: Run(whole.made_ms_each, half.made_ms_each),
            GROWTH_CPU.key: Run(whole.cpu_ms_each, half.cpu_ms_each),
        }


@contextmanager
def room(settings: Settings) -> Iterator[Kubectl]:
    """A new cluster, with the definitions, the class and a namespace.

    Thousands of objects, each with finalizers, take longer to delete than all that is measured.
    """
    renew(settings)
    cluster = Kubectl(settings.kubeconfig)
    definitions = f"{to_yaml(*(crd_of(entry.kind) for entry in KINDS))}\n{as_yaml(vm_crds())}"
    cluster("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definitions)
    # `api-resources` also renews what kubectl remembers of the server.
    until("the definitions are served", lambda: set(cluster("api-resources", "-o", "name").split()) >= NEEDED)
    cluster("create", "namespace", WHERE)
    asyncio.run(with_class(settings))
    yield Kubectl(settings.kubeconfig, WHERE)


def lived(settings: Settings, kubectl: Kubectl, count: int, *, rests_s: float) -> tuple[Came, Rested]:
    asyncio.run(people_ask(settings, count))
    with standin(settings), operator(settings, images=()) as running:
        began_cpu_s = running.cpu_s
        made_s = machines_made(running, count)
        until(f"{count} Wukongs run", lambda: running_count(kubectl) == count, every_s=LOOK_EVERY_S)
        cpu_s = running.cpu_s - began_cpu_s
        sent = [one for one in running.sent(0.0) if one.is_write]
        rested = still(running, rests_s) if rests_s else Rested(requests=0.0, cpu_share=0.0)
    came = Came(
        count=count,
        made_s=made_s,
        cpu_s=cpu_s,
        child_writes=sum(one.resource not in (OURS, "events") for one in sent),
        status_writes=sum((one.resource, one.subresource) == (OURS, "status") for one in sent),
    )
    return came, rested


async def with_class(settings: Settings) -> None:
    waits = StorageClass(
        metadata=ObjectMeta(name=CLASS), provisioner="bench.test/none", volume_binding_mode="WaitForFirstConsumer"
    )
    async with our_client(settings) as client:
        await client.apply(waits, field_manager="bench", force=True)


async def people_ask(settings: Settings, count: int) -> None:
    async with our_client(settings) as client:
        wukongs = [a_wukong(number, WHERE) for number in range(count)]

        async def make(wukong: Wukong) -> None:
            await client.create(wukong, field_manager="bench-person")

        await at_once(wukongs, make, workers=AT_ONCE)


def machines_made(running: Operator, count: int) -> float:
    """From the operator's first write until all machines were made."""

    def machines() -> list[float]:
        made = (one for one in running.sent(0.0) if one.resource == "virtualmachines" and one.status == 201)
        return sorted(one.at for one in made)

    until(f"{count} machines", lambda: len(machines()) >= count)
    began = min(one.at for one in running.sent(0.0) if one.is_write)
    return machines()[count - 1] - began


def running_count(kubectl: Kubectl) -> int:
    told = kubectl("get", "wukongs", "-o", "jsonpath={.items[*].status.phase}")
    return told.split().count("Running")


def still(running: Operator, seconds: float) -> Rested:
    """Requests other than of the lease, and the share of a core, in a quiet minute."""
    time.sleep(SETTLE_S)
    began, began_cpu_s = time.time(), running.cpu_s
    time.sleep(seconds)
    requests = [one for one in running.sent(began) if one.resource != LEASES and one.verb != "watch"]
    return Rested(requests=len(requests) * 60 / seconds, cpu_share=(running.cpu_s - began_cpu_s) / seconds)


@contextmanager
def standin(settings: Settings) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.kubevirt", msgspec.json.encode(settings).decode(), WHERE]
    process = subprocess.Popen(command, cwd=CHECKOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)
