"""One pass over a NodeSet as the engine makes it, without a server: observe, plan and report, in a process of its own.

The caches hold workers as a server shows them, ten a Kubernetes node; Slurm is a view in memory with all nodes, and two
jobs on each. What is counted is the CPU time of the process.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import msgspec

from bench.process import Settings, answer
from corral.engine import Apply, Create, Key, Outcome, children, controller_reference
from corral.engine.reader import StoreReader, index_functions
from corral.engine.status import status_differs
from corral.engine.store import Store, new_store
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.nodeset.calls import Address, Call
from corral.kinds.nodeset.controller import controller
from corral.kinds.nodeset.farewell import FINALIZER
from corral.kinds.nodeset.making import guarded
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.revision import kept
from corral.kinds.nodeset.shown import shown
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet, NodeSetSpec
from corral.kinds.nodeset.worker import worker_pod
from corral.kinds.nodeset.workers import Place
from corral.kinds.parts import Ref
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import Node as Machine
from corral.kube.models.core_v1 import NodeCondition, NodeStatus, Pod
from corral.slurm.facts import Extra, Observed, View
from corral.slurm.poller import jobs_by_node
from corral.slurm.states import Phase, node_state
from corral.slurm.values import Job, Node, Server

NOW = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)
NAMESPACE, NODESET = "lab", "worker"
ON_A_MACHINE = 10
JOBS_ON_A_NODE = 2
PASSES = 15


class Passes(msgspec.Struct, frozen=True, kw_only=True):
    """CPU of one pass, in seconds."""

    first_s: float  # that remembers nothing
    first_plan_s: float  # of it
    unchanged_s: float
    one_changed_s: float  # one pod of all


class World:
    """The caches of a NodeSet with so many workers, all of them as they should be."""

    def __init__(self, workers: int) -> None:
        meta = ObjectMeta(
            name=NODESET,
            namespace=NAMESPACE,
            uid="uid-of-set",
            generation=1,
            resource_version="9",
            finalizers=(FINALIZER,),
        )
        slurm = SlurmController(metadata=ObjectMeta(name="slurm", namespace=NAMESPACE, uid="uid-of-slurm"))
        nodeset = NodeSet(metadata=meta, spec=NodeSetSpec(controller_ref=Ref(name="slurm"), replicas=workers))
        view = a_view([f"{NODESET}-{ordinal}" for ordinal in range(workers)])
        pods = [a_pod(nodeset, slurm, ordinal, view.nodes[f"{NODESET}-{ordinal}"]) for ordinal in range(workers)]
        machines = [a_machine(number) for number in range(-(-workers // ON_A_MACHINE))]
        history = children(nodeset, kept(nodeset, slurm, (), pods), ())
        made = [*history.actions, *guarded(nodeset, ()).actions]
        there = [nodeset, slurm, *pods, *machines, *(one.object for one in made if isinstance(one, Apply | Create))]
        self._controller = controller(FixedSlurm(view))
        self._stores: dict[type[Object], Store[Any]] = {}
        self._pods: Any = None
        self._pod, self._version = pods[0], 100
        self.plan_s = 0.0  # of the last pass
        for watch in self._controller.watched:
            self._fill(watch.kind, [one for one in there if type(one) is watch.kind])

    def _fill(self, kind: type[Object], objects: list[Object]) -> None:
        if kind in self._stores:
            return
        self._stores[kind], writer = new_store(kind, indexes=index_functions(self._controller, kind))
        writer.stage_begin()
        writer.stage(objects)
        writer.swap(str(self._version))
        self._pods = writer if kind is Pod else self._pods

    def change_one(self) -> None:
        self._version += 1
        meta = msgspec.structs.replace(self._pod.metadata, resource_version=str(self._version))
        self._pods.put(msgspec.structs.replace(self._pod, metadata=meta))

    async def one_pass(self) -> float:
        """What it cost. There is nothing to do in it."""
        began_s = time.process_time()
        read = StoreReader(self._controller, self._stores, NOW)
        snapshot = await self._controller.reconciler.observe(Key(NAMESPACE, NODESET), read)
        if snapshot is None:
            raise RuntimeError("the NodeSet is not in its cache")
        decided = self._controller.reconciler.plan(snapshot)
        status = self._controller.reconciler.report(snapshot, Outcome(plan=decided))
        if status is not None:
            status_differs(snapshot.object, status)
        took_s = time.process_time() - began_s
        if decided.actions or decided.waits:
            raise RuntimeError(f"there is something to do: {decided.actions[:1]}, {decided.waits[:1]}")
        self.plan_s = planned_s(snapshot)
        return took_s


def planned_s(snapshot: Snapshot) -> float:
    """What a plan costs of which nothing but the workers is known from before."""
    anew = msgspec.structs.replace(snapshot, before=None)
    assert anew.workers, "gathered when it was observed"
    began_s = time.process_time()
    plan(anew)
    return time.process_time() - began_s


class FixedSlurm:
    """Says always the same."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def view(
        self,
        _cluster: str,
        _address: Address | None,
        *,
        fresh: bool,  # noqa: ARG002
        extras: frozenset[Extra] = frozenset(),  # noqa: ARG002
    ) -> View:
        return self._view

    def wrote(self, _cluster: str) -> None:
        return None

    async def perform(self, cluster: str, call: Call) -> None:
        raise NotImplementedError(f"nothing is to be done in {cluster}: {call}")

    def subscribe(self, _told: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None

    async def close(self) -> None:
        return None


def a_pod(nodeset: NodeSet, slurm: SlurmController, ordinal: int, node: Node) -> Pod:
    """Made by us, decoded from what a server would send."""
    made = worker_pod(nodeset, slurm, Place(name=f"{NODESET}-{ordinal}", ordinal=ordinal))
    meta = msgspec.structs.replace(
        made.metadata,
        uid=f"uid-{ordinal}",
        resource_version="5",
        owner_references=(controller_reference(nodeset),),
        creation_timestamp=NOW - timedelta(hours=2),
    )
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ours = msgspec.to_builtins(shown(made, node, NOW))["conditions"]
    slurmd = {"name": "slurmd", "image": "", "imageID": "", "ready": True, "restartCount": 0}
    status = {
        "phase": "Running",
        "conditions": [*({"type": kind, "status": "True"} for kind in kinds), *ours],
        "containerStatuses": [{**slurmd, "state": {"running": {"startedAt": "2026-11-16T00:00:00Z"}}}],
    }
    content = msgspec.to_builtins(msgspec.structs.replace(made, metadata=meta))
    content["spec"]["nodeName"] = f"machine-{ordinal // ON_A_MACHINE}"
    return msgspec.json.decode(msgspec.json.encode({**content, "status": status}), type=Pod)


def a_machine(number: int) -> Machine:
    meta = ObjectMeta(name=f"machine-{number}", uid=f"uid-of-machine-{number}", resource_version="3")
    return Machine(metadata=meta, status=NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),)))


def a_view(names: list[str]) -> Observed:
    state = node_state(["ALLOCATED", "DYNAMIC_NORM"])
    nodes = {
        name: Node(name=name, state=state, features=(NODESET,), registered_at=NOW - timedelta(hours=2))
        for name in names
    }
    jobs = tuple(
        Job(id=number * JOBS_ON_A_NODE + job + 1, state=("RUNNING",), phase=Phase.RUNNING, nodes=(name,))
        for number, name in enumerate(names)
        for job in range(JOBS_ON_A_NODE)
    )
    return Observed(
        nodes=nodes,
        jobs={job.id: job for job in jobs},
        jobs_by_node=jobs_by_node(jobs),
        at_s=0.0,
        at=NOW,
        server=Server(api="v0.0.42"),
    )


async def passes(workers: int) -> Passes:
    world = World(workers)
    first_s, first_plan_s = await world.one_pass(), world.plan_s
    unchanged = [await world.one_pass() for _ in range(PASSES)]
    changed = []
    for _ in range(PASSES):
        world.change_one()
        changed.append(await world.one_pass())
    return Passes(
        first_s=first_s, first_plan_s=first_plan_s, unchanged_s=median(unchanged), one_changed_s=median(changed)
    )


async def all_workers(settings: Settings) -> Passes:
    return await passes(settings.sizes.nodes + settings.sizes.nodes_more)


async def large(settings: Settings) -> Passes:
    return await passes(settings.sizes.slurm_nodes)


if __name__ == "__main__":
    answer({"all": all_workers, "large": large})
