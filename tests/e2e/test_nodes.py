"""Workers and the nodes below them, on a real cluster with real Slurm: evictions, cordons and rollouts kill no job."""

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.test_first_job import COMMAND, Lab, lab, quickstart

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

RUNNING = "until squeue -h -t RUNNING | grep -q worker-2; do sleep 0.2; done"
UNTIL_TOLD = "until test -e /tmp/enough; do sleep 0.5; done"
NOWHERE = "corral/slurm:there-is-no-such-image"


def nodeset(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lab.kubectl("get", "nodeset", "worker", "-o", "json"))
    return found


def not_settled(lab: Lab) -> str:
    """What is amiss until every worker is there, ready, and made from what is asked for."""
    found = nodeset(lab)
    status, generation = found["status"], found["metadata"]["generation"]
    ready = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), None)
    if ready is None:
        return "nobody has looked at it yet"
    counts = (status["readyReplicas"], status["updatedReplicas"], status["idle"] + status["allocated"])
    is_well = ready["status"] == "True" and ready["observedGeneration"] == generation and counts == (3, 3, 3)
    return "" if is_well else f"{counts}, {ready['reason']}: {ready['message']}"


def stopped(lab: Lab) -> bool:
    messages = [one["message"] for one in nodeset(lab)["status"].get("conditions", ())]
    return any("rollout waits for new workers" in message for message in messages)


def states(lab: Lab) -> list[str]:
    """Of every run of every job: one that was requeued has two."""
    return lab.on_controller("sacct", "-X", "-D", "-n", "-o", "State").split()


def not_reserved(lab: Lab) -> str:
    said = lab.on_controller("scontrol", "--oneliner", "show", "reservation")
    words = ("ReservationName=corral-worker", "Nodes=worker-[0-2]", "MAINT")
    return "" if all(word in said for word in words) else said or "no reservation"


def change(lab: Lab, spec: dict[str, Any]) -> None:
    lab.kubectl("patch", "nodeset", "worker", "--type=merge", "-p", json.dumps({"spec": spec}))


def corral(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(lab.cluster.kubeconfig)}
    return subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=300)


def test_eviction_cordon_and_rollout_let_jobs_end(lab: Lab) -> None:
    lab.kubectl("apply", "-f", "-", stdin=quickstart("26.05"))
    lab.until("all workers are there", lambda: not_settled(lab))
    lab.on_controller("sbatch", "-w", "worker-2", "--output=/dev/null", "--wrap", UNTIL_TOLD)
    lab.on_controller("sh", "-c", RUNNING)
    machine = lab.kubectl("get", "pod", "worker-2", "-o", "jsonpath={.spec.nodeName}")
    try:
        refused = corral(lab, "drain", machine, "--reason", "new fan", "--timeout", "1s")
        assert (refused.returncode, "waiting for" in refused.stderr) == (1, True), refused.stderr
        evicted = lab.cluster.try_kubectl(
            "-n",
            lab.namespace,
            "drain",
            machine,
            "--pod-selector=slurm.corral.dev/nodeset=worker",
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--force",
            "--timeout=5s",
        )
        assert evicted.returncode != 0
        assert "disruption budget" in evicted.stderr, evicted.stderr
        lab.until(
            "Slurm knows why the busy worker takes no job",
            lambda: "new fan" not in lab.on_controller("sinfo", "-h", "-n", "worker-2", "-O", "Reason:99"),
        )
        lab.kubectl("exec", "worker-2", "-c", "slurmd", "--", "touch", "/tmp/enough")
        lab.until("its job has ended", lambda: states(lab) != ["COMPLETED"])
        lab.until("no worker is left there", lambda: corral(lab, "drain", machine, "--reason", "x").returncode)
    finally:
        given_back = corral(lab, "undrain", machine)
    assert given_back.returncode == 0, given_back.stderr
    lab.until("all workers are back", lambda: not_settled(lab))

    change(lab, {"slurmd": {"image": NOWHERE}})
    lab.until("the rollout stops by itself", lambda: not stopped(lab))
    assert nodeset(lab)["status"]["readyReplicas"] == 2
    change(lab, {"slurmd": {"image": None}})
    lab.until("what was taken back is as it was", lambda: not_settled(lab))

    lab.on_controller("sbatch", "-w", "worker-1", "--output=/dev/null", "--wrap", "sleep 8")
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    change(lab, {"update": {"maxUnavailable": 2, "window": {"start": tomorrow}}, "extraConf": "Weight=7"})
    lab.until("Slurm keeps the nodes free for the rollout", lambda: not_reserved(lab))
    assert nodeset(lab)["status"]["updatedReplicas"] == 0
    change(lab, {"update": {"window": None}})
    lab.until("every worker was replaced", lambda: not_settled(lab))
    lab.until("nothing is reserved any more", lambda: not not_reserved(lab))
    assert "Weight=7" in lab.on_controller("scontrol", "show", "node", "worker-1")
    lab.until("the job that ran meanwhile has ended", lambda: states(lab) != ["COMPLETED"] * 2)
