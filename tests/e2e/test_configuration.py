"""A configuration that can be trusted, on a real cluster under load: one key of each class while a job runs.

Taken in place by slurmctld and slurmd, refused with a reason (by us, by the real daemon), restarted for, waited with.
"""

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from corral.testing.monitorcrd import service_monitor_crd
from tests.e2e.test_first_job import Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

CLUSTER = """
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {name: demo}
spec:
  configFileRefs: [{name: gpus}, {name: much}, {name: more}]
  prologScriptRefs: [{name: before}]
  epilogScriptRefs: [{name: after}]
  prologSlurmctldScriptRefs: [{name: first}]
  metrics: {enabled: true}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {name: worker}
spec:
  controllerRef: {name: demo}
  replicas: 1
  extraConf: Gres=gpu:h100:2
  slurmd:
    resources: {limits: {cpu: "2", memory: 512Mi}, requests: {cpu: 50m, memory: 64Mi}}
"""
# Devices that every container has, in place of GPUs.
GPUS = "AutoDetect=off\nName=gpu Type=h100 File=/dev/zero,/dev/full\n"
A_SCRIPT = "#!/bin/sh\ntouch /tmp/{}-$SLURM_JOB_ID\n"
MUCH = "x" * 79 + "\n"  # of such lines, more than one ConfigMap holds
LINES = 8000
UNTIL_TOLD = "until test -e /tmp/over; do sleep 0.5; done"
LOOKED_EVERY_S = 0.5
WITHIN_S = 600.0


def change(lab: Lab, extra_conf: str) -> None:
    lab.kubectl("patch", "controller", "demo", "--type=merge", "-p", json.dumps({"spec": {"extraConf": extra_conf}}))


def until(look: Callable[[], Any], expected: str, *, within_s: float = WITHIN_S) -> Any:
    """Look until there is something true to see, and return it."""
    deadline_s = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline_s, f"expected {expected} within {within_s:g} s"
        time.sleep(LOOKED_EVERY_S)  # a real cluster: there is nothing to wait on for all of these
    return found


def config_applied(lab: Lab, reason: str, *, within_s: float = WITHIN_S) -> str:
    """The message of ConfigApplied once it has this reason for the present generation."""
    deadline_s = time.monotonic() + within_s
    while True:
        found = json.loads(lab.kubectl("get", "controller", "demo", "-o", "json"))
        conditions = found.get("status", {}).get("conditions", [])
        said: dict[str, object] = next((c for c in conditions if c["type"] == "ConfigApplied"), {})
        current = said.get("observedGeneration") == found["metadata"]["generation"]
        if current and said["reason"] == reason:
            return str(said["message"])
        assert time.monotonic() < deadline_s, f"expected {reason}, found {said}"
        time.sleep(LOOKED_EVERY_S)  # a real cluster: there is nothing to wait on for a reason


def daemons(lab: Lab) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(
        lab.kubectl("get", "controller", "demo", "-o", "jsonpath={.status.daemons}")
    )
    return found


def started(lab: Lab) -> tuple[str, str]:
    """Which pod, and how often its container was started."""
    pod = json.loads(lab.kubectl("get", "pod", "demo-controller-0", "-o", "json"))
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["containerID"]


def value_of(lab: Lab, key: str) -> str:
    lines = lab.on_controller("scontrol", "show", "config").splitlines()
    return next(line.partition("=")[2].strip() for line in lines if line.split("=")[0].strip() == key)


def state_of(lab: Lab, job: str) -> str:
    words = lab.on_controller("scontrol", "show", "job", job, "-o").split()
    return next(word.partition("=")[2] for word in words if word.startswith("JobState="))


def a_config_map(name: str, file: str, text: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {file: text}})


def left_by(lab: Lab, script: str, job: str, pod: str = "worker-0") -> bool:
    looked = lab.cluster.try_kubectl("-n", lab.namespace, "exec", pod, "--", "test", "-e", f"/tmp/{script}-{job}")
    return looked.returncode == 0


def metrics(lab: Lab, path: str) -> str:
    host = lab.kubectl("get", "service", "demo-controller", "-o", "jsonpath={.spec.clusterIP}")
    with urllib.request.urlopen(f"http://{host}:6817{path}", timeout=30) as answer:
        return str(answer.read().decode())


def assert_monitored(lab: Lab) -> None:
    """As soon as the cluster knows the kind, Prometheus finds all figures; what others delete comes back."""
    lab.cluster.define(yaml.safe_dump(dict(service_monitor_crd())))
    try:
        made = until(lambda: monitor(lab), "a ServiceMonitor")
        labels = ",".join(f"{key}={value}" for key, value in made["spec"]["selector"]["matchLabels"].items())
        service = json.loads(lab.kubectl("get", "service", "-l", labels, "-o", "json"))["items"][0]
        ports = {port["name"] for port in service["spec"]["ports"]}
        for endpoint in made["spec"]["endpoints"]:
            assert endpoint["port"] in ports
            assert "# TYPE slurm_" in metrics(lab, endpoint["path"]), endpoint
        lab.kubectl("delete", "servicemonitor", "demo-controller")
        until(lambda: monitor(lab).get("metadata", {}).get("uid", made["metadata"]["uid"]) != made["metadata"]["uid"],
              "the ServiceMonitor made again")  # fmt: skip
    finally:
        lab.kubectl("delete", "crd", "servicemonitors.monitoring.coreos.com")


def monitor(lab: Lab) -> dict[str, Any]:
    asked = ("-n", lab.namespace, "get", "servicemonitor", "demo-controller", "-o", "json")
    looked = lab.cluster.try_kubectl(*asked)
    return json.loads(looked.stdout) if looked.returncode == 0 else {}


def a_job(lab: Lab) -> str:
    """One that runs until somebody says that it is over."""
    command = ("sbatch", "--parsable", "--mem=50", "--output=/dev/null", "--wrap", UNTIL_TOLD)
    job = lab.on_controller(*command).strip()
    until(lambda: state_of(lab, job) == "RUNNING", f"job {job} to run")
    return job


def test_a_configuration_is_taken_in_place_or_refused_or_restarted_for_or_waits_for_jobs(lab: Lab) -> None:
    for name, file, text in (
        ("gpus", "gres.conf", GPUS),
        ("much", "much.txt", MUCH * LINES),
        ("more", "more.txt", MUCH * LINES),
        ("before", "before.sh", A_SCRIPT.format("before")),
        ("after", "after.sh", A_SCRIPT.format("after")),
        ("first", "first.sh", A_SCRIPT.format("first")),
    ):
        lab.kubectl("create", "-f", "-", stdin=a_config_map(name, file, text))
    lab.kubectl("apply", "-f", "-", stdin=CLUSTER)
    config_applied(lab, "Confirmed")
    sizes = lab.on_controller("sh", "-c", "cat /etc/slurm/much.txt | wc -c; cat /etc/slurm/more.txt | wc -c").split()
    assert sizes == [str(len(MUCH) * LINES)] * 2
    until(lambda: lab.on_controller("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split() == ["worker-0"], "a worker")
    first, job = started(lab), a_job(lab)

    # GPUs: the worker brings them, gres.conf comes to it from slurmctld, and a job gets what it asked for.
    assert lab.on_controller("sinfo", "-h", "-N", "-n", "worker-0", "-p", "all", "-o", "%G").split() == ["gpu:h100:2"]
    given = ("srun", "--mem=50", "--gres=gpu:h100:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $SLURM_STEP_GPUS")
    assert lab.on_controller(*given).split() == ["0", "0"]

    # Scripts come to slurmctld and to the workers, and run around each job.
    short = lab.on_controller("sbatch", "--parsable", "--mem=50", "--output=/dev/null", "--wait", "--wrap", "true")
    short = short.strip()
    assert left_by(lab, "first", short, "demo-controller-0")
    assert left_by(lab, "before", short)
    until(lambda: left_by(lab, "after", short), "the epilog of a job that has ended")

    # 26.05 tells its own figures, at the paths that a ServiceMonitor names.
    assert "slurm_nodes_idle" in metrics(lab, "/metrics/nodes")
    assert_monitored(lab)

    # Without privileges no job can be confined, and a worker that is to do it says why it does not start.
    confining = ("env", "SLURM_CONFINE_JOBS=yes", "SLURM_CONF_SERVER=nowhere:1", "/usr/libexec/corral/slurmd-run")
    refused = lab.cluster.try_kubectl("-n", lab.namespace, "exec", "worker-0", "-c", "slurmd", "--", *confining)
    assert (refused.returncode, "spec.confineJobs of the Controller" in refused.stderr) == (1, True), refused.stderr

    # In effect after a reconfigure: slurmctld is not restarted, and slurmd confirms it too.
    change(lab, "MinJobAge=3077")
    config_applied(lab, "Confirmed")
    assert value_of(lab, "MinJobAge") == "3077 sec"
    assert started(lab) == first
    assert daemons(lab)["slurmctld"]["yes"] == 1
    assert daemons(lab)["slurmd"] == {"yes": 1, "no": 0, "unknown": 0}

    # A file that the configuration refers to is looked at too: another text of it is another configuration.
    lab.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-",
                stdin=a_config_map("before", "before.sh", A_SCRIPT.format("other")))  # fmt: skip
    until(
        lambda: "other" in lab.kubectl("exec", "worker-0", "--", "cat", "/run/slurm/conf/before.sh"), "the new script"
    )

    # Wrong: found by the linter, with line and reason.
    change(lab, "MinJobAge=3078\nMinJobAg=79")
    assert "spec.extraConf: line 2: MinJobAg is no key" in config_applied(lab, "ConfigInvalid")

    # Wrong: found by the real daemon only.
    change(lab, "MinJobAge=3078\nJobSubmitPlugins=nosuch")
    assert "failed to initialize job_submit plugin" in config_applied(lab, "ConfigRefused")
    assert value_of(lab, "MinJobAge") == "3077 sec"
    assert started(lab) == first

    # Wrong: found by the very slurmctld that should run it, since the trial has no records of jobs. It stays as it was.
    change(lab, "MinJobAge=3079\nJobCompType=jobcomp/filetxt\nJobCompLoc=/nowhere/jobs")
    assert "kept what it had: fatal: open /nowhere/jobs" in config_applied(lab, "ConfigRefused")
    assert value_of(lab, "MinJobAge") == "3077 sec"
    assert started(lab) == first

    # A restart, announced; the job does not notice.
    change(lab, "MinJobAge=3080\nCommunicationParameters=block_null_hash")
    config_applied(lab, "Confirmed")
    assert value_of(lab, "MinJobAge") == "3080 sec"
    second = started(lab)
    assert second != first
    assert "cannot change CommunicationParameters" in lab.kubectl("get", "events", "-o", "jsonpath={..message}{..note}")
    assert state_of(lab, job) == "RUNNING"

    # What the job would not survive waits for it, and says so.
    change(lab, "MinJobAge=3081\nCommunicationParameters=block_null_hash\nTLSType=tls/none")
    said = config_applied(lab, "WaitingForJobs")
    assert "TLSType" in said
    assert f"1 job ({job})" in said
    assert started(lab) == second
    assert state_of(lab, job) == "RUNNING"
    lab.kubectl("exec", "worker-0", "--", "touch", "/tmp/over")
    config_applied(lab, "Confirmed")
    assert value_of(lab, "MinJobAge") == "3081 sec"
    assert started(lab) != second
    assert state_of(lab, job) == "COMPLETED"
    assert lab.on_controller("scontrol", "show", "partition", "all", "-o").count("State=UP") == 1

    # All of it was told.
    about = "regarding.kind=Controller"
    told = set(
        lab.kubectl("get", "events.events.k8s.io", "--field-selector", about, "-o", "jsonpath={..reason}").split()
    )
    assert {"Reconfigured", "ConfigInvalid", "ConfigRefused", "RestartNeeded"} <= told, told
