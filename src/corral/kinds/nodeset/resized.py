"""Workers whose container was resized in place since they were made, as by a VerticalPodAutoscaler. Pure.

slurmd goes on with what it registered with, and slurmctld gives away just that: of a container that was made smaller,
more than there is. To make the worker anew would not help, for it comes back as it was made, and whoever resized it
does so again. So people are told, and it is left to them.

A pod's generation is 1 until something of its spec is changed. What admission gave it when it was made counts as made.
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
    """`made`: as workers are made now. One that was made otherwise is outdated, and of a line that people wrote
    themselves nobody knows what it is to be."""
    line, slurmd = line_of(made), _slurmd(made)
    if line_of(pod) != line or node_conf(nodeset, slurmd) != line:
        return False
    return node_conf(nodeset, replace(slurmd, resources=_slurmd(pod).resources)) != line


def _slurmd(pod: Pod) -> Container:
    return next(container for container in pod.spec.containers if container.name == CONTAINER)
