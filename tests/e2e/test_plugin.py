"""The fixtures of the pytest plugin, on the cluster that a run shares."""

from pathlib import Path

import pytest

from corral.kube.models.core_v1 import ConfigMap
from corral.testing.artifacts import collect, folder_name
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster


def test_a_failed_test_leaves_its_report_events_and_manifests_and_no_secret(
    corral_cluster: Cluster, corral_namespace: str, tmp_path: Path
) -> None:
    scope = f"--namespace={corral_namespace}"
    corral_cluster.kubectl("create", "configmap", "evidence", "--from-literal=key=to be found", scope)
    corral_cluster.kubectl("create", "secret", "generic", "hidden", "--from-literal=key=not to be found", scope)

    collect(corral_cluster, corral_namespace, tmp_path / "folder", "what went wrong")

    manifests = (tmp_path / "folder" / "manifests.yaml").read_text()
    assert "to be found" in manifests
    assert "hidden" not in manifests
    assert (tmp_path / "folder" / "report.txt").read_text() == "what went wrong"
    assert (tmp_path / "folder" / "events.txt").exists()


async def test_a_client_of_the_cluster_finds_the_namespace_of_the_test(
    corral_cluster: Cluster, corral_namespace: str
) -> None:
    async with corral_cluster.client() as client:
        found = await client.get(ConfigMap, "kube-root-ca.crt", corral_namespace)

    assert found.metadata.namespace == corral_namespace


def test_a_namespace_belongs_to_one_test(corral_cluster: Cluster, corral_namespace: str) -> None:
    assert corral_namespace.startswith("test-a-namespace-belongs-to-one-test-")


def test_a_folder_name_has_no_character_that_a_shell_or_a_disk_minds() -> None:
    assert folder_name("tests/e2e/test_x.py::test_y[a b/c]") == "tests_e2e_test_x.py_test_y_a_b_c"
