"""In any order: things are made before what they refer to, and deleted before what refers to them.

The order is drawn at random; CORRAL_TEST_SEED repeats one that was printed.
"""

import json
import os
import random
import secrets
from typing import Any

import pytest
import yaml

from tests.e2e.test_first_job import Lab, lab, quickstart

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

# What each says while it has nobody but itself. Accounting and Controller form a circle: the one waits for the other's
# keys, the other for the one.
ALONE = {
    "Accounting": "NoController",
    "Controller": "AccountingMissing",
    "RestApi": "ControllerMissing",
    "NodeSet": "ControllerMissing",
    "LoginSet": "ControllerMissing",
}
# The volumes of slurmctld's state, of the job records and of people's files outlive everything: that is the policy.
KEPT = {"PersistentVolumeClaim"}
OF_KUBERNETES = {"Event", "PodMetrics"}
BY_ITSELF = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
COUNT = "sacct -a -X -n -S now-1days | wc -l"


def everything(lab: Lab) -> list[tuple[str, str]]:
    """All that is in the namespace, of every kind that can be listed, but for what is always there."""
    kinds = lab.kubectl("api-resources", "--namespaced", "--verbs=list,delete", "-o", "name").split()
    items = json.loads(lab.kubectl("get", ",".join(sorted(kinds)), "-o", "json", "--ignore-not-found"))["items"]
    found = {(item["kind"], item["metadata"]["name"]) for item in items}
    return sorted(one for one in found - BY_ITSELF if one[0] not in OF_KUBERNETES | {"Lease"})


def not_ready(lab: Lab) -> list[str]:
    return [
        f"{item['kind']}: {ready.get('reason')}: {ready.get('message')}"
        for item in json.loads(lab.kubectl("get", "slurm", "-o", "json"))["items"]
        for ready in [condition(item, "Ready")]
        if ready.get("status") != "True" or ready.get("observedGeneration") != item["metadata"]["generation"]
    ]


def condition(item: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((one for one in item.get("status", {}).get("conditions", []) if one["type"] == kind), {})


def not_alone(lab: Lab, document: dict[str, Any]) -> str:
    """What it says instead of what it should say while it has nobody."""
    name = f"{document['kind']}.slurm.corral.dev/{document['metadata']['name']}"
    said = condition(json.loads(lab.kubectl("get", name, "-o", "json")), "Ready").get("reason")
    expected = ALONE[document["kind"]]
    return "" if said == expected else f"{said}, expected {expected}"


def test_things_come_and_go_in_any_order(lab: Lab) -> None:
    seed = int(os.environ.get("CORRAL_TEST_SEED") or secrets.randbelow(10**6))
    print(f"CORRAL_TEST_SEED={seed}")
    draw = random.Random(seed)
    documents = list(yaml.safe_load_all(quickstart("26.05")))

    first, *others = draw.sample(documents, len(documents))
    lab.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(first))
    lab.until(f"{first['kind']}, alone, says why it waits", lambda: not_alone(lab, first))
    for document in others:
        lab.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(document))
    lab.until("all that came later was picked up", lambda: not_ready(lab))
    lab.on_controller("srun", "-N3", "true")
    lab.until("its record is written", lambda: lab.on_controller("sh", "-c", COUNT).strip() != "1")

    for document in draw.sample(documents, len(documents)):
        kind, name = document["kind"], document["metadata"]["name"]
        lab.kubectl("delete", f"{kind}.slurm.corral.dev/{name}", "--wait=false")
    lab.until("nothing is left but what policy keeps", lambda: [one for one in everything(lab) if one[0] not in KEPT])
    assert {kind for kind, _name in everything(lab)} == KEPT

    lab.kubectl("apply", "-f", "-", stdin=quickstart("26.05"))
    lab.until("what was kept is used again", lambda: not_ready(lab))
    assert lab.on_controller("sh", "-c", COUNT).strip() == "1"
    a_job_outlives_its_cluster(lab)


def a_job_outlives_its_cluster(lab: Lab) -> None:
    """All is deleted while it runs, and all but its NodeSet comes back."""
    wrapped = "until test -e /tmp/enough; do sleep 0.5; done"
    job = lab.on_controller("sbatch", "--parsable", "-w", "worker-1", "--output=/dev/null", "--wrap", wrapped).strip()
    lab.on_controller("sh", "-c", f"until squeue -h -t RUNNING -j {job} | grep worker-1; do sleep 0.2; done")
    lab.kubectl("delete", "slurm", "--all", "--wait=false")
    lab.until("the NodeSet says which step it waits for", lambda: "" if f"({job}.batch)" in said(lab) else said(lab))
    pods = ("get", "pod", "-l", "slurm.corral.dev/nodeset=worker", "-o", "jsonpath={.items[*].metadata.name}")
    lab.until("idle workers have gone", lambda: "" if lab.kubectl(*pods) == "worker-1" else lab.kubectl(*pods))
    others = [one for one in yaml.safe_load_all(quickstart("26.05")) if one["kind"] != "NodeSet"]
    lab.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(others))
    lab.wait("controller/demo")
    lab.wait("restapi/demo")
    lab.kubectl("exec", "worker-1", "-c", "slurmd", "--", "touch", "/tmp/enough")
    lab.wait("nodeset/worker", "delete")
    ended = ("sacct", "-X", "-D", "-n", "-j", job, "-o", "State")
    lab.until("its record is written", lambda: "" if lab.on_controller(*ended).split() == ["COMPLETED"] else "not yet")


def said(lab: Lab) -> str:
    return str(condition(json.loads(lab.kubectl("get", "nodeset", "worker", "-o", "json")), "Ready").get("message"))
