"""Keys that are replaced while jobs run, and tokens of all kinds, on a real cluster with real Slurm.

One job runs from before the first rotation until after the last one, on every worker; others come and go meanwhile. No
daemon but slurmdbd is restarted.
"""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from corral.kinds.controller import keyset
from corral.kube.models.core_v1 import Secret
from corral.slurm.tokens import jwks
from tests.e2e.test_first_job import Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

CLUSTER = """
apiVersion: slurm.corral.dev/v1alpha1
kind: Accounting
metadata: {name: demo}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {name: demo}
spec:
  accountingRef: {name: demo}
  jwksKeyRef: {name: public, key: jwks.json}
  keyRotation: {overlap: 15s}
  identity:
    users: [{name: alice, uid: 5001}]
---
apiVersion: slurm.corral.dev/v1alpha1
kind: RestApi
metadata: {name: demo}
spec: {controllerRef: {name: demo}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {name: worker}
spec:
  controllerRef: {name: demo}
  replicas: 2
  slurmd:
    resources: {limits: {cpu: "2", memory: 512Mi}, requests: {cpu: 50m, memory: 64Mi}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: Token
metadata: {name: shared}
spec: {controllerRef: {name: demo}, username: slurm}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: Token
metadata: {name: signed}
spec: {jwtKeyRef: {name: private, key: key.pem}, username: slurm}
"""
WORKERS = ["worker-0", "worker-1"]
UNTIL_TOLD = "until test -e /tmp/over; do sleep 0.5; done"
LOOKED_EVERY_S = 0.5
PROBED_EVERY_S = 0.05
WITHIN_S = 600.0


def seen(lab: Lab, what: Callable[[], Any], expected: str, *, within_s: float = WITHIN_S) -> Any:
    """Look until there is something true to see; the last thing seen is in the failure."""
    deadline_s = time.monotonic() + within_s
    while not (found := what()):
        told = lab.cluster.try_kubectl(
            "-n", lab.namespace, "get", "controller", "demo", "-o", "jsonpath={.status}"
        ).stdout
        assert time.monotonic() < deadline_s, f"expected {expected}, found {found!r}: {told}"
        time.sleep(LOOKED_EVERY_S)  # a real cluster: there is nothing to wait on for all of these
    return found


def an_rsa_key(lab: Lab) -> None:
    """A private key for a Token, and its public half for slurmctld."""
    key = generate_private_key(65537, 2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for kind, name, data in (
        ("Secret", "private", {"key.pem": private}),
        ("ConfigMap", "public", {"jwks.json": jwks([public]).decode()}),
    ):
        field = "stringData" if kind == "Secret" else "data"
        manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data}
        lab.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def controller(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lab.kubectl("get", "controller", "demo", "-o", "json"))
    return found


def has_rotated(lab: Lab, **counters: int) -> bool:
    found = controller(lab)
    conditions = found.get("status", {}).get("conditions", [])
    ready = next((c for c in conditions if c["type"] == "Ready"), {"status": "Unknown"})
    current = ready.get("observedGeneration") == found["metadata"]["generation"] and ready["status"] == "True"
    return current and all(found["status"]["keys"].get(key) == number for key, number in counters.items())


def rotate(lab: Lab, **counters: int) -> None:
    lab.kubectl("patch", "controller", "demo", "--type=merge", "-p", json.dumps({"spec": {"keyRotation": counters}}))


def slurm_keys(lab: Lab) -> keyset.KeySet:
    secret = asyncio.run(_secret(lab, "demo-auth-slurm"))
    found = keyset.parsed(secret.data["slurm.jwks"])
    assert found is not None
    return found


async def _secret(lab: Lab, name: str) -> Secret:
    async with lab.cluster.client() as client:
        return await client.get(Secret, name, lab.namespace)


def containers(lab: Lab) -> dict[str, str]:
    """By pod of slurmctld and slurmd: the container that runs in it."""
    pods = json.loads(lab.kubectl("get", "pods", "-o", "json"))["items"]
    kept = (pod for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/name"] in ("slurmctld", "slurmd"))
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["containerID"] for pod in kept}


def rest_url(lab: Lab) -> str:
    host = lab.kubectl("get", "service", "demo-restapi", "-o", "jsonpath={.spec.clusterIP}")
    return f"http://{host}:6820"


def answer(url: str, token: bytes) -> int:
    """The status; 0 when nobody answered. slurmctld that is being reconfigured keeps a caller waiting."""
    request = urllib.request.Request(url, headers={"X-SLURM-USER-TOKEN": token.decode()})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


async def gap_s(lab: Lab, url: str, is_over: Callable[[], bool]) -> float:
    """How long nobody who reads the Token's Secret anew for each call is answered, while a key is replaced."""
    bad_from_s = longest_s = 0.0
    over = asyncio.ensure_future(asyncio.to_thread(is_over))
    async with lab.cluster.client() as client:
        while True:
            token = (await client.get(Secret, "shared-jwt-slurm", lab.namespace)).data["SLURM_JWT"]
            good = await asyncio.to_thread(answer, url, token) == 200
            now_s = time.monotonic()
            if good:
                longest_s, bad_from_s = max(longest_s, now_s - bad_from_s if bad_from_s else 0.0), 0.0
            else:
                bad_from_s = bad_from_s or now_s
            if good and over.done():
                await over
                return longest_s
            await asyncio.sleep(PROBED_EVERY_S)


def test_keys_are_replaced_while_jobs_run(lab: Lab, record_property: Callable[[str, object], None]) -> None:
    an_rsa_key(lab)
    lab.kubectl("apply", "-f", "-", stdin=CLUSTER)
    seen(lab, lambda: has_rotated(lab, slurm=0, jwt=0), "a Controller that is ready")
    seen(
        lab, lambda: lab.on_controller("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split() == WORKERS, "two workers"
    )
    job = lab.on_controller(
        "sbatch",
        "--parsable",
        "-N2",
        "-n2",
        "--mem-per-cpu=50",
        "--output=/dev/null",
        "--wrap",
        f"srun sh -c '{UNTIL_TOLD}'",
    ).strip()
    seen(lab, lambda: f"{job}.0" in lab.on_controller("squeue", "-h", "-s", "-o", "%i"), "the long job's step")
    before, first = containers(lab), slurm_keys(lab)

    # The slurm key, with both valid on the way.
    rotate(lab, slurm=1)
    began_s, short_jobs = time.monotonic(), 0
    while not has_rotated(lab, slurm=1):
        assert time.monotonic() - began_s < WITHIN_S, controller(lab)["status"]
        assert lab.on_controller("srun", "-n1", "--mem-per-cpu=50", "hostname").startswith("worker-")
        short_jobs += 1
    record_property("slurm_key_rotation_s", round(time.monotonic() - began_s, 1))
    assert short_jobs > 0
    last = slurm_keys(lab)
    assert [key.number for key in last.keys] == [1]
    assert last.keys[0].secret not in [key.secret for key in first.keys]

    # The JWT key: a token that is read anew is refused for a moment at most.
    url = rest_url(lab)
    nodes, records = f"{url}/slurm/v0.0.42/nodes", f"{url}/slurmdb/v0.0.42/clusters"
    old = asyncio.run(_secret(lab, "shared-jwt-slurm")).data["SLURM_JWT"]
    assert answer(nodes, old) == 200
    rotate(lab, jwt=1)
    gap = asyncio.run(gap_s(lab, nodes, lambda: bool(seen(lab, lambda: has_rotated(lab, jwt=1), "a new JWT key"))))
    record_property("jwt_key_gap_s", round(gap, 2))
    print(f"JWT key replaced: tokens were refused for {gap:.2f} s")
    assert gap < WITHIN_S
    new = asyncio.run(_secret(lab, "shared-jwt-slurm")).data["SLURM_JWT"]
    assert answer(nodes, old) == 511
    seen(lab, lambda: answer(records, new) == 200, "slurmdbd to take the new token")

    # A token of another key, whose public half slurmctld was given.
    rs256 = asyncio.run(_secret(lab, "signed-jwt-slurm")).data["SLURM_JWT"]
    assert answer(nodes, rs256) == 200
    assert answer(records, rs256) == 200

    # slurmdbd knows the people: one of them may be an operator of accounts.
    known = ("exec", "demo-accounting-0", "-c", "slurmdbd", "--", "getent", "passwd", "5001")
    seen(lab, lambda: lab.cluster.try_kubectl("-n", lab.namespace, *known).stdout.startswith("alice:"), "alice's name")
    lab.on_controller("sacctmgr", "-i", "add", "account", "physics")
    lab.on_controller("sacctmgr", "-i", "add", "user", "alice", "account=physics", "adminlevel=operator")
    as_alice = (
        "setpriv",
        "--reuid=alice",
        "--regid=alice",
        "--init-groups",
        "sacctmgr",
        "-i",
        "add",
        "account",
        "chemistry",
    )
    lab.kubectl("exec", "worker-0", "-c", "slurmd", "--", *as_alice)
    assert "chemistry" in lab.on_controller("sacctmgr", "-n", "-P", "show", "account", "format=account").split()

    # Somebody deletes the Secrets: they come back with the very keys that the daemons have.
    for name in ("demo-auth-slurm", "demo-auth-jwt"):
        kept = asyncio.run(_secret(lab, name))
        lab.kubectl("delete", "secret", name)
        seen(lab, partial(lab.kubectl, "get", "secret", name, "--ignore-not-found"), f"Secret {name} again")
        assert asyncio.run(_secret(lab, name)).data == kept.data

    # The job that was there all along ends well, and nothing was restarted for all this.
    assert containers(lab) == before
    assert job in lab.on_controller("squeue", "-h", "-t", "RUNNING", "-o", "%A").split()
    for worker in WORKERS:
        lab.kubectl("exec", worker, "--", "touch", "/tmp/over")
    seen(
        lab,
        lambda: "COMPLETED" in lab.on_controller("sacct", "-X", "-n", "-j", job, "-o", "State"),
        "the long job's end",
    )
    states = lab.on_controller("sacct", "-X", "-n", "-o", "State").split()
    assert set(states) == {"COMPLETED"}, states
