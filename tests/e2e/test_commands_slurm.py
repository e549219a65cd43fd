"""Every command, as a person types it, about one running Slurm cluster: first all is well, then things are broken.

One test, because bringing a cluster up is what costs; each step is a function whose name says what must hold.
"""

import base64
import gzip
import json
import os
import subprocess
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.e2e.test_database import a_secret, certified
from tests.e2e.test_first_job import CHECKOUT, Lab, lab
from tests.kept_operator import COMMAND

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

WITHIN_S = 400.0
USER = "alice"  # of the quickstart
SHORTEST_SECRET = 6
CHANGED = """
SchedulerParameters=bf_interval=20
PartitionName=night Nodes=worker MaxTime=60
"""
REPORTED = (
    "about.txt",
    "events.txt",
    "secrets.txt",
    "explain/NodeSet-worker.txt",
    "logs/worker-0/slurmd.log",
    "objects/StatefulSet/demo-controller.yaml",
    "slurm/demo/sdiag.txt",
    "slurm/demo/scontrol-show-config.txt",
    "slurm/demo/squeue.txt",
)
BROKEN = """
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {name: keyless}
spec:
  slurmKeyRef: {name: not-there, key: slurm.key}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {name: imageless}
spec:
  controllerRef: {name: demo}
  slurmd: {image: "corral/slurm:no-such-version"}
"""


def corral(lab: Lab, *arguments: str, code: int | None = 0, kubeconfig: Path | None = None) -> str:
    """What the command printed; its exit code must be the expected one."""
    command = [*COMMAND, *arguments]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig or lab.cluster.kubeconfig)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False, env=environment)
    said = f"corral {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert code is None or done.returncode == code, said
    return done.stdout + done.stderr


def of(lab: Lab, *arguments: str, code: int | None = 0) -> str:
    return corral(lab, *arguments, "-n", lab.namespace, code=code)


def lacking(told: str, *expected: str) -> str:
    """What was told, if anything of what was expected is not in it."""
    return told if any(words not in told for words in expected) else ""


def quickstart(**controller: object) -> str:
    documents = list(yaml.safe_load_all((CHECKOUT / "examples" / "quickstart.yaml").read_text()))
    for document in documents:
        if document["kind"] == "Controller":
            document["spec"].update(controller)
        if document["kind"] == "RestApi":
            document["spec"]["tls"] = {"secretRef": {"name": "rest-tls"}}
    return yaml.safe_dump_all(documents)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_every_command_tells_the_truth_about_one_cluster(lab: Lab, tmp_path: Path) -> None:
    before_anything_is_there(lab)
    authority, server = certified((f"demo-restapi.{lab.namespace}",))
    given = {"tls_crt": server.certificate, "tls_key": server.key, "ca_crt": authority.certificate}
    lab.kubectl("apply", "-f", "-", stdin=a_secret("rest-tls", **given))
    lab.kubectl("apply", "-f", "-", stdin=quickstart())
    waiting_tells_what_for(lab)
    plan_shows_files_and_nodes(lab, tmp_path)
    explain_tells_the_facts(lab)
    lint_agrees_with_what_runs(lab, tmp_path)
    jobs_run_and_nothing_stays_behind(lab, tmp_path)
    a_report_has_no_secret_in_it(lab, tmp_path)
    without_rights_the_check_says_so(lab, tmp_path)
    what_is_broken_is_named(lab)


def before_anything_is_there(lab: Lab) -> None:
    found = {check["name"]: check for check in json.loads(of(lab, "check", "--pre", "-o", "json", code=None))["items"]}
    able = ("Kubernetes is new enough", "you may install Corral", "nodes are ready", "there is a default StorageClass",
            "pods may run as root here", "names resolve", "clocks agree")  # fmt: skip
    assert {name: found[name]["answer"] for name in able} == dict.fromkeys(able, "yes"), found
    assert "corral/slurm:26.05: " not in found["images can be pulled"]["found"]
    assert "No objects found" in of(lab, "status")
    assert lab.kubectl("get", "pods", "-l", "app.kubernetes.io/name=corral-check", "-o", "name") == ""


def waiting_tells_what_for(lab: Lab) -> None:
    told = of(lab, "status", "--wait", "--timeout", "6m")
    assert "Controller demo: ready" in told
    assert "waiting for" in told
    rows = json.loads(of(lab, "status", "--wait", "-o", "json"))["items"]
    assert {row["kind"]: row["ready"] for row in rows}.items() >= {"Controller": True, "NodeSet": True}.items()


def plan_shows_files_and_nodes(lab: Lab, folder: Path) -> None:
    changed = quickstart(extraConf=CHANGED).replace("replicas: 3", "replicas: 1")
    file = written(folder, "changed.yaml", changed)
    expected = (
        f"change ConfigMap {lab.namespace}/demo-config",
        "+SchedulerParameters=bf_interval=20",
        "+PartitionName=night Nodes=worker MaxTime=60",
        f"drain node worker-2 in Slurm {lab.namespace}/demo: to be removed (scale-in)",
    )
    # On a busy machine Slurm may not answer within the seconds that a plan gives it.
    lab.until("plan shows what changes", lambda: lacking(of(lab, "plan", "-f", file, code=1), *expected))
    wrong = written(folder, "wrong.yaml", quickstart(extraConf="MaxJobCuont=5\n"))
    assert "stuck: spec.extraConf: line 1: MaxJobCuont is no key" in of(lab, "plan", "-f", wrong, code=3)
    assert ": error: Controller demo, spec.extraConf: MaxJobCuont is no key" in corral(lab, "lint", wrong, code=1)
    same = of(lab, "plan", "-f", written(folder, "same.yaml", quickstart()), code=0)
    assert "nothing to do" in same


def explain_tells_the_facts(lab: Lab) -> None:
    expected = (
        f"NodeSet {lab.namespace}/worker: ready for",
        f"Pod {lab.namespace}/worker-0: ready for",
        "Slurm: 3 nodes",
        "leads",
    )
    lab.until("explain tells the facts", lambda: lacking(of(lab, "explain", "nodeset", "worker"), *expected))
    facts = json.loads(of(lab, "explain", "controller", "demo", "-o", "json"))["facts"]
    assert f"Pod {lab.namespace}/demo-controller-0" in {fact["about"] for fact in facts}


def lint_agrees_with_what_runs(lab: Lab, folder: Path) -> None:
    running = lab.on_controller("cat", "/etc/slurm/slurm.conf")
    told = corral(lab, "lint", written(folder, "slurm.conf", running))
    assert "0 errors" in told
    assert "SlurmctldPort needs more than a reconfigure when it changes: restart all daemons" in told
    assert "1 error" in corral(lab, "lint", written(folder, "slurm.conf", f"{running}MaxJobCuont=1\n"), code=1)
    assert "0 errors" in corral(lab, "lint", str(CHECKOUT / "examples" / "quickstart.yaml"))


def jobs_run_and_nothing_stays_behind(lab: Lab, folder: Path) -> None:
    report = folder / "junit.xml"
    told = of(lab, "test", "demo", "--user", USER, "--junit", str(report))
    assert "0 failed, 0 skipped" in told
    assert f"over TLS, as demo-restapi.{lab.namespace}" in told
    (suite,) = ElementTree.parse(report).getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("9", "0")
    assert lab.on_controller("squeue", "-h", "--all") == ""
    assert "corral-test" not in lab.kubectl("exec", "worker-0", "-c", "slurmd", "--", "ls", "/tmp")
    unknown = of(lab, "test", "demo", "--user", "nobody-knows", "-o", "json", code=1)
    assert "slurmctld does not know user nobody-knows" in unknown
    assert "those of this namespace: demo" in of(lab, "test", "other", code=2)


def a_report_has_no_secret_in_it(lab: Lab, folder: Path) -> None:
    secrets = json.loads(lab.kubectl("get", "secrets", "-o", "json"))["items"]
    values = [base64.b64decode(value) for secret in secrets for value in secret["data"].values()]
    keys = [value for value in values if len(value) >= SHORTEST_SECRET]
    assert len(keys) >= 4  # the two keys of the cluster, the database's password, slurmdbd.conf with it
    # One that a person has leaked: into a manifest, and into a log.
    leaked = next(value.decode() for value in keys if value.isascii() and value.decode().isprintable())
    lab.kubectl("annotate", "controller", "demo", f"example.com/leak={leaked}")
    lab.kubectl("exec", "worker-0", "-c", "slurmd", "--", "sh", "-c", f"echo leak {leaked} > /proc/1/fd/2")

    file = folder / "report.tar.gz"
    told = of(lab, "report", "-f", str(file))
    assert "it contains no secrets" in told
    assert "objects/Controller/demo.yaml" in told
    content = gzip.decompress(file.read_bytes())
    for value in keys:
        for spelt in (value, base64.b64encode(value), value.hex().encode()):
            assert spelt not in content
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2]: name for name in archive.getnames()}
        sinfo = archive.extractfile(names["slurm/demo/sinfo.txt"])
        assert sinfo is not None
        assert b"worker-0" in sinfo.read()
    for expected in REPORTED:
        assert expected in names, sorted(names)
    assert file.stat().st_mode & 0o077 == 0


def without_rights_the_check_says_so(lab: Lab, folder: Path) -> None:
    lab.kubectl("create", "serviceaccount", "guest")
    config = yaml.safe_load(lab.cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": lab.kubectl("create", "token", "guest").strip()}}
                       for user in config["users"]]  # fmt: skip
    guest = Path(written(folder, "guest.kubeconfig", yaml.safe_dump(config)))
    told = corral(lab, "check", "--pre", "--no-probe", code=1, kubeconfig=guest)
    assert "you may not create clusterrolebindings.rbac.authorization.k8s.io" in told
    refused = corral(lab, "report", "-n", lab.namespace, code=2, kubeconfig=guest)
    assert "a report must know the Secrets" in refused
    assert "Traceback" not in told + refused


def what_is_broken_is_named(lab: Lab) -> None:
    lab.kubectl("apply", "-f", "-", stdin=BROKEN)
    told = of(lab, "status", "controller", "keyless", "--wait", "--timeout", "5s", code=1)
    assert f"waiting for Secret {lab.namespace}/not-there with key 'slurm.key'" in told
    explained = of(lab, "explain", "controller", "keyless")
    assert f"Secret {lab.namespace}/not-there with key 'slurm.key' (KeyMissing)" in explained

    def amiss() -> str:
        told = of(lab, "explain", "nodeset", "imageless")
        return "" if "slurmd waits: ImagePullBackOff" in told or "slurmd waits: ErrImagePull" in told else told

    lab.until("explain names the image that does not come", amiss)
    lab.kubectl("delete", "controller/keyless", "nodeset/imageless", "--timeout=300s", timeout_s=330)
