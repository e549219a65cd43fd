"""A Secret of ours that somebody deletes: the running daemons go on with the key that they have."""

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
