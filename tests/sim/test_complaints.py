"""What users of other systems published about lost jobs, lost hours and stuck sets: each once more, against the models.

`docs/safety.md` says which complaint each is about; those that have a scenario already are in `test_scenarios`.
"""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.restapi.spec import RestApi
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.kube.models.events_v1 import Event
from corral.kube.models.policy_v1 import PodDisruptionBudget
from tests.sim.kubelet import Json, is_ready
from tests.sim.slurmctld import LOW
from tests.sim.test_scenarios import GOOD, condition, images, lowest_ready, ready
from tests.sim.world import API, NAMESPACE, QUIET_S, World

pytestmark = pytest.mark.looptime(noop_cycles=0)
SHORT_S, LONG_S, HOUR_S = 20.0, 300.0, 3600.0


def machine_below(world: World, name: str) -> str:
    return next(str(pod["spec"]["nodeName"]) for pod in world.pods() if pod["metadata"]["name"] == name)


def pod_named(world: World, name: str) -> Json:
    return next(pod for pod in world.pods() if pod["metadata"]["name"] == name)


def told(world: World, reason: str) -> int:
    """How often people were told: an event that repeats counts each time."""
    return sum(
        one.get("series", {}).get("count", 1) for one in world.server.all_of(Event) if one.get("reason") == reason
    )


async def test_a_worker_that_goes_down_in_the_middle_of_its_rollout_is_replaced_and_takes_jobs_again() -> None:
    world = World(101)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        world.slurm.submit(2, 60.0)
        await asyncio.sleep(2)
        world.change("gpu", slurmd={"image": GOOD})
        await asyncio.sleep(5)
        drained = [name for name, record in world.slurm.nodes.items() if record.drain]
        assert len(drained) == 1
        world.kubelets.crash(pod_named(world, drained[0]))
        await world.settled(LONG_S * 3, quiet_s=QUIET_S)
        assert set(images(world).values()) == {GOOD}
        assert [(name, r.drain, r.down) for name, r in sorted(world.slurm.nodes.items())] == [
            ("gpu-0", False, False),
            ("gpu-1", False, False),
        ]


async def test_a_pod_that_goes_while_every_kubernetes_node_is_cordoned_comes_back_with_the_first_that_is_not() -> None:
    world = World(102, machines=1)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        machine = machine_below(world, "gpu-0")
        world.kubernetes.cordon(machine, on=True)
        await asyncio.sleep(60)
        world.check()
        assert ready(world) == 0
        world.kubernetes.cordon(machine, on=False)
        await world.settled(LONG_S, quiet_s=QUIET_S)
        assert ready(world) == 1
        assert not world.slurm.nodes["gpu-0"].drain


async def test_no_drain_of_ours_outlives_a_kubernetes_node_that_was_replaced() -> None:
    world = World(103)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        gone = machine_below(world, "gpu-0")
        world.kubernetes.kill_machine(gone)
        await asyncio.sleep(60)
        assert world.slurm.nodes["gpu-0"].reason.startswith("corral: ")
        world.kubernetes.delete_machine(gone)
        world.kubernetes.add_machine(f"{gone}-new")
        await world.settled(LONG_S * 2, quiet_s=QUIET_S)
        assert ready(world) == 2
        assert not any(record.drain for record in world.slurm.nodes.values())


@pytest.mark.parametrize("why", ["scale-in", "rollout", "cordon", "deletion"])
async def test_a_worker_that_drains_keeps_its_pod_for_as_long_as_its_job_takes(why: str) -> None:
    world = World(104)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(1, HOUR_S)
        await asyncio.sleep(2)
        before = pod_named(world, "gpu-0")["metadata"]["uid"]
        match why:
            case "scale-in":
                world.change("gpu", replicas=0)
            case "rollout":
                world.change("gpu", slurmd={"image": GOOD})
            case "cordon":
                world.kubernetes.cordon(machine_below(world, "gpu-0"), on=True)
            case "deletion":
                world.deleted_sets.add("gpu")
                world.server.remove(NodeSet, "gpu", NAMESPACE)
        await asyncio.sleep(HOUR_S - 60)
        world.check()
        assert world.slurm.nodes["gpu-0"].drain
        assert pod_named(world, "gpu-0")["metadata"]["uid"] == before
        await asyncio.sleep(120)
        await world.settled()
        assert before not in {pod["metadata"]["uid"] for pod in world.pods()}
        assert (world.slurm.jobs[job].state, world.slurm.jobs[job].restarts) == ("COMPLETED", 0)


async def test_an_answer_without_nodes_that_is_not_true_costs_no_job() -> None:
    """Running workers are taken for lost ones; slurmctld itself refuses to forget who holds a job."""
    world = World(105)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(3, 200.0)
        await asyncio.sleep(2)
        before = {pod["metadata"]["uid"] for pod in world.pods()}
        world.rest.shows_no_nodes = True
        await asyncio.sleep(180)
        world.check()
        assert {pod["metadata"]["uid"] for pod in world.pods()} == before
        world.rest.shows_no_nodes = False
        await asyncio.sleep(60)
        await world.settled()
        assert (world.slurm.jobs[job].state, world.slurm.jobs[job].restarts) == ("COMPLETED", 0)


async def test_while_slurmctld_comes_and_goes_workers_are_made_and_afterwards_nothing_needs_a_restart() -> None:
    world = World(106)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        operator = world.operators[0].connection
        world.change("gpu", replicas=5)
        for _ in range(12):
            world.slurm.kill()
            await asyncio.sleep(10)
            world.slurm.start()
            await asyncio.sleep(5)
        assert ready(world) == 5
        world.check()
        await world.settled(LONG_S * 2, quiet_s=QUIET_S)
        assert sorted(world.slurm.nodes) == [f"gpu-{n}" for n in range(5)]
        assert world.operators[0].connection is operator


async def test_conditions_that_somebody_doubled_stop_nothing_and_are_put_right() -> None:
    world = World(107)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        nodeset = world.nodeset("gpu")
        assert nodeset is not None
        doubled = [*nodeset["status"]["conditions"], *nodeset["status"]["conditions"]]
        world.server.edit(NodeSet, "gpu", NAMESPACE, merge={"status": {"conditions": doubled}}, subresource="status")
        world.change("gpu", replicas=3)
        await world.settled()
        assert ready(world) == 3
        after = world.nodeset("gpu")
        assert after is not None
        assert max(Counter(one["type"] for one in after["status"]["conditions"]).values()) == 1


async def test_a_scale_in_that_meets_an_operator_which_has_just_started_and_no_slurmrestd_waits() -> None:
    world = World(108)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled()
        world.slurm.submit(3, LONG_S)
        await asyncio.sleep(2)
        world.rest.up = False
        world.operators[0].task.cancel()
        world.change("gpu", replicas=0)
        await asyncio.sleep(120)
        world.check()
        assert len(world.pods()) == 3
        world.rest.up = True
        await asyncio.sleep(LONG_S)  # until the jobs have ended
        await world.settled()
        assert world.pods() == []
        assert world.slurm.killed == []


async def test_without_a_restapi_no_worker_is_removed_and_new_ones_are_made() -> None:
    world = World(109)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        world.slurm.submit(2, SHORT_S)
        world.server.remove(RestApi, "slurm", NAMESPACE)
        await asyncio.sleep(5)
        world.change("gpu", replicas=3)
        await asyncio.sleep(60)
        assert ready(world) == 3
        world.change("gpu", replicas=0)
        await asyncio.sleep(120)
        world.check()
        assert len(world.pods()) == 3
        assert condition(world, "SlurmReachable")["status"] == "False"
        meta = {"name": "slurm", "namespace": NAMESPACE}
        spec = {"controllerRef": {"name": "slurm"}}
        world.server.add({"apiVersion": API, "kind": "RestApi", "metadata": meta, "spec": spec})
        await world.settled()
        assert world.pods() == []


async def polls(sets: int) -> Counter[str]:
    """What a quiet cluster is asked in ten minutes."""
    world = World(110)
    for number in range(sets):
        world.make(f"set{number}", replicas=1)
    async with world.running():
        await world.settled()
        asked = Counter(world.rest.asked)
        await asyncio.sleep(600)
        return Counter(world.rest.asked) - asked


async def test_slurmrestd_is_asked_once_an_interval_however_many_nodesets_there_are() -> None:
    one, many = await polls(1), await polls(12)
    assert 0.95 < sum(many.values()) / sum(one.values()) < 1.05, (one, many)
    assert many["nodes"] <= 600 / 5 + 1


async def test_people_are_told_of_a_drain_once_and_not_in_every_pass() -> None:
    world = World(111)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        world.slurm.submit(1, LONG_S)
        await asyncio.sleep(2)
        world.change("gpu", replicas=0)
        for n in range(20):  # each brings a pass
            await asyncio.sleep(10)
            world.server.edit(NodeSet, "gpu", NAMESPACE, merge={"metadata": {"annotations": {"touched": str(n)}}})
        assert told(world, "Draining") == 1


async def test_a_guard_that_somebody_loosened_is_put_back() -> None:
    world = World(112)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        world.slurm.submit(1, LONG_S)
        await asyncio.sleep(2)
        world.server.edit(PodDisruptionBudget, "gpu", NAMESPACE, merge={"spec": {"minAvailable": 0}})
        await asyncio.sleep(5)
        assert not world.evict("gpu-0")
        guard = world.server.get(PodDisruptionBudget, "gpu", NAMESPACE)
        assert guard is not None
        assert guard["spec"]["minAvailable"] > 1


async def test_a_rollout_ends_though_workers_fail_while_they_are_replaced() -> None:
    """Nothing is counted that was only meant: what is there is looked at anew each time."""
    world = World(113)
    world.make("gpu", replicas=4, update={"maxUnavailable": 2})
    async with world.running():
        await world.settled()
        world.change("gpu", slurmd={"image": GOOD})
        for _ in range(6):
            await asyncio.sleep(4)
            running = [pod for pod in world.pods() if pod["status"]["phase"] == "Running"]
            if running:
                world.kubelets.fail(running[0])
        await world.settled(LONG_S * 3, quiet_s=QUIET_S)
        assert sorted(images(world).values()) == [GOOD] * 4
        assert all(is_ready(pod) for pod in world.pods())


async def test_a_kubernetes_node_that_is_not_ready_for_a_moment_keeps_its_worker() -> None:
    world = World(114)
    world.make("gpu", scalingMode="DaemonSet")
    async with world.running():
        await world.settled()
        before = {pod["metadata"]["uid"] for pod in world.pods()}
        name = world.names()[0]
        machine = machine_below(world, name)
        world.kubernetes.set_ready(machine, ready=False)  # its kubelet lives on
        await asyncio.sleep(30)
        world.kubernetes.set_ready(machine, ready=True)
        await world.settled(LONG_S, quiet_s=60)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == before
        assert not any(record.drain for record in world.slurm.nodes.values())


async def test_a_worker_of_a_kubernetes_node_that_was_cordoned_comes_back_when_it_is_not() -> None:
    world = World(115, machines=2)
    world.make("gpu", scalingMode="DaemonSet")
    async with world.running():
        await world.settled()
        name = world.names()[0]
        machine = machine_below(world, name)
        world.kubernetes.cordon(machine, on=True)
        await asyncio.sleep(60)
        if name in world.names():
            world.server.remove(Pod, name, NAMESPACE)
        await asyncio.sleep(60)
        world.kubernetes.cordon(machine, on=False)
        await world.settled(LONG_S, quiet_s=QUIET_S)
        assert name in world.names()
        assert ready(world) == 2


async def test_with_max_unavailable_of_one_the_set_is_never_short_of_two() -> None:
    """However many of the new ones are slow to come."""
    world = World(116)
    world.make("gpu", replicas=6)
    async with world.running():
        await world.settled()
        world.change("gpu", slurmd={"image": GOOD})
        assert await lowest_ready(world, 400) == 5
        await world.settled(LONG_S * 2)


async def test_a_worker_that_comes_back_with_other_cpus_is_on_record_with_them() -> None:
    world = World(115)
    world.make("gpu", replicas=2, slurmd={"resources": {"limits": {"cpu": "1"}}})
    async with world.running():
        await world.settled()
        world.change("gpu", slurmd={"resources": {"limits": {"cpu": "2"}}})
        await world.settled(LONG_S * 2)
        assert {name: record.cpus for name, record in world.slurm.nodes.items()} == {"gpu-0": 2, "gpu-1": 2}
        world.change("gpu", slurmd={"resources": {"limits": {"cpu": "1"}}})
        world.kubernetes.delete_machine(machine_below(world, "gpu-0"))  # its record stays
        await world.settled(HOUR_S, quiet_s=QUIET_S)
        assert {name: record.cpus for name, record in world.slurm.nodes.items()} == {"gpu-0": 1, "gpu-1": 1}


async def test_a_worker_that_registered_with_less_than_is_on_record_comes_back_without_a_person() -> None:
    """slurmctld has drained it for that, and would for ever."""
    world = World(119)
    world.make("gpu", replicas=2, slurmd={"resources": {"limits": {"cpu": "2"}}}, update={"strategy": "OnDelete"})
    async with world.running():
        await world.settled()
        world.rest.up = False  # so that nobody forgets the record before the new slurmd starts
        world.change("gpu", slurmd={"resources": {"limits": {"cpu": "1"}}})
        world.server.remove(Pod, "gpu-0", NAMESPACE)
        await asyncio.sleep(120)
        record = world.slurm.nodes["gpu-0"]
        assert (record.invalid, record.drain, record.reason) == (True, True, LOW)
        world.rest.up = True
        await asyncio.sleep(HOUR_S)
        record = world.slurm.nodes["gpu-0"]
        assert (record.invalid, record.drain, record.cpus) == (False, False, 1)
        world.check()


async def test_a_rollout_and_a_cordon_are_no_scale_in_for_the_volumes_of_workers() -> None:
    world = World(116)
    scratch = {"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    kept = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    world.make("gpu", replicas=2, volumeClaimTemplates=[scratch], persistentVolumeClaimRetentionPolicy=kept)

    def claims() -> dict[str, str]:
        found = world.server.all_of(PersistentVolumeClaim)
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}

    async with world.running():
        await world.settled()
        first = claims()
        assert sorted(first) == ["scratch-gpu-0", "scratch-gpu-1"]
        world.change("gpu", slurmd={"image": GOOD})
        await world.settled(LONG_S * 2)
        machine = machine_below(world, "gpu-0")
        world.kubernetes.cordon(machine, on=True)
        await world.settled()
        assert machine_below(world, "gpu-0") != machine
        assert claims() == first
        world.change("gpu", replicas=1)
        await world.settled()
        assert claims() == {"scratch-gpu-0": first["scratch-gpu-0"]}


@pytest.mark.parametrize("answers", [False, True])
async def test_a_set_that_is_deleted_leaves_no_reservation_and_waits_for_a_slurm_that_does_not_answer(
    answers: bool,
) -> None:
    world = World(117)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        start = world.server.now() + timedelta(hours=5)
        window = {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ")}
        world.change("gpu", slurmd={"image": GOOD}, update={"window": window})
        await asyncio.sleep(15)
        assert list(world.slurm.reservations) == ["corral-gpu"]
        world.rest.up = answers
        world.deleted_sets.add("gpu")
        world.server.remove(NodeSet, "gpu", NAMESPACE)
        await asyncio.sleep(120)
        assert (world.nodeset("gpu") is None) is answers
        world.rest.up = True
        await world.settled()
        assert (world.nodeset("gpu"), world.slurm.reservations, world.slurm.nodes) == (None, {}, {})


async def test_a_pin_holds_while_its_kubernetes_node_is_cordoned_or_not_ready() -> None:
    world = World(118)
    world.make("gpu", replicas=2, pinToNode=True)
    async with world.running():
        await world.settled()
        machine = machine_below(world, "gpu-0")
        world.kubernetes.cordon(machine, on=True)
        await world.settled()
        assert not is_ready(pod_named(world, "gpu-0"))
        world.kubernetes.cordon(machine, on=False)
        await world.settled()
        assert (machine_below(world, "gpu-0"), ready(world)) == (machine, 2)
        world.kubernetes.kill_machine(machine)
        await asyncio.sleep(LONG_S * 2)
        world.kubernetes.return_machine(machine)
        await world.settled(LONG_S * 2)
        assert (machine_below(world, "gpu-0"), ready(world)) == (machine, 2)
