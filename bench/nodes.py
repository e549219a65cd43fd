"""Thousands of workers: a NodeSet scaled from 0 to 1,000 and then to 4,000, until all pods exist.

No scheduler takes the pods and their Slurm is elsewhere and silent, so what is measured is Corral and the API server
alone. The baseline posts the same pods by a bare loop over aiohttp, 16 at a time, before and after each run: a shared
machine is slower at one time than at another, and the mean of both is nearest to what it was between them. At each size
a quiet minute follows; then the NodeSet is touched a few times. What a pass costs that finds everything as it should be
is measured apart, in a process without a server (`bench/node_pass.py`).
"""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bench import node_pass
from bench.claims import Claim, Run
from bench.lab import Kubectl, Operator, namespace, operator, until
from bench.node_pass import Passes
from bench.process import Settings, measured
from bench.server import bare_session, our_client
from bench.world import at_once
from corral.kinds.nodeset.spec import NodeSet
from corral.kube import Precondition
from corral.kube.models.core_v1 import Pod

AT_ONCE = 16
TOUCHES = 20
SETTLE_S = 15.0
MIB = 1 << 20
NODESET = "worker"

FIRST = Claim(
    key="nodes-first",
    title="A NodeSet from 0 to 1,000 workers",
    unit="x the bare time",
    bound=1.3,
    compare="ratio",
    measured="from the change of its scale until all pods exist",
    measured_unit="s",
    baseline="a bare aiohttp loop, the same pods, 16 at a time",
)
MORE = Claim(
    key="nodes-more",
    title="The same NodeSet from 1,000 to 4,000 workers",
    unit="x the bare time",
    bound=1.3,
    compare="ratio",
    measured="from the change of its scale until all pods exist",
    measured_unit="s",
    baseline="the same loop",
)
WRITES = Claim(
    key="nodes-writes",
    title="Writes of the operator for a worker",
    unit="writes",
    bound=1.05,
    compare="ratio",
    measured="writes until the first thousand pods exist, the status among them",
    measured_unit="",
    baseline="workers",
)
CPU = Claim(
    key="nodes-cpu",
    title="CPU of the operator for the first thousand workers",
    unit="s",
    bound=3.0,
    measured="CPU time",
    measured_unit="s",
    baseline="CPU time for the next three thousand",
)
QUIET_WRITES = Claim(
    key="nodes-quiet-writes",
    title="Writes of the operator in a quiet minute with 4,000 workers, other than of its lease",
    unit="in a minute",
    bound=0.0,
    measured="writes",
    measured_unit="in a minute",
    baseline="with 1,000 workers",
)
QUIET_CPU = Claim(
    key="nodes-quiet-cpu",
    title="CPU of the operator in a quiet minute with 4,000 workers",
    unit="% of a core",
    bound=1.0,
    strictly=True,
    measured="CPU time in a minute",
    measured_unit="% of a core",
    baseline="with 1,000 workers",
)
MEMORY_FIRST = Claim(
    key="nodes-memory-first",
    title="Memory of the operator with 1,000 workers",
    unit="MiB",
    bound=100.0,
    measured="proportional share of its process",
    measured_unit="MiB",
    baseline="before the first worker",
)
MEMORY = Claim(
    key="nodes-memory",
    title="Memory of the operator with 4,000 workers",
    unit="MiB",
    bound=200.0,
    measured="proportional share of its process",
    measured_unit="MiB",
    baseline="before the first worker",
)
TOUCH = Claim(
    key="nodes-touch",
    title="What the operator needs for a touch of a NodeSet of 4,000 workers that wait for their Slurm",
    unit="ms of CPU",
    bound=None,
    measured="CPU for each of 20 touches, the event and the request included",
    measured_unit="ms",
    baseline="with 1,000 workers",
)
PASS = Claim(
    key="nodes-pass",
    title="A pass over an unchanged NodeSet of 4,000 workers",
    unit="ms of CPU",
    bound=20.0,
    measured="observe, plan and report",
    measured_unit="ms",
    baseline="when one pod of all has changed",
)
PLAN = Claim(
    key="nodes-plan",
    title="Planning with 5,000 Slurm nodes and 10,000 jobs",
    unit="ms of CPU",
    bound=100.0,
    measured="the plan of the first pass, with nothing remembered",
    measured_unit="ms",
    baseline="all of that pass: observe, plan and report",
)
CLAIMS = (FIRST, MORE, WRITES, CPU, QUIET_WRITES, QUIET_CPU, MEMORY_FIRST, MEMORY, TOUCH, PASS, PLAN)


class Grown(msgspec.Struct, frozen=True):
    seconds: float
    cpu_s: float
    writes: int


class Bare(msgspec.Struct, frozen=True):
    first_s: float
    more_s: float


class Still(msgspec.Struct, frozen=True):
    """A NodeSet to which nothing happens."""

    writes: float  # in a minute
    cpu_share: float
    memory_bytes: int
    touch_cpu_s: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    first, last = settings.sizes.nodes, settings.sizes.nodes + settings.sizes.nodes_more
    pod = a_worker(settings)
    before = bare(settings, "bare", pod)
    for run in range(settings.sizes.runs):
        with operator(settings, images=()) as running:
            at_first = running.memory_bytes
            with namespace(settings, f"nodes-{run}") as kubectl:
                kubectl("apply", "-f", "-", stdin=manifests())
                began, small = grown(settings, kubectl, running, first), still(kubectl, running, settings.sizes.idle_s)
                added, large = grown(settings, kubectl, running, last), still(kubectl, running, settings.sizes.idle_s)
                gone(kubectl)
        after = bare(settings, f"bare-{run}", pod)
        yield {
            FIRST.key: Run(began.seconds, (before.first_s + after.first_s) / 2),
            MORE.key: Run(added.seconds, (before.more_s + after.more_s) / 2),
            WRITES.key: Run(began.writes, first),
            CPU.key: Run(began.cpu_s, added.cpu_s),
            QUIET_WRITES.key: Run(large.writes, small.writes),
            QUIET_CPU.key: Run(large.cpu_share * 100, small.cpu_share * 100),
            MEMORY_FIRST.key: Run(small.memory_bytes / MIB, at_first / MIB),
            MEMORY.key: Run(large.memory_bytes / MIB, at_first / MIB),
            TOUCH.key: Run(large.touch_cpu_s * 1000, small.touch_cpu_s * 1000),
            **passes(settings),
        }
        before = after


def passes(settings: Settings) -> dict[str, Run]:
    """Without a server: see `bench.node_pass`."""
    many, most = (measured(node_pass.__name__, part, settings, Passes) for part in ("all", "large"))
    return {
        PASS.key: Run(many.unchanged_s * 1000, many.one_changed_s * 1000),
        PLAN.key: Run(most.first_plan_s * 1000, most.first_s * 1000),
    }


def manifests() -> str:
    """A slurmctld that nobody answers for, and a NodeSet whose pods no scheduler takes."""
    keys = {name: base64.b64encode(secrets.token_bytes(32)).decode() for name in ("slurm.key", "jwt.key")}
    controller = {
        "external": {"host": "192.0.2.1", "port": 6817},
        "slurmKeyRef": {"name": "keys", "key": "slurm.key"},
        "jwtKeyRef": {"name": "keys", "key": "jwt.key"},
    }
    nodeset = {
        "controllerRef": {"name": "far"},
        "replicas": 0,
        "slurmd": {"resources": {"limits": {"cpu": "8", "memory": "16Gi"}}},
        "template": {"spec": {"schedulerName": "nobody"}},
    }
    api = "slurm.corral.dev/v1alpha1"
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": keys},
        {"apiVersion": api, "kind": "Controller", "metadata": {"name": "far"}, "spec": controller},
        {"apiVersion": api, "kind": "NodeSet", "metadata": {"name": NODESET}, "spec": nodeset},
    ]
    return "\n---\n".join(json.dumps(one) for one in objects)


async def scaled(settings: Settings, where: str, replicas: int) -> float:
    """When it was asked for. Not by kubectl, whose own start would count."""
    async with our_client(settings) as client:
        await client.server_version()  # connects
        began = time.time()
        spec = {"spec": {"replicas": replicas}}
        await client.patch(
            NodeSet, NODESET, where, merge=spec, precondition=Precondition(), field_manager="bench-person"
        )
        return began


def grown(settings: Settings, kubectl: Kubectl, running: Operator, replicas: int) -> Grown:
    """Scale, and wait for the answers to all creations."""
    there = int(kubectl("get", "nodeset", NODESET, "-o", "jsonpath={.spec.replicas}"))
    began, began_cpu_s = asyncio.run(scaled(settings, kubectl.namespace, replicas)), running.cpu_s

    def made() -> list[float]:
        return [
            one.at for one in running.sent(began) if one.verb == "create" and one.kind == "Pod" and one.status == 201
        ]

    until(f"{replicas} pods", lambda: len(made()) >= replicas - there)
    sent = running.sent(began)
    writes = sum(one.is_write for one in sent)
    return Grown(max(made()) - began, running.cpu_s - began_cpu_s, writes)


def still(kubectl: Kubectl, running: Operator, seconds: float) -> Still:
    time.sleep(SETTLE_S)
    began, began_cpu_s = time.time(), running.cpu_s
    time.sleep(seconds)
    share = (running.cpu_s - began_cpu_s) / seconds
    sent = running.sent(began)
    writes = sum(one.is_write for one in sent)
    touched_cpu_s = running.cpu_s
    for touch in range(TOUCHES):
        kubectl("annotate", "nodeset", NODESET, f"bench.corral.dev/touch={touch}", "--overwrite")
    time.sleep(1.0)
    each_s = max(running.cpu_s - touched_cpu_s, 0.0) / TOUCHES
    return Still(writes * 60 / seconds, share, running.memory_bytes, each_s)


def a_worker(settings: Settings) -> dict[str, Any]:
    with operator(settings, images=()) as running, namespace(settings, "nodes-one") as kubectl:
        kubectl("apply", "-f", "-", stdin=manifests())
        grown(settings, kubectl, running, 1)
        pod = pod_like(kubectl)
        gone(kubectl)
    return pod


def pod_like(kubectl: Kubectl) -> dict[str, Any]:
    """A worker's pod as it was sent, but for its name and its owner."""
    pod = json.loads(kubectl("get", "pod", f"{NODESET}-0", "-o", "json"))
    kept = {name: pod["metadata"].get(name, {}) for name in ("labels", "annotations")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": pod["spec"]}


def gone(kubectl: Kubectl) -> None:
    """The Controller first: with nobody left to ask, workers go at once."""
    kubectl("delete", "controller", "--all")
    kubectl("delete", "nodeset", "--all")


def bare(settings: Settings, where: str, pod: dict[str, Any]) -> Bare:
    first, last = settings.sizes.nodes, settings.sizes.nodes + settings.sizes.nodes_more
    with namespace(settings, where) as kubectl:
        return Bare(
            asyncio.run(posted(settings, kubectl.namespace, pod, 0, first)),
            asyncio.run(posted(settings, kubectl.namespace, pod, first, last)),
        )


async def posted(settings: Settings, where: str, pod: dict[str, Any], first: int, last: int) -> float:
    path = Pod.resource.path(where)
    bodies = [
        msgspec.json.encode({**pod, "metadata": {**pod["metadata"], "name": f"bare-{number}"}})
        for number in range(first, last)
    ]
    async with bare_session(settings, connections=AT_ONCE) as session:

        async def post(body: bytes) -> None:
            async with session.post(path, data=body, headers={"Content-Type": "application/json"}) as response:
                response.raise_for_status()
                await response.read()

        began_s = time.monotonic()
        await at_once(bodies, post, workers=AT_ONCE)
        return time.monotonic() - began_s
