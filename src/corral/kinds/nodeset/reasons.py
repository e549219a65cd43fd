"""Which of our reasons a drained worker has in Slurm, when several apply. Pure.

    what people say     its Kubernetes node is cordoned, with the reason and the name that `corral drain` was given
    why it is to go     deletion, scale-in, rollout, a registration that went wrong or was lost
    what keeps it off   a taint, a Kubernetes node that is not ready or gone, the loss of its pod

The first that applies is on the record, so `sinfo -R` says what is true now, and since when. When another one is, the
words are replaced; nothing is written while the same one applies. The words of anybody else are never replaced, nor is
what slurmctld adds to ours.
"""

from corral.kinds.nodeset.calls import REASON_PREFIX
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.whose import SLURMCTLDS_OWN
from corral.kinds.nodeset.workers import Worker
from corral.kube.meta import ref


def reason_for(snapshot: Snapshot, worker: Worker, why: str) -> str:
    """`why`: what else is the matter with it, or its Kubernetes node's trouble itself."""
    trouble = worker.trouble
    if trouble is not None and (trouble.is_peoples or trouble.why == why):
        return f"{REASON_PREFIX}{trouble.why}"
    return f"{REASON_PREFIX}{why} of {ref(snapshot.object)}"


def says(worker: Worker, reason: str) -> bool:
    """Whether it is drained with these words, and maybe with what slurmctld has found since."""
    said = worker.node.reason if worker.node is not None else ""
    added = said.removeprefix(f"{reason} : ")
    return worker.has_drain and (said == reason or (added != said and added.startswith(SLURMCTLDS_OWN)))


def says_something_else(worker: Worker, reason: str) -> bool:
    """Whether we drained it for something else than this."""
    return worker.has_our_drain and not says(worker, reason)
