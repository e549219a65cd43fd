"""What is known of each worker: its pod, its Slurm node and its jobs, side by side. Pure.

Facts of Slurm have three values. `Facts.UNKNOWN` is not "no": whoever does not answer, answers too late, or uses a word
that we cannot read leaves a worker unknown, and an unknown worker is never removed.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum

import msgspec

from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.calls import REASON_PREFIX
from corral.kinds.nodeset.machine import Trouble, trouble_of
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.meta import EMPTY
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.models.core_v1 import Node as Machine
from corral.kube.models.core_v1 import Pod
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.slurm.facts import Observed, View
from corral.slurm.states import Flag, Standing
from corral.slurm.values import Job, Node

SLURM_REACHABLE = "SlurmReachable"  # the condition
CONTAINER = "slurmd"
PROOF_AGE_MAX_S = 30.0  # an older look says nothing about the present; a pass that removes workers asks anew
REGISTERED_WITHIN_S = 120.0  # a slurmd that runs beside a slurmctld that answers has registered by then, or never will
COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"  # as for every ReplicaSet: the lowest goes first


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: NodeSet
    now: datetime
    cluster: str
    controller: Controller | None
    pods: tuple[Pod, ...]
    slurm: View
    revisions: tuple[ControllerRevision, ...] = ()
    guards: tuple[PodDisruptionBudget, ...] = ()
    machines: Mapping[str, Machine] = EMPTY  # Kubernetes nodes that its pods are on


class Facts(Enum):
    """What Slurm says of a worker, as far as it matters to whoever wants to remove it."""

    UNKNOWN = "unknown"
    UNREGISTERED = "unregistered"  # Slurm answered, has no such node, and gets none by itself
    ARRIVING = "arriving"  # Slurm has no such node, but its slurmd runs: it may register and get a job at any moment
    FREE = "free"  # no job, but one may come at any moment
    BUSY = "busy"  # holds a job, or is promised to one
    DRAINING = "draining"  # takes no new job; what it has is still there
    DRAINED = "drained"  # no job, and none comes


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ordinal: int
    pod: Pod | None
    facts: Facts
    node: Node | None = None
    jobs: tuple[Job, ...] = ()
    trouble: Trouble | None = None  # of the Kubernetes node below it

    @property
    def is_live(self) -> bool:
        """Its pod runs, or will: neither on its way out nor at its end."""
        return self.pod is not None and not self.is_leaving and not self.has_ended

    @property
    def is_leaving(self) -> bool:
        return self.pod is not None and self.pod.metadata.deletion_timestamp is not None

    @property
    def has_ended(self) -> bool:
        """Every process of its pod has ended for good: to remove it can kill nothing."""
        return self.pod is not None and self.pod.status.phase in ("Failed", "Succeeded")

    @property
    def is_ready(self) -> bool:
        conditions = self.pod.status.conditions if self.pod else ()
        return any(c.type == "Ready" and c.status == "True" for c in conditions)

    @property
    def runs(self) -> bool:
        """Whether its slurmd runs, by kubelet's word."""
        return self.pod is not None and _runs_since(self.pod, datetime.min.replace(tzinfo=UTC))

    @property
    def has_drain(self) -> bool:
        return self.node is not None and Flag.DRAIN in self.node.state.flags

    @property
    def has_our_drain(self) -> bool:
        return self.has_drain and self.node is not None and self.node.reason.startswith(REASON_PREFIX)

    @property
    def has_foreign_drain(self) -> bool:
        return self.has_drain and not self.has_our_drain

    @property
    def cost(self) -> int:
        said = self.pod.metadata.annotations.get(COST_ANNOTATION, "") if self.pod else ""
        try:
            return int(said)
        except ValueError:
            return 0


def workers(snapshot: Snapshot) -> tuple[Worker, ...]:
    """Every pod of the NodeSet, and every Slurm node that is or was one of its workers; by ordinal."""
    nodeset, view = snapshot.object.metadata.name, recent(snapshot)
    pods = {pod.metadata.name: pod for pod in snapshot.pods}
    nodes = {node.name: node for node in _nodes(view, nodeset)}
    settled = snapshot.now - timedelta(seconds=REGISTERED_WITHIN_S)
    arrives_since = settled if _answers_since(snapshot.object, settled) else datetime.min.replace(tzinfo=UTC)
    found = (
        _worker(name, ordinal, pods.get(name), nodes.get(name), view, arrives_since, snapshot.machines)
        for name in pods.keys() | nodes.keys()
        if (ordinal := names.worker_ordinal(nodeset, name)) is not None
    )
    return tuple(sorted(found, key=lambda worker: (worker.ordinal, worker.name)))


def selector(nodeset: str) -> str:
    """Of its pods, as `kubectl -l` takes it."""
    return f"{names.NODESET_LABEL}={names.worker_stem(nodeset)}"


def recent(snapshot: Snapshot) -> Observed | None:
    """What Slurm said, if it said so lately; a decision uses nothing else."""
    view = snapshot.slurm
    fresh = isinstance(view, Observed) and snapshot.now - view.at <= timedelta(seconds=PROOF_AGE_MAX_S)
    return view if isinstance(view, Observed) and fresh else None


def _nodes(view: Observed | None, nodeset: str) -> Iterable[Node]:
    """By name and feature: a node that only looks like one of ours is somebody else's."""
    for node in view.nodes.values() if view else ():
        if nodeset in node.features and names.worker_ordinal(nodeset, node.name) is not None:
            yield node


def _answers_since(nodeset: NodeSet, moment: datetime) -> bool:
    """Whether Slurm has answered all the time since then, as far as was told."""
    since = (
        one.last_transition_time
        for one in nodeset.status.conditions
        if one.type == SLURM_REACHABLE and one.status == "True"
    )
    return any(at is not None and at <= moment for at in since)


def _worker(
    name: str,
    ordinal: int,
    pod: Pod | None,
    ours: Node | None,
    view: Observed | None,
    arrives_since: datetime,
    machines: Mapping[str, Machine],
) -> Worker:
    """A pod's node is its node whatever its features are: slurmctld knows it by that name."""
    node = ours or (view.nodes.get(name) if view else None)
    jobs = view.jobs_on(name) if view else ()
    facts = _facts(view, node, jobs)
    if facts is Facts.UNREGISTERED and pod is not None and _runs_since(pod, arrives_since):
        facts = Facts.ARRIVING
    trouble = trouble_of(pod, machines) if pod is not None else None
    return Worker(name=name, ordinal=ordinal, pod=pod, node=node, jobs=jobs, facts=facts, trouble=trouble)


def _runs_since(pod: Pod, moment: datetime) -> bool:
    """Whether its slurmd was started after that moment and runs, by kubelet's word.

    One that kubelet has not told of yet is safe to delete: the pod's version is the condition, and telling changes it.
    """
    told = [one.state for one in pod.status.container_statuses if one.name == CONTAINER]
    if not told:
        return pod.status.phase == "Running"
    running = (state.running for state in told)
    return any(one is not None and (one.started_at is None or one.started_at > moment) for one in running)


def _facts(view: Observed | None, node: Node | None, jobs: tuple[Job, ...]) -> Facts:
    if view is None:
        return Facts.UNKNOWN
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
