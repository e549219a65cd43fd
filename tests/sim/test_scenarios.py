"""Named scenarios: what users of such systems have lost jobs or hours to, replayed against the models."""

import asyncio
from datetime import timedelta

import pytest

from corral.kinds import names
from corral.kinds.nodeset.calls import REASON_PREFIX
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Pod
from corral.kube.models.events_v1 import Event
from corral.testing.apiserver import Fault
from tests.sim.kubelet import BAD_IMAGE, Json, is_ready
from tests.sim.records import INACTIVE, Refused
from tests.sim.slurmrestd import RestFaults
from tests.sim.world import NAMESPACE, QUIET_S, World

pytestmark = pytest.mark.looptime(noop_cycles=0)
SHORT_S, LONG_S = 20.0, 300.0
GOOD = "corral/slurm:good"
BAD = f"corral/slurm:{BAD_IMAGE}"


def condition(world: World, kind: str, name: str = "gpu") -> dict[str, str]:
    nodeset = world.nodeset(name)
    assert nodeset is not None
    found: dict[str, str] = next(c for c in nodeset["status"]["conditions"] if c["type"] == kind)
    return found


def images(world: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in world.pods("gpu")}


def ready(world: World) -> int:
    return sum(is_ready(pod) for pod in world.pods("gpu"))


def revisions(world: World) -> int:
    return len({pod["metadata"]["labels"][names.REVISION_LABEL] for pod in world.pods("gpu")})


async def lowest_ready(world: World, for_s: float) -> int:
    """How few were ready at the worst moment of the next seconds."""
    lowest, until_s = ready(world), world.server.now_s() + for_s
    while world.server.now_s() < until_s:
        await asyncio.sleep(0.5)
        lowest = min(lowest, ready(world))
    return lowest


async def test_a_lookup_that_fails_inside_an_answer_of_200_is_not_taken_for_drained() -> None:
    world = World(1)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        world.slurm.submit(2, SHORT_S)
        await asyncio.sleep(1)
        world.rest.faults = RestFaults(errors_in_200_p=1.0)
        world.change("gpu", replicas=0)
        await asyncio.sleep(120)
        world.check()
        assert len(world.pods()) == 2
        assert condition(world, "SlurmReachable")["status"] == "False"
        world.rest.faults = RestFaults()
        await world.settled()
        assert world.pods() == []


async def test_a_forget_that_fails_inside_an_answer_of_200_leaves_the_pod() -> None:
    world = World(2)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        world.rest.fail_next("DELETE", number=0)
        world.change("gpu", replicas=0)
        await world.settled()
        assert world.pods() == []


@pytest.mark.parametrize("window", [None, {"start": "2026-01-01T00:00:00Z", "duration": "9000h"}], ids=["", "window"])
async def test_a_bad_image_costs_no_more_than_max_unavailable_and_taking_it_back_heals(window: Json | None) -> None:
    world = World(3)
    world.make("gpu", replicas=5, update={"maxUnavailable": 2, "window": window})
    async with world.running():
        await world.settled()
        world.change("gpu", slurmd={"image": BAD})
        assert await lowest_ready(world, 120) == 3
        await asyncio.sleep(600)
        world.check()
        assert ready(world) == 3
        assert condition(world, "Stalled")["status"] == "True"
        assert "RolloutStopped" in (condition(world, "Stalled")["reason"], condition(world, "Ready")["reason"])
        world.change("gpu", slurmd={"image": None})
        assert await lowest_ready(world, 60) >= 3
        await world.settled()
        assert (ready(world), revisions(world)) == (5, 1)


async def test_a_rollout_replaces_all_and_never_more_at_once_than_it_may() -> None:
    world = World(4)
    world.make("gpu", replicas=4)
    async with world.running():
        await world.settled()
        world.slurm.submit(1, SHORT_S)
        world.change("gpu", slurmd={"image": GOOD})
        assert await lowest_ready(world, 200) == 3
        await world.settled(LONG_S * 2)
        assert set(images(world).values()) == {GOOD}
        assert world.slurm.killed == []


async def test_with_a_surge_nobody_is_missing_meanwhile() -> None:
    world = World(5)
    world.make("gpu", replicas=3, update={"maxUnavailable": 0, "maxSurge": 1})
    async with world.running():
        await world.settled()
        world.change("gpu", slurmd={"image": GOOD})
        assert await lowest_ready(world, 200) == 3
        await world.settled(LONG_S * 2)
        assert sorted(images(world).values()) == [GOOD] * 3


async def test_on_delete_paused_and_partition_hold_the_rest_back() -> None:
    world = World(6)
    world.make("gpu", replicas=3, update={"strategy": "OnDelete"})
    async with world.running():
        await world.settled()
        world.change("gpu", slurmd={"image": GOOD})
        await world.settled()
        assert GOOD not in images(world).values()
        world.server.remove(Pod, "gpu-1", NAMESPACE)
        await world.settled()
        assert [name for name, image in images(world).items() if image == GOOD] == ["gpu-1"]
        world.change("gpu", update={"strategy": "RollingUpdate", "partition": 2})
        await world.settled()
        assert [name for name, image in images(world).items() if image == GOOD] == ["gpu-1", "gpu-2"]
        world.server.remove(Pod, "gpu-0", NAMESPACE)
        await world.settled()
        assert images(world)["gpu-0"] != GOOD  # below the partition it comes back as it was
        world.change("gpu", update={"partition": 0, "paused": True})
        await world.settled()
        assert images(world)["gpu-0"] != GOOD
        world.change("gpu", update={"paused": False})
        await world.settled()
        assert set(images(world).values()) == {GOOD}


async def test_kubectl_drain_is_refused_while_a_job_runs_and_the_worker_moves_when_it_has_ended() -> None:
    world = World(7)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        world.slurm.submit(1, SHORT_S)
        await asyncio.sleep(1)
        machine = world.pods()[0]["spec"]["nodeName"]
        world.kubernetes.cordon(machine, on=True)
        assert not world.evict("gpu-0")
        await asyncio.sleep(2)
        assert world.slurm.nodes["gpu-0"].reason == f"corral: Kubernetes node {machine} is cordoned"
        await world.settled()
        assert world.pods()[0]["spec"]["nodeName"] != machine
        assert not world.slurm.nodes["gpu-0"].drain
        assert world.slurm.killed == []


async def test_a_node_that_is_not_ready_is_drained_and_given_back_only_when_its_worker_is_ready_again() -> None:
    world = World(8)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        machine = world.pods()[0]["spec"]["nodeName"]
        world.kubernetes.kill_machine(machine)
        await asyncio.sleep(55)
        assert world.slurm.nodes["gpu-0"].reason == f"corral: Kubernetes node {machine} is not ready"
        world.kubernetes.return_machine(machine)
        while world.slurm.nodes["gpu-0"].drain:
            assert world.slurm.nodes["gpu-0"].reason.startswith("corral: ")
            await asyncio.sleep(0.1)
        assert ready(world) == 1
        await world.settled()


async def test_an_admins_drain_outlives_cordon_rollout_and_scale_in() -> None:
    world = World(9)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        world.slurm.drain("gpu-1", "bad DIMM", "root")
        machine = world.pods("gpu")[1]["spec"]["nodeName"]
        world.kubernetes.cordon(machine, on=True)
        world.change("gpu", slurmd={"image": GOOD})
        await world.settled()
        world.kubernetes.cordon(machine, on=False)
        world.change("gpu", replicas=0)
        await world.settled()
        assert world.names() == ["gpu-1"]
        assert world.slurm.nodes["gpu-1"].reason == "bad DIMM"


async def test_one_deleted_node_and_a_slurmctld_restart_cost_no_other_job() -> None:
    world = World(10)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(1, 100.0)
        await asyncio.sleep(5)
        (busy,) = world.slurm.jobs[job].nodes
        places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.pods()}
        world.kubernetes.delete_machine(next(place for place in places.values() if place != places[busy]))
        world.slurm.kill()
        await asyncio.sleep(5)
        world.slurm.start()
        await asyncio.sleep(100)
        await world.settled()
        assert world.slurm.jobs[job].state == "COMPLETED"
        assert world.slurm.jobs[job].restarts == 0


async def test_after_slurmctld_has_lost_all_its_nodes_workers_come_back_without_a_restart_of_anything() -> None:
    world = World(11)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled()
        world.slurm.kill()
        await asyncio.sleep(20)
        world.slurm.start(lost=1.0)
        await asyncio.sleep(200)
        await world.settled()
        assert sorted(world.slurm.nodes) == ["gpu-0", "gpu-1", "gpu-2"]


async def test_while_rest_hangs_workers_are_made_and_healed_and_none_is_removed() -> None:
    world = World(12)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        world.rest.hangs = True
        world.kubelets.fail(world.pods()[1])
        world.change("gpu", replicas=4)
        await asyncio.sleep(120)
        assert world.names() == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        assert ready(world) == 4
        world.change("gpu", replicas=1)
        await asyncio.sleep(120)
        assert len(world.pods()) == 4
        world.rest.hangs = False
        await world.settled()
        assert len(world.pods()) == 1


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.HANG, Fault.SERVER_ERROR])
async def test_an_answer_that_is_lost_deletes_no_other_pod(fault: Fault) -> None:
    world = World(13)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled()
        world.server.fail_next(fault, method="DELETE", resource="pods", times=2)
        world.change("gpu", replicas=2)
        await world.settled(quiet_s=QUIET_S)  # a slurmd without a record may yet register, for so long
        assert world.names() == ["gpu-0", "gpu-1"]


async def test_a_rollout_that_has_its_time_finds_nodes_that_the_scheduler_has_emptied() -> None:
    world = World(14)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        running = [world.slurm.submit(1, 100.0) for _ in range(2)]
        await asyncio.sleep(5)
        start = world.server.now() + timedelta(minutes=5)
        window = {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ"), "duration": "30m"}
        world.change("gpu", slurmd={"image": GOOD}, update={"window": window})
        await asyncio.sleep(5)
        assert sorted(world.slurm.reservations["corral-gpu"].nodes) == ["gpu-0", "gpu-1"]
        long, short = world.slurm.submit(1, 600.0), world.slurm.submit(1, 30.0)
        await asyncio.sleep(240)
        assert GOOD not in images(world).values()
        assert not any(record.drain for record in world.slurm.nodes.values())
        assert [world.slurm.jobs[job].state for job in (*running, short)] == ["COMPLETED"] * 3
        assert world.slurm.jobs[long].state == "PENDING"
        await asyncio.sleep(180)
        assert set(images(world).values()) == {GOOD}
        assert world.slurm.reservations == {}
        await asyncio.sleep(10)
        assert world.slurm.jobs[long].state == "RUNNING"
        world.check()


async def test_a_window_that_is_taken_away_leaves_no_reservation() -> None:
    world = World(15)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        start = world.server.now() + timedelta(hours=5)
        window = {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ")}
        world.change("gpu", slurmd={"image": GOOD}, update={"window": window})
        await asyncio.sleep(5)
        assert list(world.slurm.reservations) == ["corral-gpu"]
        world.change("gpu", update={"window": None})
        await world.settled()
        assert world.slurm.reservations == {}
        assert set(images(world).values()) == {GOOD}


@pytest.mark.parametrize("seed", [37, 39])
async def test_a_reconfigure_in_the_moment_of_a_removal_costs_no_job(seed: int) -> None:
    """Every slurmd that slurmctld knows registers anew then: one that was forgotten meanwhile, without its drain."""
    world = World(seed)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled()
        world.slurm.submit(3, LONG_S)
        await asyncio.sleep(1)
        world.change("gpu", replicas=0)
        for _ in range(6):
            world.slurm.submit(1, LONG_S)  # for whoever comes back
        await asyncio.sleep(LONG_S - 5)  # long drained: only the look itself tells that they are about to register
        for _ in range(40):
            world.kubernetes.reconfigured()
            await asyncio.sleep(0.5)
            world.check()
        await world.settled()
        assert world.pods() == []


@pytest.mark.parametrize("seed", range(3))
async def test_a_drained_record_of_an_earlier_life_does_not_cost_the_job_of_the_one_that_comes(seed: int) -> None:
    """Its slurmd starts while the worker is to go, and its kubelet hears of a deletion twelve seconds late."""
    world = World(seed)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        world.kubelets.hears_within_s = 12.0
        world.slurm.drain("gpu-0", f"{REASON_PREFIX}of an earlier life", "slurm")
        world.server.remove(Pod, "gpu-0", NAMESPACE, grace_s=0)
        while not any(pod["spec"].get("nodeName") for pod in world.pods()):  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.1)
        world.change("gpu", replicas=0)
        job = world.slurm.submit(1, SHORT_S)
        await asyncio.sleep(60)
        world.check()
        world.change("gpu", replicas=1)
        await asyncio.sleep(60)
        await world.settled()
        assert world.slurm.killed == []
        assert (world.slurm.jobs[job].state, world.slurm.jobs[job].restarts) == ("COMPLETED", 0)


async def test_only_where_people_asked_for_it_a_drain_is_forced_and_they_are_told_which_job_it_cost() -> None:
    world = World(16)
    world.make("gpu", replicas=1, forceDrainAfterSeconds=60)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(1, 600.0)
        await asyncio.sleep(5)
        world.change("gpu", replicas=0)
        await asyncio.sleep(55)
        assert (world.names(), world.slurm.killed) == (["gpu-0"], [])
        await asyncio.sleep(90)
        assert (world.names(), [killed[:2] for killed in world.slurm.killed]) == ([], [(job, "gpu-0")])
        warned = [one["note"] for one in world.server.all_of(Event) if one["reason"] == "JobsKilled"]
        assert len(warned) == 1
        assert f"running job: {job}" in warned[0]


async def test_a_set_that_is_deleted_waits_for_jobs_of_its_partition_and_names_them() -> None:
    world = World(17)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        waiting = world.slurm.submit(9, SHORT_S, "gpu")
        await asyncio.sleep(5)
        world.deleted_sets.add("gpu")
        world.server.remove(NodeSet, "gpu", NAMESPACE)
        await asyncio.sleep(120)
        assert (world.names(), world.slurm.partitions["gpu"]) == ([], INACTIVE)
        assert f"which is deleted too: {waiting}." in condition(world, "Ready")["message"]
        with pytest.raises(Refused, match="not available"):
            world.slurm.submit(1, SHORT_S, "gpu")
        world.slurm.cancel_pending()
        await world.settled()
        assert (world.nodeset("gpu"), world.slurm.cost) == (None, [])
        assert "gpu" not in world.slurm.partitions


async def test_a_pod_that_somebody_deletes_waits_for_its_job_no_longer_than_people_chose_to() -> None:
    """Kubelet heeds no shorter time then: the wait is ended from within, after a warning."""
    world = World(18)
    world.make("gpu", replicas=1, forceDrainAfterSeconds=60)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(1, 400.0)
        await asyncio.sleep(5)
        (pod,) = world.pods()
        world.server.remove(Pod, "gpu-0", NAMESPACE)
        await asyncio.sleep(55)
        assert (world.names(), world.slurm.killed) == (["gpu-0"], [])
        await asyncio.sleep(90)
        world.check()
        assert [killed[:2] for killed in world.slurm.killed] == [(job, "gpu-0")]
        told = [one["reason"] for one in world.server.all_of(Event) if f"job: {job}" in one["note"]]
        assert {"JobsToBeKilled", "JobsKilled"} <= set(told)
        await world.settled()
        assert [one["metadata"]["uid"] == pod["metadata"]["uid"] for one in world.pods()] == [False]


async def test_a_limit_that_people_set_long_after_the_drain_kills_nobody_before_a_warning() -> None:
    world = World(19)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
        job = world.slurm.submit(1, 600.0)
        await asyncio.sleep(5)
        world.change("gpu", replicas=0)
        await asyncio.sleep(100)
        world.change("gpu", forceDrainAfterSeconds=60)
        await asyncio.sleep(30)
        world.check()
        assert (world.names(), world.slurm.killed) == (["gpu-0"], [])
        await asyncio.sleep(120)
        world.check()
        assert (world.names(), [killed[:2] for killed in world.slurm.killed]) == ([], [(job, "gpu-0")])
