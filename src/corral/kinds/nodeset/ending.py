"""How a worker's pod is ended: with the time that it takes, or from within where kubelet does not listen. Pure.

A pod waits for its jobs itself, for up to a year (`slurmd-leave`). Kubelet gives that time to all its containers, also
to one that does not hear its TERM, and heeds no shorter one once it ends a pod (kubernetes#83916). So:

    it has no job, and is not deleted yet   all of its time, and little if a container of others may be deaf
    it is not to wait, and is not deleted   little time
    it is not to wait, and waits already    its wait is ended from within; the shorter time is for a kubelet that starts
"""

from corral.engine import Action, Delete, Outside, target
from corral.kinds.nodeset.body import SHORT_GRACE_S
from corral.kinds.nodeset.calls import End
from corral.kinds.nodeset.workers import Worker
from corral.kube.models.core_v1 import Pod


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
