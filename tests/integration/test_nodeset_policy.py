"""A NodeSet that is deleted in the foreground would lose all its workers at once: the API server refuses it."""

import json
from collections.abc import Iterator

import pytest

from corral.install.generated import manifests
from corral.install.policies import policies
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.crd import crd_of, to_yaml
from corral.testing.cluster import Cluster
from corral.testing.localcluster import until

pytestmark = pytest.mark.cluster

FINALIZER = "test.corral.dev/holds"
NODESET = {
    "apiVersion": "slurm.corral.dev/v1alpha1",
    "kind": "NodeSet",
    "metadata": {"name": "gpu", "finalizers": [FINALIZER]},
    "spec": {"controllerRef": {"name": "slurm"}},
}


@pytest.fixture(autouse=True)
def _policy(corral_cluster: Cluster) -> Iterator[None]:
    corral_cluster.define(to_yaml(crd_of(NodeSet)))
    text = manifests(policies())
    corral_cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    yield
    corral_cluster.kubectl("delete", "-f", "-", stdin=text)


def deleted(cluster: Cluster, namespace: str, cascade: str, *, dry: bool = False) -> tuple[int, str]:
    flags = (f"--cascade={cascade}", "--wait=false", *(("--dry-run=server",) if dry else ()))
    done = cluster.try_kubectl("-n", namespace, "delete", "nodeset", "gpu", *flags)
    return done.returncode, done.stderr


def going(cluster: Cluster, namespace: str) -> list[str]:
    """Its finalizers, once it is being deleted."""
    meta = json.loads(cluster.kubectl("-n", namespace, "get", "nodeset", "gpu", "-o", "json"))["metadata"]
    return meta["finalizers"] if "deletionTimestamp" in meta else []


def test_in_the_foreground_it_is_refused_with_what_to_do_and_in_the_background_it_goes(
    corral_cluster: Cluster, corral_namespace: str
) -> None:
    cluster, namespace = corral_cluster, corral_namespace
    cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(NODESET))
    try:
        until("the policy is in force", lambda: deleted(cluster, namespace, "foreground", dry=True)[0] != 0, 30)
        code, told = deleted(cluster, namespace, "foreground")
        assert code != 0
        assert "loses all its workers at once, with their jobs. Delete it in the background" in told
        assert going(cluster, namespace) == []
        assert deleted(cluster, namespace, "background") == (0, "")
        assert going(cluster, namespace) == [FINALIZER]
        assert deleted(cluster, namespace, "foreground")[0] != 0, "also while it is being deleted"
        assert going(cluster, namespace) == [FINALIZER]
    finally:
        free = json.dumps({"metadata": {"finalizers": None}})
        cluster.kubectl("-n", namespace, "patch", "nodeset", "gpu", "--type=merge", f"--patch={free}")
        cluster.kubectl("-n", namespace, "delete", "nodeset", "gpu", "--ignore-not-found")


def test_a_finalizer_that_asks_for_the_foreground_is_refused_too(
    corral_cluster: Cluster, corral_namespace: str
) -> None:
    """`kubectl` always says how; whoever does not leaves it to such a finalizer."""
    cluster, namespace = corral_cluster, corral_namespace
    asking = {**NODESET, "metadata": {"name": "gpu", "finalizers": ["foregroundDeletion"]}}
    cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(asking))
    path = f"/apis/slurm.corral.dev/v1alpha1/namespaces/{namespace}/nodesets/gpu"
    try:
        until("the policy is in force", lambda: deleted(cluster, namespace, "foreground", dry=True)[0] != 0, 30)
        done = cluster.try_kubectl("delete", f"--raw={path}")
        assert "Delete it in the background" in done.stderr, (done.stdout, done.stderr)
    finally:
        assert deleted(cluster, namespace, "background") == (0, "")
