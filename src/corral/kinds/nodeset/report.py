"""What a NodeSet's status says: counts, the standard conditions, and whether Slurm answers. Pure."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from corral.engine import SUSPENDED, Outcome, conditions, verdict
from corral.kinds import names
from corral.kinds.nodeset.ordinals import folded, unfolded
from corral.kinds.nodeset.pins import pins
from corral.kinds.nodeset.places import Asked, asked_for, asked_ordinals, is_of_other_mode, lasting
from corral.kinds.nodeset.restoring import lost_drains
from corral.kinds.nodeset.revision import revision_of
from corral.kinds.nodeset.rollout import BadUpdate
from corral.kinds.nodeset.snapshot import SLURM_REACHABLE, Snapshot, recent, selector
from corral.kinds.nodeset.spec import NodeSetStatus
from corral.kinds.nodeset.words import unreachable_text
from corral.kinds.nodeset.workers import Worker
from corral.kinds.overrides import BadOverride
from corral.kube.meta import Condition


def report(snapshot: Snapshot, outcome: Outcome) -> NodeSetStatus:
    nodeset, known = snapshot.object, snapshot.workers
    is_held = nodeset.spec.suspend and nodeset.metadata.deletion_timestamp is None
    said = SUSPENDED if is_held else verdict(_as_planned(outcome), ready_message="all workers are ready and registered")
    live = snapshot.live
    counts = slurm_counts(snapshot, known)
    revision = revision_of(nodeset, snapshot.controller) if snapshot.controller else nodeset.status.revision
    asked = _asked(snapshot)
    ordinals = asked_ordinals(snapshot, asked) if asked else unfolded(nodeset.status.ordinals)
    is_up_to_date = {
        make: make is not None and make.revision == revision and not is_of_other_mode(nodeset, make)
        for make in {worker.make for worker in live}
    }
    return NodeSetStatus(
        observed_generation=nodeset.metadata.generation,
        desired=asked.count if asked else nodeset.status.desired,
        replicas=len(live),
        ready_replicas=sum([worker.is_ready for worker in live]),
        selector=selector(nodeset.metadata.name),
        idle=counts["idle"],
        allocated=counts["allocated"],
        draining=counts["draining"],
        down=counts["down"],
        updated_replicas=sum([is_up_to_date[worker.make] for worker in live]),
        revision=revision,
        ordinals=folded(ordinals) if not nodeset.spec.is_per_machine else "",
        ordinal_to_node=pins(snapshot, ordinals),
        reservation=_reservation(snapshot),
        lost_drains=_lost_drains(snapshot, asked),
        external=snapshot.controller.spec.external is not None if snapshot.controller else nodeset.status.external,
        conditions=conditions(nodeset, nodeset.status.conditions, said, snapshot.now, slurm_reachable(snapshot)),
    )


def decided_by(status: NodeSetStatus) -> tuple[object, ...]:
    """What later passes read again; of Slurm's nodes only whether there are any, for a deletion without an answer.

    Where workers are is empty unless they are pinned: a pod may end before its node would be told as a detail.
    """
    has_nodes = status.idle + status.allocated + status.draining + status.down > 0
    return (
        status.lost_drains,
        status.ordinals,
        status.reservation,
        status.external,
        status.ordinal_to_node,
        has_nodes,
    )


def _as_planned(outcome: Outcome) -> Outcome:
    """Without a refusal that the plan already explains: otherwise the status would alternate between the two."""
    known = {wait.reason for wait in outcome.plan.waits if wait.stalled}
    is_told = outcome.problem is not None and outcome.problem.stalled and outcome.problem.reason in known
    return msgspec.structs.replace(outcome, problem=None) if is_told else outcome


def _reservation(snapshot: Snapshot) -> str:
    """The reservation that exists, or may exist: we ask for it until Slurm reports that it is gone."""
    may_be_wanted = snapshot.object.spec.update.window is not None
    if may_be_wanted or snapshot.reservation.found is not None:
        return names.reservation_name(snapshot.object.metadata.name)
    return "" if snapshot.reservation.told else snapshot.object.status.reservation


def _asked(snapshot: Snapshot) -> Asked | None:
    """None while it is unknown: the last values stay."""
    try:
        return asked_for(snapshot, snapshot.controller) if snapshot.controller else None
    except (BadOverride, BadUpdate):
        return None


def _lost_drains(snapshot: Snapshot, asked: Asked | None) -> Mapping[str, str]:
    """Also of those that stay for now though nobody asks for them: they may be of the other mode, and held back."""
    controller = snapshot.controller
    if asked is None or controller is None:
        return lost_drains(snapshot, None)
    return lost_drains(
        snapshot, lambda: lasting(snapshot, controller, asked) | {worker.name for worker in snapshot.live}
    )


def slurm_reachable(snapshot: Snapshot) -> Condition:
    if recent(snapshot) is not None:
        return Condition(type=SLURM_REACHABLE, status="True", reason="SlurmAnswers", message="Slurm answers")
    message = unreachable_text(snapshot)
    return Condition(type=SLURM_REACHABLE, status="False", reason="SlurmUnreachable", message=message)


def slurm_counts(snapshot: Snapshot, known: tuple[Worker, ...]) -> Counter[str]:
    """Slurm's nodes by state. While it does not answer, the last counts stay: no answer does not mean zero."""
    if recent(snapshot) is None:
        before = snapshot.object.status
        return Counter(idle=before.idle, allocated=before.allocated, draining=before.draining, down=before.down)
    return Counter([worker.counts_as for worker in known])
