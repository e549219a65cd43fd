"""A Secret of ours that somebody deletes: the running daemons go on with the key that they have."""

import asyncio
import base64

import msgspec
import pytest

from corral.engine import Create, EmitEvent, Plan
from corral.kinds import names
from corral.kinds.controller import rotation
from corral.kinds.controller.plan import plan
from corral.kinds.controller.shell import Answer, ask_kept_keys
from corral.kinds.controller.snapshot import Holder, KeptKeys, Snapshot
from corral.kinds.controller.spec import ControllerStatus
from corral.kube.errors import Subject, Unreachable
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Pod, PodSpec, Secret
from tests.unit.kinds.controller.builders import a_snapshot, settled
from tests.unit.kinds.controller.test_controller_life import World

SLURM, JWT = "demo-auth-slurm", "demo-auth-jwt"


def key_of(snapshot: Snapshot, name: str) -> bytes:
    (secret,) = (one for one in snapshot.children if isinstance(one, Secret) and one.metadata.name == name)
    (value,) = secret.data.values()
    return value


def without(snapshot: Snapshot, name: str, *, kept: KeptKeys | None = None) -> Snapshot:
    left = tuple(one for one in snapshot.children if one.metadata.name != name)
    fresh = snapshot.fresh_keys.__class__(b"n" * 128, b"n" * 32)
    return msgspec.structs.replace(snapshot, children=left, fresh_keys=fresh, kept_keys=kept or KeptKeys())


def secrets_made(decided: Plan) -> dict[str, bytes]:
    made = (action.object for action in decided.actions if isinstance(action, Create))
    return {one.metadata.name: value for one in made if isinstance(one, Secret) for value in one.data.values()}


@pytest.mark.parametrize(("name", "file"), [(SLURM, names.SLURM_JWKS), (JWT, names.JWT_KEY)])
def test_a_deleted_key_is_made_again_as_it_was(name: str, file: str) -> None:
    before = settled()
    key = key_of(before, name)
    decided = plan(without(before, name, kept=KeptKeys({file: key})))

    assert secrets_made(decided) == {name: key}
    assert not any(wait.stalled for wait in decided.waits)
    assert [one.reason for one in decided.actions if isinstance(one, EmitEvent)] == ["KeyRestored"]


@pytest.mark.parametrize("name", [SLURM, JWT])
def test_no_other_key_is_made_when_nobody_can_be_asked_for_it(name: str) -> None:
    decided = plan(without(settled(), name))

    assert secrets_made(decided) == {}
    (wait,) = (wait for wait in decided.waits if wait.reason == "KeyLost")
    assert wait.stalled
    assert name in wait.message


def test_no_other_key_is_made_while_a_slurmctld_that_has_run_is_away() -> None:
    away = msgspec.structs.replace(without(settled(), SLURM), pod=None, running=None)
    has_run = msgspec.structs.replace(away.object, status=ControllerStatus(slurm_version="26.05.5"))

    assert secrets_made(plan(msgspec.structs.replace(away, object=has_run))) == {}


def test_what_is_no_set_of_keys_is_not_taken_for_one() -> None:
    decided = plan(without(settled(), SLURM, kept=KeptKeys({names.SLURM_JWKS: b"cat: no such file"})))

    assert secrets_made(decided) == {}


def test_a_cluster_that_begins_has_lost_nothing() -> None:
    assert rotation.lost(a_snapshot()) == ()
    assert set(secrets_made(plan(a_snapshot()))) == {SLURM, JWT}


WORKER = Holder(
    pod=Pod(metadata=ObjectMeta(name="worker-0", namespace="lab"), spec=PodSpec(containers=())), daemon="slurmd"
)


def test_a_controller_that_is_created_again_over_running_workers_takes_their_key() -> None:
    key = key_of(settled(), SLURM)
    anew = a_snapshot(holders=(WORKER,), kept_keys=KeptKeys({names.SLURM_JWKS: key}))

    assert [at.name for at in rotation.lost(anew)] == [SLURM]
    assert rotation.with_keys(anew) == (("worker-0", "slurmd"),)
    made = secrets_made(plan(anew))
    assert (made[SLURM], set(made)) == (key, {SLURM, JWT})


def test_no_other_key_is_made_over_running_workers_that_do_not_give_theirs() -> None:
    decided = plan(a_snapshot(holders=(WORKER,)))

    assert secrets_made(decided).keys() == {JWT}
    assert [wait.reason for wait in decided.waits if wait.stalled] == ["KeyLost"]


def test_login_nodes_alone_hold_no_job_and_a_new_cluster_gets_a_new_key() -> None:
    login = msgspec.structs.replace(WORKER, daemon="sackd")
    assert rotation.lost(a_snapshot(holders=(login,))) == ()


async def test_pods_are_asked_one_after_the_other_until_every_key_is_there() -> None:
    asked = []

    class Shell:
        async def run(
            self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = ""
        ) -> Answer:
            asked.append((pod, container, command[-1]))
            if pod == "demo-controller-0":
                raise Unreachable(Subject("exec", "Pod", namespace, pod), "the container has ended")
            return Answer(0, b"key") if pod == "worker-1" else Answer(1, b"", b"no such file")

    places = [("demo-controller-0", "slurmctld"), *((f"worker-{n}", "slurmd") for n in range(3))]
    kept = await ask_kept_keys(Shell(), "lab", places, [names.SLURM_JWKS])
    assert kept.files == {names.SLURM_JWKS: b"key"}
    assert asked == [(pod, container, f"/etc/corral/keys/{names.SLURM_JWKS}") for pod, container in places[:3]]


def test_a_kept_key_is_not_shown() -> None:
    assert "secret" not in repr(KeptKeys({names.JWT_KEY: b"secret"}))


@pytest.mark.looptime(noop_cycles=0)
async def test_a_new_key_is_made_as_soon_as_the_last_worker_is_gone_that_did_not_give_the_old_one() -> None:
    world = World()
    world.slurmctld.is_gone = True  # nobody answers from inside
    world.start_worker()
    world.add("Controller", "demo")
    world.operator.start()
    await asyncio.sleep(30)
    assert world.condition("Stalled") == ("True", "KeyLost")
    assert world.server.get(Secret, SLURM, "default") is None

    world.server.remove(Pod, "worker-0", "default")
    await asyncio.sleep(2)
    await world.operator.stop()
    assert world.server.get(Secret, SLURM, "default") is not None


@pytest.mark.looptime(noop_cycles=0)
async def test_a_worker_that_has_come_back_is_asked_for_its_key_at_once() -> None:
    world = World()
    key = key_of(settled(), SLURM)
    world.slurmctld.is_gone = True
    world.start_worker()
    world.add("Controller", "demo")
    world.operator.start()
    await asyncio.sleep(30)

    world.slurmctld.is_gone, world.slurmctld.key = False, key
    ready = [{"type": "Ready", "status": "True", "message": "its kubelet is back"}]
    world.server.edit(Pod, "worker-0", "default", merge={"status": {"conditions": ready}}, subresource="status")
    await asyncio.sleep(2)
    await world.operator.stop()
    made = world.server.get(Secret, SLURM, "default")
    assert made is not None
    assert base64.b64decode(made["data"][names.SLURM_JWKS]) == key


def passes(world: World) -> float:
    found = (one for metric in world.operator.metrics.registry.collect() for one in metric.samples)
    return sum(one.value for one in found if one.name == "controller_runtime_reconcile_total")


@pytest.mark.looptime(noop_cycles=0)
async def test_while_no_key_is_missing_workers_that_come_and_go_are_nothing_to_their_controller() -> None:
    world = World()
    world.add("Controller", "demo")
    world.operator.start()
    await asyncio.sleep(3)
    world.start_pod()
    await asyncio.sleep(30)
    before = passes(world)
    world.start_worker()
    await asyncio.sleep(5)
    world.server.remove(Pod, "worker-0", "default")
    await asyncio.sleep(5)
    assert passes(world) == before
    await world.operator.stop()
