"""What is known of each worker: its pod, its Slurm node and its jobs, side by side. Pure.

Facts of Slurm have three values. `Facts.UNKNOWN` is not "no": whoever does not answer, answers too late, or uses a word
that we cannot read leaves a worker unknown, and an unknown worker is never removed.

A worker is made of what others told, and everything else about it follows from that and is found once. So the worker of
an earlier pass is as good as a new one while it was told the same, and a pass costs as much as has changed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.derived import derived
from corral.kinds.nodeset.arrival import is_about_to_register, runs, settled_since
from corral.kinds.nodeset.calls import REASON_PREFIX, Reserved
from corral.kinds.nodeset.machine import Trouble, trouble_of
from corral.kinds.nodeset.registration import asks_its_machine, is_otherwise, is_registered_wrong, said_by
from corral.kinds.nodeset.revision import Make, make_of
from corral.kinds.nodeset.shown import is_shown
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.meta import EMPTY, ObjectRef
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.models.core_v1 import Node as Machine
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.slurm.facts import Observed, View
from corral.slurm.states import Base, Flag, Standing
from corral.slurm.values import Job, Node

SLURM_REACHABLE = "SlurmReachable"  # the condition
PROOF_AGE_MAX_S = 30.0  # an older look says nothing about the present; a pass that removes workers asks anew
ENDED = ("Failed", "Succeeded")
COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"  # as for every ReplicaSet: the lowest goes first


class Facts(Enum):
    """What Slurm says of a worker, as far as it matters to whoever wants to remove it."""

    UNKNOWN = "unknown"
    UNREGISTERED = "unregistered"  # Slurm answered, has no such node, and gets none by itself
    ARRIVING = "arriving"  # no record of its slurmd, which runs or is about to: it may get a job at any moment
    FREE = "free"  # no job, but one may come at any moment
    BUSY = "busy"  # holds a job, or is promised to one
    DRAINING = "draining"  # takes no new job; what it has is still there
    DRAINED = "drained"  # no job, and none comes


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker is asked for: at an ordinal, or on a Kubernetes node."""

    name: str
    ordinal: int | None = None
    machine: str = ""
    pinned: str = ""  # the Kubernetes node that one at an ordinal was on before


class Worker(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    name: str
    ordinal: int | None  # None: it is called after a Kubernetes node
    pod: Pod | None
    node: Node | None
    jobs: tuple[Job, ...]
    machine: Machine | None  # the Kubernetes node below it
    heard: bool  # whether Slurm has told lately
    arrives: bool  # its slurmd has begun to run not long ago, or may have, and Slurm has no record of it yet

    @derived
    def facts(self) -> Facts:
        """A record of an earlier life proves that it is in use, not that it is free."""
        goes = self.said in (Facts.UNREGISTERED, Facts.DRAINED)
        return Facts.ARRIVING if goes and self.arrives else self.said

    @derived
    def said(self) -> Facts:
        """What Slurm says of its record, whoever's that is."""
        return _facts(self.node, self.jobs) if self.heard else Facts.UNKNOWN

    @derived
    def trouble(self) -> Trouble | None:
        return trouble_of(self.pod, self.machine) if self.pod is not None else None

    @derived
    def is_live(self) -> bool:
        """Its pod runs, or will: neither on its way out nor at its end."""
        pod = self.pod
        return pod is not None and pod.metadata.deletion_timestamp is None and pod.status.phase not in ENDED

    @derived
    def is_leaving(self) -> bool:
        return self.pod is not None and self.pod.metadata.deletion_timestamp is not None

    @derived
    def has_ended(self) -> bool:
        """Every process of its pod has ended for good: to remove it can kill nothing."""
        return self.pod is not None and self.pod.status.phase in ENDED

    @derived
    def is_ready(self) -> bool:
        for one in self.pod.status.conditions if self.pod is not None else ():
            if one.type == "Ready":
                return one.status == "True"
        return False

    @derived
    def runs(self) -> bool:
        """Whether its slurmd runs, by kubelet's word."""
        return self.pod is not None and runs(self.pod)

    @property
    def has_drain(self) -> bool:
        return self.node is not None and Flag.DRAIN in self.node.state.flags

    @property
    def has_our_drain(self) -> bool:
        node = self.node
        return node is not None and Flag.DRAIN in node.state.flags and node.reason.startswith(REASON_PREFIX)

    @property
    def has_foreign_drain(self) -> bool:
        return self.has_drain and not self.has_our_drain

    @derived
    def make(self) -> Make | None:
        return make_of(self.pod) if self.pod is not None else None

    @derived
    def counts_as(self) -> str:
        """As sinfo sorts them: a drained node is draining to us, a node that is down is down whatever else it is."""
        if self.node is None:
            return ""
        state = self.node.state
        if state.base is Base.DOWN or state.standing is Standing.DOWN:
            return "down"
        if self.has_drain:
            return "draining"
        if state.base in (Base.ALLOCATED, Base.MIXED):
            return "allocated"
        return "idle" if state.base is Base.IDLE else ""

    @derived
    def is_shown(self) -> bool:
        """Whether its pod's conditions say what Slurm says; what Slurm said last stays while it does not tell."""
        if self.pod is None or not self.heard:
            return True
        is_told = self.node is None or self.node.state.standing is not Standing.UNKNOWN
        return not is_told or is_shown(self.pod, self.node)

    @derived
    def line(self) -> str:
        """What its slurmd registers with."""
        return said_by(self.pod) if self.pod is not None else ""

    @property
    def is_unfilled(self) -> bool:
        """Whether its slurmd waits to be told what its Kubernetes node says."""
        return asks_its_machine(self.line)

    @property
    def is_otherwise(self) -> bool:
        """Whether its Kubernetes node no longer says what it registered with."""
        return self.pod is not None and is_otherwise(self.pod, self.machine)

    @derived
    def is_registered_wrong(self) -> bool:
        if self.pod is None or self.node is None:
            return False
        return Flag.INVALID_REG in self.node.state.flags or is_registered_wrong(self.line, self.node)

    @derived
    def cost(self) -> int:
        said = self.pod.metadata.annotations.get(COST_ANNOTATION, "") if self.pod else ""
        try:
            return int(said)
        except ValueError:
            return 0


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What the last pass made of what it was told. It saves work and decides nothing."""

    pods: tuple[Pod, ...]
    machines: Mapping[str, Machine]
    slurm: Observed | None
    workers: Mapping[str, Worker]  # in their order

    def was_told(self, pods: tuple[Pod, ...], machines: Mapping[str, Machine], slurm: Observed | None) -> bool:
        """Whether it was all the same. The moment does not matter: nobody is waited for to register."""
        if self.pods is not pods or self.machines != machines or (self.slurm is None) != (slurm is None):
            return False
        if self.slurm is None or slurm is None:
            return True
        same = self.slurm.nodes is slurm.nodes and self.slurm.jobs_by_node is slurm.jobs_by_node
        return same and all(worker.node is not None and not worker.arrives for worker in self.workers.values())


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    object: NodeSet
    now: datetime
    cluster: str
    controller: Controller | None
    pods: tuple[Pod, ...]
    slurm: View
    revisions: tuple[ControllerRevision, ...] = ()
    guards: tuple[PodDisruptionBudget, ...] = ()
    machines: Mapping[str, Machine] = EMPTY  # Kubernetes nodes that its pods are on
    claims: tuple[PersistentVolumeClaim, ...] = ()  # of its workers, and of earlier ones
    absent: tuple[ObjectRef, ...] = ()  # what its pods mount and is not there
    reservation: Reserved = Reserved()
    before: Before | None = None

    @derived
    def workers(self) -> tuple[Worker, ...]:
        """Every pod of the NodeSet, and every Slurm node that is or was one of its workers; by ordinal."""
        nodeset, view = self.object.metadata.name, recent(self)
        if self.before is not None and self.before.was_told(self.pods, self.machines, view):
            return tuple(self.before.workers.values())
        before = self.before.workers if self.before is not None else EMPTY
        pods = {pod.metadata.name: pod for pod in self.pods}
        # A pod's node is its node whatever its features are: slurmctld knows it by that name. Of the others, those by
        # name and feature: a node that only looks like one of ours is somebody else's.
        here = view.nodes_with(nodeset) if view else ()
        orphans = [node.name for node in here if node.name not in pods and _is_ours(node, nodeset)]
        ordinals = _ordinals(nodeset, (*pods, *orphans), before)
        nodes, jobs = (view.nodes, view.jobs_by_node) if view else (EMPTY, EMPTY)
        arrives_since = self._arrives_since
        return tuple(
            [
                _worker(
                    before.get(name),
                    name,
                    ordinal,
                    pods.get(name),
                    nodes.get(name),
                    jobs.get(name, ()),
                    self.machines,
                    arrives_since,
                )
                for name, ordinal in ordinals
            ]
        )

    @derived
    def live(self) -> tuple[Worker, ...]:
        return tuple([worker for worker in self.workers if worker.is_live])

    def remembered(self) -> Before:
        return Before(
            pods=self.pods,
            machines=self.machines,
            slurm=recent(self),
            workers={worker.name: worker for worker in self.workers},
        )

    @property
    def _arrives_since(self) -> datetime | None:
        """A slurmd that began to run after it may still register; None while Slurm does not tell who has."""
        return settled_since(self.now, _answers_since(self.object)) if recent(self) is not None else None


def says_the_same(earlier: Snapshot, later: Snapshot) -> bool:
    """Whether everything but the time is as it was."""
    before, after = earlier.object, later.object
    return (
        earlier.pods is later.pods
        and earlier.revisions is later.revisions
        and earlier.guards is later.guards
        and earlier.claims == later.claims
        and earlier.absent == later.absent
        and earlier.workers == later.workers
        and earlier.machines == later.machines
        and (recent(earlier) is None) == (recent(later) is None)
        and earlier.controller == later.controller
        and earlier.reservation == later.reservation
        and before.spec == after.spec
        and before.status.ordinal_to_node == after.status.ordinal_to_node
        and before.metadata.uid == after.metadata.uid
        and before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
        and before.metadata.finalizers == after.metadata.finalizers
    )


def selector(nodeset: str) -> str:
    """Of its pods, as `kubectl -l` takes it."""
    return f"{names.NODESET_LABEL}={names.worker_stem(nodeset)}"


def recent(snapshot: Snapshot) -> Observed | None:
    """What Slurm said, if it said so lately; a decision uses nothing else."""
    view = snapshot.slurm
    fresh = isinstance(view, Observed) and snapshot.now - view.at <= timedelta(seconds=PROOF_AGE_MAX_S)
    return view if isinstance(view, Observed) and fresh else None


def _answers_since(nodeset: NodeSet) -> datetime | None:
    """Since when Slurm has answered all the time, as far as was told."""
    told = (one for one in nodeset.status.conditions if one.type == SLURM_REACHABLE and one.status == "True")
    return next((one.last_transition_time for one in told), None)


def _is_ours(node: Node, nodeset: str) -> bool:
    """By its ordinal; or else by its first feature, for NodeSets `a` and `a-b` may both have an `a-b-c`."""
    if names.worker_ordinal(nodeset, node.name) is not None:
        return True
    first, dynamic = node.features[:1] == (nodeset,), Flag.DYNAMIC_NORM in node.state.flags
    return first and dynamic and names.is_worker_of(nodeset, node.name)


def _ordinals(nodeset: str, found: Sequence[str], before: Mapping[str, Worker]) -> list[tuple[str, int | None]]:
    """Of all workers, in their order. Most passes find those of the last one."""
    if len(found) == len(before) and all(name in before for name in found):
        return [(name, worker.ordinal) for name, worker in before.items()]
    ours = [(name, names.worker_ordinal(nodeset, name)) for name in found]
    return sorted(ours, key=lambda one: (one[1] or 0, one[0]))


def _worker(
    before: Worker | None,
    name: str,
    ordinal: int | None,
    pod: Pod | None,
    node: Node | None,
    jobs: tuple[Job, ...],
    machines: Mapping[str, Machine],
    arrives_since: datetime | None,
) -> Worker:
    """`before` itself, if it was told the same."""
    machine = machines.get(pod.spec.node_name) if pod is not None else None
    heard = arrives_since is not None
    arrives = arrives_since is not None and pod is not None and is_about_to_register(pod, node, arrives_since)
    if (
        before is not None
        and before.pod is pod
        and before.node is node
        and before.jobs is jobs
        and before.machine is machine
        and before.heard is heard
        and before.arrives is arrives
    ):
        return before
    return Worker(
        name=name, ordinal=ordinal, pod=pod, node=node, jobs=jobs, machine=machine, heard=heard, arrives=arrives
    )


def _facts(node: Node | None, jobs: tuple[Job, ...]) -> Facts:
    if node is None:
        return Facts.BUSY if jobs else Facts.UNREGISTERED
    drains = Flag.DRAIN in node.state.flags
    match node.state.standing:
        case Standing.UNKNOWN:
            return Facts.UNKNOWN
        case Standing.DRAINED:
            return Facts.DRAINING if jobs else Facts.DRAINED
        case Standing.BUSY | Standing.DRAINING:
            return Facts.DRAINING if drains else Facts.BUSY
        case Standing.REMOVABLE | Standing.DOWN if drains:
            return Facts.DRAINING  # it has its drain, which proves nothing in such a state
        case Standing.REMOVABLE | Standing.DOWN:
            return Facts.BUSY if jobs else Facts.FREE
