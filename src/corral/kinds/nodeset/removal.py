"""How a worker is removed: drained, waited for, proven free, forgotten by slurmctld, deleted. Pure.

Nothing else in Corral deletes a pod that may hold a job, but for `farewell` when no slurmctld is left. The law that is
followed here is in `plan`.
"""

from collections.abc import Sequence

from corral.engine import NOTHING, Action, EmitEvent, Outside, Plan, Wait, target
from corral.kinds.nodeset import force
from corral.kinds.nodeset.calls import Drain, Forget, NodeCall
from corral.kinds.nodeset.each import beside, each
from corral.kinds.nodeset.ending import deleted, ended_now, waits
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.reasons import reason_for, says_something_else
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.whose import has_drain
from corral.kinds.nodeset.words import jobs_text
from corral.kinds.nodeset.workers import Worker
from corral.slurm.values import Node

REMOVED_MAX = 100  # in one pass; each is two calls
DRAINED_MAX = 250  # in one pass
ARRIVES_WITHIN_S = 30.0  # how often to check whether a running slurmd has registered; Slurm's own changes come sooner
FREED = (Facts.DRAINED, Facts.UNREGISTERED)
LOOK_AGAIN_S = 1.0  # after a drain: an idle node is drained at once


def removed(snapshot: Snapshot, leaving: Sequence[Worker], why: str, *, spares_others: bool = True) -> Plan:
    """Each worker by itself: a call that fails for one does not hold up the others.

    `spares_others`: skip a node that somebody else drains or sets DOWN at this very moment.
    """
    provenly_free = [worker for worker in leaving if worker.facts in FREED]
    reserved = [worker for worker in provenly_free if _is_reserved_by_others(snapshot, worker)]
    ready = [worker for worker in provenly_free if not _is_reserved_by_others(snapshot, worker)][:REMOVED_MAX]
    to_drain = [worker for worker in leaving if worker.facts in (Facts.FREE, Facts.BUSY) and worker.node is not None]
    to_drain += [w for w in leaving if w.facts is Facts.DRAINING and _needs_other_words(snapshot, w, why)]
    held = [worker for worker in leaving if worker.facts in (Facts.DRAINING, Facts.BUSY)]
    arriving = [worker for worker in leaving if worker.facts is Facts.ARRIVING]
    unclear = [worker for worker in leaving if worker.facts is Facts.UNKNOWN]
    groups = [
        (*drained(snapshot, worker, why, spares_others), *force.warned_at_once(snapshot, worker, why))
        for worker in to_drain[:DRAINED_MAX]
    ]
    groups += [_forgotten(snapshot, worker, why, spares_others) for worker in ready]
    waits = [_draining(worker) for worker in held] + [_unclear(worker) for worker in unclear]
    waits += [_arriving(worker) for worker in arriving] + [_reserved(worker) for worker in reserved]
    again_after_s = LOOK_AGAIN_S if to_drain else ARRIVES_WITHIN_S if arriving else None
    return beside(each(groups), hurried(snapshot, held, why), Plan(waits=tuple(waits), again_after_s=again_after_s))


def hurried(snapshot: Snapshot, held: Sequence[Worker], why: str) -> Plan:
    """Only where people asked for it; see `force`."""
    if force.limit(snapshot) is None:
        return NOTHING
    return beside(*(force.hurried(snapshot, worker, why, reason_for(snapshot, worker, why)) for worker in held))


def _needs_other_words(snapshot: Snapshot, worker: Worker, why: str) -> bool:
    """Drained by us for something else; or by slurmctld, where the time that people allow begins with our reason."""
    reason = reason_for(snapshot, worker, why)
    is_slurmctlds = worker.has_drain and not (worker.is_somebodys or worker.has_our_drain)
    return says_something_else(worker, reason) or (is_slurmctlds and force.limit(snapshot) is not None)


def _is_reserved_by_others(snapshot: Snapshot, worker: Worker) -> bool:
    """Our own reservation lets it go, see `reservation`."""
    ours = snapshot.reservation.found
    return worker.is_reserved and (ours is None or worker.name not in ours.nodes)


def drained(snapshot: Snapshot, worker: Worker, why: str, spares_others: bool = True) -> tuple[Action, ...]:
    """Somebody who drains it in this moment is spared where it is ours already, whatever for."""
    spares = spares_others or worker.has_drain
    call = Drain(node=worker.name, reason=reason_for(snapshot, worker, why), spares_others=spares)
    return _told(snapshot, call, "WorkerLeaves", f"to be removed ({why}); {jobs_text(worker.jobs)}")


def kept_free(snapshot: Snapshot, worker: Worker, why: str, *, pod_stays: bool = True) -> tuple[Action, ...]:
    """Drain it, but do not remove it."""
    call = Drain(node=worker.name, reason=reason_for(snapshot, worker, why))
    until = "that is resolved, its pod stays" if pod_stays else "its next pod is ready"
    message = f"{why}: no new jobs until {until}; {jobs_text(worker.jobs)}"
    return _told(snapshot, call, "MachineInTrouble" if pod_stays else "PodGoes", message)


def _told(snapshot: Snapshot, call: Drain, reason: str, message: str) -> tuple[Action, ...]:
    said = f"{call.node}: {message}"
    told = EmitEvent(regarding=target(snapshot.object), reason="Draining", message=said, action="Drain")
    return slurm_call(snapshot, call, reason, message), told


def _forgotten(snapshot: Snapshot, worker: Worker, why: str, spares_others: bool) -> tuple[Action, ...]:
    """First the node, directly after it the pod."""
    proof = "Slurm has no such node" if worker.facts is Facts.UNREGISTERED else "drained, no jobs left"
    forget = slurm_call(snapshot, Forget(node=worker.name, spares_others=spares_others), "WorkerLeaves", proof)
    if worker.pod is None or (worker.is_leaving and not waits(snapshot, worker)):
        return (forget,)
    if worker.is_leaving:
        return forget, *ended_now(worker, worker.pod, "PodHangs", f"it was deleted and does not end, {proof}")
    return forget, deleted(worker, worker.pod, "WorkerLeaves", f"{why}: {proof}")


def slurm_call(snapshot: Snapshot, call: NodeCall, reason: str, message: str) -> Outside:
    return Outside(
        system=f"Slurm {snapshot.cluster}", subject=f"node {call.node}", call=call, reason=reason, message=message
    )


def left_alone(leaving: Sequence[Worker]) -> Plan:
    """A worker that somebody else drained or set DOWN is not touched."""
    theirs = [(worker.name, worker.node) for worker in leaving if worker.node and worker.is_somebodys]
    waits = [Wait(reason="DrainedBySomebodyElse", message=_somebodys(name, node)) for name, node in theirs]
    return Plan(waits=tuple(waits))


def _somebodys(name: str, node: Node) -> str:
    done, state = ("drained it", "undrain") if has_drain(node.state) else ("set it DOWN", "resume")
    return (
        f"{name} is to be removed, but somebody else {done} ({node.reason!r}), so Corral does not touch it. "
        f"To let Corral remove it: scontrol update nodename={name} state={state}"
    )


def _draining(worker: Worker) -> Wait:
    foreign = worker.node is not None and worker.is_somebodys
    whose = f" (drained by somebody else: {worker.node.reason!r})" if worker.node and foreign else ""
    return Wait(reason="Draining", message=f"{worker.name}: draining{whose}, {jobs_text(worker.jobs)}")


def _arriving(worker: Worker) -> Wait:
    message = f"{worker.name} is to be removed: waiting for its slurmd to register, so that it can be drained"
    return Wait(reason="WorkerArriving", message=message)


def _reserved(worker: Worker) -> Wait:
    message = (
        f"{worker.name} is to be removed and has no jobs, but it is in an active reservation, and slurmctld deletes "
        "no such node. It is removed when the reservation ends: scontrol show reservation"
    )
    return Wait(reason="Reserved", message=message)


def _unclear(worker: Worker) -> Wait:
    said = str(worker.node.state) if worker.node else "no answer"
    message = f"{worker.name} is to be removed, but its state in Slurm is unclear: {said}"
    return Wait(reason="WorkerUnknown", message=message)
