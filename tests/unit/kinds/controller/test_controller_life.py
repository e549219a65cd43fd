"""A Controller's life in virtual time: the fake API server, a stand-in for its pod, and what it is told from inside."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from corral.kinds import names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.controller import controller
from corral.kinds.controller.monitor import ServiceMonitor
from corral.kinds.controller.shell import APPLY, REGISTER, STATE, Answer
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.errors import Subject, Unreachable
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged

pytestmark = pytest.mark.looptime(noop_cycles=0)


LABELS = {"app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/managed-by": "corral"}


STATE_WITH_GHOSTS = {"at": 30, "loaded": 30, "holding": {"worker-0": 3600}, "lost": []}


class ScriptedSlurmctld:
    """Stands in for slurmctld in its pod: runs what was applied last, and refuses when it is told to."""

    def __init__(self) -> None:
        self.digest = ""
        self.refuses = ""
        self.is_gone = False
        self.key = b""  # that workers have mounted
        self.revival: dict[str, object] | None = None
        self.asked: list[str] = []

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = "slurmctld"
    ) -> Answer:
        self.asked.append(command[0].rpartition("-")[2])
        if self.is_gone:
            raise Unreachable(Subject("exec", "pods", namespace, pod), "no route")
        if command[0] == "cat":
            return Answer(0, self.key)
        if command[0] == STATE:
            return said(digest=self.digest, version="26.05.5", up=True, revival=self.revival)
        if command[0] == REGISTER:
            assert (pod, container, self.revival) == ("worker-0", "slurmd", STATE_WITH_GHOSTS)
            self.revival = {**STATE_WITH_GHOSTS, "holding": {"worker-0": 1}}
            return said()
        assert command[0] == APPLY
        if self.refuses:
            return said(result="refused", digest=self.digest, message=self.refuses)
        self.digest = command[1]
        return said(result="applied", digest=self.digest, message="reconfigured in place")


def said(**words: object) -> Answer:
    return Answer(0, json.dumps(words).encode() + b"\n")


class World:
    def __init__(self) -> None:
        self.server = FakeApiServer()
        for kind in (Controller, NodeSet, Accounting):
            self.server.register(kind)
        self.slurmctld = ScriptedSlurmctld()
        self.operator = Operator(self.server, self.build)

    def build(self) -> Any:
        return controller(self.slurmctld)

    def add(self, kind: str, name: str, **more: Any) -> None:
        self.server.add({"apiVersion": "slurm.corral.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, **more})

    def start_pod(self) -> None:
        """What the stateful set's controller, the scheduler and kubelet would do."""
        self.slurmctld.digest = self.delivered
        self.server.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "demo-controller-0", "labels": LABELS},
                "spec": {"containers": [{"name": "slurmctld", "image": "corral/slurm:26.05"}]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )

    def start_worker(self) -> None:
        labels = {**names.labels("slurmd", "demo", cluster="demo"), "app.kubernetes.io/managed-by": "corral"}
        self.server.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "worker-0", "labels": labels},
                "spec": {"containers": [{"name": "slurmd", "image": "corral/slurm:26.05"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )

    @property
    def delivered(self) -> str:
        found = self.server.get(ConfigMap, "demo-config", "default")
        assert found is not None
        return str(found["data"]["corral-digest"])

    def condition(self, name: str) -> tuple[str, str]:
        found = self.server.get(Controller, "demo", "default")
        assert found is not None
        return next((c["status"], c["reason"]) for c in found["status"]["conditions"] if c["type"] == name)


@asynccontextmanager
async def a_running_cluster(**spec: Any) -> AsyncIterator[World]:
    world = World()
    world.add("Controller", "demo", spec=spec)
    world.operator.start()
    await asyncio.sleep(3)
    world.start_pod()
    await asyncio.sleep(2)
    yield world
    await world.operator.stop()


async def test_a_controller_becomes_ready_when_slurmctld_confirms_its_configuration() -> None:
    async with a_running_cluster() as world:
        await converged(world.server, world.build, within_s=120)

        assert world.condition("Ready") == ("True", "AsDesired")
        assert world.condition("ConfigApplied") == ("True", "Confirmed")
        assert world.server.get(StatefulSet, "demo-controller", "default") is not None


async def test_slurmctld_is_asked_once_and_then_left_in_peace() -> None:
    async with a_running_cluster() as world:
        await asyncio.sleep(3600)

        assert world.slurmctld.asked == ["state"]


async def test_a_new_nodeset_reaches_the_running_slurmctld_without_a_restart() -> None:
    async with a_running_cluster() as world:
        before = world.server.get(StatefulSet, "demo-controller", "default")
        world.add("NodeSet", "gpu", spec={"controllerRef": {"name": "demo"}})
        await asyncio.sleep(5)

        assert world.slurmctld.digest == world.delivered
        assert world.slurmctld.asked == ["state", "apply", "state"]
        assert world.condition("ConfigApplied") == ("True", "Confirmed")
        assert world.server.get(StatefulSet, "demo-controller", "default") == before


async def test_a_refusal_is_reported_and_the_old_configuration_goes_on() -> None:
    async with a_running_cluster() as world:
        good, world.slurmctld.refuses = world.slurmctld.digest, "fatal: no such plugin"
        world.add("NodeSet", "gpu", spec={"controllerRef": {"name": "demo"}})
        await asyncio.sleep(30)

        assert world.slurmctld.digest == good
        assert world.condition("ConfigApplied") == ("False", "ConfigRefused")
        assert world.condition("Stalled") == ("True", "ConfigRefused")

        world.slurmctld.refuses = ""
        await asyncio.sleep(400)
        assert world.condition("ConfigApplied") == ("True", "Confirmed")


async def test_an_unreachable_pod_is_unknown_and_asked_again() -> None:
    world = World()
    world.slurmctld.is_gone = True
    world.add("Controller", "demo")
    world.operator.start()
    await asyncio.sleep(3)
    world.start_pod()
    await asyncio.sleep(2)
    assert world.condition("ConfigApplied") == ("Unknown", "StateUnknown")

    world.slurmctld.is_gone = False
    await asyncio.sleep(30)
    await world.operator.stop()

    assert world.condition("ConfigApplied") == ("True", "Confirmed")


async def test_a_reference_that_appears_brings_the_waiting_controller_back() -> None:
    world = World()
    world.add("Controller", "demo", spec={"accountingRef": {"name": "acct"}})
    world.operator.start()
    await asyncio.sleep(5)
    assert world.condition("Ready") == ("False", "AccountingMissing")

    world.add("Accounting", "acct")
    await asyncio.sleep(5)
    await world.operator.stop()

    assert world.server.get(StatefulSet, "demo-controller", "default") is not None


async def test_keys_outlive_the_operator() -> None:
    async with a_running_cluster() as world:
        before = world.server.get(Secret, "demo-auth-slurm", "default")
        await world.operator.crash()
        world.operator.start()
        await asyncio.sleep(10)

        assert world.server.get(Secret, "demo-auth-slurm", "default") == before


async def test_a_pod_that_is_gone_does_not_disturb_the_rest() -> None:
    async with a_running_cluster() as world:
        world.server.remove(Pod, "demo-controller-0", "default")
        await asyncio.sleep(5)

        assert world.condition("Ready") == ("False", "SlurmctldStarting")
        assert world.condition("ConfigApplied") == ("Unknown", "StateUnknown")


async def test_metrics_are_monitored_as_soon_as_the_cluster_knows_how() -> None:
    async with a_running_cluster(metrics={"enabled": True}) as world:
        assert world.condition("Ready") == ("True", "AsDesired")
        world.server.register(ServiceMonitor)
        await asyncio.sleep(700)

        found = world.server.get(ServiceMonitor, "demo-controller", "default")
        assert found is not None
        assert {one["path"] for one in found["spec"]["endpoints"]} >= {"/metrics/jobs", "/metrics/nodes"}


async def test_a_slurmctld_that_came_back_hears_its_workers_again_and_is_then_left_in_peace() -> None:
    world = World()
    world.slurmctld.revival = STATE_WITH_GHOSTS | {"at": 1, "loaded": 1}
    world.add("Controller", "demo")
    world.operator.start()
    await asyncio.sleep(3)
    world.start_worker()  # its key is there by then
    world.start_pod()
    await asyncio.sleep(10)
    assert world.slurmctld.asked == ["state"]

    world.slurmctld.revival = STATE_WITH_GHOSTS  # what it says later on
    await asyncio.sleep(600)
    await world.operator.stop()

    assert world.slurmctld.asked == ["state", "state", "register", "state"]
    assert world.condition("Ready") == ("True", "AsDesired")
