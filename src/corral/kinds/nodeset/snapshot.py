"""All that a decision about a NodeSet is made from, at one moment. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.derived import derived
from corral.kinds.nodeset.arrival import settled_since
from corral.kinds.nodeset.calls import Door, Reserved
from corral.kinds.nodeset.gathering import Before, Told, gathered
from corral.kinds.nodeset.left import Left
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.warned import Warned
from corral.kinds.nodeset.workers import Worker
from corral.kube.meta import EMPTY, ObjectRef
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.models.core_v1 import Node as Machine
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.slurm.facts import Observed, View

SLURM_REACHABLE = "SlurmReachable"  # the condition
PROOF_AGE_MAX_S = 30.0  # an older look says nothing about the present; a pass that removes workers asks anew


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
    driving_out: tuple[Machine, ...] = ()  # those that have a taint NoExecute, whoever is on them
    claims: tuple[PersistentVolumeClaim, ...] = ()  # of its workers, and of earlier ones
    absent: tuple[ObjectRef, ...] = ()  # what its pods mount and is not there
    taken: Mapping[str, datetime] = EMPTY  # workers whose name another object has, and when each was tried last
    reservation: Reserved = Reserved()
    door: Door = Door()  # of its partition, asked for only when it is being deleted
    left: Left | None = None  # of slurmctld, while the Controller is missing
    steps: Mapping[str, tuple[str, ...]] = EMPTY  # of jobs, by worker that was looked into, and could be
    stepped_at: Mapping[str, datetime] = EMPTY  # when steps were seen there last, of those that are looked into
    warned: Mapping[str, Warned] = EMPTY  # of the end of their jobs: what people were told of pods, by uid
    ended: Mapping[str, datetime] = EMPTY  # pods whose wait for jobs we have ended, and when, by uid
    before: Before | None = None

    @derived
    def workers(self) -> tuple[Worker, ...]:
        return gathered(self.object.metadata.name, self.told, self.before)

    @derived
    def live(self) -> tuple[Worker, ...]:
        return tuple([worker for worker in self.workers if worker.is_live])

    def remembered(self) -> Before:
        return Before(told=self.told, workers={worker.name: worker for worker in self.workers})

    @derived
    def told(self) -> Told:
        view = recent(self)
        since = settled_since(self.now, view.since) if view is not None else None
        return Told(pods=self.pods, machines=self.machines, slurm=view, arrives_since=since)


def says_the_same(earlier: Snapshot, later: Snapshot) -> bool:
    """Whether everything but the time is as it was."""
    before, after = earlier.object, later.object
    return (
        earlier.pods is later.pods
        and earlier.revisions is later.revisions
        and earlier.guards is later.guards
        and earlier.claims == later.claims
        and earlier.absent == later.absent
        and earlier.taken == later.taken
        and earlier.workers == later.workers
        and earlier.machines == later.machines
        and (recent(earlier) is None) == (recent(later) is None)
        and earlier.controller == later.controller
        and earlier.left == later.left
        and earlier.steps == later.steps
        and earlier.stepped_at == later.stepped_at
        and earlier.warned == later.warned
        and earlier.ended == later.ended
        and earlier.reservation == later.reservation
        and earlier.door == later.door
        and before.spec == after.spec
        and before.status.ordinals == after.status.ordinals
        and before.status.lost_drains == after.status.lost_drains
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
