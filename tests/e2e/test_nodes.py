"""Workers and the nodes below them, on a real cluster with real Slurm: evictions, cordons and rollouts kill no job."""

import json
import os
import re
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from tests.e2e.test_first_job import Lab, lab, quickstart
from tests.kept_operator import COMMAND

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

RUNNING = "until squeue -h -t RUNNING | grep -q {}; do sleep 0.2; done"
UNTIL_TOLD = "until test -e /tmp/enough; do sleep 0.5; done"
OTHER_WORDS = 'dust: 2 "ä" \\ 1'
LONGER_THAN_A_POD_TAKES_S = 10.0
WINDOW_OPENS_IN = timedelta(seconds=15)
NOWHERE = "corral/slurm:there-is-no-such-image"
# Devices that every container has, in place of GPUs; and racks that workers join when they register.
BESIDE_SLURM_CONF = """
apiVersion: v1
kind: ConfigMap
metadata: {name: hardware}
data:
  gres.conf: |
    AutoDetect=off
    Name=gpu Type=h100 File=/dev/zero,/dev/full
  topology.yaml: |
    - topology: any
      cluster_default: true
      flat: true
    - topology: racks
      cluster_default: false
      tree:
        switches:
          - switch: room
            children: r[7-8]
          - switch: r7
          - switch: r8
---
"""
ADDED = """
apiVersion: v1
kind: Node
metadata: {name: corral-added, labels: {corral-test: added}}
status: {conditions: [{type: Ready, status: "True"}]}
"""


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


def with_files(manifests: str) -> str:
    documents = list(yaml.safe_load_all(manifests))
    controller = next(one for one in documents if one["kind"] == "Controller")
    controller["spec"]["configFileRefs"] = [{"name": "hardware"}]
    return yaml.safe_dump_all(documents)


def change(lab: Lab, spec: dict[str, Any]) -> None:
    lab.kubectl("patch", "nodeset", "worker", "--type=merge", "-p", json.dumps({"spec": spec}))


def corral(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(lab.cluster.kubeconfig)}
    return subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=300)


def shown(lab: Lab, worker: str) -> set[str]:
    """What its pod says of its state in Slurm."""
    conditions = json.loads(lab.kubectl("get", "pod", worker, "-o", "json"))["status"]["conditions"]
    return {one["type"].removeprefix("SlurmNodeState") for one in conditions if one["type"].startswith("SlurmNode")}


def workers(lab: Lab) -> set[str]:
    found = lab.kubectl("get", "pod", "-l", "slurm.corral.dev/nodeset=worker", "-o", "name").split()
    return {name.partition("/")[2] for name in found}


def why_drained(lab: Lab, worker: str) -> str:
    """With who said so to Slurm, and when."""
    found = re.search(r"Reason=(.*)", lab.on_controller("scontrol", "show", "node", worker))
    return found.group(1) if found else ""


def made_at(lab: Lab) -> list[datetime]:
    found = json.loads(lab.kubectl("get", "pod", "-l", "slurm.corral.dev/nodeset=worker", "-o", "json"))["items"]
    return [datetime.fromisoformat(one["metadata"]["creationTimestamp"]) for one in found]


def amiss(found: object, expected: object) -> str:
    return "" if found == expected else f"{found}, expected {expected}"


def said(lab: Lab) -> list[dict[str, str]]:
    return [one for one in nodeset(lab)["status"].get("conditions", ()) if one["type"] == "Ready"]


def test_eviction_cordon_and_rollout_let_jobs_end(lab: Lab) -> None:
    lab.kubectl("apply", "-f", "-", stdin=BESIDE_SLURM_CONF + with_files(quickstart("26.05")))
    lab.until("all workers are there", lambda: not_settled(lab))
    lab.on_controller("sbatch", "-w", "worker-2", "--output=/dev/null", "--wrap", UNTIL_TOLD)
    lab.on_controller("sh", "-c", RUNNING.format("worker-2"))
    machine = lab.kubectl("get", "pod", "worker-2", "-o", "jsonpath={.spec.nodeName}")
    try:
        refused = corral(lab, "drain", machine, "--reason", "new fan", "--timeout", "1s")
        assert (refused.returncode, "waiting for" in refused.stderr) == (1, True), refused.stderr
        lab.until("Slurm knows why", lambda: amiss("new fan (by " in why_drained(lab, "worker-2"), True))
        assert corral(lab, "drain", machine, "--reason", OTHER_WORDS, "--no-wait").returncode == 0
        told = f"is cordoned: {OTHER_WORDS} (by "
        lab.until("and that there is another reason", lambda: amiss(told in why_drained(lab, "worker-2"), True))
        since = why_drained(lab, "worker-2")
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
        assert why_drained(lab, "worker-2") == since  # it is not written again and again
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
    start = datetime.now(UTC).replace(microsecond=0) + WINDOW_OPENS_IN
    window = {"start": f"{start:%Y-%m-%dT%H:%M:%SZ}", "duration": "10m"}
    change(lab, {"update": {"maxUnavailable": 1, "window": window}, "extraConf": "Weight=7"})
    lab.until("Slurm keeps the nodes free for the rollout", lambda: not_reserved(lab))
    lab.until("every worker was replaced", lambda: not_settled(lab))
    assert min(made_at(lab)) >= start, (made_at(lab), start)
    lab.until("nothing is reserved any more", lambda: not not_reserved(lab))
    change(lab, {"update": {"maxUnavailable": 2, "window": None}})
    assert "Weight=7" in lab.on_controller("scontrol", "show", "node", "worker-1")
    lab.until("the job that ran meanwhile has ended", lambda: states(lab) != ["COMPLETED"] * 2)

    one_worker_a_machine_and_back(lab, machine)
    before = pods_that_do_not_end(lab)
    a_pod_that_somebody_deletes_ends_after_its_job(lab)
    a_record_follows_its_worker(lab)
    volumes_and_pins(lab, machine)
    pods_that_did_not_end_were_told(lab, before)
    deletion_waits_for_queued_jobs(lab)


def one_worker_a_machine_and_back(lab: Lab, machine: str) -> None:
    lab.until("pods show the states of idle workers", lambda: amiss(shown(lab, "worker-0"), {"Idle"}))
    lab.on_controller("sbatch", "-w", "worker-0", "--output=/dev/null", "--wrap", UNTIL_TOLD)
    lab.on_controller("sh", "-c", RUNNING.format("worker-0"))
    busy = {"Allocated", "Drain"}
    lab.kubectl("label", "--overwrite", "node", machine, "corral-test/rack=r7", "corral-test/gpus=2")
    change(
        lab,
        {
            "scalingMode": "DaemonSet",
            "template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
            "extraConf": "Weight=7 Features={corral-test/rack},{corral-test/none} "
            "Gres=gpu:h100:{corral-test/gpus} Topology=racks:{corral-test/rack}",
        },
    )
    lab.until("the machine has its own", lambda: amiss(workers(lab), {"worker-0", f"worker-{machine}"}))
    lab.until("the busy one shows that it is drained", lambda: amiss(shown(lab, "worker-0"), busy))
    try:
        lab.kubectl("apply", "-f", "-", stdin=ADDED)
        lab.until("a machine that does not match gets none", lambda: amiss(nodeset(lab)["status"]["desired"], 1))
        lab.kubectl("label", "node", "corral-added", "kubernetes.io/os=linux")
        lab.until("one that does gets its worker", lambda: amiss("worker-corral-added" in workers(lab), True))
    finally:
        lab.kubectl("delete", "node", "corral-added", "--ignore-not-found")
    lab.until("its worker goes with it", lambda: amiss(workers(lab), {"worker-0", f"worker-{machine}"}))
    lab.kubectl("exec", "worker-0", "-c", "slurmd", "--", "touch", "/tmp/enough")
    lab.until("the old one went after its job", lambda: amiss(workers(lab), {f"worker-{machine}"}))
    lab.until("its job has ended well", lambda: amiss(states(lab), ["COMPLETED"] * 3))
    told = lab.on_controller("sinfo", "-h", "-n", f"worker-{machine}", "-o", "%f %G").split()[:2]
    assert told == ["worker,r7", "gpu:h100:2"], told
    on_record = lab.on_controller("scontrol", "show", "node", f"worker-{machine}")
    assert re.search(r"Topology=racks:\S*r7\s", on_record), on_record
    lab.kubectl("label", "node", machine, "corral-test/rack-", "corral-test/gpus-")
    change(lab, {"scalingMode": "StatefulSet"})
    lab.until("ordinals are back", lambda: not_settled(lab))
    nodes = set(lab.on_controller("sinfo", "-h", "-N", "-o", "%N").split())
    assert nodes == workers(lab) == {"worker-0", "worker-1", "worker-2"}


def a_record_follows_its_worker(lab: Lab) -> None:
    """slurmctld would keep the CPUs that a node registered with first, and what it set aside."""
    limits = {"limits": {"cpu": "2", "memory": "640Mi"}}
    aside = "Weight=7 MemSpecLimit=64"
    change(lab, {"update": {"strategy": "OnDelete"}, "slurmd": {"resources": limits}, "extraConf": aside})
    lab.until("that is known", lambda: "OnDelete" not in " ".join(one["message"] for one in said(lab)))
    lab.kubectl("delete", "pod", "worker-0")

    def registered() -> list[bool]:
        words = lab.on_controller("scontrol", "show", "node", "worker-0").split()
        return [word in words for word in ("CPUTot=2", "MemSpecLimit=64")]

    lab.until("it registered with its new CPUs", lambda: amiss(registered(), [True, True]))


def uid(lab: Lab, pod: str) -> str:
    return lab.kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")


def steps_on(lab: Lab, worker: str) -> list[str]:
    said = lab.kubectl("exec", worker, "-c", "slurmd", "--", "/usr/libexec/corral/slurmd-steps")
    found: list[str] = json.loads(said)["steps"]
    return found


def a_pod_that_somebody_deletes_ends_after_its_job(lab: Lab) -> None:
    """Kubernetes itself has no way to take a deletion back: the pod waits, and gets no more jobs meanwhile.

    The job is on two nodes, and runs a step on the second only at its beginning and its end.
    """
    lab.until("all workers are there", lambda: not_settled(lab))
    script = f"srun true; {UNTIL_TOLD}; srun true"
    job = ("sbatch", "--parsable", "-N2", "-w", "worker-[0-1]", "--output=/dev/null", "--wrap", script)
    number = lab.on_controller(*job).strip()
    first = ("sacct", "-n", "-j", f"{number}.0", "-o", "State")
    lab.until("its first step has ended", lambda: amiss(lab.on_controller(*first).split(), ["COMPLETED"]))
    pair = ("worker-0", "worker-1")
    batch = [[], [f"{number}.batch"]]
    lab.until("one runs no step", lambda: amiss(sorted(steps_on(lab, one) for one in pair), batch))
    before = {one: uid(lab, one) for one in pair}
    holder = next(one for one in pair if steps_on(lab, one))
    lab.kubectl("delete", "pod", *pair, "--wait=false")
    states = ("sinfo", "-h", "-N", "-p", "all", "-n", "worker-[0-1]", "-O", "StateLong:20")
    lab.until("they get no more jobs", lambda: amiss(lab.on_controller(*states).split(), ["draining"] * 2))
    time.sleep(LONGER_THAN_A_POD_TAKES_S)
    assert {one: uid(lab, one) for one in pair} == before
    lab.kubectl("exec", holder, "-c", "slurmd", "--", "touch", "/tmp/enough")
    lab.until("there are others in their place", lambda: [one for one in pair if uid(lab, one) in ("", before[one])])
    lab.until("which take jobs", lambda: not_settled(lab))
    recorded = lab.on_controller("sacct", "-X", "-D", "-n", "-j", number, "-o", "State").split()
    assert recorded == ["COMPLETED"], recorded


EVENTS = 'jsonpath={range .items[*]}{.reason} {.note}{"\\n"}{end}'
DEAF = """
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {name: deaf}
spec:
  controllerRef: {name: demo}
  replicas: 2
  forceDrainAfterSeconds: 60
  slurmd:
    resources: {limits: {cpu: "1", memory: 256Mi}, requests: {cpu: 20m, memory: 32Mi}}
  template:
    spec:
      containers:
        - name: deaf
          image: corral/slurm:26.05
          command: [sh, -c, "trap '' TERM; until test -e /tmp/hears; do sleep 0.5; done"]
"""


def pods_that_do_not_end(lab: Lab) -> dict[str, str]:
    """A container of theirs does not hear its TERM; and one has a job that outlasts what people allow."""
    lab.kubectl("apply", "-f", "-", stdin=DEAF)
    lab.wait("nodeset/deaf")
    lab.on_controller("sbatch", "-p", "all", "-w", "deaf-1", "--no-requeue", "-o", "/dev/null", "--wrap", "sleep 9000")
    lab.on_controller("sh", "-c", RUNNING.format("deaf-1"))
    before = {pod: uid(lab, pod) for pod in ("deaf-0", "deaf-1")}
    lab.kubectl("delete", "pod", *before, "--wait=false")
    return before


def pods_that_did_not_end_were_told(lab: Lab, before: dict[str, str]) -> None:
    """Kubelet waits for a deaf container as long as it was told first, whoever tells it what later."""
    lab.until("their slurmds have ended", lambda: [one for one in before if not has_no_slurmd(lab, one)])
    lab.until("people are told", lambda: [one for one in before if f"pod of {one} was deleted, its" not in deaf(lab)])
    told = lab.kubectl("get", "events.events.k8s.io", "-o", EVENTS).splitlines()
    assert any(line.startswith("JobsToBeKilled") for line in told), told  # those in the same words are one series
    assert len([line for line in told if line.startswith("JobsKilled")]) == 1, told
    assert all("running job: " in line for line in told if line.startswith("Jobs")), told
    for worker in before:
        lab.kubectl("exec", worker, "-c", "deaf", "--", "touch", "/tmp/hears")
    lab.until("others are in their place", lambda: [one for one, was in before.items() if uid(lab, one) in ("", was)])
    lab.wait("nodeset/deaf")
    lab.kubectl("delete", "nodeset", "deaf")  # Corral itself gives them little time


def has_no_slurmd(lab: Lab, worker: str) -> bool:
    done = lab.cluster.try_kubectl("-n", lab.namespace, "exec", worker, "-c", "slurmd", "--", "true")
    return done.returncode != 0 and "container not found" in done.stderr


def deaf(lab: Lab) -> str:
    conditions = json.loads(lab.kubectl("get", "nodeset", "deaf", "-o", "json"))["status"]["conditions"]
    return " ".join(one["message"] for one in conditions)


VOLUMES = """
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {name: data}
spec:
  controllerRef: {name: demo}
  pinToNode: true
  slurmd:
    resources: {limits: {cpu: "1", memory: 256Mi}, requests: {cpu: 20m, memory: 32Mi}}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumeClaimTemplates:
    - metadata: {name: scratch}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
"""


def volumes_and_pins(lab: Lab, machine: str) -> None:
    def pinned() -> object:
        return json.loads(lab.kubectl("get", "nodeset", "data", "-o", "json"))["status"].get("ordinalToNode")

    lab.kubectl("apply", "-f", "-", stdin=VOLUMES)
    lab.until("it is remembered where the worker is", lambda: amiss(pinned(), {"0": machine}))
    lab.wait("nodeset/data")
    lab.kubectl("exec", "data-0", "-c", "slurmd", "--", "touch", "/scratch/kept")
    lab.kubectl("delete", "pod", "data-0")
    kept = ("exec", "data-0", "-c", "slurmd", "--", "ls", "/scratch")
    lab.until("it is back with its volume", lambda: amiss("kept" in lab.kubectl(*kept), True))
    lab.kubectl("scale", "nodeset", "data", "--replicas=0")
    lab.until(
        "its volume goes after it", lambda: amiss(lab.kubectl("get", "pvc", "scratch-data-0", "--ignore-not-found"), "")
    )
    assert "data-0" not in lab.kubectl("get", "pods", "-o", "name")
    lab.kubectl("delete", "nodeset", "data")


def deletion_waits_for_queued_jobs(lab: Lab) -> None:
    """A job that waits in a partition which goes would fail with it."""
    number = lab.on_controller("sbatch", "-H", "--parsable", "--output=/dev/null", "--wrap", "true").strip()
    lab.kubectl("delete", "nodeset", "worker", "--wait=false")
    lab.until(
        "deletion names the job",
        lambda: amiss(f"partition worker, which is deleted too: {number}." in said(lab)[0]["message"], True),
    )
    lab.until("workers are gone", lambda: amiss(workers(lab), set()))
    state = "State=INACTIVE"
    lab.until(
        "no job comes", lambda: amiss(state in lab.on_controller("scontrol", "show", "partition", "worker"), True)
    )
    lab.on_controller("scancel", number)
    lab.wait("nodeset/worker", "delete")
    assert "JobState=CANCELLED" in lab.on_controller("scontrol", "show", "job", number)
