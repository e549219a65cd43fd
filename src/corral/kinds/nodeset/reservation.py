"""The maintenance reservation of a rollout with a window (`update.window`). Pure.

It is created for the nodes of outdated workers as soon as there are any, so that no job starts there that would run
past the start of the window. It is deleted when no worker is outdated any more, or when the window is removed from the
spec; otherwise it ends with the window. Only the reservation with our own name is ever touched.

slurmctld does not delete a node that is in an active reservation. So a node is taken out of ours directly before it is
deleted: from then on our drain keeps it free.
"""

from collections.abc import Sequence

from corral.engine import NOTHING, Outside, Plan
from corral.kinds import names
from corral.kinds.nodeset.calls import Narrow, Reserve, Unreserve
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.words import some
from corral.kinds.nodeset.workers import Worker
from corral.kube.values import parse_duration


def is_asked_for(nodeset: NodeSet) -> bool:
    """Whether to ask Slurm for it: one may be wanted, or may be left over."""
    return nodeset.spec.update.window is not None or bool(nodeset.status.reservation)


def reserved(snapshot: Snapshot, old: Sequence[Worker]) -> Plan:
    """`old`: the workers that the rollout will replace."""
    wanted, there = _wanted(snapshot, old), snapshot.reservation.found
    if not snapshot.reservation.told:
        return NOTHING
    if wanted is None:
        return released(snapshot)
    if snapshot.now >= wanted.start:
        return NOTHING  # Slurm creates none in the past; in the window workers are drained anyway
    if there is None:
        return Plan(
            actions=(
                _call(
                    snapshot, wanted, f"no new jobs on {some(wanted.nodes)} that would run past {wanted.start:%FT%RZ}"
                ),
            )
        )
    if there.start_at == wanted.start.replace(microsecond=0) and set(wanted.nodes) <= set(there.nodes):
        return NOTHING
    again = _call(snapshot, wanted, "its time or its nodes have changed")
    return released(snapshot) + Plan(actions=(again,))


def opened(snapshot: Snapshot) -> Plan:
    """Take out the nodes that can be removed now. Before its start the reservation blocks nothing."""
    there = snapshot.reservation.found
    if there is None or there.start_at is None or snapshot.now < there.start_at:
        return NOTHING
    going = {worker.name for worker in snapshot.workers if worker.facts is Facts.DRAINED and not worker.is_somebodys}
    left = tuple(node for node in there.nodes if node not in going)
    if len(left) == len(there.nodes):
        return NOTHING
    call = Narrow(reservation=there.name, nodes=left) if left else Unreserve(reservation=there.name)
    return Plan(actions=(_call(snapshot, call, f"drained by Corral, about to be removed: {some(sorted(going))}"),))


def released(snapshot: Snapshot) -> Plan:
    if not snapshot.reservation.told or snapshot.reservation.found is None:
        return NOTHING
    call = Unreserve(reservation=snapshot.reservation.found.name)
    return Plan(actions=(_call(snapshot, call, "no longer needed"),))


def _wanted(snapshot: Snapshot, old: Sequence[Worker]) -> Reserve | None:
    update, nodeset = snapshot.object.spec.update, snapshot.object.metadata.name
    nodes = tuple(worker.name for worker in old if worker.node is not None and not worker.is_somebodys)
    if update.window is None or update.strategy != "RollingUpdate" or update.paused or not nodes:
        return None
    if snapshot.now >= update.window.end:
        return None
    return Reserve(
        reservation=names.reservation_name(nodeset),
        start=update.window.start,
        duration=parse_duration(update.window.duration),
        nodes=nodes,
    )


def _call(snapshot: Snapshot, call: Reserve | Narrow | Unreserve, message: str) -> Outside:
    return Outside(
        system=f"Slurm {snapshot.cluster}",
        subject=f"reservation {call.reservation}",
        call=call,
        reason="RolloutScheduled",
        message=message,
    )
