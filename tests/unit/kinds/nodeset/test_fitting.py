"""Which Kubernetes nodes a pod is meant for, and which would let it in now."""

from typing import Any

import msgspec
import pytest

from corral.kinds.nodeset.fitting import bound_to, matches, takes
from corral.kube.models.core_v1 import Node, PodSpec


def a_machine(name: str = "m1", **given: Any) -> Node:
    labels = {"kubernetes.io/hostname": name, "gpu": "h100", "slots": "8"}
    status = {"conditions": [{"type": "Ready", "status": given.pop("ready", "True")}]}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "spec": given, "status": status}, Node)


def a_pod_spec(**given: Any) -> PodSpec:
    return msgspec.convert({"containers": [{"name": "slurmd"}], **given}, PodSpec)


def required(*terms: dict[str, Any]) -> PodSpec:
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return a_pod_spec(affinity={"nodeAffinity": node_affinity})


def says(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (says("gpu", "In", "a100", "h100"), True),
        (says("gpu", "In", "a100"), False),
        (says("gpu", "NotIn", "a100"), True),
        (says("ssd", "NotIn", "yes"), True),
        (says("gpu", "Exists"), True),
        (says("ssd", "Exists"), False),
        (says("ssd", "DoesNotExist"), True),
        (says("slots", "Gt", "7"), True),
        (says("slots", "Lt", "8"), False),
        (says("gpu", "Gt", "7"), False),
        (says("gpu", "Resembles", "h100"), False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m1"]}]}, True),
        (
            {**says("gpu", "Exists"), "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]},
            False,
        ),
        ({}, False),
    ],
)
def test_required_affinity_is_read_as_kubernetes_reads_it(term: dict[str, Any], fits: bool) -> None:
    assert matches(required(term), a_machine()) is fits


def test_one_of_several_terms_is_enough_and_a_selector_must_hold_as_well() -> None:
    either = required(says("gpu", "In", "a100"), says("gpu", "In", "h100"))
    assert matches(either, a_machine())
    assert not matches(msgspec.structs.replace(either, node_selector={"gpu": "a100"}), a_machine())
    assert matches(a_pod_spec(nodeSelector={"gpu": "h100"}), a_machine())
    assert matches(a_pod_spec(), a_machine())


MINE = {"key": "team", "value": "physics", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "machine", "lets_in"),
    [
        ([], a_machine(), True),
        ([], a_machine(unschedulable=True), False),
        ([], a_machine(ready="Unknown"), False),
        ([], a_machine(taints=[MINE]), False),
        ([{"key": "team", "operator": "Exists"}], a_machine(taints=[MINE]), True),
        ([{"key": "team", "value": "physics"}], a_machine(taints=[MINE]), True),
        ([{"key": "team", "value": "biology"}], a_machine(taints=[MINE]), False),
        ([{"operator": "Exists"}], a_machine(taints=[{**MINE, "effect": "NoExecute"}]), True),
        ([], a_machine(taints=[{**MINE, "effect": "PreferNoSchedule"}]), True),
        ([], a_machine(taints=[{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]), True),
    ],
)
def test_a_node_lets_a_pod_in_unless_cordoned_unready_or_tainted(
    tolerations: list[dict[str, str]], machine: Node, lets_in: bool
) -> None:
    assert takes(a_pod_spec(tolerations=tolerations), machine) is lets_in


def test_a_bound_pod_fits_its_node_only_and_keeps_its_other_wishes() -> None:
    spread = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    bound = bound_to(a_pod_spec(affinity=spread), "m1")
    assert [matches(bound, a_machine(name)) for name in ("m1", "m2")] == [True, False]
    assert bound.affinity is not None
    assert bound.affinity.pod_anti_affinity is not None
