"""A slurm key replaced in virtual time, with an operator that crashes on the way and daemons that load late or miss it.

What must hold at every moment: any two daemons understand each other, whatever each of them has loaded.
"""

import asyncio
import base64
import itertools
import json
import random
from typing import Any

import pytest

from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller import keyset
from corral.kinds.controller.controller import controller
from corral.kinds.controller.keyset import KeySet
from corral.kinds.controller.rotation import file_digest
from corral.kinds.controller.shell import APPLY, KEYS, STATE, Answer
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator

pytestmark = pytest.mark.looptime(noop_cycles=0)

WORKERS = ("w-0", "w-1", "w-2")
SLURMCTLD = "demo-controller-0"
MADE_BY_US = {"app.kubernetes.io/managed-by": "corral"}


class Daemons:
    """Stands in for slurmctld and three slurmd: what is mounted in each pod, and what each has loaded."""

    def __init__(self, server: FakeApiServer, seed: int) -> None:
        self.server, self.random = server, random.Random(seed)
        self.mounted: dict[str, bytes] = {}
        self.loaded: dict[str, bytes] = {}
        self.since: dict[str, int] = {}

    def secret(self, name: str, key: str) -> bytes:
        found = self.server.get(Secret, name, "default")
        return base64.b64decode(found["data"][key]) if found else b""

    def start(self, *pods: str) -> None:
        for pod in pods:
            self.mounted[pod] = self.secret("demo-auth-slurm", "slurm.jwks")
            self.load(pod)

    def load(self, pod: str) -> None:
        self.loaded[pod], self.since[pod] = self.mounted[pod], int(self.server.now().timestamp())
        self.check()

    def check(self) -> None:
        sets = {pod: self.sets(text) for pod, text in self.loaded.items()}
        for (one, ones), (other, others) in itertools.permutations(sets.items(), 2):
            assert ones.signing in {key.number for key in others.keys}, f"{other} does not understand {one}"

    def sets(self, text: bytes) -> KeySet:
        found = keyset.parsed(text)
        assert found is not None
        return found

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = "slurmctld"
    ) -> Answer:
        await asyncio.sleep(self.random.choice((0.01, 0.1, 1.0)))
        if self.random.random() < 0.5:  # kubelet has come by
            self.mounted[pod] = self.secret("demo-auth-slurm", "slurm.jwks")
        if command[0] == KEYS:
            return self.said(
                files={"slurm.jwks": file_digest(self.mounted[pod])},
                loaded=self.loaded[pod] == self.mounted[pod],
                since=self.since[pod],
            )
        if command[0] == STATE:
            files = {
                "slurm.jwks": file_digest(self.loaded[pod]),
                "jwt.key": file_digest(self.secret("demo-auth-jwt", "jwt.key")),
            }
            digest = self.server.get(ConfigMap, "demo-config", "default")
            assert digest is not None
            return self.said(
                digest=digest["data"]["corral-digest"], version="26.05.5", up=True, keys=files, since=self.since[pod]
            )
        assert command[0] == APPLY
        self.mounted[pod] = self.secret("demo-auth-slurm", "slurm.jwks")
        self.load(pod)
        for worker in WORKERS:
            if self.random.random() < 0.7:  # else the message is lost
                self.load(worker)
        return self.said(result="applied", digest="", message="")

    def said(self, **words: object) -> Answer:
        return Answer(0, json.dumps(words).encode())


def a_pod(name: str, component: str) -> dict[str, Any]:
    labels = {**MADE_BY_US, "app.kubernetes.io/name": component, "slurm.corral.dev/cluster": "demo"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": component, "image": "corral/slurm:26.05"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.mark.parametrize("seed", range(3))
async def test_no_two_daemons_ever_misunderstand_each_other(seed: int) -> None:
    server = FakeApiServer(seed=seed)
    for kind in (Controller, NodeSet, Accounting):
        server.register(kind)
    daemons = Daemons(server, seed)
    operator = Operator(server, lambda: controller(daemons))
    spec = {"keyRotation": {"overlap": "30s"}}
    server.add(
        {"apiVersion": "slurm.corral.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "demo"}, "spec": spec}
    )
    operator.start()
    await asyncio.sleep(2)
    daemons.start(SLURMCTLD, *WORKERS)
    server.add(a_pod(SLURMCTLD, "slurmctld"))
    for worker in WORKERS:
        server.add(a_pod(worker, "slurmd"))
    await asyncio.sleep(5)

    server.edit(Controller, "demo", "default", merge={"spec": {"keyRotation": {"slurm": 1, "overlap": "30s"}}})
    for _crash in range(4):
        await asyncio.sleep(daemons.random.uniform(0.5, 15))
        await operator.crash()
        operator.start()
    await asyncio.sleep(600)
    await operator.stop()

    last = daemons.sets(daemons.secret("demo-auth-slurm", "slurm.jwks"))
    assert [key.number for key in last.keys] == [1]
    assert {daemons.sets(text) for text in daemons.loaded.values()} == {last}
    found = server.get(Controller, "demo", "default")
    assert found is not None
    assert found["status"]["keys"]["slurm"] == 1
    assert server.get(Pod, "w-0", "default") is not None
