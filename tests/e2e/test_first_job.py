"""From `kubectl apply` to a finished job, on a real cluster with real Slurm; scale-in without losing one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-c", "from corral.cli.main import main; main()")
IMAGES_WITHIN_S = 900
RUNNING = "until squeue -h -t RUNNING | grep -q worker-2; do sleep 0.2; done"


class Lab:
    """A namespace with the quickstart's cluster in it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def kubectl(self, *arguments: str, timeout_s: float = 240.0, stdin: str = "") -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin, timeout_s=timeout_s)

    def on_controller(self, *command: str) -> str:
        return self.kubectl("exec", "demo-controller-0", "-c", "slurmctld", "--", *command)

    def wait(self, what: str, condition: str = "condition=Ready", within: str = "180s") -> None:
        self.kubectl("wait", f"--for={condition}", what, f"--timeout={within}")


@pytest.fixture
def lab(corral_cluster: Cluster, corral_namespace: str, tmp_path: Path) -> Iterator[Lab]:
    images = [sys.executable, "-m", "images", "slurm:26.05", "mariadb:11.8", "--cluster", corral_cluster.name]
    subprocess.run(images, check=True, cwd=CHECKOUT, timeout=IMAGES_WITHIN_S)
    crds = subprocess.run([*COMMAND, "crds"], capture_output=True, text=True, check=True).stdout
    corral_cluster.define(crds)
    options = ["--health-port", "0", "--lease-namespace", corral_namespace]
    environment = {**os.environ, "KUBECONFIG": str(corral_cluster.kubeconfig)}
    with (tmp_path / "operator.log").open("wb") as log:
        operator = subprocess.Popen([*COMMAND, "run", *options], env=environment, stderr=log)
        try:
            yield Lab(corral_cluster, corral_namespace)
            corral_cluster.kubectl(
                "delete", "nodeset,restapi,controller,accounting", "--all", "-n", corral_namespace, "--timeout=120s",
                timeout_s=150,
            )  # fmt: skip
        finally:
            operator.send_signal(signal.SIGTERM)
            assert operator.wait(timeout=60) == 0, (tmp_path / "operator.log").read_text()[-4000:]


def test_one_apply_becomes_a_cluster_that_runs_and_records_jobs(lab: Lab) -> None:
    lab.kubectl("apply", "-f", str(CHECKOUT / "examples" / "quickstart.yaml"))
    lab.wait("nodeset/worker")
    lab.wait("controller/demo")

    names = lab.on_controller("srun", "-N3", "hostname").split()
    assert sorted(names) == ["worker-0", "worker-1", "worker-2"]
    lab.on_controller("sbatch", "--wait", "--output=/dev/null", "--wrap", "true")
    assert "COMPLETED" in lab.on_controller("sacct", "-X", "-n", "-o", "State")

    lab.on_controller("sbatch", "-w", "worker-2", "--output=/dev/null", "--wrap", "sleep 15")
    lab.on_controller("sh", "-c", RUNNING)  # one that was only accepted would wait for a worker
    lab.kubectl("scale", "nodeset", "worker", "--replicas=0")
    lab.wait("pod/worker-2", "delete")
    states = lab.on_controller("sacct", "-X", "-n", "-o", "State").split()
    assert set(states) == {"COMPLETED"}, states
    assert lab.on_controller("sinfo", "-h", "-N", "-o", "%N") == ""
