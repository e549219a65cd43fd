"""NodeSet's controller: what is watched, how it is observed, whom it asks about Slurm."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from corral.engine import (
    NOTHING,
    Controller,
    Key,
    KindController,
    Outcome,
    OutsideFailed,
    Plan,
    Reader,
    generation_changed,
    key_of,
)
from corral.kinds import endpoints, names
from corral.kinds.controller.shell import ClientShell, PodShell
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.keys import jwt_key_of
from corral.kinds.nodeset import mounts
from corral.kinds.nodeset.beside import run_beside_slurmctld
from corral.kinds.nodeset.calls import (
    Address,
    Door,
    Drain,
    End,
    Forget,
    Narrow,
    OnlyByCommand,
    Reserve,
    Reserved,
    SlurmClusters,
    Undrain,
    Unreserve,
    door_in,
    reserved_in,
)
from corral.kinds.nodeset.ending import ended
from corral.kinds.nodeset.farewell import FINALIZER, to_look_into
from corral.kinds.nodeset.fitting import DRIVES_OUT, drives_out
from corral.kinds.nodeset.force import warned
from corral.kinds.nodeset.gathering import Before
from corral.kinds.nodeset.going import hanging
from corral.kinds.nodeset.left import Memory
from corral.kinds.nodeset.looks import Mute, end_wait, stepped, steps_on, unreachable
from corral.kinds.nodeset.machine import says_else
from corral.kinds.nodeset.pins import pin_of
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.proof import extras_for, needs_proof
from corral.kinds.nodeset.report import decided_by, report
from corral.kinds.nodeset.rest import RestClusters
from corral.kinds.nodeset.roster import Roster
from corral.kinds.nodeset.snapshot import Snapshot, says_the_same
from corral.kinds.nodeset.spec import NodeSet, NodeSetStatus
from corral.kinds.nodeset.taken import names_taken
from corral.kinds.nodeset.warned import Warned
from corral.kinds.restapi.spec import RestApi
from corral.kube.client import Client
from corral.kube.meta import EMPTY
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.models.core_v1 import ConfigMap, Node, PersistentVolumeClaim, Pod, Secret, Service
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.kube.selection import Selector
from corral.slurm.facts import View

MADE_BY_US = Selector(labels="app.kubernetes.io/managed-by=corral")
BY_CONTROLLER = "controller"
BY_MACHINE = "machine"
BY_MODE = "mode"
BY_NODESET = "nodeset"
BY_TAINT = "taint"


class Seen(TypedDict):
    slurm: View
    reservation: Reserved
    door: Door


class NodeSetReconciler:
    def __init__(self, slurm: SlurmClusters, shell: PodShell | None = None) -> None:
        self._slurm, self._shell = slurm, shell
        self._nodesets: dict[str, set[Key]] = {}  # by cluster: whom a change of Slurm's facts concerns
        self._before: dict[Key, Before] = {}
        self._rosters: dict[Key, Roster] = {}
        self._settled: dict[Key, Snapshot] = {}  # for which there was nothing to do and nothing to wait for
        self._decided: dict[Key, tuple[Snapshot, Plan]] = {}  # while it was observed
        self._taken: dict[Key, Mapping[str, datetime]] = {}
        self._stepped_at: dict[Key, Mapping[str, datetime]] = {}
        self._warned: dict[Key, Mapping[str, Warned]] = {}
        self._ended: dict[Key, Mapping[str, datetime]] = {}
        self._known: tuple[dict[Key, Any], ...] = (
            self._before,
            self._rosters,
            self._settled,
            self._decided,
            self._taken,
            self._stepped_at,
            self._warned,
            self._ended,
        )
        self._memory, self._mute = Memory(), Mute()
        self._enqueue: Callable[[Key, str], None] | None = None

    def use(self, client: Client, /) -> None:
        self._shell = self._shell or ClientShell(client)

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        nodeset = read.get(NodeSet, key.name, key.namespace)
        if nodeset is None:
            for keys in self._nodesets.values():
                keys.discard(key)
            for known in self._known:
                known.pop(key, None)
            self._memory.forget(key)
            self._mute.forget(key)
            return None
        controller = read.get(SlurmController, nodeset.spec.controller_ref.name, key.namespace)
        cluster = f"{key.namespace}/{nodeset.spec.controller_ref.name}"
        self._nodesets.setdefault(cluster, set()).add(key)
        roster = self._roster(key, read.owned(Pod, nodeset))
        machines = machines_of(nodeset, roster, read)
        address = slurm_address(controller, read) if controller else None
        view = await self._slurm.view(cluster, address, fresh=False, extras=extras_for(nodeset))
        self._memory.hears(key, view)
        snapshot = Snapshot(
            object=nodeset,
            now=read.now,
            cluster=cluster,
            controller=controller,
            pods=roster.pods,
            revisions=read.owned(ControllerRevision, nodeset),
            guards=read.owned(PodDisruptionBudget, nodeset),
            machines=machines,
            driving_out=read.by_index(Node, BY_TAINT, DRIVES_OUT),
            claims=claims_of(nodeset, read),
            absent=mounts.absent(controller, read) if controller else (),
            taken=self._taken.get(key, EMPTY),
            left=self._memory.left(key, nodeset.spec.controller_ref.name, read),
            warned=self._warned.get(key, EMPTY),
            ended=self._ended.get(key, EMPTY),
            before=self._before.get(key),
            **seen_by(nodeset, view),
        )
        snapshot = await self._looked_into(key, snapshot, read)
        if needs_proof(self._first_plan(key, snapshot)):
            view = await self._slurm.view(cluster, address, fresh=True, extras=extras_for(nodeset))
            seen = seen_by(nodeset, view)
            snapshot = msgspec.structs.replace(snapshot, before=snapshot.remembered(), **seen)
        self._before[key] = snapshot.remembered()
        return snapshot

    async def _looked_into(self, key: Key, snapshot: Snapshot, read: Reader) -> Snapshot:
        """What was seen counts only if nobody has created the Controller again meanwhile."""
        pods = [*to_look_into(snapshot), *(worker.name for worker in hanging(snapshot))]
        if not pods or self._shell is None:
            self._stepped_at.pop(key, None)
            return snapshot
        asked = [pod for pod in pods if not self._mute.has(key, pod, snapshot.now)]
        look = await steps_on(self._shell, key.namespace, asked)
        self._mute.learns(key, asked, look.mute, snapshot.now)
        steps = look.steps
        stepped_at = self._stepped_at[key] = stepped(self._stepped_at.get(key, EMPTY), pods, steps, snapshot.now)
        left = self._memory.left(key, snapshot.object.spec.controller_ref.name, read)
        has_come_back = snapshot.left is not None and (left is None or left.runs)
        seen = msgspec.structs.replace(snapshot, left=left, steps=steps, stepped_at=stepped_at)
        return snapshot if has_come_back else seen

    def _first_plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """Over what was seen last; it is the plan of this pass unless it needs a proof."""
        decided = self.plan(snapshot)
        self._decided[key] = snapshot, decided
        return decided

    def _roster(self, key: Key, pods: tuple[Pod, ...]) -> Roster:
        """A cache gives the very same tuple while no pod has changed."""
        known = self._rosters.get(key)
        if known is None or known.pods is not pods:
            known = self._rosters[key] = Roster(pods)
        return known

    def plan(self, snapshot: Snapshot, /) -> Plan:
        """A plan without an action and without a wait holds until something changes; that is what it means."""
        key = key_of(snapshot.object)
        known = self._decided.pop(key, None)
        if known is not None and known[0] is snapshot:
            return known[1]
        settled = self._settled.get(key)
        if settled is not None and says_the_same(settled, snapshot):
            return NOTHING
        decided = plan(snapshot)
        if decided == NOTHING:
            self._settled[key] = snapshot
        else:
            self._settled.pop(key, None)
        return decided

    async def perform(self, call: msgspec.Struct, snapshot: Snapshot, /) -> None:
        if isinstance(call, End):
            await self._end(key_of(snapshot.object), call.pod, snapshot.now)
            return
        if not isinstance(call, Drain | Undrain | Forget | Reserve | Narrow | Unreserve):
            raise OutsideFailed("InternalError", f"a NodeSet cannot {type(call).__name__}", stalled=True)
        try:
            await self._slurm.perform(snapshot.cluster, call)
        except OnlyByCommand as error:
            await run_beside_slurmctld(self._shell, snapshot.controller, error.command)
            self._slurm.wrote(snapshot.cluster)

    async def _end(self, key: Key, pod: str, now: datetime) -> None:
        if self._mute.has(key, pod, now):
            raise unreachable(key.namespace, pod, "it did not answer a moment ago")
        try:
            await end_wait(self._shell, key.namespace, pod)
        except OutsideFailed:
            self._mute.learns(key, (), (pod,), now)
            raise

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> NodeSetStatus:
        self._learn(snapshot, outcome)
        return report(snapshot, outcome)

    def _learn(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """Whoever is found to have its name taken holds the others up in this pass only: the next one comes at once."""
        key, taken = key_of(snapshot.object), names_taken(snapshot, outcome)
        self._taken[key], self._warned[key], self._ended[key] = (
            taken,
            warned(snapshot, outcome),
            ended(snapshot, outcome),
        )
        if self._enqueue is not None and not taken.keys() <= snapshot.taken.keys():
            self._enqueue(key, "a name is taken")

    @asynccontextmanager
    async def changes_in_slurm(self, enqueue: Callable[[Key, str], None]) -> AsyncIterator[None]:
        """Brings back every NodeSet of a cluster whose facts changed."""
        self._enqueue = enqueue

        def told(cluster: str) -> None:
            for key in tuple(self._nodesets.get(cluster, ())):
                enqueue(key, f"Slurm {cluster}")

        end = self._slurm.subscribe(told)
        try:
            yield
        finally:
            end()
            await self._slurm.close()


def seen_by(nodeset: NodeSet, view: View) -> Seen:
    """What of a snapshot is Slurm's."""
    name = nodeset.metadata.name
    return Seen(slurm=view, reservation=reserved_in(view, names.reservation_name(name)), door=door_in(view, name))


def machines_of(nodeset: NodeSet, roster: Roster, read: Reader) -> dict[str, Node]:
    """Those below its workers; all, where each may have one."""
    if nodeset.spec.is_per_machine:
        return {machine.metadata.name: machine for machine in read.list(Node)}
    pinned = nodeset.status.ordinal_to_node.values() if nodeset.spec.pin_to_node else ()
    found = {name: read.get(Node, name) for name in {*roster.on, *pinned}}
    return {name: machine for name, machine in found.items() if machine is not None}


def claims_of(nodeset: NodeSet, read: Reader) -> tuple[PersistentVolumeClaim, ...]:
    if not nodeset.spec.volume_claim_templates:
        return ()
    at = (nodeset.metadata.namespace, names.worker_stem(nodeset.metadata.name))
    return read.by_index(PersistentVolumeClaim, BY_NODESET, at)


def nodeset_of(claim: PersistentVolumeClaim) -> tuple[tuple[str, str], ...]:
    stem = claim.metadata.labels.get(names.NODESET_LABEL)
    return ((claim.metadata.namespace, stem),) if stem else ()


def of_claim(claim: PersistentVolumeClaim, read: Reader) -> Iterable[Key]:
    """A worker's own, or the /home of all."""
    stem = claim.metadata.labels.get(names.NODESET_LABEL)
    sets = (one.metadata for one in read.list(NodeSet, claim.metadata.namespace))
    own = [Key(meta.namespace, meta.name) for meta in sets if names.worker_stem(meta.name) == stem]
    return own or of_mounted(claim, read)


def of_mounted(obj: ConfigMap | PersistentVolumeClaim | Secret, read: Reader) -> Iterable[Key]:
    kind, name = obj.resource.kind, obj.metadata.name
    controllers = read.list(SlurmController, obj.metadata.namespace)
    mounting = (controller for controller in controllers if mounts.is_mounted(kind, name, controller))
    return [key for controller in mounting for key in of_controller(controller, read)]


def slurm_address(controller: SlurmController, read: Reader) -> Address | None:
    """Of the first RestApi that can be asked, with the Controller's JWT key; None until there are both."""
    namespace, key = controller.metadata.namespace, jwt_key_of(controller)
    secret = read.get(Secret, key.name, namespace)
    if secret is None or not secret.data.get(key.key):
        return None
    for api in read.by_index(RestApi, BY_CONTROLLER, (namespace, controller.metadata.name)):
        service = read.get(Service, names.restapi_name(api.metadata.name), namespace)
        certificate = read.get(Secret, api.spec.tls.secret_ref.name, namespace) if api.spec.tls else None
        if at := endpoints.slurmrestd(api, service, certificate):
            return Address(at=at, jwt_key=secret.data[key.key])
    return None


def controller_of(obj: NodeSet | RestApi) -> tuple[tuple[str, str], ...]:
    return ((obj.metadata.namespace, obj.spec.controller_ref.name),)


def under(namespace: str, controller: str, read: Reader) -> Iterable[Key]:
    found = read.by_index(NodeSet, BY_CONTROLLER, (namespace, controller))
    return [Key(namespace, nodeset.metadata.name) for nodeset in found]


def of_controller(controller: SlurmController, read: Reader) -> Iterable[Key]:
    return under(controller.metadata.namespace, controller.metadata.name, read)


def of_restapi(api: RestApi, read: Reader) -> Iterable[Key]:
    return under(api.metadata.namespace, api.spec.controller_ref.name, read)


def of_service(service: Service, read: Reader) -> Iterable[Key]:
    apis = read.list(RestApi, service.metadata.namespace)
    named = (api for api in apis if names.restapi_name(api.metadata.name) == service.metadata.name)
    return [key for api in named for key in of_restapi(api, read)]


def of_secret(secret: Secret, read: Reader) -> Iterable[Key]:
    controllers = read.list(SlurmController, secret.metadata.namespace)
    using = (controller for controller in controllers if jwt_key_of(controller).name == secret.metadata.name)
    apis = read.list(RestApi, secret.metadata.namespace)
    certified = (api for api in apis if api.spec.tls and api.spec.tls.secret_ref.name == secret.metadata.name)
    signed = [key for controller in using for key in of_controller(controller, read)]
    return [*signed, *(key for api in certified for key in of_restapi(api, read)), *of_mounted(secret, read)]


def machine_of(pod: Pod) -> tuple[str, ...]:
    """That it is on, or waits for."""
    name = pod.spec.node_name or pin_of(pod)
    return (name,) if name else ()


def of_machine(machine: Node, read: Reader) -> Iterable[Key]:
    """Every NodeSet with a worker on it, and those that may want one there; by name, so that runs repeat."""
    pods = read.by_index(Pod, BY_MACHINE, machine.metadata.name)
    here = {
        Key(pod.metadata.namespace, owner.name)
        for pod in pods
        for owner in pod.metadata.owner_references
        if owner.controller and owner.kind == NodeSet.resource.kind
    }
    per_machine = read.by_index(NodeSet, BY_MODE, "DaemonSet")
    return sorted(here | {Key(one.metadata.namespace, one.metadata.name) for one in per_machine})


def taint_of(machine: Node) -> tuple[str, ...]:
    return (DRIVES_OUT,) if drives_out(machine) else ()


def mode_of(nodeset: NodeSet) -> tuple[str, ...]:
    return (nodeset.spec.scaling_mode,)


def controller(slurm: SlurmClusters | None = None, shell: PodShell | None = None) -> Controller[NodeSet, Snapshot]:
    reconciler = NodeSetReconciler(slurm or RestClusters(), shell)
    return (
        Controller.for_(NodeSet, reconciler)
        .owns(Pod, where=MADE_BY_US)
        .owns(ControllerRevision, where=MADE_BY_US)
        .owns(PodDisruptionBudget, where=MADE_BY_US, when=generation_changed)
        .watches(Node, to=of_machine, when=says_else)
        .watches(PersistentVolumeClaim, to=of_claim, where=MADE_BY_US)
        .watches(SlurmController, to=of_controller)
        .watches(RestApi, to=of_restapi)
        .watches(Service, to=of_service, where=MADE_BY_US)
        .watches(Secret, to=of_secret)
        .watches(ConfigMap, to=of_mounted)
        .indexes(Pod, BY_MACHINE, machine_of)
        .indexes(Node, BY_TAINT, taint_of)
        .indexes(PersistentVolumeClaim, BY_NODESET, nodeset_of)
        .indexes(NodeSet, BY_CONTROLLER, controller_of)
        .indexes(NodeSet, BY_MODE, mode_of)
        .indexes(RestApi, BY_CONTROLLER, controller_of)
        .finalizer(FINALIZER)
        .remembers(decided_by)
        .also(reconciler.changes_in_slurm)
    )


KINDS = (KindController(NodeSet, controller, ("nss", "slurmd")),)
