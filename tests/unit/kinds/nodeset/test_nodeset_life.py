"""A whole NodeSet against the fake API server, with a kubelet and Slurm in memory, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from corral.engine.controller import AnyController
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.calls import Drain, Forget, Undrain
from corral.kinds.nodeset.controller import controller
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.restapi.spec import RestApi
from corral.kube.models.core_v1 import Pod, Secret
from corral.testing.apiserver import ROUGH, FakeApiServer, Fault
from corral.testing.operators import Operator, converged
from tests.unit.kinds.nodeset.model import Kubelet, ModelSlurm

pytestmark = pytest.mark.looptime(noop_cycles=0)

API = "slurm.corral.dev/v1alpha1"
A_KEY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "slurm-auth-slurm", "namespace": "lab"},
    "data": {"slurm.jwks": "e30="},
}


class World:
    def __init__(self, seed: int = 1) -> None:
        self.server = FakeApiServer(seed=seed, namespaces=("lab",))
        for kind in (NodeSet, SlurmController, RestApi):
            self.server.register(kind)
        self.slurm = ModelSlurm()
        self.kubelet = Kubelet(self.server, self.slurm)
        self.operator = Operator(self.server, self.build, seed=seed)
        self.server.add(manifest("Controller", "slurm"))
        self.server.add(A_KEY)

    def build(self) -> AnyController:
        return controller(self.slurm, self.slurm)

    def scale(self, replicas: int) -> None:
        self.server.edit(NodeSet, "gpu", "lab", merge={"spec": {"replicas": replicas}})

    def pods(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.server.all_of(Pod))

    def status(self) -> dict[str, Any]:
        found = self.server.get(NodeSet, "gpu", "lab")
        assert found is not None
        status: dict[str, Any] = found["status"]
        return status

    def condition(self, kind: str) -> dict[str, str]:
        found: dict[str, str] = next(c for c in self.status()["conditions"] if c["type"] == kind)
        return found

    async def settled(self, within_s: float = 120.0) -> None:
        await converged(self.server, self.build, within_s=within_s, quiet_s=15)


def manifest(kind: str, name: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": "lab"}, "spec": spec}


@asynccontextmanager
async def a_world(replicas: int, *, seed: int = 1) -> AsyncIterator[World]:
    world = World(seed)
    world.server.add(manifest("NodeSet", "gpu", replicas=replicas, controllerRef={"name": "slurm"}))
    kubelet = asyncio.create_task(world.kubelet.run())
    operator = asyncio.create_task(world.operator.keep_running())
    try:
        await world.settled()
        yield world
    finally:
        for task in (operator, kubelet):
            task.cancel()
        await asyncio.gather(operator, kubelet, return_exceptions=True)
        await world.operator.crash()


async def test_workers_come_register_and_are_ready() -> None:
    async with a_world(3) as world:
        assert world.pods() == ["gpu-0", "gpu-1", "gpu-2"]
        assert (world.status()["idle"], world.status()["readyReplicas"]) == (3, 3)
        assert world.condition("Ready")["status"] == "True"


async def test_workers_that_come_one_after_another_are_few_status_writes() -> None:
    async with a_world(40) as world:
        assert (world.status()["idle"], world.status()["readyReplicas"]) == (40, 40)
        told = [line for line in world.server.trace if "nodesets/gpu/status" in line]
        assert 0 < len(told) <= 5, told


async def test_people_who_change_their_mind_do_not_wait_for_all_that_they_asked_for_first() -> None:
    async with a_world(0) as world:
        world.server.fail_next(Fault.SLOW, method="POST", resource="pods", times=1000)
        world.scale(1000)
        while len(world.pods()) < 50:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.001)
        world.scale(2)
        await world.settled()
        made = [line for line in world.server.trace if " POST " in line and "/pods" in line]
        assert 50 <= len(made) < 500, len(made)
        assert len(world.pods()) == 2


def ours(kind: str, what: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "corral", "app.kubernetes.io/name": what}
    meta = {"name": f"slurm-{what}", "namespace": "lab", "labels": labels}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}


MOUNTED = (A_KEY, ours("ConfigMap", "identity"), ours("PersistentVolumeClaim", "home"))


@pytest.mark.parametrize("last", range(3))
async def test_no_worker_is_made_before_all_that_it_mounts_is_there_and_then_at_once(last: int) -> None:
    people = {"users": [{"name": "alice", "uid": 2001}]}
    async with a_world(0) as world:
        world.server.remove(Secret, "slurm-auth-slurm", "lab")
        world.server.edit(SlurmController, "slurm", "lab", merge={"spec": {"identity": people, "home": {}}})
        world.scale(2)
        for comes in (*MOUNTED[:last], *MOUNTED[last + 1 :], MOUNTED[last]):
            await world.settled()
            assert world.pods() == []
            assert f"waiting for {comes['kind']} lab/{comes['metadata']['name']}" in world.condition("Ready")["message"]
            world.server.add(comes)
        await asyncio.sleep(2)
        assert world.pods() == ["gpu-0", "gpu-1"]


async def test_scale_in_takes_idle_workers_and_waits_for_the_job_of_a_busy_one() -> None:
    async with a_world(3) as world:
        world.slurm.start_job(12, "gpu-0")
        world.scale(0)
        await world.settled()
        assert world.pods() == ["gpu-0"]
        assert "job 12 runs" in world.condition("Ready")["message"]
        world.slurm.end_job(12)
        await world.settled()
        assert (world.pods(), world.slurm.reasons, world.slurm.lost) == ([], {}, [])


async def test_a_worker_that_may_stay_after_all_is_given_back() -> None:
    async with a_world(1) as world:
        world.slurm.start_job(12, "gpu-0")
        world.scale(0)
        await world.settled()
        world.scale(1)
        await world.settled()
        assert [type(call) for call in world.slurm.done] == [Drain, Undrain]
        assert world.condition("Ready")["status"] == "True"


async def test_while_slurm_is_away_workers_are_made_and_healed_and_none_is_removed() -> None:
    async with a_world(2) as world:
        world.slurm.set_up(False)
        world.kubelet.set_phase("gpu-1", "Failed")
        world.scale(3)
        await world.settled()
        assert world.pods() == ["gpu-0", "gpu-1", "gpu-2"]
        world.scale(1)
        await world.settled()
        assert world.pods() == ["gpu-0", "gpu-1", "gpu-2"]
        assert world.condition("SlurmReachable")["status"] == "False"
        world.slurm.set_up(True)
        await world.settled()
        assert len(world.pods()) == 1


async def test_one_whose_kubelet_is_away_does_not_make_all_else_late() -> None:
    async with a_world(1) as world:
        world.slurm.mute.add("gpu-0")
        world.server.remove(Pod, "gpu-0", "lab", grace_s=GRACE_S)
        await asyncio.sleep(150)
        in_time = []
        for replicas in range(2, 8):
            world.scale(replicas)
            await asyncio.sleep(2)
            in_time.append(len(world.pods()) == replicas)
            await asyncio.sleep(10)
        assert sum(in_time) >= 5, in_time
        world.slurm.mute.clear()
        await world.settled()
        assert world.condition("Ready")["status"] == "True"


async def test_deletion_drains_waits_and_ends() -> None:
    async with a_world(2) as world:
        world.slurm.start_job(12, "gpu-1")
        world.server.remove(NodeSet, "gpu", "lab")
        await world.settled()
        assert world.pods() == ["gpu-1"]
        world.slurm.end_job(12)
        await world.settled()
        assert (world.pods(), world.server.all_of(NodeSet), world.slurm.reasons) == ([], [], {})
        assert world.slurm.lost == []


async def test_deletion_ends_when_the_controller_goes_even_if_slurm_is_away() -> None:
    async with a_world(2) as world:
        world.slurm.set_up(False)
        world.server.remove(NodeSet, "gpu", "lab")
        await world.settled()
        assert len(world.pods()) == 2
        world.server.remove(SlurmController, "slurm", "lab")
        await asyncio.sleep(60)  # in case it is created again
        assert (world.pods(), world.server.all_of(NodeSet)) == ([], [])


async def test_a_node_is_forgotten_before_its_pod_goes() -> None:
    async with a_world(2) as world:
        world.scale(1)
        await world.settled()
        assert [type(call) for call in world.slurm.done] == [Drain, Forget]


@pytest.mark.parametrize("seed", range(12))
async def test_no_job_is_lost_whatever_fails(seed: int) -> None:
    """People scale, jobs come and go, Slurm goes away, the API server fails, the operator dies."""
    luck = Random(seed)
    async with a_world(3, seed=seed) as world:
        world.server.faults = ROUGH
        for number in range(60):
            await asyncio.sleep(luck.uniform(0.1, 4.0))
            await one_thing_happens(world, luck, number)
        world.server.stop_faults()
        world.slurm.set_up(True)
        for job in list(world.slurm.jobs):
            world.slurm.end_job(job)
        world.scale(2)
        await converged(world.server, world.build, within_s=900, quiet_s=120)
        assert world.slurm.lost == []
        assert (len(world.pods()), len(world.slurm.reasons)) == (2, 2)


async def one_thing_happens(world: World, luck: Random, number: int) -> None:
    match luck.randrange(6):
        case 0:
            world.scale(luck.randrange(6))
        case 1 | 2 if world.slurm.reasons:
            world.slurm.start_job(number, luck.choice(sorted(world.slurm.reasons)))
        case 3 if world.slurm.jobs:
            world.slurm.end_job(luck.choice(sorted(world.slurm.jobs)))
        case 4:
            world.slurm.set_up(luck.random() < 0.7)
        case 5:
            await world.operator.crash()
