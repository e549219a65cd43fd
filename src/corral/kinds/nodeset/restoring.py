"""Somebody's drain survives the loss of its record, or of its words: the worker is drained again. Pure.

A pod shows Slurm's reason, with who set it and when (`shown`), also after the record is gone, or after slurmctld has
put its own reason in place of it because the worker registered wrong. From then on the status of the NodeSet keeps it,
because the pod may be replaced, until the worker has registered and is drained again, over a drain of ours too. The new
drain has the same reason, followed by who set it and when. It is dropped with the NodeSet, or when the worker is no
longer desired.
"""

import re
from collections.abc import Callable, Mapping, Sequence, Set

from corral.engine import Outside, Plan
from corral.kinds.nodeset.calls import Drain
from corral.kinds.nodeset.each import each
from corral.kinds.nodeset.removal import slurm_call
from corral.kinds.nodeset.shown import MISSING, said_of_drain
from corral.kinds.nodeset.snapshot import Snapshot, recent
from corral.kinds.nodeset.whose import are_somebodys_words
from corral.kinds.nodeset.workers import Worker

KEPT_CHARS_MAX = 500_000  # of all reasons together: an object has about 1.5 MB, and a NodeSet 10,000 workers
_AGAIN = re.compile(r"^(.*\[[^\[\]]*@[^\[\]]*\]) \[slurm@[^\[\]]*\]$")  # who drained it first, and that we did again


def restored(snapshot: Snapshot, staying: Sequence[Worker]) -> Plan:
    """A worker that registered wrong is replaced first: slurmctld would put its own reason there again."""
    kept = snapshot.object.status.lost_drains
    back = [worker for worker in staying if worker.node is not None and not worker.is_somebodys]
    due = [worker for worker in back if not (worker.is_invalid or worker.arrives)]
    found = ((worker, kept.get(worker.name) or _lost_words(worker)) for worker in due)
    return each((_drained(snapshot, worker, reason),) for worker, reason in found if reason)


def lost_drains(snapshot: Snapshot, lasting: Callable[[], Set[str]] | None) -> Mapping[str, str]:
    """By worker: the reason to drain it with when it is back. `lasting`: desired workers; None while it is unknown."""
    before = snapshot.object.status.lost_drains
    if recent(snapshot) is None:
        return before
    found = {worker.name: words for worker in snapshot.live if (words := _lost_words(worker))}
    if not (before or found):
        return before
    drained = {worker.name for worker in snapshot.workers if _is_drained_by_somebody(worker)}
    asked = lasting() if lasting is not None and before else before.keys()
    kept = {name: text for name, text in before.items() if name in asked and name not in drained}
    return _fitting(dict(sorted({**found, **kept}.items())))


def _lost_words(worker: Worker) -> str:
    """Somebody's reason for a drain, if its pod knows better than Slurm: of a record that is gone, or was a moment ago,
    or that says only what is wrong with its registration."""
    if not _may_know_better(worker):
        return ""
    words = _first(said_of_drain(worker.body.shown))
    return words if are_somebodys_words(words) else ""


def _may_know_better(worker: Worker) -> bool:
    if worker.node is None or worker.is_invalid:
        return not worker.is_somebodys
    shown = worker.body.shown
    return len(shown) == 1 and shown[0].type == MISSING and not _is_drained_by_somebody(worker)


def _is_drained_by_somebody(worker: Worker) -> bool:
    """One that is only set down comes back by a registration, and then needs its drain."""
    return worker.has_drain and worker.is_somebodys


def _fitting(kept: Mapping[str, str]) -> Mapping[str, str]:
    """Shorter reasons are better than drains that nobody remembers."""
    each_max = KEPT_CHARS_MAX // max(1, len(kept))
    return {name: text[:each_max] for name, text in kept.items()}


def _drained(snapshot: Snapshot, worker: Worker, reason: str) -> Outside:
    message = f"restores a drain that slurmctld had lost: {reason}"
    return slurm_call(snapshot, Drain(node=worker.name, reason=reason), "DrainRestored", message)


def _first(text: str) -> str:
    """Without our own name after that of who drained it."""
    found = _AGAIN.match(text)
    return found.group(1) if found else text
