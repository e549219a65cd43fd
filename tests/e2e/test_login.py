"""People on a login node: by ssh from outside, with real Slurm, a real directory and a /home that workers share."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from corral.local import packages
from corral.local.progress import Progress
from tests.e2e import directory
from tests.e2e.test_first_job import CHECKOUT, IMAGES_WITHIN_S, Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

LOOKED_EVERY_S = 0.5
MANIFEST = """
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {{name: demo}}
spec:
  version: "{version}"
  identity:
    users:
      - {{name: alice, uid: 5001, groups: [hpc], authorizedKeys: ["{key}"]}}
    groups:
      - {{name: hpc, gid: 6000}}
    ldap:
      uris: ["{scheme}://slapd.{namespace}"]
      startTls: {start_tls}
      caKeyRef: {{name: directory, key: ca.crt}}
      base: {base}
      bindDn: {bind_dn}
      bindPasswordKeyRef: {{name: directory, key: password}}
  home: {{size: 1Gi}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {{name: worker}}
spec:
  controllerRef: {{name: demo}}
  replicas: 2
  slurmd:
    resources: {{limits: {{cpu: "1", memory: 512Mi}}, requests: {{cpu: 50m, memory: 64Mi}}}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: LoginSet
metadata: {{name: demo}}
spec:
  controllerRef: {{name: demo}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: RestApi
metadata: {{name: demo}}
spec:
  controllerRef: {{name: demo}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: Token
metadata: {{name: carol}}
spec:
  controllerRef: {{name: demo}}
  username: carol
"""


class Door:
    """ssh to the login nodes. The host key that is seen first is the only one that is accepted from then on."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self._known_hosts = folder / "known_hosts"
        self._key = folder / "key"
        self._password = folder / "password"
        made = Ed25519PrivateKey.generate()
        self._key.touch(mode=0o600)
        self._key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        self.public_key = made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    def session(self, user: str, command: str, *, password: str = "") -> subprocess.Popen[str]:
        how = ["-o", "BatchMode=yes", "-i", str(self._key)]
        environment = dict(os.environ)
        if password:
            self._password.write_text(f"#!/bin/sh\necho '{password}'\n")
            self._password.chmod(0o700)
            how = ["-o", "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1"]
            environment |= {"SSH_ASKPASS": str(self._password), "SSH_ASKPASS_REQUIRE": "force"}
        options = (
            "StrictHostKeyChecking=accept-new",
            f"UserKnownHostsFile={self._known_hosts}",
            "ConnectTimeout=10",
            "IdentitiesOnly=yes",
        )
        address = address_of(self._lab, "demo-login")
        ssh = ["ssh", "-F", "none", *how, *(word for option in options for word in ("-o", option)), f"{user}@{address}"]
        pipe = subprocess.PIPE
        return subprocess.Popen([*ssh, command], stdout=pipe, stderr=pipe, text=True, env=environment)

    def try_run(self, user: str, command: str, *, password: str = "") -> subprocess.CompletedProcess[str]:
        with self.session(user, command, password=password) as ssh:
            output, errors = ssh.communicate(timeout=180)
        return subprocess.CompletedProcess(command, ssh.returncode, output, errors)

    def run(self, user: str, command: str, *, password: str = "", within_s: float = 0.0) -> str:
        """What the command prints; tried again until `within_s` is over."""
        deadline_s = time.monotonic() + within_s
        while (done := self.try_run(user, command, password=password)).returncode != 0:
            assert time.monotonic() < deadline_s, (
                f"ssh {user}: {command}: {done.returncode} {done.stdout} {done.stderr}"
            )
            time.sleep(LOOKED_EVERY_S)  # a real machine behind a real network: there is nothing to wait on
        return done.stdout


def address_of(lab: Lab, service: str) -> str:
    return lab.kubectl("get", "service", service, "-o", "jsonpath={.spec.clusterIP}")


def until_ready(lab: Lab, what: str, *, within_s: float = 300.0) -> None:
    """Ready for the present generation."""
    deadline_s = time.monotonic() + within_s
    while True:
        found = json.loads(lab.kubectl("get", what, "-o", "json"))
        status = found.get("status", {})
        ready: dict[str, str] = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
        if ready.get("status") == "True" and status["observedGeneration"] == found["metadata"]["generation"]:
            return
        assert time.monotonic() < deadline_s, f"{what} is not Ready: {ready}"
        time.sleep(LOOKED_EVERY_S)  # kubectl wait does not look at the generation


def submitted_by_rest(lab: Lab, user: str, script: str) -> int:
    """A job of this user, by his Token and slurmrestd."""
    token = base64.b64decode(
        lab.kubectl("get", "secret", f"carol-jwt-{user}", "-o", "jsonpath={.data.SLURM_JWT}")
    ).decode()
    job = {"name": "by-rest", "current_working_directory": "/tmp", "environment": ["PATH=/usr/bin:/bin"]}
    request = urllib.request.Request(
        f"http://{address_of(lab, 'demo-restapi')}:6820/slurm/v0.0.42/job/submit",
        data=json.dumps({"script": script, "job": job}).encode(),
        headers={"X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["job_id"])


@pytest.fixture
def door(lab: Lab, tmp_path: Path) -> Door:
    if shutil.which("ssh") is None:
        with Progress(("ssh",)) as progress:
            packages.ensure(progress, "ssh", ("openssh-client",))
    return Door(lab, tmp_path)


@pytest.mark.parametrize(("version", "scheme"), [("26.05", "ldaps"), ("24.11", "ldap")])
def test_people_log_in_and_their_jobs_run_as_themselves_with_their_files(
    lab: Lab, door: Door, version: str, scheme: str
) -> None:
    image = [sys.executable, "-m", "images", f"slurm:{version}", "--cluster", lab.cluster.name]
    subprocess.run(image, check=True, cwd=CHECKOUT, timeout=IMAGES_WITHIN_S)
    directory.provide(lab.cluster, lab.namespace)
    manifest = MANIFEST.format(
        version=version,
        scheme=scheme,
        start_tls=json.dumps(scheme == "ldap"),
        key=door.public_key,
        namespace=lab.namespace,
        base=directory.BASE,
        bind_dn=directory.BIND_DN,
    )
    lab.kubectl("apply", "-f", "-", stdin=manifest)
    for what in ("controller/demo", "nodeset/worker", "loginset/demo", "restapi/demo"):
        until_ready(lab, what)

    # Known by files: by ssh key, in her own home, with all her groups; on the workers too.
    assert door.run("alice", "id -un; id -Gn; pwd", within_s=30).split() == ["alice", "alice", "hpc", "/home/alice"]
    assert sorted(door.run("alice", "srun -N2 sh -c 'hostname; id -un'").split()) == ["alice"] * 2 + [
        "worker-0",
        "worker-1",
    ]
    door.run("alice", "sbatch --wait --output=said --wrap 'hostname > where; id -Gn; pwd'")
    assert door.run("alice", "cat said; stat -c %U:%a .").split() == ["alice", "hpc", "/home/alice", "alice:700"]
    assert door.run("alice", "getent hosts $(cat where)").strip()

    # The cluster's key and other people's door stay closed.
    assert (
        door.try_run("alice", "touch /run/slurm/x || cat /etc/corral/ssh/* || ls /etc/corral/keys/slurm*").returncode
        != 0
    )
    assert door.try_run("root", "true").returncode != 0

    # Known by a directory: by password; slurmctld knows her, or a job by her token would be held.
    password = directory.CAROLS_PASSWORD
    assert door.run("carol", "srun id -un; id -gn", password=password, within_s=30).split() == ["carol", "physics"]
    job = submitted_by_rest(lab, "carol", "#!/bin/sh\nid -un > /home/carol/by-rest\n")
    done = f"until [ -s by-rest ]; do squeue -h -j {job} -o '%T %r'; sleep 0.5; done; cat by-rest"
    assert "carol" in door.run("carol", f"timeout 60 sh -c '{done.replace(chr(39), chr(34))}'", password=password)

    # Whoever is in when the pod goes can finish. Another pod is the same host.
    with door.session("alice", "srun sh -c 'touch running; sleep 5' && echo finished") as ssh:
        door.run("alice", "test -e running", within_s=60)
        lab.kubectl("delete", "pod", "-l", "app.kubernetes.io/name=login")
        assert ssh.communicate(timeout=60)[0] == "finished\n"
    assert door.run("alice", "cat said", within_s=120).split() == ["alice", "hpc", "/home/alice"]

    # Whoever is new comes in without another pod.
    pods = lab.kubectl("get", "pod", "-l", "app.kubernetes.io/name in (login,slurmctld)", "-o", "name")
    users = json.loads(lab.kubectl("get", "controller", "demo", "-o", "jsonpath={.spec.identity.users}"))
    users.append({"name": "bob", "uid": 5002, "authorizedKeys": [door.public_key]})
    lab.kubectl(
        "patch", "controller", "demo", "--type=merge", "-p", json.dumps({"spec": {"identity": {"users": users}}})
    )
    assert door.run("bob", "srun id -u", within_s=120).split() == ["5002"]
    assert lab.kubectl("get", "pod", "-l", "app.kubernetes.io/name in (login,slurmctld)", "-o", "name") == pods
