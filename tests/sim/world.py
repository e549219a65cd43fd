"""A whole world for NodeSets in one event loop: API server, Kubernetes, Slurm behind its REST, and operators.

The engine, the NodeSet controller and the Slurm client are the real ones. The laws are checked at every step and raise
`LawBroken` there and then, in the request that broke them:

    jobs       an operator deletes no pod that holds a job or may be given one, nor ends its wait for them, unless by
               force, and nobody can evict one, nor drive it out by a taint once it is seen on its machine; and whoever
               deletes one, no job ends with it
    drains     an operator neither lifts nor overwrites nor forgets what somebody else has drained, set down or marked
               as failing, unless that happened after the look that it takes directly before; nor unless its NodeSet
               is deleted. One that slurmctld has lost, as the worker's pod has shown, is there again when the world has
               settled, unless a person has lifted it or asked for other workers. Its own it lifts only when the slurmd
               of the pod that it sees has registered
    queues     no job ends with the partition of a NodeSet that is deleted
    service    no more workers are out of service for being made anew than `maxUnavailable`, besides those that others
               took (see `service`)
    force      an operator kills a job only as people asked for it, after a warning and the time (see `forcing`)
    keeping    workers keep their ordinals, the machines that they are pinned to, and their volumes (see `keeping`)
    plans      an operator asks nobody for anything that its last plan of a NodeSet does not list, word for word, and
               leaves out nothing of it without a problem
    bugs       nothing fails in a way that nobody has thought of
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import msgspec

from corral.engine import LeaseAddress, plan_object, summary_lines, virtual_clock
from corral.engine.controller import AnyController
from corral.engine.store import Key
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.nodeset.calls import End
from corral.kinds.nodeset.controller import controller
from corral.kinds.nodeset.rest import RestClusters
from corral.kinds.nodeset.shown import MISSING
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.whose import are_somebodys_words
from corral.kinds.restapi.spec import RestApi
from corral.kube.client import Client
from corral.kube.models.core_v1 import Pod
from corral.kube.transport import Request
from corral.slurm.rest import ONE_WITHIN_S
from corral.testing.apiserver import Crashed
from corral.testing.apiserver.answers import Rejection
from corral.testing.apiserver.builtin import TOLERATED_S
from corral.testing.apiserver.eviction import evict
from corral.testing.apiserver.kinds import Scale
from corral.testing.apiserver.objects import Options
from corral.testing.apiserver.storage import Change
from corral.testing.operators import NotConverged, Operator, plans_for_all
from tests.sim.deeds import of_call, of_request, of_slurm_request
from tests.sim.delivery import Delivery
from tests.sim.forcing import Forcing
from tests.sim.keeping import Keeping
from tests.sim.kubelet import SOMEBODY, Json, Process
from tests.sim.kubernetes import Kubernetes, SimServer
from tests.sim.records import Record
from tests.sim.service import Service
from tests.sim.shell import WorkerShell
from tests.sim.slurmctld import Slurmctld
from tests.sim.slurmrestd import CALM, Slurmrestd
from tests.sim.taints import MANAGER
from tests.sim.whose import is_foreign
from tests.sim.witness import Decide, Witness, in_order

NAMESPACE = "lab"
SETS = ("gpu", "cpu")
API = "slurm.corral.dev/v1alpha1"
NODESETS = "nodesets.slurm.corral.dev"
LEASE = LeaseAddress(NAMESPACE)
OPERATOR, KUBECTL = "operator", "kubectl"
LOOKED_EVERY_S = 5.0
TICK_S = 0.5
QUIET_S = 160.0  # a silent watch is noticed after 75 s; a slurmd that never registered, within 30 s after 120 s

T = TypeVar("T")


class LawBroken(AssertionError):
    pass


class _AtOnce(ThreadPoolExecutor):
    """What the client gives to a thread is done in the loop: a thread's time is not virtual."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class World:
    """`decide`: who plans in place of the real one, to see whether that is found out."""

    def __init__(
        self,
        seed: int,
        *,
        operators: int = 1,
        machines: int = 4,
        tolerated_s: int = TOLERATED_S,
        decide: Decide | None = None,
    ) -> None:
        self.seed, self._decide = seed, decide
        self.server = SimServer(seed=seed, namespaces=(NAMESPACE,))
        self.server.register(NodeSet, scale=Scale())
        for kind in (SlurmController, RestApi):
            self.server.register(kind)
        self.lost_drains: dict[str, str] = {}  # by worker: what its pod says of a drain that slurmctld has lost
        self.slurm = Slurmctld(self.server.now_s, Random(f"{seed} slurm"), self._slurm_notes)
        self.rest = Slurmrestd(self.slurm, self.server.now_s, Random(f"{seed} rest"))
        self.server.on_request, self.rest.on_request = self._kubernetes_is_asked, self._slurm_is_asked
        self.rest.before_write, self.rest.after_write = self._before_slurm_write, self._after_slurm_write
        self.kubernetes = Kubernetes(
            self.server, self.slurm, Random(f"{seed} kubernetes"), machines=machines, tolerated_s=tolerated_s
        )
        self.kubelets = self.kubernetes.kubelets
        self.shell = WorkerShell(self.server, self.kubernetes)
        self.shell.on_end = self._wait_is_ended
        self.delivery = Delivery(self.server, self.slurm, self.kubernetes.reconfigured, Random(f"{seed} delivery"))
        self.forcing = Forcing(self.slurm, self.server.now_s)
        Keeping(self.server, self._seen_by, self._break)
        self.service = Service(self.server, self.slurm, self._break)
        self.kubernetes.on_removal = self._pod_is_removed
        self.server.storage.listen(self._something_was_written)
        self._quiet_since_s = 0.0
        self.broken: list[str] = []
        self.crash_after_slurm_writes: dict[str, int] = {}
        self.deleted_sets: set[str] = set()
        self.owed: list[Callable[[], None]] = []  # what troubles give back
        self._witnesses: dict[str, Witness] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.operators = [
            Operator(
                self.server,
                lambda name=f"operator-{number}": self.build(name),  # type: ignore[misc]
                name=f"operator-{number}",
                lease=LEASE if operators > 1 else None,
                seed=seed * 10 + number,
            )
            for number in range(operators)
        ]
        for found in a_cluster():
            self.server.add(found)

    def build(self, client: str) -> AnyController:
        clusters = RestClusters(virtual_clock(self.seed), transport=self.rest.connect(client))
        made = controller(clusters, self.shell.connect(client))
        witness = Witness(made, lambda what: self._break(f"{client}: {what}"), self._decide, self.forcing.is_told)
        self._witnesses[client] = witness
        return msgspec.structs.replace(made, reconciler=witness, sources=tuple(map(in_order, made.sources)))

    # --- what people do

    def make(self, name: str, **spec: object) -> None:
        self.deleted_sets.discard(name)
        self.service.is_made(name)
        self._ask_for_others(name)
        self.server.add(
            {
                "apiVersion": API,
                "kind": "NodeSet",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"controllerRef": {"name": "slurm"}, "replicas": 1, "partition": {"enabled": True}, **spec},
            }
        )

    def change(self, name: str, **spec: object) -> None:
        if self.nodeset(name) is not None:
            self.server.note("", f"people change {name}: {spec}")
            if not spec.keys().isdisjoint(("replicas", "scalingMode")):
                self._ask_for_others(name)
            self.server.edit(NodeSet, name, NAMESPACE, merge={"spec": spec})

    def nodeset(self, name: str) -> Json | None:
        return self.server.get(NodeSet, name, NAMESPACE)

    def pods(self, name: str = "") -> list[Json]:
        found = self.server.all_of(Pod)
        return [pod for pod in found if not name or set_of(pod["metadata"]["name"]) == name]

    def names(self, name: str = "") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(name)]

    def calm(self, *, lift_drains: bool) -> None:
        """The faults stop: what was taken away is given back, no job waits, every machine lives."""
        self.server.note("", "CALM")
        while self.owed:
            self.owed.pop(0)()
        self.server.stop_faults()
        self.rest.faults, self.rest.up, self.rest.hangs = CALM, True, False
        if not self.slurm.up:
            self.slurm.start()
        self.slurm.cancel_pending()
        for name in SETS:
            free = {"strategy": "RollingUpdate", "paused": False, "partition": 0, "window": None}
            self.change(name, slurmd={"image": None}, update=free)
        for name, record in sorted(self.slurm.nodes.items()):
            if lift_drains and is_foreign(record):
                self.slurm.resume(name, "root")

    def evict(self, name: str) -> bool:
        """As `kubectl drain` does; whether the server let it."""
        self.server.acting = KUBECTL
        try:
            evict(self.server.objects, self.server.served(Pod), NAMESPACE, name, {}, Options())
        except Rejection:
            return False
        finally:
            self.server.acting = ""
        return True

    # --- laws

    def _wait_is_ended(self, client: str, pod: Json, process: Process) -> None:
        self._witnesses[client].does(of_call(End(pod=pod["metadata"]["name"])))
        self._pod_is_removed(pod, client, process, "ends the wait of")

    def _pod_is_removed(self, pod: Json, by: str, process: Process | None, how: str = "deletes") -> None:
        name = pod["metadata"]["name"]
        if not by.startswith(OPERATOR) and by not in (KUBECTL, MANAGER):
            return
        if process is None or process.slurmd is None or not process.slurmd.alive:
            return
        if by == MANAGER and not self._is_known_to_be_scheduled(pod):
            return
        # Nobody guards a pod that is Pending: Kubernetes evicts it also when kubelet is just about to tell otherwise.
        unguarded = ("Failed", "Succeeded", *(("Pending",) if by == KUBECTL else ()))
        why = self.slurm.may_give_a_job_to(process.slurmd) if pod["status"]["phase"] not in unguarded else ""
        if why and by.startswith(OPERATOR):
            no_force = self.forcing.objects_to(pod, process.slurmd, self._seen_by(by, set_of(name)))
            why = f"{why} ({no_force})" if no_force else ""
        if why:
            self._break(f"{by} {how} pod {name}, and {why}")

    def _is_known_to_be_scheduled(self, pod: Json) -> bool:
        """Then it is given its tolerations. Where watches are late a taint is quicker: the pod waits for its jobs."""
        seen = [known for witness in self._witnesses.values() for known in witness.seen.values()]
        scheduled = {one.metadata.uid for known in seen for one in known.pods if one.spec.node_name}
        return pod["metadata"]["uid"] in scheduled

    def _seen_by(self, client: str, nodeset: str) -> Snapshot:
        """What that operator has decided by last."""
        seen: Snapshot = self._witnesses[client].seen[nodeset]
        return seen

    def _kubernetes_is_asked(self, client: str, request: Request) -> None:
        if client.startswith(OPERATOR) and (deed := of_request(request, self.server.kinds)):
            self._witnesses[client].does(deed)

    def _slurm_is_asked(self, client: str, method: str, path: list[str], body: bytes) -> None:
        if client.startswith(OPERATOR) and (deed := of_slurm_request(method, path, body)):
            self._witnesses[client].does(deed)

    def _before_slurm_write(self, client: str, method: str, node: str, body: bytes) -> None:
        verb = of_slurm_request(method, ["node", node], body)
        if verb.startswith("Drain "):
            self.service.drains(client, node, verb.partition(f"{node} ")[2], self._seen_by(client, set_of(node)))
        record = self.slurm.nodes.get(node)
        if record is not None and verb.startswith("Undrain "):
            self._node_is_given_back(client, record)
        if record is None or not is_foreign(record):
            return
        now_s, looked_s = self.server.now_s(), self.rest.looked.get((client, node), -1.0)
        came_after_a_look = looked_s < record.reason_s and now_s - looked_s <= ONE_WITHIN_S
        if not came_after_a_look and set_of(node) not in self.deleted_sets:
            self._break(f"{client}: {verb}, which is somebody else's: {record.reason!r}")

    def _node_is_given_back(self, client: str, record: Record) -> None:
        pods = self._seen_by(client, set_of(record.name)).pods
        uid = next((pod.metadata.uid for pod in pods if pod.metadata.name == record.name), "")
        if record.slurmd is not None and record.slurmd.pod_uid != uid:
            self._break(f"{client} undrains {record.name}, and the slurmd of its pod has not registered")

    def _slurm_notes(self, text: str) -> None:
        """A kill forgets what was drained just before: nobody has to know that."""
        self.server.note("slurm", text)
        if text.startswith(("root undrains ", "root resumes ")):
            self.lost_drains.pop(text.split()[-1], None)
        if text == "slurmctld is killed":
            self.lost_drains = {name: why for name, why in self.lost_drains.items() if name not in self.slurm.nodes}

    def _ask_for_others(self, name: str) -> None:
        """A drain goes with the place of its worker, and another may come there."""
        self.lost_drains = {worker: why for worker, why in self.lost_drains.items() if set_of(worker) != name}

    def _check_drains(self) -> None:
        records = [(self.slurm.nodes[name], why) for name, why in self.lost_drains.items() if name in self.slurm.nodes]
        if gone := [f"{one.name} ({why})" for one, why in records if not (one.drain and is_foreign(one))]:
            raise LawBroken(f"somebody's drain did not come back: {', '.join(gone)}")

    def _break(self, what: str) -> None:
        self.server.note("", f"LAW BROKEN: {what}")
        self.broken.append(what)

    def check(self) -> None:
        """Raise what was broken. A law is broken within a request, where nobody would hear of an exception."""
        unjustly = [one for one in self.slurm.killed if is_deletion(one[2]) and one[:2] not in self.forcing.condemned]
        killed = [f"job {job} on {node} was killed by {by}" for job, node, by in unjustly]
        ended = [f"job {job} ended with partition {partition}" for job, partition in self.slurm.cost]
        if found := [*self.broken, *killed, *ended]:
            raise LawBroken("; ".join(found))

    def _after_slurm_write(self, client: str) -> None:
        left = self.crash_after_slurm_writes.get(client, 0)
        self.crash_after_slurm_writes[client] = left - 1
        if left == 1:
            for operator in self.operators:
                if operator.connection.client == client:
                    operator.connection.crash()
            raise Crashed(f"{client} dies after a write to Slurm")

    # --- life

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(_AtOnce())
        self._tasks = [asyncio.create_task(self._tick(), name="time")]
        self._tasks += [asyncio.create_task(one.keep_running(), name="keeper") for one in self.operators]
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for operator in self.operators:
                await operator.crash()
            self.server.stop_collecting()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.slurm.tick()
            self.delivery.tick()
            self.kubernetes.tick()
            self.service.tick()

    async def settled(self, within_s: float = 300.0, quiet_s: float = 20.0) -> None:
        """Nothing but leases was written for `quiet_s`, and nothing is planned for any NodeSet."""
        deadline_s = self.server.now_s() + within_s
        self._quiet_since_s = self.server.now_s()
        client = Client(self.server.connect("onlooker"), luck=Random(self.seed).random)
        while True:
            await asyncio.sleep(min(LOOKED_EVERY_S, quiet_s))
            self.check()
            is_late = self.server.now_s() >= deadline_s
            if self.server.now_s() - self._quiet_since_s < quiet_s and not is_late:
                continue
            plans = await plans_for_all(client, self.build("onlooker"), self.server.now())
            if all(plan.is_empty for plan in plans.values()) and not is_late:
                self._check_drains()
                return
            if is_late:
                left = [f"{key}: {line}" for key, plan in plans.items() for line in summary_lines(plan)]
                raise NotConverged("; ".join([f"not converged within {within_s:g} s", *left]))

    def _something_was_written(self, change: Change) -> None:
        if change.key.resource not in ("leases.coordination.k8s.io", "events.events.k8s.io"):
            self._quiet_since_s = self.server.now_s()
        if change.key.resource == NODESETS and (bug := bug_told(change.after)):
            self._break(bug)
        if change.key.resource == "pods" and (why := lost_words(change.after)) and why != lost_words(change.before):
            self.lost_drains[change.key.name] = why

    async def planned(self, name: str) -> tuple[str, ...]:
        """What `corral plan` would say of a NodeSet."""
        client = Client(self.server.connect("onlooker"))
        key = Key(NAMESPACE, name)
        found = await plan_object(client, self.build("onlooker"), key, now=self.server.now())
        return summary_lines(found.plan)


def is_deletion(by: str) -> bool:
    """Of a pod; not the death of what it runs on."""
    return by.startswith(OPERATOR) or by in (KUBECTL, MANAGER, SOMEBODY)


def bug_told(nodeset: Json | None) -> str:
    """What its status says of one."""
    told = ((nodeset or {}).get("status") or {}).get("conditions") or ()
    return next((str(one["message"]) for one in told if one["reason"] == "InternalError"), "")


def lost_words(pod: Json | None) -> str:
    """Of somebody's drain whose record is gone."""
    shown = ((pod or {}).get("status") or {}).get("conditions") or ()
    said = [one.get("message", "") for one in shown if one["type"] == MISSING]
    return next((text for text in said if are_somebodys_words(text)), "")


def set_of(worker: str) -> str:
    """The NodeSet of `gpu-0`, and of `gpu-machine-0`."""
    return worker.partition("-")[0]


def a_cluster() -> tuple[Json, ...]:
    """A Controller and its RestApi, as far as a NodeSet looks at them."""
    meta = {"namespace": NAMESPACE}
    return (
        {"apiVersion": API, "kind": "Controller", "metadata": {"name": "slurm", **meta}, "spec": {}},
        {
            "apiVersion": API,
            "kind": "RestApi",
            "metadata": {"name": "slurm", **meta},
            "spec": {"controllerRef": {"name": "slurm"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "slurm-auth-jwt", **meta},
            "data": {"jwt.key": "a2V5LWtleS1rZXkta2V5LWtleS1rZXkta2V5LWtleS0="},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "slurm-auth-slurm", **meta},
            "data": {"slurm.jwks": "e30="},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "slurm-restapi",
                **meta,
                "labels": {"app.kubernetes.io/managed-by": "corral"},
            },
            "spec": {"clusterIP": "192.0.2.7", "ports": [{"name": "http", "port": 6820}]},
        },
    )
