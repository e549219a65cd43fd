"""What to do for a NodeSet. Pure: a snapshot in, a plan out.

    fewer workers than asked for     make the missing ordinals, lowest first, so many a pass
    more workers than asked for      choose which go, drain them, wait for proof, forget the node, delete the pod
    a pod that has ended             delete it; it is made again under its name
    a pod that Slurm has lost        a slurmd whose record is gone never registers again: delete it, it is made again
    a worker that is outdated        as `rollout` says: drain it, wait for proof, forget it, delete it; made again
    a Kubernetes node in trouble     drain its workers; off one that is cordoned they move when they hold no job
    a drain of ours on a worker that stays    lift it
    the NodeSet is being deleted     as "no worker is asked for"; then the finalizer goes

The law. A pod that may hold a job is not deleted. It goes only when a recent answer of Slurm shows that it holds none
and takes none, and then only directly after slurmctld itself has forgotten its node, which it refuses while a job holds
it: the two are neighbours in the plan, and the first failure ends the attempt. What is unknown removes nothing. A node
that Slurm has not got while its slurmd is about to register is waited for, and drained. A drain with a reason that is
not ours is neither lifted nor overwritten, and scale-in leaves its node: made again, it would have lost it.

There are two exceptions: a NodeSet that is deleted after its Controller, for there is nobody left to ask and nothing to
lose; and `forceDrainAfterSeconds`, by which people choose to lose jobs that outlast a drain.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from corral.engine import (
    NOTHING,
    Action,
    Delete,
    EmitEvent,
    Once,
    Outside,
    Plan,
    RemoveFinalizer,
    Wait,
    children,
    target,
)
from corral.kinds import names
from corral.kinds.nodeset.calls import REASON_PREFIX, Call, Drain, Forget, Undrain
from corral.kinds.nodeset.revision import before, is_outdated, kept, revision_of, version_step
from corral.kinds.nodeset.rollout import BadUpdate, outdated, rollout, surge
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.worker import worker_pod
from corral.kinds.nodeset.workers import SLURM_REACHABLE, Facts, Snapshot, Worker, recent, selector, workers
from corral.kinds.overrides import BadOverride
from corral.kube.meta import ObjectMeta, ref
from corral.kube.models.meta_v1 import LabelSelector
from corral.kube.models.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from corral.slurm.facts import Unknown
from corral.slurm.values import Job

FINALIZER = "slurm.corral.dev/drain"
BURST_MAX = 250  # pods made in one pass: the next one sees how they fare
REMOVED_MAX = 100  # in one pass; each is two calls
ARRIVES_WITHIN_S = 30.0  # how often to look whether a slurmd that runs has registered; Slurm's own news come sooner
LOOK_AGAIN_S = 1.0  # after a drain: an idle node is drained at once
GIVEN_UP_S = 300.0  # a deletion without pods does not wait longer for a Slurm that does not answer
SHOWN_MAX = 5


def plan(snapshot: Snapshot) -> Plan:
    nodeset = snapshot.object
    if nodeset.spec.suspend:
        return NOTHING
    known = workers(snapshot)
    if nodeset.metadata.deletion_timestamp is not None:
        return _farewell(snapshot, known)
    if snapshot.controller is None:
        name = f"{nodeset.metadata.namespace}/{nodeset.spec.controller_ref.name}"
        return Plan(waits=(Wait(reason="ControllerMissing", message=f"waiting for Controller {name}"),))
    turn = version_step(nodeset, snapshot.controller)
    revision = revision_of(nodeset, snapshot.controller)
    try:
        old = outdated([w for w in known if w.is_live], snapshot, lambda pod: is_outdated(pod, revision, turn.version))
        replicas = nodeset.spec.replicas + surge(snapshot, old)
    except BadUpdate as error:
        return Plan(waits=(Wait(reason="BadUpdate", message=str(error), stalled=True),))
    leaving = surplus(known, replicas, nodeset.spec.reserve_ordinals)
    staying = _without([worker for worker in known if worker.is_live], leaving)
    rolling = rollout(snapshot, staying, old, _farewell_order)
    replaced = rolling.replaced
    lost = [w for w in _without(staying, replaced) if w.is_ready and w.facts is Facts.UNREGISTERED]
    settled = _without(staying, (*replaced, *lost))
    wanted = _wanted(staying, replicas, nodeset.spec.reserve_ordinals)
    orphans = [worker for worker in known if worker.pod is None and worker.ordinal not in wanted]
    return (
        guarded(nodeset, snapshot.guards)
        + _history(snapshot)
        + _ended(known)
        + _made(snapshot, known, wanted)
        + _kept(snapshot, [worker for worker in settled if worker.trouble is None])
        + _removed(snapshot, [worker for worker in (*leaving, *orphans) if not worker.has_foreign_drain], "scale-in")
        + _left_alone(leaving)
        + _removed(snapshot, lost, "Slurm has lost it")
        + _removed(snapshot, replaced, "rollout")
        + _remade(rolling.remade)
        + _off_troubled_machines(snapshot, settled)
        + Plan(waits=(*turn.waits, *rolling.waits), again_after_s=rolling.again_after_s)
        + _not_yet(snapshot, staying)
        + _unanswered(snapshot, known)
    )


def surplus(known: Sequence[Worker], replicas: int, reserved: Sequence[int] = ()) -> tuple[Worker, ...]:
    """Those whose ordinal is reserved, and as many more as are too many, in the order of `_farewell_order`.

    Nothing is chosen while Slurm does not tell.
    """
    live = [worker for worker in known if worker.is_live]
    unwelcome = [worker for worker in live if worker.ordinal in reserved]
    excess = len(live) - replicas
    if max(excess, len(unwelcome)) <= 0 or any(w.facts is Facts.UNKNOWN and w.node is None for w in live):
        return ()
    rest = sorted(_without(live, unwelcome), key=_farewell_order)
    return (*unwelcome, *rest[: max(0, excess - len(unwelcome))])


def _without(workers: Sequence[Worker], others: Sequence[Worker]) -> list[Worker]:
    names = {worker.name for worker in others}
    return [worker for worker in workers if worker.name not in names]


_ORDER = (Facts.UNREGISTERED, Facts.ARRIVING, Facts.DRAINED, Facts.FREE, Facts.DRAINING, Facts.BUSY, Facts.UNKNOWN)


def _farewell_order(worker: Worker) -> tuple[int, bool, bool, bool, bool, int, int, float, int]:
    """Whom it costs least to lose goes first:

    as people marked it; drained by us already; not drained by somebody else; not in Slurm; not ready; idle; with the
    fewest jobs; with the jobs that end soonest; the highest ordinal.
    """
    return (
        worker.cost,
        not worker.has_our_drain,
        worker.has_foreign_drain,
        worker.facts not in (Facts.UNREGISTERED, Facts.ARRIVING),
        worker.is_ready,
        _ORDER.index(worker.facts),
        len(worker.jobs),
        _last_end_s(worker.jobs),
        -worker.ordinal,
    )


def _last_end_s(jobs: Sequence[Job]) -> float:
    """When the last of them ends by its limit; a job without one ends never."""
    return max((job.end_at.timestamp() if job.end_at and _is_limited(job) else math.inf for job in jobs), default=0.0)


def _is_limited(job: Job) -> bool:
    return job.time_limit_s is None or job.time_limit_s != math.inf


def _wanted(staying: Sequence[Worker], replicas: int, reserved: Sequence[int]) -> frozenset[int]:
    """The ordinals that stay, and the lowest free ones to make up the number; reserved ones are never made."""
    taken = {worker.ordinal for worker in staying}
    ordinal = 0
    while len(taken) < replicas:
        if ordinal not in reserved:
            taken.add(ordinal)
        ordinal += 1
    return frozenset(taken)


def guarded(nodeset: NodeSet, guards: Iterable[PodDisruptionBudget]) -> Plan:
    """Nobody evicts a worker, nor does `kubectl drain`: we delete it when slurmctld has forgotten it."""
    name = nodeset.metadata.name
    guard = PodDisruptionBudget(
        metadata=ObjectMeta(name=names.guard_name(name), labels=names.labels("slurmd", name)),
        spec=PodDisruptionBudgetSpec(
            max_unavailable=0, selector=LabelSelector(match_labels={names.NODESET_LABEL: names.worker_stem(name)})
        ),
    )
    return children(nodeset, [guard], guards)


def _history(snapshot: Snapshot) -> Plan:
    if snapshot.controller is None:
        return NOTHING
    there = snapshot.revisions
    return children(
        snapshot.object, [Once(one) for one in kept(snapshot.object, snapshot.controller, there, snapshot.pods)], there
    )


def _ended(known: Sequence[Worker]) -> Plan:
    """A pod that ended has no process left; whoever runs on that node, Slurm learns it when the next one registers."""
    ended = [worker.pod for worker in known if worker.pod and worker.has_ended and not worker.is_leaving]
    return Plan(
        actions=tuple(
            Delete(target=target(pod), reason="PodEnded", message=f"it ended ({pod.status.phase}); made again")
            for pod in ended
        )
    )


def _made(snapshot: Snapshot, known: Sequence[Worker], wanted: frozenset[int]) -> Plan:
    nodeset, controller = snapshot.object, snapshot.controller
    with_pod = {worker.ordinal: worker for worker in known if worker.pod}
    missing = sorted(o for o in wanted if o not in with_pod or with_pod[o].is_leaving)
    going = [worker.pod for worker in with_pod.values() if worker.is_leaving and worker.pod]
    if controller is None or not missing:
        return NOTHING
    earlier = before(nodeset, controller, snapshot.revisions) if nodeset.spec.update.partition else nodeset
    try:
        pods = [
            Once(worker_pod(earlier if ordinal < nodeset.spec.update.partition else nodeset, controller, ordinal))
            for ordinal in missing[:BURST_MAX]
        ]
    except BadOverride as error:
        return Plan(waits=(Wait(reason="BadOverride", message=str(error), stalled=True),))
    there = {pod.object.metadata.name for pod in pods}
    return children(nodeset, pods, [pod for pod in going if pod.metadata.name in there])


def _kept(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    """A worker that stays is not drained by us: it was to go, and people changed their mind; or its node was.

    One that is not ready keeps its drain until it is: a job would be given to a slurmd that is not there.
    """
    ours = [w for w in staying if w.has_our_drain and w.is_ready and w.facts is not Facts.UNKNOWN]
    message = "it stays: a drain of ours is lifted"
    return Plan(actions=tuple(_call(snapshot, Undrain(node=w.name), "WorkerStays", message) for w in ours))


def _removed(snapshot: Snapshot, leaving: Sequence[Worker], why: str) -> Plan:
    """In the order in which they can go: those that can are not held up by a call for one that cannot."""
    ready = [worker for worker in leaving if worker.facts in (Facts.DRAINED, Facts.UNREGISTERED)][:REMOVED_MAX]
    to_drain = [worker for worker in leaving if worker.facts in (Facts.FREE, Facts.BUSY) and worker.node is not None]
    held = [worker for worker in leaving if worker.facts in (Facts.DRAINING, Facts.BUSY)]
    overdue = [worker for worker in held if _is_overdue(snapshot, worker)]
    arriving = [worker for worker in leaving if worker.facts is Facts.ARRIVING]
    unclear = [worker for worker in leaving if worker.facts is Facts.UNKNOWN]
    actions = [action for worker in to_drain[:BURST_MAX] for action in _drained(snapshot, worker, why)]
    actions += [action for worker in ready for action in _forgotten(snapshot, worker, why)]
    actions += [action for worker in overdue for action in _forced(snapshot, worker, why)]
    waits = [_draining(worker) for worker in held] + [_unclear(worker) for worker in unclear]
    waits += [_arriving(worker) for worker in arriving]
    may_be_forced = snapshot.object.spec.force_drain_after_seconds is not None and bool(held)
    again_after_s = LOOK_AGAIN_S if to_drain else ARRIVES_WITHIN_S if arriving or may_be_forced else None
    return Plan(actions=tuple(actions), waits=tuple(waits), again_after_s=again_after_s)


def _is_overdue(snapshot: Snapshot, worker: Worker) -> bool:
    """Only where people asked for it, only after a drain of ours has lasted that long, and only while Slurm tells."""
    limit_s, node = snapshot.object.spec.force_drain_after_seconds, worker.node
    if limit_s is None or node is None or node.reason_at is None or not worker.has_our_drain or worker.is_leaving:
        return False
    return worker.facts is Facts.DRAINING and snapshot.now - node.reason_at > timedelta(seconds=limit_s)


def _forced(snapshot: Snapshot, worker: Worker, why: str) -> tuple[Action, ...]:
    """The one way in which a job is killed, and people are told which: Slurm requeues what may be requeued."""
    if worker.pod is None:
        return ()
    limit_s = snapshot.object.spec.force_drain_after_seconds
    message = (
        f"{worker.name}: drained for more than {limit_s} s ({why}) and deleted by force; {_jobs_text(worker.jobs)}"
    )
    told = EmitEvent(
        regarding=target(snapshot.object), reason="JobsKilled", message=message, type="Warning", action="Delete"
    )
    return told, Delete(target=target(worker.pod), reason="DrainForced", message=message)


def _off_troubled_machines(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    """Drained; and those whose node is to be emptied move away when they hold no job. See `machine`."""
    found = Plan()
    for worker in staying:
        if worker.trouble is None or worker.has_foreign_drain:
            continue
        if worker.trouble.leaves:
            found += _removed(snapshot, [worker], worker.trouble.why)
        elif worker.node is not None and worker.facts in (Facts.FREE, Facts.BUSY):
            found += Plan(actions=_drained(snapshot, worker, worker.trouble.why))
    return found


def _remade(idle: Sequence[Worker]) -> Plan:
    message = "outdated, and its slurmd does not run; made again, and its node in Slurm keeps its drain"
    pods = [worker.pod for worker in idle if worker.pod is not None]
    return Plan(actions=tuple(Delete(target=target(pod), reason="PodOutdated", message=message) for pod in pods))


def _left_alone(leaving: Sequence[Worker]) -> Plan:
    """One whose drain is somebody else's stays as it is, and with it what they drained it for."""
    waits = [
        Wait(
            reason="DrainedBySomebodyElse",
            message=f"{worker.name} is to go, but somebody else has drained it ({worker.node.reason!r}), so it stays "
            f"as it is. It goes when that drain is lifted: scontrol update nodename={worker.name} state=undrain",
        )
        for worker in leaving
        if worker.has_foreign_drain and worker.node
    ]
    return Plan(waits=tuple(waits))


def _drained(snapshot: Snapshot, worker: Worker, why: str) -> tuple[Action, ...]:
    reason = f"{REASON_PREFIX}{why}" if worker.trouble else f"{REASON_PREFIX}{why} of {ref(snapshot.object)}"
    message = f"it is to go ({why}); {_jobs_text(worker.jobs)}"
    told = EmitEvent(
        regarding=target(snapshot.object), reason="Draining", message=f"{worker.name}: {message}", action="Drain"
    )
    return _call(snapshot, Drain(node=worker.name, reason=reason), "WorkerLeaves", message), told


def _forgotten(snapshot: Snapshot, worker: Worker, why: str) -> tuple[Action, ...]:
    """The node first, the pod directly after it."""
    proof = "Slurm has no such node" if worker.facts is Facts.UNREGISTERED else "drained, and no job holds it"
    forget = _call(snapshot, Forget(node=worker.name), "WorkerLeaves", proof)
    if worker.pod is None or worker.is_leaving:
        return (forget,)
    return forget, Delete(target=target(worker.pod), reason="WorkerLeaves", message=f"{why}: {proof}")


def _call(snapshot: Snapshot, call: Call, reason: str, message: str) -> Outside:
    return Outside(
        system=f"Slurm {snapshot.cluster}", subject=f"node {call.node}", call=call, reason=reason, message=message
    )


def _draining(worker: Worker) -> Wait:
    foreign = worker.node is not None and worker.has_foreign_drain
    whose = f" (drained by somebody else: {worker.node.reason!r})" if worker.node and foreign else ""
    return Wait(reason="Draining", message=f"{worker.name}: draining{whose}, {_jobs_text(worker.jobs)}")


def _arriving(worker: Worker) -> Wait:
    message = f"{worker.name} is to go, but its slurmd is about to register; it is drained when it has"
    return Wait(reason="WorkerArriving", message=message)


def _unclear(worker: Worker) -> Wait:
    said = str(worker.node.state) if worker.node else "nothing"
    return Wait(reason="WorkerUnknown", message=f"{worker.name} is to go, but Slurm does not say what it does: {said}")


def _jobs_text(jobs: Sequence[Job]) -> str:
    """`jobs 12, 17 run until 2026-11-16T02:25Z`: the last of them, by its time limit."""
    if not jobs:
        return "no job is known to run"
    some = _some([str(job.id) for job in jobs])
    return f"job {some} runs{_until(jobs)}" if len(jobs) == 1 else f"jobs {some} run{_until(jobs)}"


def _until(jobs: Sequence[Job]) -> str:
    """Slurm gives a job without a limit an end a year ahead, which is nobody's plan."""
    if any(job.time_limit_s == math.inf for job in jobs):
        return " without a time limit"
    ends = [job.end_at for job in jobs if job.end_at is not None]
    return f" until {max(ends):%Y-%m-%dT%H:%MZ} at the latest" if len(ends) == len(jobs) else ""


def _unanswered(snapshot: Snapshot, known: Sequence[Worker]) -> Plan:
    if recent(snapshot) is not None or not known:
        return NOTHING
    return Plan(waits=(Wait(reason="SlurmUnreachable", message=unreachable_text(snapshot)),))


def unreachable_text(snapshot: Snapshot) -> str:
    view = snapshot.slurm
    if isinstance(view, Unknown):
        said = f"Slurm {snapshot.cluster} has not answered since {view.since:%Y-%m-%dT%H:%M:%SZ}: {view.why}"
    else:
        said = f"Slurm {snapshot.cluster} was seen last at {view.at:%Y-%m-%dT%H:%M:%SZ}"
    return f"{said}. Workers are made and healed, none is removed"


def _not_yet(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    """Workers that are there but cannot take jobs yet. Their pods' and Slurm's changes bring us back."""
    unready = [worker.name for worker in staying if not worker.is_ready]
    absent = [worker.name for worker in staying if worker.is_ready and worker.facts is Facts.ARRIVING]
    of = f"of {snapshot.object.spec.replicas} workers"
    waits = (
        [Wait(reason="WorkersNotReady", message=f"{len(unready)} {of} not ready: {_some(unready)}")] if unready else []
    )
    if absent:
        waits.append(Wait(reason="WorkersNotRegistered", message=f"{len(absent)} {of} not in Slurm: {_some(absent)}"))
    return Plan(waits=tuple(waits), again_after_s=ARRIVES_WITHIN_S if absent else None)


def _farewell(snapshot: Snapshot, known: Sequence[Worker]) -> Plan:
    """Deletion ends when pods and Slurm's records are gone, or when the Controller is."""
    nodeset = snapshot.object
    if FINALIZER not in nodeset.metadata.finalizers:
        return NOTHING
    with_pod = [worker for worker in known if worker.pod]
    if snapshot.controller is None:
        pods = [worker.pod for worker in with_pod if worker.pod and not worker.is_leaving]
        gone = "the NodeSet is deleted, and its Controller is gone: no job can be left"
        actions = tuple(Delete(target=target(pod), reason="ControllerGone", message=gone) for pod in pods)
        return Plan(actions=actions, waits=_pods_going(with_pod)) if with_pod else _let_go(snapshot)
    if recent(snapshot) is None and not with_pod and _may_still_answer(snapshot):
        return Plan(
            waits=(Wait(reason="SlurmUnreachable", message=unreachable_text(snapshot)),), again_after_s=GIVEN_UP_S
        )
    if recent(snapshot) is None and with_pod:
        command = f"kubectl -n {nodeset.metadata.namespace} delete pod -l {selector(nodeset.metadata.name)}"
        stuck = (
            f"{unreachable_text(snapshot)}; deletion goes on when Slurm answers, or its Controller is deleted too. "
            f"To give up what may run on its workers: {command}"
        )
        return _ended(known) + Plan(waits=(Wait(reason="SlurmUnreachable", message=stuck),))
    if not known:
        return _let_go(snapshot)
    stays = [worker for worker in known if not worker.has_ended and not worker.is_leaving]
    return _ended(known) + _removed(snapshot, stays, "deletion") + Plan(waits=_pods_going(with_pod))


def _may_still_answer(snapshot: Snapshot) -> bool:
    """Slurm had nodes of it when it answered last, which would be left there; it is not waited for without end."""
    said = snapshot.object.status
    silent = (c for c in said.conditions if c.type == SLURM_REACHABLE and c.status == "False")
    since = next((c.last_transition_time for c in silent if c.last_transition_time is not None), snapshot.now)
    had_nodes = said.idle + said.allocated + said.draining + said.down > 0
    return had_nodes and snapshot.now - since < timedelta(seconds=GIVEN_UP_S)


def _pods_going(with_pod: Sequence[Worker]) -> tuple[Wait, ...]:
    going = [worker.name for worker in with_pod if worker.is_leaving]
    return (Wait(reason="PodsGoing", message=f"{len(going)} pods are ending: {_some(going)}"),) if going else ()


def _let_go(snapshot: Snapshot) -> Plan:
    nodeset = snapshot.object
    leave = RemoveFinalizer(
        target=target(nodeset),
        present=nodeset.metadata.finalizers,
        finalizer=FINALIZER,
        message="no pod of it is left, and no Slurm node that is known of",
    )
    return Plan(actions=(leave,))


def _some(words: Iterable[str]) -> str:
    found = list(words)
    more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return ", ".join(found[:SHOWN_MAX]) + more
