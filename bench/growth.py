"""A NodeSet scaled from 0 to 1,000 workers and then to 4,000, until all pods exist.

No scheduler takes the pods and their Slurm is elsewhere and silent, so what is measured is Corral and the API server
alone. The baseline posts the same pods by a bare loop over aiohttp that reads the whole answers, 16 at a time, before
and after each run: a shared machine is slower at one time than at another, and the mean of both is nearest to what it
was between them.
"""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bench.claims import Claim, Run
from bench.lab import Kubectl, Operator, namespace, operator, until
from bench.process import MeasurementFailed, Settings
from bench.server import bare_post, bare_session, our_client
from bench.world import at_once
from corral.kinds.nodeset.spec import NodeSet
from corral.kube import Precondition
from corral.kube.models.core_v1 import Pod

AT_ONCE = 16
API = "slurm.corral.dev/v1alpha1"
SLURM, NODESET = "far", "worker"
SETTLE_S = 5.0
NOWHERE = {"schedulerName": "nobody"}

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
CLAIMS = (FIRST, MORE, WRITES, CPU)


class Grown(msgspec.Struct, frozen=True):
    seconds: float
    cpu_s: float
    writes: int


class Bare(msgspec.Struct, frozen=True):
    first_s: float
    more_s: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    first, last = settings.sizes.nodes, settings.sizes.nodes + settings.sizes.nodes_more
    pod = a_worker(settings)
    before = bare(settings, "bare", pod)
    for run in range(settings.sizes.runs):
        with operator(settings, images=()) as running, namespace(settings, f"growth-{run}") as kubectl:
            kubectl("apply", "-f", "-", stdin=manifests())
            began = grown(settings, kubectl, running, first)
            time.sleep(SETTLE_S)
            added = grown(settings, kubectl, running, last)
            gone(kubectl)
        after = bare(settings, f"bare-{run}", pod)
        yield {
            FIRST.key: Run(began.seconds, (before.first_s + after.first_s) / 2),
            MORE.key: Run(added.seconds, (before.more_s + after.more_s) / 2),
            WRITES.key: Run(began.writes, first),
            CPU.key: Run(began.cpu_s, added.cpu_s),
        }
        before = after


def manifests(pod_spec: Mapping[str, Any] = NOWHERE) -> str:
    """A slurmctld that nobody answers for, and a NodeSet, of whose pods more is said here."""
    keys = {name: base64.b64encode(secrets.token_bytes(32)).decode() for name in ("slurm.key", "jwt.key")}
    controller = {
        "external": {"host": "192.0.2.1", "port": 6817},
        "slurmKeyRef": {"name": "keys", "key": "slurm.key"},
        "jwtKeyRef": {"name": "keys", "key": "jwt.key"},
    }
    nodeset = {
        "controllerRef": {"name": SLURM},
        "replicas": 0,
        "slurmd": {"resources": {"limits": {"cpu": "8", "memory": "16Gi"}}},
        "template": {"spec": pod_spec},
    }
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": keys},
        {"apiVersion": API, "kind": "Controller", "metadata": {"name": SLURM}, "spec": controller},
        {"apiVersion": API, "kind": "NodeSet", "metadata": {"name": NODESET}, "spec": nodeset},
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
            one.at
            for one in running.sent(began)
            if (one.verb, one.resource, one.subresource, one.status) == ("create", "pods", "", 201)
        ]

    until(f"{replicas} pods", lambda: len(made()) >= replicas - there)
    sent = running.sent(began)
    writes = sum(one.is_write for one in sent)
    return Grown(max(made()) - began, running.cpu_s - began_cpu_s, writes)


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
    """With nobody left to ask, workers of a slurmctld elsewhere stay; whoever knows that nothing runs deletes them."""
    kubectl("delete", "controller", "--all")
    kubectl("delete", "nodeset", "--all", "--wait=false")
    pods = Pod.resource.path(kubectl.namespace)
    until("the pods are deleted", lambda: is_deleted(kubectl, pods))
    until("no NodeSet is left", lambda: not kubectl("get", "nodeset", "-o", "name").strip())


def is_deleted(kubectl: Kubectl, collection: str) -> bool:
    """The API server ends a request after a minute, also one that still has thousands of objects to delete."""
    try:
        kubectl("delete", f"--raw={collection}")
    except MeasurementFailed:
        return False
    return True


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
            await bare_post(session, path, body)

        began_s = time.monotonic()
        await at_once(bodies, post, workers=AT_ONCE)
        return time.monotonic() - began_s
