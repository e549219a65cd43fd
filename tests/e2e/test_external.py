"""A slurmctld that somebody else runs: workers, the REST API and login nodes here belong to its cluster.

The somebody is another Controller, whose name, like those of all others here, is as long as a label can be.
"""

import json

import pytest

from corral.kinds import names
from tests.e2e.test_first_job import Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster


def long(word: str) -> str:
    return f"{word}-".ljust(names.NAME_MAX, "x")


THEIRS, OURS, WORKERS, DOOR, REST = (long(word) for word in ("theirs", "ours", "workers", "door", "rest"))
WORKER = names.worker_name(WORKERS, 0)
SLURMCTLD = f"{names.controller_name(THEIRS)}-0"
LOGIN = f"deployment/{names.login_name(DOOR)}"


def a(kind: str, name: str, **spec: object) -> str:
    metadata = {"name": name}
    return json.dumps({"apiVersion": "slurm.corral.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})


def external(namespace: str) -> dict[str, object]:
    return {
        "external": {"host": f"{names.controller_name(THEIRS)}.{namespace}", "port": names.SLURMCTLD_PORT},
        "slurmKeyRef": {"name": names.slurm_key_name(THEIRS), "key": names.SLURM_JWKS},
        "jwtKeyRef": {"name": names.jwt_key_name(THEIRS), "key": names.JWT_KEY},
    }


def nodes(lab: Lab) -> list[str]:
    return lab.kubectl("exec", SLURMCTLD, "-c", "slurmctld", "--", "sinfo", "-h", "-N", "-o", "%N").split()


def test_workers_rest_api_and_login_nodes_join_a_slurmctld_that_runs_elsewhere(lab: Lab) -> None:
    ours = {"controllerRef": {"name": OURS}}
    limits = {"resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}}}
    for manifest in (
        a("Controller", THEIRS),
        a("Controller", OURS, **external(lab.namespace)),
        a("NodeSet", WORKERS, replicas=1, slurmd=limits, **ours),
        a("RestApi", REST, replicas=2, **ours),
        a("LoginSet", DOOR, **ours),
    ):
        lab.kubectl("apply", "-f", "-", stdin=manifest)
    for kind, name in (("controller", OURS), ("nodeset", WORKERS), ("restapi", REST), ("loginset", DOOR)):
        lab.wait(f"{kind}.slurm.corral.dev/{name}")

    said = lab.kubectl("exec", LOGIN, "-c", "login", "--", "srun", "hostname")
    assert said.split() == [WORKER]
    owned = json.loads(lab.kubectl("get", "statefulset", "-o", "json"))["items"]
    assert [one["metadata"]["name"] for one in owned] == [names.controller_name(THEIRS)]

    # slurmrestd twice, as nobody special, and without the cluster's key.
    counted = lab.kubectl("get", f"restapi.slurm.corral.dev/{REST}", "-o", "jsonpath={.status.readyReplicas}")
    assert counted == "2"
    looked = "id -u; cat /etc/corral/keys/* /etc/slurm/*.key /etc/slurm/*.jwks 2>/dev/null | wc -c"
    slurmrestd = f"deployment/{names.restapi_name(REST)}"
    user, key_bytes = lab.kubectl("exec", slurmrestd, "--", "sh", "-c", looked).split()
    assert (int(user) > 0, key_bytes) == (True, "0")

    # Its REST API proves that nobody works there any more: only then a worker goes.
    lab.kubectl("scale", f"nodeset.slurm.corral.dev/{WORKERS}", "--replicas=0")
    lab.wait(f"pod/{WORKER}", "delete")
    lab.until("slurmctld has forgotten the worker", lambda: nodes(lab))
