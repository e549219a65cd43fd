"""Those of Kubernetes whom the simulator plays: what a budget lets go, and whom a taint drives out.

As pkg/controller/disruption and pkg/controller/tainteviction of 1.36 decide it; on a real cluster workers are evicted
in the same situations by tests/e2e/test_nodes.py.
"""

import asyncio
from typing import Any

import pytest

from corral.kube.models.apps_v1 import ReplicaSet
from corral.kube.models.core_v1 import Pod
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.testing.apiserver import FakeApiServer
from tests.sim.disruption import Disruption
from tests.sim.taints import patience_s
from tests.sim.test_scenarios import SHORT_S, condition
from tests.sim.world import NAMESPACE, World

pytestmark = pytest.mark.looptime(noop_cycles=0)
LONG_S = 3600.0
LABELS = {"app": "a"}
LARGEST = 2147483647


def allowed(spec: dict[str, Any], *, scale: int, ready: int, unready: int = 0, going: int = 0) -> tuple[int, int, int]:
    """disruptionsAllowed, desiredHealthy and expectedPods of a budget over the pods of one owner."""
    server = FakeApiServer()
    owner = server.add(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"replicas": scale},
        }
    )
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": owner["metadata"]["uid"]}
    for number in range(ready + unready):
        condition = {"type": "Ready", "status": "True" if number < ready else "False"}
        meta = {"name": f"a-{number}", "namespace": "default", "labels": LABELS}
        owned = {**meta, "ownerReferences": [{**reference, "controller": True}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**owned, "finalizers": ["x.dev/x"]}}
        server.add({**pod, "spec": {}, "status": {"phase": "Running", "conditions": [condition]}})
    for number in range(going):
        server.remove(Pod, f"a-{number}", "default")
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}}
    server.add({**budget, "spec": {"selector": {"matchLabels": LABELS}, **spec}})
    Disruption(server).tick()
    found = server.get(PodDisruptionBudget, "a", "default")
    assert found is not None
    status = found["status"]
    return status["disruptionsAllowed"], status["desiredHealthy"], status["expectedPods"]


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        pytest.param({"maxUnavailable": 0}, {"scale": 3, "ready": 3}, (0, 3, 3), id="none may go"),
        pytest.param({"maxUnavailable": 0}, {"scale": 1, "ready": 4}, (3, 1, 1), id="more than the owner is scaled to"),
        pytest.param({"maxUnavailable": 0}, {"scale": 2, "ready": 4, "going": 1}, (1, 2, 2), id="one goes already"),
        pytest.param({"maxUnavailable": 1}, {"scale": 3, "ready": 3}, (1, 2, 3), id="one may go"),
        pytest.param({"maxUnavailable": "50%"}, {"scale": 3, "ready": 3}, (2, 1, 3), id="half, rounded up"),
        pytest.param({"minAvailable": 2}, {"scale": 9, "ready": 3}, (1, 2, 3), id="a number does not ask the owner"),
        pytest.param({"minAvailable": "50%"}, {"scale": 4, "ready": 3}, (1, 2, 4), id="a percentage does"),
        pytest.param({"minAvailable": 2}, {"scale": 3, "ready": 1, "unready": 2}, (0, 2, 3), id="unready ones"),
        pytest.param({"minAvailable": LARGEST}, {"scale": 1, "ready": 4}, (0, LARGEST, 4), id="more than there can be"),
        pytest.param({"minAvailable": 0}, {"scale": 0, "ready": 0}, (0, 0, 0), id="nobody there"),
    ],
)
def test_a_budget_lets_go_what_the_disruption_controller_computes(
    spec: dict[str, Any], pods: dict[str, int], expected: tuple[int, int, int]
) -> None:
    assert allowed(spec, **pods) == expected


def test_pods_whose_owner_is_gone_are_not_let_go() -> None:
    server = FakeApiServer()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "1", "controller": True}
    meta = {"name": "a", "namespace": "default", "labels": LABELS, "ownerReferences": [owner]}
    conditions = [{"type": "Ready", "status": "True"}]
    server.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"conditions": conditions}})
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}}
    server.add({**budget, "spec": {"selector": {"matchLabels": LABELS}, "maxUnavailable": 1}})
    Disruption(server).tick()
    found = server.get(PodDisruptionBudget, "a", "default")
    assert found is not None
    assert found["status"]["disruptionsAllowed"] == 0
    assert server.all_of(ReplicaSet) == []


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        pytest.param([], 0.0, id="not tolerated"),
        pytest.param([{"operator": "Exists"}], float("inf"), id="whatever it is"),
        pytest.param([{"key": "b", "operator": "Exists"}], 0.0, id="another one"),
        pytest.param([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}], 0.0, id="another effect"),
        pytest.param([{"key": "a", "operator": "Exists", "tolerationSeconds": 7}], 7.0, id="for a while"),
        pytest.param([{"key": "a", "value": "x"}], 0.0, id="another value"),
    ],
)
def test_a_taint_is_borne_for_as_long_as_the_pod_says(tolerations: list[dict[str, Any]], seconds: float) -> None:
    assert patience_s({"spec": {"tolerations": tolerations}}, [{"key": "a", "effect": "NoExecute"}]) == seconds


def test_of_two_taints_the_one_that_is_borne_for_less_counts() -> None:
    tolerations = [{"key": "a", "operator": "Exists", "tolerationSeconds": s} for s in (300,)]
    tolerations += [{"key": "b", "operator": "Exists"}]
    taints = [{"key": key, "effect": "NoExecute"} for key in ("b", "a")]
    assert patience_s({"spec": {"tolerations": tolerations}}, taints) == 300


@pytest.mark.parametrize("why", ["one a machine", "scale-in", "surge", "switch of modes", "not ready"])
async def test_no_worker_with_a_job_can_be_evicted_whatever_its_set_is_scaled_to(why: str) -> None:
    world = World(201)
    world.make("gpu", **{"scalingMode": "DaemonSet"} if why == "one a machine" else {"replicas": 4})
    async with world.running():
        await world.settled()
        job = world.slurm.submit(4, LONG_S)
        await asyncio.sleep(2)
        match why:
            case "scale-in":
                world.change("gpu", replicas=1)
            case "surge":
                world.change("gpu", slurmd={"image": "corral/slurm:new"}, update={"maxUnavailable": 0, "maxSurge": 3})
            case "switch of modes":
                world.change("gpu", scalingMode="DaemonSet", replicas=1)
            case "not ready":
                for name in world.kubernetes.machines:
                    world.kubernetes.cut_off(name)
        await asyncio.sleep(60)
        busy = world.slurm.jobs[job].nodes
        assert len(busy) == 4
        assert [name for name in busy if world.evict(name)] == []
        world.check()


async def test_a_machine_whose_kubelet_alone_is_lost_for_an_hour_costs_no_job() -> None:
    """Kubernetes drives pods off it after five minutes, unless they say otherwise."""
    world = World(202)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(1, LONG_S)
        await asyncio.sleep(2)
        world.kubernetes.cut_off(world.pods()[0]["spec"]["nodeName"])
        await asyncio.sleep(LONG_S - 60)
        world.check()
        assert condition(world, "Ready")["status"] == "False"
        for name in world.kubernetes.machines:
            world.kubernetes.connect(name)
        await asyncio.sleep(120)
        await world.settled()
        assert (world.slurm.jobs[job].state, world.slurm.jobs[job].restarts) == ("COMPLETED", 0)


async def test_a_taint_that_drives_everybody_out_waits_for_jobs_and_then_moves_the_worker() -> None:
    world = World(203)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(1, SHORT_S)
        await asyncio.sleep(2)
        machine = world.pods()[0]["spec"]["nodeName"]
        world.kubernetes.taint(machine, "example.com/broken", "NoExecute", on=True)
        await asyncio.sleep(5)
        assert world.slurm.nodes["gpu-0"].drain
        await asyncio.sleep(SHORT_S)
        await world.settled()
        assert world.pods()[0]["spec"]["nodeName"] != machine
        assert (world.slurm.jobs[job].state, world.slurm.jobs[job].restarts) == ("COMPLETED", 0)
        assert world.server.get(Pod, "gpu-0", NAMESPACE) is not None
