"""What the real API server lets Corral do to the pods of workers."""

import json
from typing import Any

import msgspec
import pytest

from corral.kinds.nodeset.fitting import STAYS, staying
from corral.kinds.nodeset.resized import is_resized
from corral.kinds.nodeset.worker import worker_pod
from corral.kinds.nodeset.workers import Place
from corral.kube.models.core_v1 import Pod, Toleration
from corral.testing.cluster import Cluster
from tests.unit.kinds.nodeset.builders import SLURM, a_nodeset

pytestmark = pytest.mark.cluster


def a_pod(name: str, *tolerations: Toleration) -> str:
    """One that nobody schedules."""
    spec = {
        "schedulerName": "nobody",
        "containers": [{"name": "slurmd", "image": "corral/slurm:26.05"}],
        "tolerations": msgspec.to_builtins(tolerations),
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def tolerations(cluster: Cluster, namespace: str, name: str) -> list[Toleration]:
    found: dict[str, Any] = json.loads(cluster.kubectl("-n", namespace, "get", "pod", name, "-o", "json"))
    return msgspec.convert(found["spec"]["tolerations"], list[Toleration])


def test_a_pod_that_is_there_can_be_told_to_stay_whatever_drives_pods_out(
    corral_cluster: Cluster, corral_namespace: str
) -> None:
    """Tolerations may be added to, and the server's own, which are for five minutes, come behind ours."""
    cluster, namespace = corral_cluster, corral_namespace
    theirs = Toleration(key="x", operator="Exists", effect="NoExecute", toleration_seconds=60)
    cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=a_pod("gpu-0", theirs))
    before = tolerations(cluster, namespace, "gpu-0")
    assert {one.toleration_seconds for one in before} == {60, 300}
    told = json.dumps({"spec": {"tolerations": msgspec.to_builtins(staying(before))}})
    cluster.kubectl("-n", namespace, "patch", "pod", "gpu-0", "--type=merge", f"--patch={told}")
    assert tolerations(cluster, namespace, "gpu-0") == [STAYS, *before]


def test_one_that_is_made_with_it_gets_no_other(corral_cluster: Cluster, corral_namespace: str) -> None:
    corral_cluster.kubectl("-n", corral_namespace, "create", "-f", "-", stdin=a_pod("gpu-0", STAYS))
    assert tolerations(corral_cluster, corral_namespace, "gpu-0") == [STAYS]


def test_a_worker_that_is_resized_in_place_is_noticed_by_its_generation_and_its_limits(
    corral_cluster: Cluster, corral_namespace: str
) -> None:
    """The generation grows with a change of the spec, and with no other: not when a pod is bound or told its state."""
    nodeset = a_nodeset(slurmd={"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}})
    made = worker_pod(nodeset, SLURM, Place(name="gpu-0", ordinal=0))

    def kubectl(*arguments: str, stdin: str = "") -> str:
        return corral_cluster.kubectl("-n", corral_namespace, *arguments, stdin=stdin)

    def found(name: str) -> Pod:
        return msgspec.json.decode(kubectl("get", "pod", name, "-o", "json"), type=Pod)

    for name in ("gpu-0", "gpu-1"):
        content: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(made)}
        content["metadata"] |= {"name": name, "namespace": corral_namespace}
        content["spec"]["schedulerName"] = "nobody"
        kubectl("create", "-f", "-", stdin=json.dumps(content))
        status = json.dumps({"status": {"conditions": [{"type": "SlurmNodeStateIdle", "status": "True"}]}})
        kubectl("patch", "pod", name, "--subresource=status", f"--patch={status}")
    target = {"apiVersion": "v1", "kind": "Node", "name": "nowhere"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "gpu-1"}, "target": target}
    path = f"/api/v1/namespaces/{corral_namespace}/pods/gpu-1/binding"
    kubectl("create", f"--raw={path}", "-f", "-", stdin=json.dumps(binding))
    assert found("gpu-1").spec.node_name == "nowhere"
    assert [found(name).metadata.generation for name in ("gpu-0", "gpu-1")] == [1, 1]
    assert not is_resized(nodeset, made, found("gpu-0"))
    smaller = {"name": "slurmd", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}
    change = json.dumps({"spec": {"containers": [smaller]}})
    kubectl("patch", "pod", "gpu-0", "--subresource=resize", f"--patch={change}")
    assert (found("gpu-0").metadata.generation, is_resized(nodeset, made, found("gpu-0"))) == (2, True)
