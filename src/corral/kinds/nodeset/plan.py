"""What to do for a NodeSet. Pure: a snapshot in, a plan out.

    too few workers                  create the missing ones (see `places`), lowest ordinal first, some in each pass
    too many workers                 choose which to remove, drain them, wait for proof, forget the node, delete the pod
    a pod that has ended             delete it; it is created again under its name
    a pod that waits for a node      that is gone, to which it was pinned: delete it; it is created again elsewhere
    a pod that Slurm has lost        a slurmd whose record is gone, or of an earlier life, never registers again by
                                     itself: replace the pod
    a worker that has to register    give it the values of its Kubernetes node; replace one that registered wrong
    a worker that is outdated        as `rollout` says: drain it, wait for proof, forget it, delete it, create it again
    a Kubernetes node in trouble     drain its workers; if it is cordoned, move them when they have no jobs
    a pod that goes without us       drain its node until the next pod is ready; end it if it hangs (see `going`)
    drained, but for something else  say what it is drained for now (see `reasons`)
    our drain on a worker that stays             remove the drain
    somebody's drain that slurmctld has lost     set it again (see `restoring`)
    a changed state in Slurm         show it as conditions of the worker's pod
    a worker that was resized        report it (see `resized`)
    a refused action                 whatever does not depend on it is done all the same
    the NodeSet is being deleted     remove all workers, then the finalizer

The law. A pod that may hold a job is not deleted. It is deleted only when a recent answer of Slurm shows that it has no
jobs and gets none, and then only directly after slurmctld has forgotten its node, which slurmctld refuses while a job
is on it: the two actions are neighbours in one part of the plan, and the first failure ends that part. What is unknown
removes nothing. A node whose slurmd is about to register is waited for, and drained (see `arrival`). A drain with a
reason that is not ours is neither removed nor overwritten, and scale-in skips its node: a new pod would lose the drain.

There are two exceptions: a NodeSet that is deleted after its Controller, when there is no slurmctld left to ask (see
`farewell`); and `forceDrainAfterSeconds`, with which people choose to lose jobs that outlast a drain.
"""

from collections.abc import Sequence

from corral.engine import NOTHING, Delete, Plan, SetStatus, Wait, target
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.calls import Undrain
from corral.kinds.nodeset.claims import scaled_in
from corral.kinds.nodeset.each import beside, each
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.farewell import farewell
from corral.kinds.nodeset.fates import Fates, fates_of
from corral.kinds.nodeset.going import going
from corral.kinds.nodeset.leaving import without
from corral.kinds.nodeset.machine import Trouble
from corral.kinds.nodeset.making import ended, freed, guarded, history, made, remade
from corral.kinds.nodeset.places import lasting
from corral.kinds.nodeset.reasons import reason_for, says_something_else
from corral.kinds.nodeset.registering import stale_forgotten, told_of_machines
from corral.kinds.nodeset.removal import ARRIVES_WITHIN_S, kept_free, left_alone, removed, slurm_call
from corral.kinds.nodeset.reservation import opened, reserved
from corral.kinds.nodeset.resized import resized
from corral.kinds.nodeset.restoring import restored
from corral.kinds.nodeset.rollout import BadUpdate
from corral.kinds.nodeset.shown import shown
from corral.kinds.nodeset.snapshot import Snapshot, recent
from corral.kinds.nodeset.words import some, unreachable_text
from corral.kinds.nodeset.workers import Worker
from corral.kinds.overrides import BadOverride

SHOWN_MAX = 250  # pods whose conditions are written in one pass; that brings the next one


def plan(snapshot: Snapshot) -> Plan:
    nodeset = snapshot.object
    if nodeset.metadata.deletion_timestamp is not None:  # also if it is suspended: the deletion is the later wish
        return _with_states_shown(snapshot, farewell(snapshot, snapshot.workers))
    if nodeset.spec.suspend:
        return NOTHING
    if snapshot.controller is None:
        name = f"{nodeset.metadata.namespace}/{nodeset.spec.controller_ref.name}"
        missing = Wait(reason="ControllerMissing", message=f"waiting for Controller {name}")
        guard = guarded(nodeset, snapshot.guards) if snapshot.pods else NOTHING
        return beside(told_of_machines(snapshot.now, snapshot.live), guard, Plan(waits=(missing,)))
    return _with_states_shown(snapshot, _decided(snapshot, snapshot.controller))


def _decided(snapshot: Snapshot, controller: Controller) -> Plan:
    nodeset = snapshot.object
    try:
        fates = fates_of(snapshot, controller)
        told = resized(snapshot, controller, fates.settled)
    except (BadOverride, BadUpdate) as error:
        bad = Wait(reason=type(error).__name__, message=str(error), stalled=True)
        return beside(_looked_after(snapshot), Plan(waits=(bad,)))
    return beside(
        _made(snapshot, fates),
        _prepared(snapshot, fates),
        opened(snapshot),
        _gone(snapshot, fates),
        _off_troubled_machines(snapshot, fates.settled),
        going(snapshot),
        fates.waiting,
        scaled_in(nodeset, lambda: lasting(snapshot, controller, fates.asked), snapshot.claims, snapshot.workers),
        _not_yet(fates),
        told,
        _unanswered(snapshot),
        reserved(snapshot, fates.outdated),
    )


def _looked_after(snapshot: Snapshot) -> Plan:
    """What holds for workers that are there, whatever is asked for: their guard, their drains, their machines."""
    guard = guarded(snapshot.object, snapshot.guards) if snapshot.pods else NOTHING
    troubled = [(w, w.trouble) for w in snapshot.live if w.trouble is not None and not w.is_somebodys]
    return beside(
        guard,
        told_of_machines(snapshot.now, snapshot.live),
        restored(snapshot, snapshot.live),
        *(_kept_off_its_machine(snapshot, worker, trouble) for worker, trouble in troubled),
        going(snapshot),
    )


def _made(snapshot: Snapshot, fates: Fates) -> Plan:
    """Missing workers, and pods that have ended and are created again."""
    known = snapshot.workers
    guard = guarded(snapshot.object, snapshot.guards)
    return beside(guard + made(snapshot, known, fates.asked.vacant), history(snapshot), ended(known))


def _prepared(snapshot: Snapshot, fates: Fates) -> Plan:
    """Workers that stay: they get the values to register with; stale records and our drains are removed."""
    untroubled = [worker for worker in fates.settled if worker.trouble is None]
    return beside(
        told_of_machines(snapshot.now, fates.staying, fates.leaving),
        stale_forgotten(snapshot, fates.staying),
        restored(snapshot, fates.staying),
        _kept(snapshot, untroubled),
    )


def _gone(snapshot: Snapshot, fates: Fates) -> Plan:
    """Each for its own reason, all through `removed`, except for outdated pods whose slurmd does not run."""
    scaled = [worker for worker in (*fates.leaving, *fates.orphans) if not worker.is_somebodys]
    return beside(
        removed(snapshot, scaled, "scale-in"),
        left_alone(fates.leaving),
        removed(snapshot, fates.lost, "not registered"),
        removed(snapshot, fates.wrong, "wrong registration"),
        removed(snapshot, fates.rolling.replaced, "rollout"),
        remade(fates.rolling.remade),
        freed(fates.unpinned),
    )


def _with_states_shown(snapshot: Snapshot, decided: Plan) -> Plan:
    """Slurm's states, as conditions of the pods; last, and not for pods that the plan deletes."""
    going = {action.target.name for action in decided.actions if isinstance(action, Delete)}
    changed = [worker for worker in snapshot.live if not worker.is_shown]
    written = [worker for worker in changed if worker.name not in going][:SHOWN_MAX]
    told = tuple(
        SetStatus(
            target=target(worker.pod),
            status=shown(worker.pod, worker.node, snapshot.now),
            reason="SlurmSays",
            message=f"Slurm says {worker.node.state}" if worker.node else "Slurm has no such node",
        )
        for worker in written
        if worker.pod is not None
    )
    return beside(decided, Plan(actions=told))


def _kept(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    """Remove our drains from workers that stay: somebody took back the scale-in, or their node has recovered.

    A worker that is not ready, or has not registered, keeps its drain until then: Slurm would give a job to a slurmd
    that is not there, or is elsewhere by now. slurmctld does not undrain an invalid node; its worker is replaced.
    """
    there = [w for w in staying if w.has_our_drain and w.is_ready and w.facts is not Facts.UNKNOWN]
    ours = [worker for worker in there if not worker.arrives and not worker.is_invalid]
    message = "the reason for Corral's drain is gone"
    return each((slurm_call(snapshot, Undrain(node=w.name), "WorkerStays", message),) for w in ours)


def _off_troubled_machines(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    """Drain them; workers of a cordoned or tainted node are removed when they have no jobs. See `machine`."""
    troubled = [(w, w.trouble) for w in staying if w.trouble is not None and not w.is_somebodys]
    return beside(*(_off_its_machine(snapshot, worker, trouble) for worker, trouble in troubled))


def _off_its_machine(snapshot: Snapshot, worker: Worker, trouble: Trouble) -> Plan:
    if trouble.leaves:
        return removed(snapshot, [worker], trouble.why)
    return _kept_off_its_machine(snapshot, worker, trouble)


def _kept_off_its_machine(snapshot: Snapshot, worker: Worker, trouble: Trouble) -> Plan:
    may_get_jobs = worker.node is not None and worker.facts in (Facts.FREE, Facts.BUSY)
    is_drained = worker.facts in (Facts.DRAINING, Facts.DRAINED)
    is_due = may_get_jobs or (is_drained and says_something_else(worker, reason_for(snapshot, worker, trouble.why)))
    return Plan(actions=kept_free(snapshot, worker, trouble.why)) if is_due else NOTHING


def _not_yet(fates: Fates) -> Plan:
    """Workers that exist but cannot take jobs yet. Changes of their pods or of Slurm bring the next pass."""
    unready = [worker for worker in fates.staying if not worker.is_ready]
    ready = without(fates.staying, (*unready, *fates.lost))
    absent = [w.name for w in ready if w.facts in (Facts.ARRIVING, Facts.UNREGISTERED) or w.is_missed]
    of, waits = f"of {fates.asked.count} workers", list[Wait]()
    if unready:
        names = some([worker.name for worker in unready])
        waits.append(Wait(reason="WorkersNotReady", message=f"{len(unready)} {of} not ready: {names}"))
    if absent:
        waits.append(Wait(reason="WorkersNotRegistered", message=f"{len(absent)} {of} not registered: {some(absent)}"))
    return Plan(waits=tuple(waits), again_after_s=ARRIVES_WITHIN_S if absent else None)


def _unanswered(snapshot: Snapshot) -> Plan:
    if recent(snapshot) is not None or not snapshot.workers:
        return NOTHING
    return Plan(waits=(Wait(reason="SlurmUnreachable", message=unreachable_text(snapshot)),))
