"""How a worker's pod is ended: with the time that it takes, or from within where kubelet does not listen. Pure.

A pod waits for its jobs itself, for up to a year (`slurmd-leave`). Kubelet gives that time to all its containers, also
to one that does not hear its TERM, and heeds no shorter one once it ends a pod (kubernetes#83916). So:

    it has no job, and is not deleted yet   all of its time, and little if a container of others may be deaf
    it is not to wait, and is not deleted   little time
    it is not to wait, and waits already    its wait is ended from within; the shorter time is for a kubelet that starts

So what a shorter time means depends on whether it was the first one, which nobody tells. A pod that was given one is
let end in it; one that is there after that waits on, unless we have ended its wait: then it is not jobs that keep it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from corral.engine import Action, Delete, Outcome, Outside, target
from corral.kinds.nodeset.body import SHORT_GRACE_S
from corral.kinds.nodeset.calls import END_WAIT, End
from corral.kinds.nodeset.registration import CONTAINER
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.workers import Worker
from corral.kube.models.core_v1 import Pod

ENDS_WITHIN = timedelta(seconds=60)  # a pod that is deleted, from when it has no job, or its time is over


def waits(snapshot: Snapshot, worker: Worker) -> bool:
    """Whether it was deleted and may wait for its jobs."""
    body, pod = worker.body, worker.pod
    if body.waits_since is None or pod is None or pod.metadata.uid in snapshot.ended:
        return False
    return not body.is_cut or body.ends_by is None or snapshot.now >= body.ends_by + ENDS_WITHIN


def ended(snapshot: Snapshot, outcome: Outcome) -> Mapping[str, datetime]:
    """Whose wait was ended by this process, and when, by uid of the pod; known after a pass."""
    deletes = [r.action.target.uid for r in outcome.results if isinstance(r.action, Delete) and r.state == "done"]
    if not deletes and not snapshot.ended:
        return snapshot.ended
    leaving = {pod.metadata.uid for pod in snapshot.pods if pod.metadata.deletion_timestamp is not None}
    known = {**dict.fromkeys(deletes, snapshot.now), **snapshot.ended}
    return {uid: at for uid, at in known.items() if uid in leaving}


def end_command(snapshot: Snapshot, pod: str) -> str:
    """By which people end its wait."""
    return f"kubectl exec -n {snapshot.object.metadata.namespace} {pod} -c {CONTAINER} -- {' '.join(END_WAIT)}"


def deleted(worker: Worker, pod: Pod, reason: str, message: str) -> Delete:
    """It has no job."""
    grace_s = SHORT_GRACE_S if worker.body.may_be_deaf else None
    return Delete(target=target(pod), grace_period_s=grace_s, reason=reason, message=message)


def ended_now(worker: Worker, pod: Pod, reason: str, message: str) -> tuple[Action, ...]:
    """Whatever it waits for."""
    delete = Delete(target=target(pod), grace_period_s=SHORT_GRACE_S, reason=reason, message=message)
    if worker.body.waits_since is None:
        return (delete,)
    end = Outside(
        system=f"Pod {pod.metadata.namespace}/{worker.name}",
        subject="the wait for jobs",
        call=End(pod=worker.name),
        reason=reason,
        message=message,
    )
    return end, delete
