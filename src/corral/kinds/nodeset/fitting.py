"""On which Kubernetes nodes a pod may run, by its own words: nodeSelector, affinity, tolerations. Pure.

As Kubernetes decides it for DaemonSets. What its own taints (`node.kubernetes.io/`) say is read from where they come
from: a cordon and the Ready condition.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from corral.kube.models.core_v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Taint,
    Toleration,
)

OWN_TAINTS = "node.kubernetes.io/"  # Kubernetes' own words for what conditions and cordons say
OUT_OF_SERVICE = f"{OWN_TAINTS}out-of-service"  # but for this one, by which people say that a node is dead
DRIVES_OUT = "NoExecute"
KEEPS_OUT = ("NoSchedule", DRIVES_OUT)
# No worker is driven out: a taint, or a kubelet that was cut off, would kill its jobs, whatever a budget says. Whom
# such a taint is meant to drive out is drained, and moves when its jobs have ended (see `machine`).
STAYS = Toleration(operator="Exists", effect=DRIVES_OUT)


def matches(spec: PodSpec, machine: Node) -> bool:
    """Whether the node is one of those that the pod is meant for."""
    labels, required = machine.metadata.labels, _required(spec)
    selected = all(labels.get(key) == value for key, value in spec.node_selector.items())
    return selected and (required is None or any(_fits(term, machine) for term in required.node_selector_terms))


def takes(spec: PodSpec, machine: Node) -> bool:
    """Whether a new pod would be let onto the node now."""
    if machine.spec.unschedulable or machine.metadata.deletion_timestamp is not None:
        return False
    return is_ready(machine) and untolerated(spec.tolerations, machine, KEEPS_OUT) is None


def is_ready(machine: Node) -> bool:
    """One without the condition is taken to be."""
    for one in machine.status.conditions:
        if one.type == "Ready":
            return one.status == "True"
    return True


def untolerated(tolerations: Iterable[Toleration], machine: Node, effects: Iterable[str]) -> Taint | None:
    if not machine.spec.taints:
        return None
    known = tuple(tolerations)
    taints = (one for one in machine.spec.taints if one.effect in effects and not _is_said_elsewhere(one))
    return next((taint for taint in taints if not any(_tolerates(one, taint) for one in known)), None)


def drives_out(machine: Node) -> bool:
    """Whether whoever does not tolerate it is to leave the node."""
    return untolerated((), machine, (DRIVES_OUT,)) is not None


def staying(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Ours is first: of several that fit, Kubernetes takes the first, and others may be for a while only."""
    return (STAYS, *tolerations)


def theirs(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """What people said, without ours."""
    said = list(tolerations)
    if STAYS in said:
        said.remove(STAYS)
    return tuple(said)


def bound_to(spec: PodSpec, machine: str) -> PodSpec:
    """The scheduler puts it there and nowhere else; what else the pod says of nodes was asked before."""
    here = NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(machine,)),)
    )
    affinity = spec.affinity or Affinity()
    of_nodes = affinity.node_affinity or NodeAffinity()
    pinned = replace(
        of_nodes, required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(here,))
    )
    return replace(spec, affinity=replace(affinity, node_affinity=pinned))


def _required(spec: PodSpec) -> NodeSelector | None:
    of_nodes = spec.affinity.node_affinity if spec.affinity else None
    return of_nodes.required_during_scheduling_ignored_during_execution if of_nodes else None


def _fits(term: NodeSelectorTerm, machine: Node) -> bool:
    """An empty term fits nothing."""
    fields = {"metadata.name": machine.metadata.name}
    asked = [_holds(one, machine.metadata.labels) for one in term.match_expressions]
    asked += [_holds(one, fields) for one in term.match_fields]
    return bool(asked) and all(asked)


def _holds(asked: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    value = values.get(asked.key)
    match asked.operator:
        case "In":
            return value in asked.values
        case "NotIn":
            return value not in asked.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(asked.operator, value, asked.values)
        case _:
            return False


def _compares(operator: str, value: str, than: tuple[str, ...]) -> bool:
    try:
        left, right = int(value), int(*than)
    except (TypeError, ValueError):
        return False
    return left > right if operator == "Gt" else left < right


def _is_said_elsewhere(taint: Taint) -> bool:
    return taint.key.startswith(OWN_TAINTS) and taint.key != OUT_OF_SERVICE


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """As Kubernetes decides it; one that tolerates for a while only does not keep the worker."""
    if toleration.effect not in ("", taint.effect) or toleration.toleration_seconds is not None:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value
