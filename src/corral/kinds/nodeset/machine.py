"""What the Kubernetes node below a worker says to Slurm. Pure.

    cordoned            drained, and when no job is left the worker moves: forgotten, deleted, made again elsewhere
    not ready, tainted  drained; the worker stays, and comes back with its node
    gone                drained; Kubernetes takes the pod away by itself

All with a reason of ours, which is lifted when the cause is gone and the worker is ready: not before, or a job would be
given to a slurmd that is not there. Somebody else's drain is never touched.
"""

from collections.abc import Mapping

import msgspec

from corral.kinds import names
from corral.kube.models.core_v1 import Node, Pod, Taint, Toleration

DRIVES_OUT = "NoExecute"
REASON_MAX = 200
OWN_TAINTS = "node.kubernetes.io/"  # Kubernetes' own words for what conditions and cordons say


class Trouble(msgspec.Struct, frozen=True):
    """Why no job should come. `leaves`: the worker is to move away, not only to wait."""

    why: str
    leaves: bool = False


def trouble_of(pod: Pod, machines: Mapping[str, Node]) -> Trouble | None:
    name = pod.spec.node_name
    if not name:
        return None
    machine = machines.get(name)
    if machine is None:
        return Trouble(f"Kubernetes node {name} is gone")
    if machine.spec.unschedulable:
        said = _readable(machine.metadata.annotations.get(names.DRAIN_REASON, ""))
        return Trouble(f"Kubernetes node {name} is cordoned{f': {said}' if said else ''}", leaves=True)
    if (taint := _untolerated(pod, machine)) is not None:
        return Trouble(f"Kubernetes node {name} has taint {taint.key}:{taint.effect}")
    ready = next((one.status for one in machine.status.conditions if one.type == "Ready"), "True")
    return None if ready == "True" else Trouble(f"Kubernetes node {name} is not ready")


def _readable(text: str) -> str:
    """As it can stand in a line of `sinfo -R`."""
    return " ".join(text.split())[:REASON_MAX]


def says_else(old: Node | None, new: Node | None) -> bool:
    """Whether a change of a node can matter to its workers; kubelet writes much that does not."""
    return old is None or new is None or _said(old) != _said(new)


def _said(machine: Node) -> tuple[object, ...]:
    ready = tuple(one.status for one in machine.status.conditions if one.type == "Ready")
    said = machine.metadata.annotations.get(names.DRAIN_REASON)
    return machine.spec.unschedulable, machine.spec.taints, ready, said


def _untolerated(pod: Pod, machine: Node) -> Taint | None:
    taints = (one for one in machine.spec.taints if one.effect == DRIVES_OUT and not one.key.startswith(OWN_TAINTS))
    return next((taint for taint in taints if not any(_tolerates(one, taint) for one in pod.spec.tolerations)), None)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """As Kubernetes decides it; one that tolerates for a while only does not keep the worker."""
    if toleration.effect not in ("", taint.effect) or toleration.toleration_seconds is not None:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value
