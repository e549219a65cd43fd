"""What a NodeSet creates: missing workers, their disruption budget, its history; and pods to replace. Pure."""

from collections.abc import Callable, Iterable, Sequence

from corral.engine import NOTHING, Delete, Once, Plan, Wait, children, target
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset import claims, ending, mounts, taken
from corral.kinds.nodeset.fitting import DRIVES_OUT, untolerated
from corral.kinds.nodeset.pins import pin_of
from corral.kinds.nodeset.revision import before as revision_before
from corral.kinds.nodeset.revision import kept
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.worker import placed, pod_of_nobody
from corral.kinds.nodeset.workers import Place, Worker
from corral.kinds.overrides import BadOverride
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Pod
from corral.kube.models.meta_v1 import LabelSelector
from corral.kube.models.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec

BURST_MAX = 5000  # pods created in one pass: the next pass sees how they do. A change of the NodeSet ends it sooner
MORE_THAN_THERE_ARE = 2**31 - 1


def guarded(nodeset: NodeSet, guards: Iterable[PodDisruptionBudget]) -> Plan:
    """Nobody can evict a worker, not even `kubectl drain`: Corral deletes it when slurmctld has forgotten it.

    `maxUnavailable: 0` would allow some evictions: it counts from `spec.replicas`, and if there are more workers than
    that, as in a scale-in, a rollout or with one on each Kubernetes node, the rest could be evicted, busy or not.
    """
    name = nodeset.metadata.name
    guard = PodDisruptionBudget(
        metadata=ObjectMeta(name=names.guard_name(name), labels=names.labels("slurmd", name)),
        spec=PodDisruptionBudgetSpec(
            min_available=MORE_THAN_THERE_ARE,
            selector=LabelSelector(match_labels={names.NODESET_LABEL: names.worker_stem(name)}),
        ),
    )
    return children(nodeset, [guard], guards)


def history(snapshot: Snapshot) -> Plan:
    if snapshot.controller is None:
        return NOTHING
    there = snapshot.revisions
    return children(
        snapshot.object, [Once(one) for one in kept(snapshot.object, snapshot.controller, there, snapshot.pods)], there
    )


def made(snapshot: Snapshot, known: Sequence[Worker], vacant: Sequence[Place]) -> Plan:
    if snapshot.controller is None or not vacant:
        return NOTHING
    if snapshot.absent:
        return Plan(waits=mounts.waits(snapshot.absent))
    nodeset, with_pod = snapshot.object, {worker.name: worker for worker in known if worker.pod}
    missing = [
        place
        for place in vacant
        if (place.name not in with_pod or with_pod[place.name].is_leaving)
        and not claims.going(nodeset, place.name, snapshot.claims)
    ]
    going = [worker.pod for worker in with_pod.values() if worker.is_leaving and worker.pod]
    try:
        pods = _pods(snapshot, snapshot.controller, missing[:BURST_MAX])
        return taken.apart(snapshot, pods, lambda some: _created(snapshot, some, going))
    except BadOverride as error:
        return Plan(waits=(Wait(reason="BadOverride", message=str(error), stalled=True),))


def _created(snapshot: Snapshot, pods: Sequence[Pod], going: Sequence[Pod]) -> Plan:
    """Each pod after its claims, and when its predecessor is gone. Raises BadOverride."""
    nodeset = snapshot.object
    needed = claims.missing(nodeset, [pod.metadata.name for pod in pods], snapshot.claims)
    there = {pod.metadata.name for pod in pods}
    still_there = [pod for pod in going if pod.metadata.name in there]
    return needed + children(nodeset, [Once(pod) for pod in pods], still_there)


def _pods(snapshot: Snapshot, controller: Controller, places: Sequence[Place]) -> list[Pod]:
    """Those below `update.partition` from the previous revision. Raises BadOverride."""
    nodeset, partition = snapshot.object, snapshot.object.spec.update.partition
    made = _maker(snapshot, nodeset, controller)
    if not partition:
        return [made(place) for place in places]
    as_before = _maker(snapshot, revision_before(nodeset, controller, snapshot.revisions), controller)
    return [as_before(place) if (place.ordinal or 0) < partition else made(place) for place in places]


def _maker(snapshot: Snapshot, nodeset: NodeSet, controller: Controller) -> Callable[[Place], Pod]:
    """Makes pods that tolerate all taints, unless the scheduler could then put them onto nodes that evict pods."""
    nobody = pod_of_nobody(nodeset, controller)
    tolerations = nobody.spec.tolerations
    stays = all(untolerated(tolerations, machine, (DRIVES_OUT,)) is None for machine in snapshot.driving_out)
    return lambda place: placed(nobody, nodeset, place, stays=stays)


def ended(known: Sequence[Worker]) -> Plan:
    """A pod that has ended has no processes left; Slurm notices its lost jobs when the next pod registers."""
    over = [worker for worker in known if not worker.is_live and worker.has_ended and not worker.is_leaving]
    return Plan(
        actions=tuple(
            Delete(target=target(pod), reason="PodEnded", message=f"the pod has ended ({pod.status.phase})")
            for pod in (worker.pod for worker in over)
            if pod is not None
        )
    )


def remade(idle: Sequence[Worker]) -> Plan:
    return Plan(actions=tuple(_remade(worker, worker.pod) for worker in idle if worker.pod is not None))


def freed(unpinned: Sequence[Worker]) -> Plan:
    """It has never run: there is nothing to lose, and whatever record has its name stays."""
    return Plan(actions=tuple(_freed(worker.pod) for worker in unpinned if worker.pod is not None))


def _freed(pod: Pod) -> Delete:
    message = f"it waits for Kubernetes node {pin_of(pod)}, to which it is no longer pinned"
    return Delete(target=target(pod), reason="PinEnded", message=message)


def _remade(worker: Worker, pod: Pod) -> Delete:
    """slurmctld keeps a drain, and gives back what is merely DOWN when its slurmd registers (ReturnToService)."""
    after = "stays drained" if worker.has_drain else "stays as it is until slurmd registers"
    message = f"outdated and slurmd does not run: the pod is replaced, its node in Slurm {after}"
    return ending.deleted(worker, pod, "PodOutdated", message)
