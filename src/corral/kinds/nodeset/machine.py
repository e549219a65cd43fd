"""What the Kubernetes node below a worker says to Slurm. Pure.

    cordoned            drained, and when no job is left the worker moves: forgotten, deleted, made again elsewhere
    tainted NoExecute   the same; Kubernetes itself would drive it out at once (see `fitting.STAYS`)
    not ready           drained; the worker stays, and comes back with its node
    gone                drained; Kubernetes takes the pod away by itself

All with a reason of ours, which is lifted when the cause is gone and the worker is ready: not before, or a job would be
given to a slurmd that is not there. Somebody else's drain is never touched.
"""

import msgspec

from corral.kinds import names
from corral.kinds.nodeset.fitting import DRIVES_OUT, is_ready, theirs, untolerated
from corral.kube.models.core_v1 import Node, Pod

REASON_MAX = 200


class Trouble(msgspec.Struct, frozen=True):
    """Why no job should come. `leaves`: the worker is to move away, not only to wait. `is_peoples`: people say so."""

    why: str
    leaves: bool = False
    is_peoples: bool = False


def trouble_of(pod: Pod, machine: Node | None) -> Trouble | None:
    name = pod.spec.node_name
    if not name:
        return None
    if machine is None:
        return Trouble(f"Kubernetes node {name} is gone")
    if is_to_be_emptied(machine):
        return Trouble(f"Kubernetes node {name} is cordoned{_said_by_people(machine)}", leaves=True, is_peoples=True)
    if machine.spec.taints and (taint := untolerated(theirs(pod.spec.tolerations), machine, (DRIVES_OUT,))) is not None:
        return Trouble(f"Kubernetes node {name} has taint {taint.key}:{taint.effect}", leaves=True)
    return None if is_ready(machine) else Trouble(f"Kubernetes node {name} is not ready")


def is_to_be_emptied(machine: Node) -> bool:
    return machine.spec.unschedulable is True


def _said_by_people(machine: Node) -> str:
    """Why, and who, if `corral drain` was told."""
    why, who = (_readable(machine.metadata.annotations.get(key, "")) for key in (names.DRAIN_REASON, names.DRAINED_BY))
    return (f": {why}" if why else "") + (f" (by {who})" if who else "")


def _readable(text: str) -> str:
    """As it can stand in a line of `sinfo -R`, and as slurmctld gives it back."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())[:REASON_MAX].strip()


def says_else(old: Node | None, new: Node | None) -> bool:
    """Whether a change of a node can matter to its workers; kubelet writes much that does not."""
    return old is None or new is None or _said(old) != _said(new)


def _said(machine: Node) -> tuple[object, ...]:
    ready = tuple(one.status for one in machine.status.conditions if one.type == "Ready")
    return (
        machine.spec.unschedulable,
        machine.spec.taints,
        ready,
        machine.metadata.labels,
        machine.metadata.annotations,
        machine.metadata.deletion_timestamp,
    )
