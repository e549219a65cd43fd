"""Somebody's drain survives the loss of its record: when slurmctld has lost the node, it is drained again. Pure.

A pod shows Slurm's reason, with who set it and when (`shown`), also after the record is gone. From then on the status
of the NodeSet keeps it, because the pod may be replaced, until the worker has registered and is drained again. The new
drain has the same reason, followed by who set it and when. It is dropped with the NodeSet, or when the worker is no
longer desired.
"""

import re
from collections.abc import Callable, Mapping, Sequence, Set

from corral.engine import Outside, Plan
from corral.kinds.nodeset.calls import REASON_PREFIX, Drain
from corral.kinds.nodeset.each import each
from corral.kinds.nodeset.removal import slurm_call
from corral.kinds.nodeset.shown import said_of_drain
from corral.kinds.nodeset.snapshot import Snapshot, recent
from corral.kinds.nodeset.whose import REGISTERED_LESS
from corral.kinds.nodeset.workers import Worker

KEPT_MAX = 1000
_AGAIN = re.compile(r"^(.*\[[^\[\]]*@[^\[\]]*\]) \[slurm@[^\[\]]*\]$")  # who drained it first, and that we did again


def restored(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    kept = snapshot.object.status.lost_drains
    back = [worker for worker in staying if worker.name in kept and worker.node is not None and not worker.has_drain]
    return each((_drained(snapshot, worker, kept[worker.name]),) for worker in back if not worker.arrives)


def lost_drains(snapshot: Snapshot, lasting: Callable[[], Set[str]]) -> Mapping[str, str]:
    """By worker: the reason to drain it with when it is back. `lasting`: desired workers."""
    before, missing = snapshot.object.status.lost_drains, [w for w in snapshot.live if w.node is None]
    if recent(snapshot) is None or not (before or missing):
        return before
    drained = {worker.name for worker in snapshot.workers if worker.has_drain}
    asked = lasting() if before else frozenset[str]()
    kept = {name: text for name, text in before.items() if name in asked and name not in drained}
    found = {w.name: _first(said_of_drain(w.body.shown)) for w in missing if w.name not in kept}
    theirs = {name: text for name, text in found.items() if text and not _is_ours_or_slurmctlds(text)}
    return dict(sorted({**kept, **theirs}.items())[:KEPT_MAX])


def _drained(snapshot: Snapshot, worker: Worker, reason: str) -> Outside:
    message = f"restores a drain that slurmctld had lost: {reason}"
    return slurm_call(snapshot, Drain(node=worker.name, reason=reason), "DrainRestored", message)


def _is_ours_or_slurmctlds(text: str) -> bool:
    """slurmctld's reason for a bad registration ends with that registration; admins have other names than slurm."""
    return text.startswith(REASON_PREFIX) or (text.startswith(REGISTERED_LESS) and " [slurm@" in text)


def _first(text: str) -> str:
    """Without our own name after that of who drained it."""
    found = _AGAIN.match(text)
    return found.group(1) if found else text
