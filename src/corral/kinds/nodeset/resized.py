"""Workers whose container was resized in place after its creation, e.g. by a VerticalPodAutoscaler. Pure.

slurmd keeps the size that it registered with, and slurmctld schedules by it: for a container that was made smaller,
more than there is. A new pod would not help: it has the old size again, and whoever resized it would do so again. So
Corral reports it and leaves the decision to people.

A pod's generation is 1 until its spec is changed. Changes by admission at its creation do not count.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from corral.engine import NOTHING, Plan, Wait
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.registration import CONTAINER, line_of, node_conf
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.words import some
from corral.kinds.nodeset.worker import pod_of_nobody
from corral.kinds.nodeset.workers import Worker
from corral.kube.models.core_v1 import Container, Pod


def resized(snapshot: Snapshot, controller: Controller, staying: Sequence[Worker]) -> Plan:
    """Raises BadOverride."""
    changed = [worker.pod for worker in staying if worker.pod is not None and worker.pod.metadata.generation > 1]
    if not changed:
        return NOTHING
    nodeset, made = snapshot.object, pod_of_nobody(snapshot.object, controller)
    names = [pod.metadata.name for pod in changed if is_resized(nodeset, made, pod)]
    if not names:
        return NOTHING
    message = (
        f"pods were resized in place, but Slurm still schedules by their old size: {some(names)}. It uses "
        f"SLURM_NODE_CONF ({line_of(made)}). Set the new size in spec.slurmd.resources, and workers are replaced after "
        "their jobs; or resize the pods back"
    )
    return Plan(waits=(Wait(reason="WorkersResized", message=message, stalled=True),))


def is_resized(nodeset: NodeSet, made: Pod, pod: Pod) -> bool:
    """`made`: a pod as it would be created now. A pod from another revision is outdated, and if people wrote the line
    themselves, nobody knows what it should be."""
    line, slurmd = line_of(made), _slurmd(made)
    if line_of(pod) != line or node_conf(nodeset, slurmd) != line:
        return False
    return node_conf(nodeset, replace(slurmd, resources=_slurmd(pod).resources)) != line


def _slurmd(pod: Pod) -> Container:
    return next(container for container in pod.spec.containers if container.name == CONTAINER)
