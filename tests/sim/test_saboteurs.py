"""Every law of the simulator, broken on purpose: it must be found out, and told in few lines."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from corral.engine import Create, Delete, Outcome, Outside, Plan, RemoveFinalizer, target
from corral.engine.actions import Action, Apply, Patch
from corral.engine.clock import virtual_clock
from corral.engine.reconciler import Result
from corral.kinds.nodeset.calls import Drain, Forget
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kube.client import Client
from corral.kube.models.core_v1 import Pod
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.kube.selection import Precondition
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import Hs256, Tokens
from corral.slurm.transport import Endpoint
from tests.sim.seeds import TRACE_LINES, failure_of, shrunk
from tests.sim.witness import Decide, Witness
from tests.sim.world import NAMESPACE, LawBroken, World

TRIED_MAX = 40


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
    calls = [Forget(node=name, spares_others=False) for name in theirs]
    return plan(snapshot) + Plan(
        actions=tuple(Outside(system="Slurm", subject=c.node, call=c, reason="Sabotage", message="") for c in calls)
    )


def lets_go_at_once(snapshot: Snapshot) -> Plan:
    nodeset = snapshot.object
    if nodeset.metadata.deletion_timestamp is None or not nodeset.metadata.finalizers:
        return plan(snapshot)
    (finalizer,) = nodeset.metadata.finalizers
    return Plan(
        actions=(RemoveFinalizer(target=target(nodeset), present=nodeset.metadata.finalizers, finalizer=finalizer),)
    )


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
async def test_a_pod_that_no_plan_deletes_and_a_drain_that_no_plan_lists_are_found_out() -> None:
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
        clock = virtual_clock()
        transport = world.rest.connect(name)(Endpoint(url="http://192.0.2.1"))
        slurm = SlurmClient("lab/slurm", transport, Tokens(Hs256(b"k" * 32, user="slurm"), clock), clock)
        await slurm.drain("gpu-1", "corral: whatever")
        await slurm.close()
        with pytest.raises(LawBroken) as broken:
            world.check()
    assert f"lists: delete pods/gpu-0 {uid}" in str(broken.value)
    assert "lists: Drain gpu-1 corral: whatever" in str(broken.value)


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
