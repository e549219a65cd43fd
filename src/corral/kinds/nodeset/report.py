"""What a NodeSet's status says: counts, the standard conditions, and whether Slurm answers. Pure."""

from collections import Counter

from corral.engine import SUSPENDED, Outcome, conditions, verdict
from corral.kinds.nodeset.revision import is_made_from, revision_of
from corral.kinds.nodeset.spec import NodeSetStatus
from corral.kinds.nodeset.words import unreachable_text
from corral.kinds.nodeset.workers import SLURM_REACHABLE, Snapshot, Worker, recent, selector
from corral.kube.meta import Condition
from corral.slurm.states import Base, Standing


def report(snapshot: Snapshot, outcome: Outcome) -> NodeSetStatus:
    nodeset, known = snapshot.object, snapshot.workers
    said = SUSPENDED if nodeset.spec.suspend else verdict(outcome, ready_message="every worker is there")
    live = [worker for worker in known if worker.is_live]
    counts = slurm_counts(snapshot, known)
    revision = revision_of(nodeset, snapshot.controller) if snapshot.controller else nodeset.status.revision
    return NodeSetStatus(
        observed_generation=nodeset.metadata.generation,
        replicas=len(live),
        ready_replicas=sum(worker.is_ready for worker in live),
        selector=selector(nodeset.metadata.name),
        idle=counts["idle"],
        allocated=counts["allocated"],
        draining=counts["draining"],
        down=counts["down"],
        updated_replicas=sum(worker.pod is not None and is_made_from(worker.pod, revision) for worker in live),
        revision=revision,
        conditions=conditions(nodeset, nodeset.status.conditions, said, snapshot.now, slurm_reachable(snapshot)),
    )


def slurm_reachable(snapshot: Snapshot) -> Condition:
    if recent(snapshot) is not None:
        return Condition(type=SLURM_REACHABLE, status="True", reason="SlurmAnswers", message="Slurm answers")
    message = unreachable_text(snapshot)
    return Condition(type=SLURM_REACHABLE, status="False", reason="SlurmUnreachable", message=message)


def slurm_counts(snapshot: Snapshot, known: tuple[Worker, ...]) -> Counter[str]:
    """Of what Slurm knows. While it does not answer, what it said last stays: no answer is not a zero."""
    if recent(snapshot) is None:
        before = snapshot.object.status
        return Counter(idle=before.idle, allocated=before.allocated, draining=before.draining, down=before.down)
    return Counter(kind for worker in known if (kind := slurm_kind(worker)))


def slurm_kind(worker: Worker) -> str:
    """As sinfo sorts them: a drained node is draining to us, a node that is down is down whatever else it is."""
    if worker.node is None:
        return ""
    state = worker.node.state
    if state.base is Base.DOWN or state.standing is Standing.DOWN:
        return "down"
    if worker.has_drain:
        return "draining"
    if state.base in (Base.ALLOCATED, Base.MIXED):
        return "allocated"
    return "idle" if state.base is Base.IDLE else ""
