"""What to do for a NodeSet that is being deleted: remove its workers as always, then the finalizer. Pure.

First its partition is closed: the Controller writes it as INACTIVE, and from then on slurmctld accepts no job for it.
Jobs that are pending in it would fail with the partition, so they are waited for: people move them to another
partition, or cancel them. The NodeSet is released when Slurm reported the partition as closed and, after that, no jobs.

For that, slurmctld and every slurmd read their configuration again, and slurmd registers again. No node is forgotten
before it has registered, or has had time to: it would come back without a drain.

Without the Controller Slurm cannot be asked, and jobs run on (see `left`). A worker goes then only when slurmctld's pod
is gone, nobody has created the Controller again for a while, and a look into it (see `looks`) finds no step of a job.
Others wait: for the end of what runs there, for the Controller, or for a person.
"""

import re
from collections.abc import Sequence, Set
from datetime import timedelta

import msgspec

from corral.engine import NOTHING, Action, Plan, RemoveFinalizer, Wait, target
from corral.kinds import names
from corral.kinds.nodeset import claims
from corral.kinds.nodeset.body import SHORT_GRACE_S
from corral.kinds.nodeset.each import beside, each
from corral.kinds.nodeset.ending import end_command, ended_now, waits
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.force import Term, killed, limit, term_of, warning
from corral.kinds.nodeset.going import DELETION, going
from corral.kinds.nodeset.leaving import without
from corral.kinds.nodeset.left import Left, slurmctld_pod
from corral.kinds.nodeset.making import ended, guarded
from corral.kinds.nodeset.registering import told_of_machines
from corral.kinds.nodeset.removal import removed
from corral.kinds.nodeset.reservation import released
from corral.kinds.nodeset.snapshot import SLURM_REACHABLE, Snapshot, recent, selector
from corral.kinds.nodeset.words import silence_text, some
from corral.kinds.nodeset.workers import Worker
from corral.kube.models.core_v1 import Pod
from corral.slurm.states import Phase
from corral.slurm.values import Job

FINALIZER = "slurm.corral.dev/drain"
GIVEN_UP_S = 300.0  # without pods and partition, a deletion does not wait longer for a Slurm that does not answer
CLOSES_WITHIN_S = 5.0  # how often to check whether its partition is closed
READ_WITHIN_S = 60.0  # after a deletion every slurmd has read its configuration again by then, or does not answer
LOOKED_AGAIN_S = 5.0
STEPS_LOOKED_AGAIN_S = 30.0  # at workers that hold a deletion up
GONE_MAX = 500  # in one pass: the next one looks anew
STARTING = "starting"  # slurmd-steps does not know yet whose it is
JOB_OF_STEP = re.compile(r"\d+")
GONE = "ControllerGone"
ALONE = "the NodeSet is being deleted, its Controller and slurmctld are gone"
AWAY_S = 30.0  # a Controller that was deleted to be created again is back by then


class Doomed(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that goes with its jobs at some time."""

    worker: Worker
    pod: Pod
    jobs: tuple[int, ...]  # that are known of
    term: Term


def farewell(snapshot: Snapshot, known: Sequence[Worker]) -> Plan:
    """The deletion ends when the pods and Slurm's records are gone, or when the pods and the Controller are.

    Until then nobody can evict a worker. The guard comes last: if the namespace is deleted too, it cannot be created
    again, and nothing waits for it.
    """
    nodeset = snapshot.object
    if FINALIZER not in nodeset.metadata.finalizers:
        return NOTHING
    guard = guarded(nodeset, snapshot.guards) if any(worker.pod for worker in known) else NOTHING
    return beside(_taken_leave(snapshot, known), guard)


def _taken_leave(snapshot: Snapshot, known: Sequence[Worker]) -> Plan:
    nodeset = snapshot.object
    with_pod = [worker for worker in known if worker.pod]
    if snapshot.controller is None:
        return _with_nobody_to_ask(snapshot, known)
    if recent(snapshot) is None and not with_pod and not _has_partition(snapshot):
        if not _may_still_answer(snapshot):
            return _let_go(snapshot)
        message = f"{silence_text(snapshot)}. It may still have nodes of this NodeSet"
        silent = Wait(reason="SlurmUnreachable", message=message)
        return Plan(waits=(silent,), again_after_s=GIVEN_UP_S)
    if recent(snapshot) is None:
        is_all = nodeset.status.external or bool(with_pod)
        goes_on = "Slurm answers" if is_all else "Slurm answers or its Controller is deleted too"
        give_up = _given_up(snapshot, with_pod) if with_pod else "Jobs that are pending in its partition would fail"
        stuck = f"{silence_text(snapshot)}. The deletion continues when {goes_on}. {give_up}"
        return ended(known) + Plan(waits=(Wait(reason="SlurmUnreachable", message=stuck),))
    queued = beside(_closing(snapshot), _queued(snapshot))
    if not known:
        return released(snapshot) + (queued if queued.waits else _let_go(snapshot))
    stays = [worker for worker in known if not worker.has_ended and not worker.is_leaving]
    anew = [worker for worker in stays if _registers_anew(snapshot, worker)]
    return beside(
        ended(known),
        told_of_machines(snapshot.now, (), stays),
        released(snapshot),
        removed(snapshot, without(stays, anew), DELETION, spares_others=False),
        _registering(anew),
        going(snapshot),
        Plan(waits=_pods_going(with_pod)),
        queued,
    )


def to_look_into(snapshot: Snapshot) -> tuple[str, ...]:
    """Workers of whom only their own processes can tell whether they have a job."""
    left, nodeset = snapshot.left, snapshot.object
    is_going = nodeset.metadata.deletion_timestamp is not None and FINALIZER in nodeset.metadata.finalizers
    if not is_going or left is None or nodeset.status.external or _may_return(snapshot, left):
        return ()
    here = _here(snapshot, snapshot.workers)
    return tuple(worker.name for worker in here if _may_hold_a_job(snapshot, left, worker, frozenset()))


def _with_nobody_to_ask(snapshot: Snapshot, known: Sequence[Worker]) -> Plan:
    with_pod = [worker for worker in known if worker.pod]
    waits = _pods_going(with_pod)
    if snapshot.object.status.external:
        if not with_pod:
            return _let_go(snapshot)
        stuck = (
            "its Controller is gone, but slurmctld runs elsewhere and the workers may have jobs. To drain them, create "
            f"the Controller again. {_given_up(snapshot, with_pod)}"
        )
        return ended(known) + Plan(waits=(*waits, Wait(reason="ControllerMissing", message=stuck, stalled=True)))
    left = snapshot.left or Left(since=snapshot.now)
    if not with_pod:
        return _missing(snapshot, left, ()) if _may_return(snapshot, left) else _let_go(snapshot)
    here = _here(snapshot, known)
    shared = _jobs_of_several_that_may_run(snapshot, left, here)
    shared_on = {node for job in shared for node in job.nodes}
    held = [worker for worker in here if _may_hold_a_job(snapshot, left, worker, shared_on)]
    free = [(worker, worker.pod) for worker in without(here, held) if worker.pod][:GONE_MAX]
    doomed = _doomed(snapshot, left, held, shared)
    stay = without(held, [one.worker for one in doomed if one.term.is_over(snapshot.now)])
    return beside(
        ended(known),
        each(ended_now(worker, pod, GONE, f"{ALONE}, and no job runs there") for worker, pod in free),
        _hurried(snapshot, doomed),
        Plan(waits=waits),
        _missing(snapshot, left, stay) if stay else NOTHING,
    )


def _here(snapshot: Snapshot, known: Sequence[Worker]) -> list[Worker]:
    """Also those that somebody deleted, and that may wait for their jobs for a year."""
    stays = (worker for worker in known if worker.pod and not worker.has_ended)
    return [worker for worker in stays if not worker.is_leaving or waits(snapshot, worker)]


def _may_return(snapshot: Snapshot, left: Left) -> bool:
    return left.runs or snapshot.now - left.since < timedelta(seconds=AWAY_S)


def _may_hold_a_job(snapshot: Snapshot, left: Left, worker: Worker, shared: Set[str]) -> bool:
    """Not if its slurmd never ran, or if no step of its jobs runs anywhere."""
    if worker.body.begun is None:
        return False
    return _may_return(snapshot, left) or snapshot.steps.get(worker.name) != () or worker.name in shared


def _jobs_of_several_that_may_run(snapshot: Snapshot, left: Left, here: Sequence[Worker]) -> list[Job]:
    """Of several nodes, as Slurm last had them: not every node of a job has a step of it all the time."""
    jobs = [job for job in left.said.jobs.values() if job.holds_nodes and len(job.nodes) > 1] if left.said else []
    known = {worker.name for worker in here}
    return [job for job in jobs if any(_may_run(snapshot, job, node, known) for node in job.nodes)]


def _may_run(snapshot: Snapshot, job: Job, node: str, known: Set[str]) -> bool:
    """On a node of another NodeSet nobody looks; one of ours that is gone ended without a step."""
    if node not in known:
        return not node.startswith(f"{names.worker_stem(snapshot.object.metadata.name)}-")
    steps = snapshot.steps.get(node)
    return steps is None or any(step == STARTING or step.startswith(f"{job.id}.") for step in steps)


def _doomed(snapshot: Snapshot, left: Left, held: Sequence[Worker], shared: Sequence[Job]) -> list[Doomed]:
    """Those that hold it up, if people chose not to wait for ever."""
    within = limit(snapshot)
    if within is None or _may_return(snapshot, left):
        return []
    jobs = {worker.name: _known_jobs(snapshot, left, worker, shared) for worker in held}
    terms = [(w, w.pod, term_of(snapshot, w.pod, left.since + within, jobs[w.name])) for w in held if w.pod]
    return [Doomed(worker=worker, pod=pod, jobs=jobs[worker.name], term=term) for worker, pod, term in terms]


def _known_jobs(snapshot: Snapshot, left: Left, worker: Worker, shared: Sequence[Job]) -> tuple[int, ...]:
    """By what runs there, and for jobs of several nodes by what Slurm said last; by that alone if it does not say."""
    steps, name = snapshot.steps.get(worker.name), worker.name
    if steps is None:
        said = left.said.jobs_by_node.get(name, ()) if left.said else ()
        return tuple(sorted(job.id for job in said if job.holds_nodes))
    running = {int(found[0]) for step in steps if (found := JOB_OF_STEP.match(step))}
    return tuple(sorted(running | {job.id for job in shared if name in job.nodes}))


def _hurried(snapshot: Snapshot, doomed: Sequence[Doomed]) -> Plan:
    over = [one for one in doomed if one.term.is_over(snapshot.now)]
    not_yet = [one for one in doomed if not one.term.is_over(snapshot.now)]
    return beside(each(_killed(snapshot, one) for one in over[:GONE_MAX]), *(_warned(snapshot, one) for one in not_yet))


def _killed(snapshot: Snapshot, one: Doomed) -> tuple[Action, ...]:
    message = f"{ALONE}, and spec.forceDrainAfterSeconds is over"
    deed, *more = ended_now(one.worker, one.pod, GONE, message)
    return deed, *killed(snapshot, one.pod, message, one.jobs), *more


def _warned(snapshot: Snapshot, one: Doomed) -> Plan:
    told = warning(snapshot, one.pod, f"{DELETION}, without its Controller", one.term, one.jobs)
    return Plan(actions=told, again_after_s=one.term.look_s(snapshot.now))


def _missing(snapshot: Snapshot, left: Left, held: Sequence[Worker]) -> Plan:
    nodeset = snapshot.object
    done = f". To drain them, create the Controller again. {_given_up(snapshot, held)}" if held else ""
    if not _may_return(snapshot, left):
        why = f"its Controller is gone, but {_held_text(snapshot, held)}. The deletion continues when they end"
        stuck = Wait(reason="ControllerMissing", message=f"{why}{done}", stalled=True)
        return Plan(waits=(stuck,), again_after_s=STEPS_LOOKED_AGAIN_S)
    who = f"{some([worker.name for worker in held])} may have jobs" if held else "its partition may have pending jobs"
    if left.runs:
        why = f"its Controller is missing, but slurmctld is not (pod {slurmctld_pod(nodeset.spec.controller_ref.name)})"
    else:
        why = f"its Controller is missing, for less than {AWAY_S:g} s"
    wait = Wait(reason="ControllerMissing", message=f"{why}, so {who}{done}")
    return Plan(waits=(wait,), again_after_s=LOOKED_AGAIN_S)


def _held_text(snapshot: Snapshot, held: Sequence[Worker]) -> str:
    steps = snapshot.steps
    busy = [f"{worker.name} ({some(steps[worker.name])})" for worker in held if steps.get(worker.name)]
    shared = [worker.name for worker in held if steps.get(worker.name) == ()]
    mute = [worker.name for worker in held if worker.name not in steps]
    told = (
        (f"steps of jobs run on {some(busy)}", busy),
        (f"jobs with steps on other nodes have {some(shared)}", shared),
        (f"steps of jobs may run on {some(mute)}, which do not say", mute),
    )
    return " and ".join(text for text, of in told if of)


def _given_up(snapshot: Snapshot, with_pod: Sequence[Worker]) -> str:
    """A pod that waits for its jobs heeds no shorter time, so its wait is ended."""
    meta, waiting = snapshot.object.metadata, [worker.name for worker in with_pod if waits(snapshot, worker)]
    ways = []
    if not waiting or any(not worker.is_leaving for worker in with_pod):
        command = f"kubectl -n {meta.namespace} delete pod -l {selector(meta.name)} --grace-period={SHORT_GRACE_S}"
        ways.append(f"To delete the workers with any jobs they run: {command}")
    if waiting:
        alone = ", one by one" if waiting[1:] else ""
        command = end_command(snapshot, waiting[0])
        ways.append(f"To end {some(waiting)}, deleted already, with any jobs{alone}: {command}")
    return ". ".join(ways)


def _has_partition(snapshot: Snapshot) -> bool:
    """Whether a partition is deleted with it: not if the whole cluster is, and not if slurmctld runs elsewhere."""
    controller = snapshot.controller
    is_last = controller is None or controller.metadata.deletion_timestamp is not None
    is_ours = controller is not None and controller.spec.external is None
    return snapshot.object.spec.partition.enabled and is_ours and not is_last


def _closing(snapshot: Snapshot) -> Plan:
    if not _has_partition(snapshot) or (snapshot.door.told and not snapshot.door.is_open):
        return NOTHING
    name = snapshot.object.metadata.name
    message = f"waiting for slurmctld to close partition {name} to new jobs (State=INACTIVE)"
    return Plan(waits=(Wait(reason="PartitionOpen", message=message),), again_after_s=CLOSES_WITHIN_S)


def _registers_anew(snapshot: Snapshot, worker: Worker) -> bool:
    """Whether its slurmd may be about to register again, because it was told to read its configuration."""
    at, node = snapshot.object.metadata.deletion_timestamp, worker.node
    if at is None or not _has_partition(snapshot) or not worker.runs or worker.facts is not Facts.DRAINED:
        return False
    has = node is not None and node.registered_at is not None and node.registered_at > at
    return not has and snapshot.now - at < timedelta(seconds=READ_WITHIN_S)


def _registering(workers: Sequence[Worker]) -> Plan:
    if not workers:
        return NOTHING
    names = some([worker.name for worker in workers])
    message = f"drained; waiting for slurmd to register again after a reconfigure of slurmctld: {names}"
    return Plan(waits=(Wait(reason="WorkerArriving", message=message),), again_after_s=LOOKED_AGAIN_S)


def _queued(snapshot: Snapshot) -> Plan:
    """Pending jobs of its partition."""
    nodeset, view = snapshot.object, recent(snapshot)
    if view is None or not _has_partition(snapshot):
        return NOTHING
    name = nodeset.metadata.name
    jobs = [
        str(job.id) for job in view.jobs.values() if job.phase is Phase.PENDING and name in job.partition.split(",")
    ]
    if not jobs:
        return NOTHING
    message = (
        f"jobs are pending in partition {name}, which is deleted too: {some(jobs)}. Move them (scontrol update "
        f"jobid=ID partition=OTHER) or cancel them (scancel --state=PENDING --partition={name})"
    )
    return Plan(waits=(Wait(reason="JobsWaiting", message=message),))


def _may_still_answer(snapshot: Snapshot) -> bool:
    """Slurm had nodes of it when it last answered, which would be left over; but we do not wait for ever."""
    said = snapshot.object.status
    silent = (c for c in said.conditions if c.type == SLURM_REACHABLE and c.status == "False")
    since = next((c.last_transition_time for c in silent if c.last_transition_time is not None), snapshot.now)
    had_nodes = said.idle + said.allocated + said.draining + said.down > 0
    return had_nodes and snapshot.now - since < timedelta(seconds=GIVEN_UP_S)


def _pods_going(with_pod: Sequence[Worker]) -> tuple[Wait, ...]:
    going = [worker.name for worker in with_pod if worker.is_leaving]
    return (Wait(reason="PodsGoing", message=f"{len(going)} pods are terminating: {some(going)}"),) if going else ()


def _let_go(snapshot: Snapshot) -> Plan:
    nodeset = snapshot.object
    leave = RemoveFinalizer(
        target=target(nodeset),
        present=nodeset.metadata.finalizers,
        finalizer=FINALIZER,
        message="no pods and no known Slurm nodes are left",
    )
    return Plan(actions=(*claims.farewell(nodeset, snapshot.claims), leave))
