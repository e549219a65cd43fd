"""Every law of the simulator, broken on purpose: it must be found out, and told in few lines."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from corral.engine import NOTHING, Create, Delete, EmitEvent, Outcome, Outside, Plan, RemoveFinalizer, target
from corral.engine.actions import Action, Apply, Patch
from corral.engine.clock import virtual_clock
from corral.engine.reconciler import Result
from corral.kinds.nodeset import force
from corral.kinds.nodeset.calls import Drain, End, Forget, Undrain
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.fates import fates_of
from corral.kinds.nodeset.looks import end_wait
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.removal import drained
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.workers import Worker
from corral.kube.client import Client
from corral.kube.models.core_v1 import Pod
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.kube.selection import Precondition
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import Hs256, Tokens
from corral.slurm.transport import Endpoint
from tests.sim.forcing import WARNING
from tests.sim.seeds import TRACE_LINES, failure_of, shrunk
from tests.sim.service import HEARD_OF_WITHIN_S, ROLLOUT, breach_of
from tests.sim.witness import Decide, Witness
from tests.sim.world import NAMESPACE, LawBroken, World

TRIED_MAX = 60


def planned(change: Callable[[Snapshot, Action], Sequence[Action]]) -> Decide:
    """The real plan, but for what becomes of some of its actions."""

    def decide(snapshot: Snapshot) -> Plan:
        real = plan(snapshot)
        return Plan(
            actions=tuple(other for action in real.actions for other in change(snapshot, action)),
            waits=real.waits,
            again_after_s=real.again_after_s,
        )

    return decide


def deletes_undrained(snapshot: Snapshot, action: Action) -> Sequence[Action]:
    match action:
        case Outside(call=Drain(node=node)):
            here = [pod for pod in snapshot.pods if pod.metadata.deletion_timestamp is None]
            pods = [pod for pod in here if pod.metadata.name == node]
            return [Delete(target=target(pod), reason="Sabotage", message="") for pod in pods]
    return [action]


def deletes_before_it_forgets(_snapshot: Snapshot, action: Action) -> Sequence[Action]:
    return [] if isinstance(action, Outside) and isinstance(action.call, Forget) else [action]


def leaves_out_the_guard(_snapshot: Snapshot, action: Action) -> Sequence[Action]:
    return [] if isinstance(action, Apply) and isinstance(action.object, PodDisruptionBudget) else [action]


def lets_taints_drive_out(_snapshot: Snapshot, action: Action) -> Sequence[Action]:
    if isinstance(action, Patch):
        return []
    if not isinstance(action, Create) or not isinstance(action.object, Pod):
        return [action]
    spec = msgspec.structs.replace(action.object.spec, tolerations=())
    return [msgspec.structs.replace(action, object=msgspec.structs.replace(action.object, spec=spec))]


def forgets_what_is_somebodys(snapshot: Snapshot) -> Plan:
    theirs = [worker.name for worker in snapshot.workers if worker.node is not None and worker.is_somebodys]
    return plan(snapshot) + outside(*(Forget(node=name, spares_others=False) for name in theirs))


def rolls_all_at_once(snapshot: Snapshot) -> Plan:
    return plan(snapshot) + drains_for_a_rollout(snapshot, outdated(snapshot))


def counts_only_its_own(snapshot: Snapshot) -> Plan:
    """One after the other, whoever else is missing already."""
    real, old = plan(snapshot), outdated(snapshot)
    drains = [one for one in real.actions if isinstance(one, Outside) and isinstance(one.call, Drain)]
    has_begun = drains or any(worker.has_our_drain for worker in snapshot.workers)
    return real + drains_for_a_rollout(snapshot, () if has_begun else old[:1])


def outdated(snapshot: Snapshot) -> tuple[Worker, ...]:
    """Those that a rollout will replace, and could now."""
    nodeset, controller = snapshot.object, snapshot.controller
    if controller is None or nodeset.metadata.deletion_timestamp is not None or nodeset.spec.suspend:
        return ()
    fates = fates_of(snapshot, controller)
    return tuple(worker for worker in fates.outdated if worker in fates.staying and not worker.is_somebodys)


def drains_for_a_rollout(snapshot: Snapshot, workers: Sequence[Worker]) -> Plan:
    takes_jobs = [worker for worker in workers if worker.node is not None and not worker.has_drain]
    return Plan(actions=tuple(action for worker in takes_jobs for action in drained(snapshot, worker, "rollout")))


def forces_at_once(snapshot: Snapshot) -> Plan:
    """With the warning, but not after the time."""
    return plan(snapshot) + (forced(snapshot, draining(snapshot)) if force.limit(snapshot) is not None else NOTHING)


def forces_unasked(snapshot: Snapshot) -> Plan:
    return plan(snapshot) + (forced(snapshot, draining(snapshot)) if force.limit(snapshot) is None else NOTHING)


def forces_without_a_word(snapshot: Snapshot) -> Plan:
    """After the time."""
    within = force.limit(snapshot)
    if within is None:
        return plan(snapshot)
    nodes = [(worker, worker.node) for worker in draining(snapshot)]
    over = [worker for worker, node in nodes if node and node.reason_at and snapshot.now > node.reason_at + within]
    return planned(says_nothing)(snapshot) + forced(snapshot, over)


def says_nothing(_snapshot: Snapshot, action: Action) -> Sequence[Action]:
    return [] if isinstance(action, EmitEvent) and action.reason == WARNING else [action]


def draining(snapshot: Snapshot) -> list[Worker]:
    return [worker for worker in snapshot.live if worker.facts is Facts.DRAINING and worker.has_our_drain]


def forced(snapshot: Snapshot, workers: Sequence[Worker]) -> Plan:
    return Plan(actions=tuple(one for worker in workers for one in force.forced(snapshot, worker, "sabotage")))


def gives_back_too_early(snapshot: Snapshot) -> Plan:
    arriving = [worker for worker in snapshot.live if worker.has_our_drain and worker.arrives]
    return plan(snapshot) + outside(*(Undrain(node=worker.name) for worker in arriving))


def takes_volumes_along(snapshot: Snapshot) -> Plan:
    """Of workers that go for a moment, too."""
    real = plan(snapshot)
    gone = {action.target.name for action in real.actions if isinstance(action, Delete)}
    claims = [one for one in snapshot.claims if one.metadata.name.partition("-")[2] in gone]
    return real + Plan(actions=tuple(Delete(target=target(one), reason="Sabotage", message="") for one in claims))


def takes_volumes_of_the_missing(snapshot: Snapshot) -> Plan:
    """Takes whoever has no pod for scaled in."""
    spec = snapshot.object.spec
    here = {pod.metadata.name for pod in snapshot.pods}
    claims = [one for one in snapshot.claims if one.metadata.name.partition("-")[2] not in here]
    if spec.persistent_volume_claim_retention_policy.when_scaled != "Delete":
        return plan(snapshot)
    return plan(snapshot) + Plan(
        actions=tuple(Delete(target=target(one), reason="Sabotage", message="") for one in claims)
    )


def forgets_pins(_snapshot: Snapshot, action: Action) -> Sequence[Action]:
    if not isinstance(action, Create) or not isinstance(action.object, Pod):
        return [action]
    spec = msgspec.structs.replace(action.object.spec, affinity=None, node_selector={})
    return [msgspec.structs.replace(action, object=msgspec.structs.replace(action.object, spec=spec))]


def ignores_what_is_reserved(snapshot: Snapshot) -> Plan:
    spec = msgspec.structs.replace(snapshot.object.spec, reserve_ordinals=())
    return plan(msgspec.structs.replace(snapshot, object=msgspec.structs.replace(snapshot.object, spec=spec)))


def lets_go_at_once(snapshot: Snapshot) -> Plan:
    nodeset = snapshot.object
    if nodeset.metadata.deletion_timestamp is None or not nodeset.metadata.finalizers:
        return plan(snapshot)
    (finalizer,) = nodeset.metadata.finalizers
    return Plan(
        actions=(RemoveFinalizer(target=target(nodeset), present=nodeset.metadata.finalizers, finalizer=finalizer),)
    )


def ends_waits_unasked(snapshot: Snapshot) -> Plan:
    waiting = [worker for worker in snapshot.workers if worker.body.waits_since is not None and worker.jobs]
    return plan(snapshot) + outside(*(End(pod=worker.name) for worker in waiting))


def stumbles(snapshot: Snapshot) -> Plan:
    if any(worker.body.is_leaving for worker in snapshot.workers):
        raise ZeroDivisionError
    return plan(snapshot)


def asks_for_what_nobody_does(snapshot: Snapshot) -> Plan:
    return plan(snapshot) + outside(Unheard(node="gpu-0"))


class Unheard(msgspec.Struct, frozen=True):
    node: str


def outside(*calls: msgspec.Struct) -> Plan:
    return Plan(actions=tuple(Outside(system="", subject="", call=c, reason="Sabotage", message="") for c in calls))


def never_ends(snapshot: Snapshot) -> Plan:
    """Makes no worker again, whatever happened to it."""
    return plan(snapshot) if snapshot.pods == () else Plan()


@pytest.mark.parametrize(
    ("decide", "found"),
    [
        pytest.param(planned(deletes_undrained), "deletes pod", id="deletes undrained"),
        pytest.param(planned(deletes_before_it_forgets), "its record is there", id="deletes without forgetting"),
        pytest.param(planned(leaves_out_the_guard), "kubectl deletes pod", id="no guard"),
        pytest.param(planned(lets_taints_drive_out), "taint manager deletes pod", id="no tolerations"),
        pytest.param(forgets_what_is_somebodys, "which is somebody else's", id="forgets what is somebody's"),
        pytest.param(rolls_all_at_once, "must be", id="rolls all at once"),
        pytest.param(counts_only_its_own, "a plan takes", id="counts only its own"),
        pytest.param(forces_at_once, "it has had its drain for", id="forces at once"),
        pytest.param(forces_unasked, "nobody asked for force", id="forces unasked"),
        pytest.param(forces_without_a_word, "no warning has named", id="forces without a word"),
        pytest.param(ends_waits_unasked, "ends the wait of pod", id="ends waits unasked"),
        pytest.param(stumbles, "has a bug: ZeroDivisionError()", id="stumbles"),
        pytest.param(asks_for_what_nobody_does, "a NodeSet cannot Unheard", id="asks for what nobody does"),
        pytest.param(gives_back_too_early, "has not registered", id="gives back too early"),
        pytest.param(takes_volumes_along, "before its pod is gone", id="takes volumes along"),
        pytest.param(takes_volumes_along, "which is to be kept", id="takes volumes that are to be kept"),
        pytest.param(takes_volumes_of_the_missing, "whose worker is asked for", id="takes volumes of the missing"),
        pytest.param(planned(forgets_pins), "and it is pinned to", id="forgets pins"),
        pytest.param(ignores_what_is_reserved, "whose ordinal is reserved", id="ignores what is reserved"),
        pytest.param(lets_go_at_once, "ended with partition", id="lets a set go at once"),
        pytest.param(never_ends, "are wanted", id="does nothing"),
    ],
)
def test_a_plan_that_breaks_a_law_is_found_out(decide: Decide, found: str) -> None:
    failures = (failure_of(seed, decide) for seed in range(TRIED_MAX))
    errors = (failure.error for failure in failures if failure is not None)
    assert any(found in str(error) for error in errors), f"{TRIED_MAX} seeds have not found it"


def test_what_fails_is_told_with_few_steps_and_few_lines() -> None:
    failures = (failure_of(seed, planned(deletes_undrained)) for seed in range(TRIED_MAX))
    failure = next(found for found in failures if found is not None and isinstance(found.error, LawBroken))
    small = shrunk(failure)
    assert isinstance(small.error, LawBroken)
    assert 1 <= len(small.steps) <= 3 < len(failure.steps)
    told = str(small).splitlines()
    assert len(told) <= TRACE_LINES + 2
    assert told[0].startswith(f"SEED {small.seed}: LawBroken: operator-")
    assert "LAW BROKEN" in told[-1] or any("LAW BROKEN" in line for line in told[-5:])


@pytest.mark.looptime(noop_cycles=0)
async def test_a_pod_that_no_plan_deletes_and_a_drain_or_the_end_of_a_wait_that_none_lists_are_found_out() -> None:
    """By a second hand in the operator's own name."""
    world = World(301)
    world.make("gpu", replicas=2)
    async with world.running():
        await world.settled()
        name = world.operators[0].connection.client
        (pod, _) = world.pods()
        client = Client(world.server.connect(name))
        uid = pod["metadata"]["uid"]
        await client.delete(Pod, pod["metadata"]["name"], NAMESPACE, precondition=Precondition(uid=uid))
        async with in_the_name_of(world, name) as slurm:
            await slurm.drain("gpu-1", "corral: whatever")
        await end_wait(world.shell.connect(name), NAMESPACE, "gpu-1")
        with pytest.raises(LawBroken) as broken:
            world.check()
    assert f"lists: delete pods/gpu-0 {uid}" in str(broken.value)
    assert "lists: Drain gpu-1 corral: whatever" in str(broken.value)
    assert "lists: End gpu-1" in str(broken.value)


@pytest.mark.looptime(noop_cycles=0)
async def test_workers_that_go_though_no_plan_sees_that_others_of_them_are_missing_are_found_out() -> None:
    """As two operators would do who do not know of each other."""
    world = World(303)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled(quiet_s=HEARD_OF_WITHIN_S)
        async with in_the_name_of(world, world.operators[0].connection.client) as slurm:
            for node in ("gpu-0", "gpu-1"):
                await slurm.drain(node, f"{ROLLOUT}NodeSet lab/gpu")
    found = [said for said in world.broken if "in service" in said]
    assert found == [
        f"operator-0 drains gpu-1 ({ROLLOUT}NodeSet lab/gpu): 1 are left in service, and 2 must be",
    ]


@pytest.mark.looptime(noop_cycles=0)
async def test_one_that_a_rollout_takes_from_a_cordoned_machine_counts_though_its_drain_says_the_cordon() -> None:
    seen = list[Snapshot]()

    def decide(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return plan(snapshot)

    world = World(304, decide=decide)
    world.make("gpu", replicas=3)
    async with world.running():
        await world.settled(quiet_s=HEARD_OF_WITHIN_S)
        on = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.pods()}
        machine, other = on["gpu-2"], next(name for name in on if on[name] != on["gpu-2"])
        world.change("gpu", extraConf="Weight=9")
        world.kubernetes.cordon(machine, on=True)
        while not world.slurm.nodes["gpu-2"].drain:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.01)
        assert world.slurm.nodes["gpu-2"].reason == f"corral: Kubernetes node {machine} is cordoned"
        async with in_the_name_of(world, world.operators[0].connection.client) as slurm:
            await slurm.drain(other, f"{ROLLOUT}NodeSet lab/gpu")
    before = next(one for one in seen if outdated(one))
    one_more = [worker for worker in before.live if worker.name == other]
    assert breach_of(before, plan(before)) == ""
    assert "are left in service, and 2" in breach_of(before, plan(before) + drains_for_a_rollout(before, one_more))
    found = [said for said in world.broken if "in service" in said]
    assert found == [f"operator-0 drains {other} ({ROLLOUT}NodeSet lab/gpu): 1 are left in service, and 2 must be"]


@asynccontextmanager
async def in_the_name_of(world: World, client: str) -> AsyncIterator[SlurmClient]:
    clock = virtual_clock()
    transport = world.rest.connect(client)(Endpoint(url="http://192.0.2.1"))
    slurm = SlurmClient("lab/slurm", transport, Tokens(Hs256(b"k" * 32, user="slurm"), clock), clock)
    try:
        yield slurm
    finally:
        await slurm.close()


@pytest.mark.looptime(noop_cycles=0)
async def test_what_was_listed_and_not_done_is_found_out() -> None:
    seen = list[Snapshot]()

    def decide(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return plan(snapshot)

    world = World(302, decide=decide)
    world.make("gpu", replicas=1)
    async with world.running():
        await world.settled()
    snapshot = next(one for one in seen if any(isinstance(action, Create) for action in plan(one).actions))
    found = list[str]()
    witness = Witness(world.build("onlooker"), found.append, decide=None)
    whole = witness.plan(snapshot)
    done, skipped = (
        [Result(action=action, state="done") for action in whole.actions],
        [Result(action=action, state="skipped") for action in whole.actions],
    )
    for results, said in ((done, "nobody was asked for"), (skipped, "left undone")):
        witness.report(snapshot, Outcome(plan=whole, results=tuple(results)))
        assert said in found[-1]
    witness.report(snapshot, Outcome(plan=Plan()))
    assert "is not what was planned" in found[-1]
