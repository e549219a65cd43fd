"""The fixtures of the pytest plugin, on the cluster that a run shares."""

import os
import subprocess
import sys
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


FAILING_TESTS = """
import pytest

def start_talking(cluster, namespace):
    command = ("sh", "-c", "echo said by the pod; exec sleep infinity")
    cluster.kubectl("run", "talker", "-n", namespace, "--image=corral.local/toolbox:1", "--command", "--", *command)
    cluster.kubectl("wait", "pod/talker", "-n", namespace, "--for=condition=Ready", "--timeout=60s", timeout_s=90)

def test_that_fails(corral_cluster, corral_namespace):
    start_talking(corral_cluster, corral_namespace)
    assert "this" == "that"

@pytest.fixture
def broken(corral_cluster, corral_namespace):
    start_talking(corral_cluster, corral_namespace)
    assert "here" == "there"

def test_of_a_broken_fixture(broken):
    pass
"""


@pytest.fixture
def failed_run(corral_cluster: Cluster, tmp_path: Path) -> str:
    """What a pytest of somebody else's tests says, in a folder of its own; it leaves what it collects there."""
    corral_cluster.provide_toolbox()
    (tmp_path / "test_theirs.py").write_text(FAILING_TESTS)
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir=.", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**theirs, "CORRAL_TEST_KUBECONFIG": str(corral_cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "1 failed, 1 error" in done.stdout, done.stdout + done.stderr
    return done.stdout


def test_a_test_that_fails_itself_or_in_a_fixture_leaves_logs_events_and_manifests(
    failed_run: str, tmp_path: Path
) -> None:
    for test, reason in (("test_that_fails", '"this" == "that"'), ("test_of_a_broken_fixture", '"here" == "there"')):
        folder = tmp_path / ".artifacts" / folder_name(f"test_theirs.py::{test}")
        left = {file.name: file.read_text() for file in folder.iterdir()}
        assert f"events, logs and manifests are in {folder}" in failed_run
        assert reason in left["report.txt"]
        assert "said by the pod" in left["pod_talker.log"]
        assert "Started" in left["events.txt"]
        assert "name: talker" in left["manifests.yaml"]


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
