"""What to do for a NodeSet. Pure: a snapshot in, a plan out.

    fewer workers than asked for     make those that are missing (see `places`), lowest ordinal first, so many a pass
    more workers than asked for      choose which go, drain them, wait for proof, forget the node, delete the pod
    a pod that has ended             delete it; it is made again under its name
    a pod that Slurm has lost        a slurmd whose record is gone never registers again: delete it, it is made again
    a worker that is to register     tell it what its Kubernetes node says; one that registered wrong is made again
    a worker that is outdated        as `rollout` says: drain it, wait for proof, forget it, delete it; made again
    a Kubernetes node in trouble     drain its workers; off one that is cordoned they move when they hold no job
    a drain of ours on a worker that stays    lift it
    somebody's drain that slurmctld has lost  set it again (see `restoring`)
    a state in Slurm that changed    show it as conditions of the worker's pod
    a worker that was resized        tell people (see `resized`)
    something that is refused        what does not need it is done all the same: each worker's own, and each of these
    the NodeSet is being deleted     as "no worker is asked for"; then the finalizer goes

The law. A pod that may hold a job is not deleted. It goes only when a recent answer of Slurm shows that it holds none
and takes none, and then only directly after slurmctld itself has forgotten its node, which it refuses while a job holds
it: the two are neighbours in a part of the plan, which the first failure ends. What is unknown removes nothing. A node
whose slurmd is about to register is waited for, and drained (see `arrival`). A drain with a reason that is not ours is
neither lifted nor overwritten, and scale-in leaves its node: made again, it would have lost it.

There are two exceptions: a NodeSet that is deleted after its Controller, for there is nobody left to ask and nothing to
lose; and `forceDrainAfterSeconds`, by which people choose to lose jobs that outlast a drain.
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
from corral.kinds.nodeset.leaving import without
from corral.kinds.nodeset.machine import Trouble
from corral.kinds.nodeset.making import ended, guarded, history, made, remade
from corral.kinds.nodeset.places import lasting
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
    if nodeset.metadata.deletion_timestamp is not None:  # also of one that is suspended: it is the later wish
        return _with_states_shown(snapshot, farewell(snapshot, snapshot.workers))
    if nodeset.spec.suspend:
        return NOTHING
    if snapshot.controller is None:
        name = f"{nodeset.metadata.namespace}/{nodeset.spec.controller_ref.name}"
        missing = Wait(reason="ControllerMissing", message=f"waiting for Controller {name}")
        guard = guarded(nodeset, snapshot.guards) if snapshot.pods else NOTHING
        return beside(guard, Plan(waits=(missing,)))
    return _with_states_shown(snapshot, _decided(snapshot, snapshot.controller))


def _decided(snapshot: Snapshot, controller: Controller) -> Plan:
    nodeset = snapshot.object
    try:
        fates = fates_of(snapshot, controller)
        told = resized(snapshot, controller, fates.settled)
    except (BadOverride, BadUpdate) as error:
        return Plan(waits=(Wait(reason=type(error).__name__, message=str(error), stalled=True),))
    return beside(
        _made(snapshot, fates),
        _prepared(snapshot, fates),
        opened(snapshot),
        _gone(snapshot, fates),
        _off_troubled_machines(snapshot, fates.settled),
        fates.waiting,
        scaled_in(nodeset, lambda: lasting(snapshot, controller, fates.asked), snapshot.claims, snapshot.workers),
        _not_yet(fates),
        told,
        _unanswered(snapshot),
        reserved(snapshot, fates.outdated),
    )


def _made(snapshot: Snapshot, fates: Fates) -> Plan:
    """What is missing, and what has ended and comes again."""
    known = snapshot.workers
    guard = guarded(snapshot.object, snapshot.guards)
    return beside(guard + made(snapshot, known, fates.asked.vacant), history(snapshot), ended(known))


def _prepared(snapshot: Snapshot, fates: Fates) -> Plan:
    """Those that stay: told what to register with, over no record of another, and without a drain of ours."""
    untroubled = [worker for worker in fates.settled if worker.trouble is None]
    return beside(
        told_of_machines(snapshot.now, fates.staying, fates.leaving),
        stale_forgotten(snapshot, fates.staying),
        restored(snapshot, fates.staying),
        _kept(snapshot, untroubled),
    )


def _gone(snapshot: Snapshot, fates: Fates) -> Plan:
    """Each for its reason, and all of them by `removed`; but for outdated pods that have no slurmd to lose."""
    scaled = [worker for worker in (*fates.leaving, *fates.orphans) if not worker.is_somebodys]
    return beside(
        removed(snapshot, scaled, "scale-in"),
        left_alone(fates.leaving),
        removed(snapshot, fates.lost, "not registered"),
        removed(snapshot, fates.wrong, "wrong registration"),
        removed(snapshot, fates.rolling.replaced, "rollout"),
        remade(fates.rolling.remade),
    )


def _with_states_shown(snapshot: Snapshot, decided: Plan) -> Plan:
    """What Slurm says, on the pods; last, and not on those that the plan deletes."""
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
    """A worker that stays is not drained by us: it was to go, and people changed their mind; or its node was.

    One that is not ready, or has not registered, keeps its drain until it has: a job would be given to a slurmd that is
    not there, or is elsewhere by now. Of one that is invalid slurmctld would refuse to lift it; it is made anew.
    """
    known = [w for w in staying if w.has_our_drain and w.is_ready and w.facts not in (Facts.UNKNOWN, Facts.ARRIVING)]
    ours = [worker for worker in known if not worker.is_invalid]
    message = "the reason for Corral's drain is gone"
    return each((slurm_call(snapshot, Undrain(node=w.name), "WorkerStays", message),) for w in ours)


def _off_troubled_machines(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    """Drained; and those whose node is to be emptied move away when they hold no job. See `machine`."""
    troubled = [(w, w.trouble) for w in staying if w.trouble is not None and not w.is_somebodys]
    return beside(*(_off_its_machine(snapshot, worker, trouble) for worker, trouble in troubled))


def _off_its_machine(snapshot: Snapshot, worker: Worker, trouble: Trouble) -> Plan:
    if trouble.leaves:
        return removed(snapshot, [worker], trouble.why)
    may_get_jobs = worker.node is not None and worker.facts in (Facts.FREE, Facts.BUSY)
    return Plan(actions=kept_free(snapshot, worker, trouble.why)) if may_get_jobs else NOTHING


def _not_yet(fates: Fates) -> Plan:
    """Workers that are there but cannot take jobs yet. Their pods' and Slurm's changes bring us back."""
    unready = [worker for worker in fates.staying if not worker.is_ready]
    ready = without(fates.staying, (*unready, *fates.lost))
    absent = [worker.name for worker in ready if worker.facts in (Facts.ARRIVING, Facts.UNREGISTERED)]
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
