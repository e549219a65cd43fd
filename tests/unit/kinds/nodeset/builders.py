"""A NodeSet's world in a few words: `a_snapshot(a_worker(0), a_worker(1, jobs=(12,)), replicas=1)`."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

import msgspec

from corral.engine import Apply, controller_reference
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.farewell import FINALIZER
from corral.kinds.nodeset.fitting import STAYS
from corral.kinds.nodeset.making import guarded
from corral.kinds.nodeset.revision import kept
from corral.kinds.nodeset.shown import PREFIX, shown
from corral.kinds.nodeset.snapshot import SLURM_REACHABLE, Snapshot
from corral.kinds.nodeset.spec import NodeSet, NodeSetSpec, NodeSetStatus
from corral.kinds.nodeset.warned import Warned
from corral.kinds.parts import Ref
from corral.kube.meta import EMPTY, Condition, ObjectMeta
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.models.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.slurm.facts import Observed, Unknown, View
from corral.slurm.states import Phase, node_state
from corral.slurm.values import Job, Node, Server

NOW = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)


class NotSaid(Enum):
    UNKNOWN = "unknown"


UNKNOWN: Final = NotSaid.UNKNOWN
OURS = "corral: scale-in of NodeSet lab/gpu"


class AWorker(msgspec.Struct, frozen=True, kw_only=True):
    pod: Pod | None
    node: Node | None
    jobs: tuple[Job, ...]
    known: bool


def a_nodeset(*, replicas: int = 1, deleted: bool = False, suspend: bool = False, **spec: object) -> NodeSet:
    meta = ObjectMeta(
        name="gpu",
        namespace="lab",
        uid="uid-gpu",
        generation=3,
        resource_version="7",
        finalizers=(FINALIZER,),
        deletion_timestamp=NOW if deleted else None,
    )
    given = {"controller_ref": Ref(name="slurm"), "replicas": replicas, "suspend": suspend, **spec}
    return NodeSet(metadata=meta, spec=NodeSetSpec(**given))  # type: ignore[arg-type]


def a_controller() -> Controller:
    return Controller(metadata=ObjectMeta(name="slurm", namespace="lab", uid="uid-slurm"))


SLURM: Final = a_controller()


def a_worker(
    ordinal: int,
    *,
    state: str = "IDLE+DYNAMIC_NORM",
    reason: str = "",
    jobs: Iterable[int] | NotSaid = (),
    until: datetime | None = None,
    limit_s: float | None = None,
    registered: bool = True,
    phase: str = "Running",
    leaving: bool = False,
    pod: bool = True,
    cost: str = "",
    runs_s: float = 10.0,
    earlier_s: float = 0.0,
) -> AWorker:
    """`earlier_s`: its record is of a slurmd that was started so long before the present one."""
    name = f"gpu-{ordinal}"
    record = Node(
        name=name,
        state=node_state(state.split("+")),
        reason=reason,
        features=("gpu",),
        registered_at=NOW - timedelta(seconds=runs_s + earlier_s),
    )
    node = record if registered else None
    held = () if isinstance(jobs, NotSaid) else tuple(a_job(number, name, until, limit_s) for number in jobs)
    made = with_shown(a_pod(name, phase=phase, leaving=leaving, cost=cost, runs_s=runs_s), node) if pod else None
    return AWorker(pod=made, node=node, jobs=held, known=jobs is not UNKNOWN)


def with_shown(pod: Pod, node: Node | None) -> Pod:
    """What Slurm says is on the pod, as an earlier pass wrote it."""
    others = [one for one in pod.status.conditions if not one.type.startswith(PREFIX)]
    conditions = (*others, *shown(pod, node, NOW).conditions)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))


def deleted_ago(worker: AWorker, seconds: float, *, grace_s: int = GRACE_S) -> AWorker:
    """Its pod was deleted so long ago, with so much time to end, then or since."""
    assert worker.pod is not None
    at = NOW + timedelta(seconds=grace_s - seconds)
    meta = msgspec.structs.replace(worker.pod.metadata, deletion_timestamp=at, deletion_grace_period_seconds=grace_s)
    return msgspec.structs.replace(worker, pod=msgspec.structs.replace(worker.pod, metadata=meta))


def told_of(*jobs: int, ago_s: float = 20.0, left_s: float = -1.0) -> Warned:
    """People were told, so long ago, that these jobs are killed when that time is over."""
    return Warned(at=NOW - timedelta(seconds=ago_s), until=NOW + timedelta(seconds=left_s), jobs=frozenset(jobs))


def a_job(number: int, node: str, until: datetime | None = None, limit_s: float | None = None) -> Job:
    return Job(id=number, state=("RUNNING",), phase=Phase.RUNNING, nodes=(node,), end_at=until, time_limit_s=limit_s)


def a_pod(name: str, *, phase: str = "Running", leaving: bool = False, cost: str = "", runs_s: float = 10.0) -> Pod:
    meta = ObjectMeta(
        name=name,
        namespace="lab",
        uid=f"uid-{name}",
        resource_version="5",
        deletion_timestamp=NOW if leaving else None,
        annotations={"controller.kubernetes.io/pod-deletion-cost": cost} if cost else EMPTY,
        owner_references=(controller_reference(a_nodeset()),),
    )
    runs = phase == "Running"
    ready = PodCondition(type="Ready", status="True" if runs else "False")
    state = ContainerState(running=ContainerStateRunning(started_at=NOW - timedelta(seconds=runs_s)) if runs else None)
    slurmd = ContainerStatus(name="slurmd", state=state, image="", image_id="", ready=runs, restart_count=0)
    return Pod(
        metadata=meta,
        spec=PodSpec(
            containers=(Container(name="slurmd"),), tolerations=(STAYS,), termination_grace_period_seconds=GRACE_S
        ),
        status=PodStatus(phase=phase, conditions=(ready,), container_statuses=(slurmd,)),
    )


def a_view(*workers: AWorker, age_s: float = 1.0, answers_s: float = 3600.0) -> View:
    """Unknown as soon as one worker's jobs are: a look is whole, or it is none."""
    at = NOW - timedelta(seconds=age_s)
    if not all(worker.known for worker in workers):
        return Unknown(since_s=0.0, since=at, why="connection refused")
    nodes = {worker.node.name: worker.node for worker in workers if worker.node}
    jobs = {job.id: job for worker in workers for job in worker.jobs}
    by_node = {worker.jobs[0].nodes[0]: worker.jobs for worker in workers if worker.jobs}
    return Observed(
        nodes=nodes,
        jobs=jobs,
        jobs_by_node=by_node,
        at_s=0.0,
        at=at,
        server=Server(api="v0.0.42", release="26.05"),
        since=NOW - timedelta(seconds=answers_s),
    )


def a_snapshot(
    *workers: AWorker,
    replicas: int = 1,
    deleted: bool = False,
    suspend: bool = False,
    controller: Controller | None = SLURM,
    age_s: float = 1.0,
    answers_s: float = 3600.0,
) -> Snapshot:
    """`answers_s`: for how long Slurm has answered."""
    nodeset = a_nodeset(replicas=replicas, deleted=deleted, suspend=suspend)
    since = NOW - timedelta(seconds=answers_s)
    answers = Condition(type=SLURM_REACHABLE, status="True", reason="SlurmAnswers", last_transition_time=since)
    pods = tuple(worker.pod for worker in workers if worker.pod)
    return Snapshot(
        object=msgspec.structs.replace(nodeset, status=NodeSetStatus(conditions=(answers,))),
        revisions=known_revisions(nodeset, controller, pods),
        guards=(the_guard(nodeset),),
        now=NOW,
        cluster="lab/slurm",
        controller=controller,
        pods=pods,
        slurm=a_view(*workers, age_s=age_s, answers_s=answers_s),
    )


def known_revisions(
    nodeset: NodeSet, controller: Controller | None, pods: Iterable[Pod]
) -> tuple[ControllerRevision, ...]:
    """The present one, as if an earlier pass had kept it."""
    if controller is None:
        return ()
    owner = (controller_reference(nodeset),)
    return tuple(
        msgspec.structs.replace(
            one, metadata=msgspec.structs.replace(one.metadata, namespace="lab", owner_references=owner)
        )
        for one in kept(nodeset, controller, (), pods)
    )


def the_guard(nodeset: NodeSet) -> PodDisruptionBudget:
    """As an earlier pass made it."""
    (made,) = guarded(nodeset, ()).actions
    assert isinstance(made, Apply)
    assert isinstance(made.object, PodDisruptionBudget)
    return made.object
