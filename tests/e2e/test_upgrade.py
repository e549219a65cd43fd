"""From Slurm 24.11 to 26.05 on a real cluster: dump, slurmdbd, slurmctld, workers; a job runs on and is recorded.

Its slurmrestd speaks TLS, so everything that Corral asks of Slurm here goes through the proxy.
"""

import asyncio
import base64
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from corral.engine import system_clock
from corral.local.certificates import Pair
from corral.slurm.errors import SlurmError
from corral.slurm.http import HttpTransport
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import Hs256, Tokens
from corral.slurm.transport import Endpoint
from tests.e2e.test_database import a_secret, certified
from tests.e2e.test_first_job import CHECKOUT, IMAGES_WITHIN_S, Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

OLD, NEW = "24.11", "26.05"
WITHIN_S = 600.0
LOOKED_EVERY_S = 0.5
SMALL = '{resources: {limits: {cpu: "1", memory: 256Mi}, requests: {cpu: 20m, memory: 32Mi}}}'
RUNNING = "until squeue -h -t RUNNING | grep -q worker-0; do sleep 0.2; done"


def manifests(version: str) -> str:
    """`worker` follows the Controller; `older` stays where it is."""
    return f"""
apiVersion: slurm.corral.dev/v1alpha1
kind: Accounting
metadata: {{name: demo}}
spec: {{version: "{version}"}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {{name: demo}}
spec: {{version: "{version}", accountingRef: {{name: demo}}}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: RestApi
metadata: {{name: demo}}
spec: {{controllerRef: {{name: demo}}, replicas: 2, tls: {{secretRef: {{name: rest-tls}}}}}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {{name: worker}}
spec: {{controllerRef: {{name: demo}}, slurmd: {SMALL}, partition: {{enabled: true, config: Default=YES}}}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {{name: older}}
spec: {{controllerRef: {{name: demo}}, version: "{OLD}", slurmd: {SMALL}}}
"""


def as_desired(lab: Lab, *, within_s: float = WITHIN_S) -> None:
    """Every object of ours is Ready in its present generation."""
    deadline_s = time.monotonic() + within_s
    while True:
        found = json.loads(lab.kubectl("get", "accounting,controller,restapi,nodeset", "-o", "json"))["items"]
        unready = [f"{o['kind']} {o['metadata']['name']}: {why}" for o in found if (why := not_ready(o))]
        if not unready:
            return
        assert time.monotonic() < deadline_s, unready
        time.sleep(LOOKED_EVERY_S)  # a real cluster: conditions of several objects cannot be waited on at once


def not_ready(found: dict[str, object]) -> str:
    status, metadata = found.get("status", {}), found["metadata"]
    assert isinstance(status, dict)
    assert isinstance(metadata, dict)
    ready = next((c for c in status.get("conditions", ()) if c["type"] == "Ready"), None)
    if ready is None or ready["observedGeneration"] != metadata["generation"]:
        return "not looked at"
    return "" if ready["status"] == "True" else str(ready["message"])


def certify(lab: Lab) -> Pair:
    """A certificate for slurmrestd by a new authority, which is returned."""
    authority, server = certified((f"demo-restapi.{lab.namespace}",))
    data = {"tls_crt": server.certificate, "tls_key": server.key, "ca_crt": authority.certificate}
    lab.kubectl("apply", "-f", "-", stdin=a_secret("rest-tls", **data))
    return authority


def recorded(lab: Lab, authority: Pair) -> dict[str, str]:
    """State by name of every job that slurmdbd knows, asked over REST and TLS."""
    secret = json.loads(lab.kubectl("get", "secret", "demo-auth-jwt", "-o", "json"))
    service = json.loads(lab.kubectl("get", "service", "demo-restapi", "-o", "json"))
    at = Endpoint(
        url=f"https://{service['spec']['clusterIP']}:6820",
        ca_pem=authority.certificate.decode(),
        name=f"demo-restapi.{lab.namespace}",
    )
    key = base64.b64decode(secret["data"]["jwt.key"])

    async def asked() -> dict[str, str]:
        clock = system_clock()
        client = SlurmClient("demo", HttpTransport(at), Tokens(Hs256(key, user="slurm"), clock), clock)
        jobs = await client.accounting_jobs(since=datetime.now(UTC) - timedelta(hours=1))
        return {job.name: " ".join(job.state) for job in jobs}

    return asyncio.run(asked())


def unlike(wanted: dict[str, str], lab: Lab, authority: Pair) -> object:
    """What is recorded instead, or why nobody tells; nothing when it is as wanted."""
    try:
        found = recorded(lab, authority)
    except SlurmError as error:
        return error
    return found if found != wanted else None


def test_a_new_version_goes_from_the_database_to_the_workers_and_no_job_is_lost(lab: Lab) -> None:
    images = [sys.executable, "-m", "images", f"slurm:{OLD}", "--cluster", lab.cluster.name]
    subprocess.run(images, check=True, cwd=CHECKOUT, timeout=IMAGES_WITHIN_S)
    authority = certify(lab)
    lab.kubectl("apply", "-f", "-", stdin=manifests(OLD))
    as_desired(lab)
    lab.on_controller("srun", "--job-name=before", "hostname")
    lab.until("24.11 tells its records over REST", lambda: unlike({"before": "COMPLETED"}, lab, authority))
    lab.on_controller("sbatch", "--job-name=across", "-w", "worker-0", "--output=/dev/null", "--wrap", "sleep 30")
    lab.on_controller("sh", "-c", RUNNING)

    lab.kubectl("apply", "-f", "-", stdin=manifests(NEW))
    as_desired(lab)

    versions = lab.on_controller("srun", "-p", "all", "-N2", "--job-name=mixed", "slurmd", "-V")
    assert sorted(line.split()[-1][:5] for line in versions.splitlines()) == [OLD, NEW]
    every = dict.fromkeys(("across", "before", "mixed"), "COMPLETED")
    lab.until("26.05 tells all records over REST", lambda: unlike(every, lab, authority))
    started = [
        lab.kubectl("get", "pod", pod, "-o", "jsonpath={.status.startTime}")
        for pod in ("demo-accounting-0", "demo-controller-0", "worker-0")
    ]
    assert started == sorted(started), "slurmdbd, slurmctld, worker"
    renewed = certify(lab)
    lab.kubectl("annotate", "pod", "-l", "app.kubernetes.io/name=slurmrestd", "test/renewed=yes")  # kubelet looks now
    lab.until("the new certificate is in use", lambda: unlike(every, lab, renewed))
    assert lab.kubectl("get", "persistentvolumeclaim", "demo-dumps", "-o", "jsonpath={.status.phase}") == "Bound"
    back = lab.cluster.try_kubectl("-n", lab.namespace, "apply", "-f", "-", stdin=manifests(OLD))
    assert "a downgrade is not possible" in back.stderr
