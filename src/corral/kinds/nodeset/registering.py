"""Workers register with the values of their Kubernetes node, and are replaced if that went wrong. Pure.

See `registration` for what a worker says and what slurmctld makes of it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from corral.engine import NOTHING, Patch, Plan, Wait, target
from corral.kinds import names
from corral.kinds.nodeset import fitting
from corral.kinds.nodeset.calls import Forget
from corral.kinds.nodeset.each import each
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.registration import filled, line_of
from corral.kinds.nodeset.removal import slurm_call
from corral.kinds.nodeset.rollout import in_turn
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.words import some
from corral.kinds.nodeset.workers import Worker

WRONG_AFTER_S = 300.0  # a pod must be this old to be replaced for it: the next one may register wrong again
TOLD_MAX = 250  # in one pass


def told_of_machines(now: datetime, staying: Sequence[Worker], leaving: Sequence[Worker] = ()) -> Plan:
    """Scheduled workers get the values of their node, for which slurmd waits; and all tolerate taints."""
    known = [worker for worker in staying if worker.is_unfilled or worker.can_be_driven_out]
    known += [worker for worker in leaving if worker.can_be_driven_out and not worker.is_unfilled]
    news = ((worker.pod, _news(worker, now)) for worker in known)
    told = [
        Patch(target=target(pod), merge=merge, reason="MachineKnown", message=f"scheduled: {message}")
        for pod, (merge, message) in news
        if pod is not None and merge
    ]
    return Plan(actions=tuple(told[:TOLD_MAX]))


def _news(worker: Worker, now: datetime) -> tuple[dict[str, Any], str]:
    """As a merge of its pod, and in words."""
    merge: dict[str, Any] = {}
    said = []
    if worker.is_unfilled and worker.machine is not None and worker.pod is not None:
        line = filled(line_of(worker.pod), worker.machine)
        merge["metadata"] = {"annotations": {names.NODE_CONF: line, names.NODE_CONF_AT: f"{now:%Y-%m-%dT%H:%M:%SZ}"}}
        said.append(f"slurmd registers with labels and annotations of Kubernetes node {worker.machine.metadata.name}")
    if worker.can_be_driven_out and worker.pod is not None and not _may_go_now(worker):
        merge["spec"] = {"tolerations": msgspec.to_builtins(fitting.staying(worker.pod.spec.tolerations))}
        said.append("taints do not evict it with its jobs")
    return merge, "; ".join(said)


def _may_go_now(worker: Worker) -> bool:
    """A pod is not changed just before it is deleted: the deletion has the version that was observed."""
    return worker.facts in (Facts.UNREGISTERED, Facts.DRAINED)


def stale_forgotten(snapshot: Snapshot, live: Sequence[Worker]) -> Plan:
    """Records of an earlier pod, before the new slurmd starts: slurmctld would keep the old values."""
    stale = [worker for worker in live if worker.has_record_of_another and _may_be_forgotten(worker)]
    message = "outdated record of an earlier pod: the worker registers again with its new values"
    calls = (Forget(node=worker.name) for worker in stale)
    return each((slurm_call(snapshot, call, "RecordOutdated", message),) for call in calls)


def registered_wrong(
    snapshot: Snapshot, settled: Sequence[Worker], others: Sequence[Worker], count: int, missing_max: int
) -> tuple[list[Worker], Plan]:
    """Which workers to replace for it, no more at once than may be unavailable; and what to wait for.

    `others`: all that stay, but for those that a rollout takes.
    """
    wrong = [w for w in settled if w.is_registered_wrong and w.runs and not w.is_somebodys]
    ours = [worker for worker in wrong if not _is_slurms(snapshot, worker)]
    told = _slurms([worker.name for worker in wrong if _is_slurms(snapshot, worker)])
    if not ours:
        return [], told
    due = [worker for worker in ours if _left_s(snapshot, worker) <= 0]
    who = some([_said(worker) for worker in ours])
    message = f"to be replaced, because their Slurm record does not match their pod: {who}"
    soonest_s = min((left_s for worker in ours if (left_s := _left_s(snapshot, worker)) > 0), default=None)
    waiting = Plan(waits=(Wait(reason="RegisteredWrong", message=message),), again_after_s=soonest_s)
    return in_turn(due, others, count, missing_max), told + waiting


def _said(worker: Worker) -> str:
    """With Slurm's reason, if it drained the node for that: it tells what to change if this repeats."""
    reason = worker.node.reason if worker.node is not None and worker.has_drain and not worker.has_our_drain else ""
    return f"{worker.name} (Slurm says {reason!r})" if reason else worker.name


def _is_slurms(snapshot: Snapshot, worker: Worker) -> bool:
    """Admins of a Slurm that runs elsewhere set its GresTypes; a new pod would lack its Gres again."""
    return snapshot.object.status.external and worker.lacks_gres


def _slurms(names: Sequence[str]) -> Plan:
    if not names:
        return NOTHING
    message = f"Slurm ignores the Gres of {some(names)}: add them to GresTypes in its slurm.conf, then delete the pods"
    return Plan(waits=(Wait(reason="RegisteredWrong", message=message, stalled=True),))


def _left_s(snapshot: Snapshot, worker: Worker) -> float:
    made_at = worker.pod.metadata.creation_timestamp if worker.pod is not None else None
    age = snapshot.now - made_at if made_at is not None else timedelta(seconds=WRONG_AFTER_S)
    return WRONG_AFTER_S - age.total_seconds()


def _may_be_forgotten(worker: Worker) -> bool:
    return (
        worker.said in (Facts.FREE, Facts.DRAINED)
        and not worker.jobs
        and not worker.is_somebodys
        and not worker.is_reserved
    )
