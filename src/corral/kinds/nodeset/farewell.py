"""What to do for a NodeSet that is being deleted: its workers go as all do, then the finalizer. Pure.

Its partition is down from the beginning: the Controller writes it as INACTIVE. Jobs that wait in it would end as failed
with the partition's line, so they are waited for: people move them to another partition, or cancel them.
"""

from collections.abc import Sequence
from datetime import timedelta

from corral.engine import NOTHING, Delete, Plan, RemoveFinalizer, Wait, target
from corral.kinds.nodeset import claims
from corral.kinds.nodeset.each import beside
from corral.kinds.nodeset.making import ended
from corral.kinds.nodeset.registering import told_of_machines
from corral.kinds.nodeset.removal import removed
from corral.kinds.nodeset.reservation import released
from corral.kinds.nodeset.snapshot import SLURM_REACHABLE, Snapshot, recent, selector
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.words import some, unreachable_text
from corral.kinds.nodeset.workers import Worker
from corral.slurm.states import Phase

FINALIZER = "slurm.corral.dev/drain"
GIVEN_UP_S = 300.0  # a deletion without pods does not wait longer for a Slurm that does not answer


def farewell(snapshot: Snapshot, known: Sequence[Worker]) -> Plan:
    """Deletion ends when pods and Slurm's records are gone, or when the Controller is."""
    nodeset = snapshot.object
    if FINALIZER not in nodeset.metadata.finalizers:
        return NOTHING
    with_pod = [worker for worker in known if worker.pod]
    if snapshot.controller is None:
        return _with_nobody_to_ask(snapshot, known) if with_pod else _let_go(snapshot)
    if recent(snapshot) is None and not with_pod and _may_still_answer(snapshot):
        return Plan(
            waits=(Wait(reason="SlurmUnreachable", message=unreachable_text(snapshot)),), again_after_s=GIVEN_UP_S
        )
    if recent(snapshot) is None and with_pod:
        goes_on = "Slurm answers" if nodeset.status.external else "Slurm answers, or its Controller is deleted too"
        stuck = f"{unreachable_text(snapshot)}; deletion goes on when {goes_on}. {_given_up(nodeset)}"
        return ended(known) + Plan(waits=(Wait(reason="SlurmUnreachable", message=stuck),))
    queued = _queued(snapshot)
    if not known:
        return released(snapshot) + (queued if queued.waits else _let_go(snapshot))
    stays = [worker for worker in known if not worker.has_ended and not worker.is_leaving]
    return beside(
        ended(known),
        told_of_machines(snapshot.now, (), stays),
        released(snapshot),
        removed(snapshot, stays, "deletion", spares_others=False),
        Plan(waits=_pods_going(with_pod)),
        queued,
    )


def _with_nobody_to_ask(snapshot: Snapshot, known: Sequence[Worker]) -> Plan:
    """With a Controller goes its slurmctld, and all jobs; but not one that runs elsewhere."""
    with_pod = [worker for worker in known if worker.pod]
    waits = _pods_going(with_pod)
    if snapshot.object.status.external:
        stuck = (
            "its Controller is gone, but slurmctld runs elsewhere, and its workers may have jobs. Make the Controller "
            f"again, and they are drained. {_given_up(snapshot.object)}"
        )
        return ended(known) + Plan(waits=(*waits, Wait(reason="ControllerMissing", message=stuck, stalled=True)))
    pods = [worker.pod for worker in with_pod if worker.pod and not worker.is_leaving]
    gone = "the NodeSet is deleted, and its Controller is gone: no job can be left"
    return Plan(
        actions=tuple(Delete(target=target(pod), reason="ControllerGone", message=gone) for pod in pods), waits=waits
    )


def _given_up(nodeset: NodeSet) -> str:
    command = f"kubectl -n {nodeset.metadata.namespace} delete pod -l {selector(nodeset.metadata.name)}"
    return f"To give up what may run on its workers: {command}"


def _queued(snapshot: Snapshot) -> Plan:
    """Jobs whose records point to its partition; not when the whole cluster goes."""
    nodeset, view, controller = snapshot.object, recent(snapshot), snapshot.controller
    is_last = controller is None or controller.metadata.deletion_timestamp is not None
    if view is None or is_last or not nodeset.spec.partition.enabled:
        return NOTHING
    name = nodeset.metadata.name
    jobs = [
        str(job.id) for job in view.jobs.values() if job.phase is Phase.PENDING and name in job.partition.split(",")
    ]
    if not jobs:
        return NOTHING
    message = (
        f"jobs wait in partition {name}, which goes with it: {some(jobs)}. Move them (scontrol update jobid=ID "
        f"partition=OTHER) or cancel them (scancel --state=PENDING --partition={name})"
    )
    return Plan(waits=(Wait(reason="JobsWaiting", message=message),))


def _may_still_answer(snapshot: Snapshot) -> bool:
    """Slurm had nodes of it when it answered last, which would be left there; it is not waited for without end."""
    said = snapshot.object.status
    silent = (c for c in said.conditions if c.type == SLURM_REACHABLE and c.status == "False")
    since = next((c.last_transition_time for c in silent if c.last_transition_time is not None), snapshot.now)
    had_nodes = said.idle + said.allocated + said.draining + said.down > 0
    return had_nodes and snapshot.now - since < timedelta(seconds=GIVEN_UP_S)


def _pods_going(with_pod: Sequence[Worker]) -> tuple[Wait, ...]:
    going = [worker.name for worker in with_pod if worker.is_leaving]
    return (Wait(reason="PodsGoing", message=f"{len(going)} pods are ending: {some(going)}"),) if going else ()


def _let_go(snapshot: Snapshot) -> Plan:
    nodeset = snapshot.object
    leave = RemoveFinalizer(
        target=target(nodeset),
        present=nodeset.metadata.finalizers,
        finalizer=FINALIZER,
        message="no pod of it is left, and no Slurm node that is known of",
    )
    return Plan(actions=(*claims.farewell(nodeset, snapshot.claims), leave))
