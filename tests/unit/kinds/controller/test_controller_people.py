"""The people and the /home of a Controller's cluster, decided beside its configuration."""

import msgspec
import pytest

from corral.engine import Apply, Create, Plan, summary_lines
from corral.kinds.controller.people import Seen, plan
from corral.kinds.controller.plan import plan as plan_all
from corral.kinds.controller.spec import Controller
from corral.kinds.home import Home
from corral.kinds.identity import Identity, User
from corral.kinds.parts import External, Ref
from corral.kube.models.core_v1 import ConfigMap
from tests.unit.kinds.controller.builders import a_controller, a_pod, a_snapshot, made_by

ALICE = Identity(users=(User(name="alice", uid=5001),))
BOTH = Identity(users=(User(name="alice", uid=5001), User(name="bob", uid=5002)))


def lines(decided: Plan) -> list[str]:
    return [line.split(":")[0] for line in summary_lines(decided)]


def people_of(controller: Controller) -> ConfigMap:
    (made,) = (one for one in made_by(plan(controller, Seen(), None)) if isinstance(one, ConfigMap))
    return made


def test_a_cluster_without_users_has_nothing_of_them() -> None:
    assert plan(a_controller(), Seen(), None) == Plan()


def test_users_are_written_down_once_and_then_all_is_done() -> None:
    controller = a_controller(identity=ALICE)
    assert lines(plan(controller, Seen(), None)) == ["create ConfigMap lab/demo-identity"]
    assert plan(controller, Seen(config_map=people_of(controller)), a_pod(controller)) == Plan()


def test_slurmctld_is_not_restarted_for_a_new_user_but_told() -> None:
    before, after = a_controller(identity=ALICE), a_controller(identity=BOTH)
    seen = Seen(config_map=people_of(before))
    pod = a_pod(after)

    changed = plan(after, seen, pod)
    assert lines(changed) == ["change ConfigMap lab/demo-identity"]
    (told,) = changed.actions
    assert isinstance(told, Apply)
    meta = msgspec.structs.replace(told.object.metadata, uid="u", resource_version="2")
    there = msgspec.structs.replace(told.object, metadata=meta)
    assert isinstance(there, ConfigMap)
    assert lines(plan(after, Seen(config_map=there), pod)) == [f"patch Pod lab/{pod.metadata.name}"]


def test_when_the_last_user_goes_so_does_the_list() -> None:
    seen = Seen(config_map=people_of(a_controller(identity=ALICE)))
    assert lines(plan(a_controller(), seen, None)) == ["delete ConfigMap lab/demo-identity"]


@pytest.mark.parametrize(
    ("identity", "reason", "stalled"),
    [
        (Identity(files_ref=Ref(name="people")), "PeopleMissing", False),
        (Identity(users=(User(name="slurm", uid=5001),)), "IdentityInvalid", True),
    ],
    ids=["a ConfigMap that is not there", "a name that a daemon has"],
)
def test_what_is_wrong_is_told_and_those_of_before_stay(identity: Identity, reason: str, stalled: bool) -> None:
    seen = Seen(config_map=people_of(a_controller(identity=ALICE)))
    decided = plan(a_controller(identity=identity), seen, None)

    assert decided.is_empty
    assert [(wait.reason, wait.stalled) for wait in decided.waits] == [(reason, stalled)]


def test_home_is_claimed_once_and_belongs_to_nobody() -> None:
    controller = a_controller(home=Home(size="5Gi"))
    (made,) = plan(controller, Seen(), None).actions

    assert isinstance(made, Create)
    assert made.object.metadata.owner_references == ()
    assert plan(a_controller(home=Home(existing_claim="mine")), Seen(), None) == Plan()


def test_people_of_a_slurmctld_that_runs_elsewhere_are_known_to_workers_here() -> None:
    controller = a_controller(identity=ALICE, external=External(host="slurm.example.org", port=6817))
    decided = plan_all(a_snapshot(controller))

    assert "create ConfigMap lab/demo-identity" in lines(decided)
