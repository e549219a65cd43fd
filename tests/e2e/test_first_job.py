"""From `kubectl apply` to a finished job, on a real cluster with real Slurm; scale-in without losing one.

On the way somebody loses the volume with slurmctld's state: the cluster comes back, and knows that its jobs are gone.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from corral.testing.cluster import Cluster
from tests.kept_operator import COMMAND, KeptOperator

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).parents[2]
IMAGES_WITHIN_S = 900
LOOKED_EVERY_S = 0.5
WORKERS = ["worker-0", "worker-1", "worker-2"]
LOST = "pkill -STOP -x slurmctld; rm -rf /var/spool/slurmctld/saved/*; pkill -KILL -x slurmctld"
KILLED_TOO = 137  # a container whose first process ends takes our shell with it
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

    def wait(self, what: str, condition: str = "condition=Ready", within_s: int = 600) -> None:
        timeout = f"--timeout={within_s}s"
        self.kubectl("wait", f"--for={condition}", what, timeout, timeout_s=within_s + 30)

    def until(self, what: str, amiss: Callable[[], object], *, within_s: float = 600.0) -> None:
        """Look until nothing is amiss; what was seen last is in the message. A command that fails is amiss too."""
        deadline_s = time.monotonic() + within_s
        while True:
            try:
                seen = amiss()
            except AssertionError as error:
                seen = error
            if not seen:
                return
            assert time.monotonic() < deadline_s, f"{what}: not within {within_s:g} s; seen last: {seen}"
            time.sleep(LOOKED_EVERY_S)  # a real cluster: there is nothing to wait on


@cache
def provide_images(cluster: Cluster, *images: str) -> None:
    """Once in a run. A cluster that is not a local one of ours is taken to have them."""
    if cluster.name:
        command = [sys.executable, "-m", "images", *images, "--cluster", cluster.name]
        subprocess.run(command, check=True, cwd=CHECKOUT, timeout=IMAGES_WITHIN_S)


def quickstart(version: str) -> str:
    """The example, with this Slurm for those that choose one."""
    documents = list(yaml.safe_load_all((CHECKOUT / "examples" / "quickstart.yaml").read_text()))
    for document in documents:
        if document["kind"] in ("Accounting", "Controller"):
            document["spec"]["version"] = version
    return yaml.safe_dump_all(documents)


@cache
def definitions() -> str:
    return subprocess.run([*COMMAND, "crds"], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def lab(corral_cluster: Cluster, corral_namespace: str, tmp_path: Path) -> Iterator[Lab]:
    provide_images(corral_cluster, "slurm:26.05", "mariadb:11.8")
    corral_cluster.define(definitions())
    options = ["--health-port", "0", "--lease-namespace", corral_namespace]
    environment = {**os.environ, "KUBECONFIG": str(corral_cluster.kubeconfig)}
    operator = KeptOperator(*options, environment=environment, log=tmp_path / "operator.log")
    try:
        yield Lab(corral_cluster, corral_namespace)
        # Workers go some 30 s after slurmctld: a Controller may be deleted to be created again.
        every_kind = ("delete", "slurm", "--all", "-n", corral_namespace, "--timeout=300s")
        corral_cluster.kubectl(*every_kind, timeout_s=330)
    finally:
        operator.stop()


@pytest.mark.parametrize("version", ["26.05", "24.11"])
def test_one_apply_becomes_a_cluster_that_runs_and_records_jobs(lab: Lab, version: str) -> None:
    provide_images(lab.cluster, f"slurm:{version}")
    lab.kubectl("apply", "-f", "-", stdin=quickstart(version))
    lab.wait("nodeset/worker")
    lab.wait("controller/demo")

    names = lab.on_controller("srun", "-N3", "hostname").split()
    assert sorted(names) == WORKERS
    assert lab.on_controller("scontrol", "--version").split()[1].startswith(version)
    lab.on_controller("sbatch", "--wait", "--output=/dev/null", "--wrap", "true")
    assert "COMPLETED" in lab.on_controller("sacct", "-X", "-n", "-o", "State")

    a_lost_state_is_lived_with(lab)

    lab.on_controller("sbatch", "-w", "worker-2", "--output=/dev/null", "--wrap", "sleep 15")
    lab.on_controller("sh", "-c", RUNNING)  # one that was only accepted would wait for a worker
    lab.kubectl("scale", "nodeset", "worker", "--replicas=0")
    lab.wait("pod/worker-2", "delete")
    states = {state for name, state in recorded(lab) if name != "lost"}
    assert states == {"COMPLETED"}, recorded(lab)
    assert lab.on_controller("sinfo", "-h", "-N", "-o", "%N") == ""


def a_lost_state_is_lived_with(lab: Lab) -> None:
    lab.on_controller("sbatch", "--job-name=lost", "--output=/dev/null", "--wrap", "sleep 900")
    lab.until("the job has a record", lambda: ("lost", "RUNNING") not in recorded(lab))
    losing = ("exec", "demo-controller-0", "-c", "slurmctld", "--", "sh", "-c", LOST)
    done = lab.cluster.try_kubectl("-n", lab.namespace, *losing)
    assert done.returncode in (0, KILLED_TOO), done.stderr
    every_worker = ("sinfo", "-h", "-N", "-p", "all", "-t", "idle", "-o", "%N")
    lab.until("all workers are back", lambda: set(WORKERS) - set(lab.on_controller(*every_worker).split()))
    lab.until("the lost job's record is closed", lambda: ("lost", "RUNNING") in recorded(lab))
    told = ("get", "events.events.k8s.io", "-o", "jsonpath={..note}")
    lab.until("it is told", lambda: "started with an empty state" not in lab.kubectl(*told))


def recorded(lab: Lab) -> list[tuple[str, str]]:
    """Name and state of every job that slurmdbd knows."""
    lines = lab.on_controller("sacct", "-a", "-D", "-X", "-n", "-P", "-o", "JobName,State").splitlines()
    return [(name, state.split()[0]) for name, state in (line.split("|") for line in lines)]
