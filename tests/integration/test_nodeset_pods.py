"""What the real API server lets Corral do to the pods of workers."""

import json
from typing import Any

import msgspec
import pytest

from corral.kinds.nodeset.fitting import STAYS, staying
from corral.kube.models.core_v1 import Toleration
from corral.testing.cluster import Cluster

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
