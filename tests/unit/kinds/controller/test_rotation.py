"""Rotation of keys as a decision: which set is next, who is waited for, who is told, what is never written."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from corral.engine import Apply, Create, EmitEvent, Outside, Patch, Plan
from corral.engine.reconciler import Outcome
from corral.kinds.accounting.spec import Accounting, AccountingSpec
from corral.kinds.controller import keyset, rotation
from corral.kinds.controller.keyset import Stage
from corral.kinds.controller.plan import plan
from corral.kinds.controller.snapshot import ApplyConfig, Holder, KeyFact, Snapshot
from corral.kinds.controller.spec import KeyRotation
from corral.kinds.controller.status import status
from corral.kinds.parts import External, KeyRef
from corral.kube.models.core_v1 import Container, Pod, PodCondition, PodSpec, PodStatus, Secret
from tests.unit.kinds.controller.builders import (
    NOW,
    a_controller,
    a_secret,
    a_snapshot,
    an_accounting,
    made_by,
    meta,
    settled,
)

LONG_AGO = NOW - timedelta(hours=1)


def a_holder(name: str, daemon: str = "slurmd", *, said: KeyFact | None = None) -> Holder:
    ready = PodCondition(type="Ready", status="True")
    pod = Pod(
        metadata=meta(name),
        spec=PodSpec(containers=(Container(name=daemon),)),
        status=PodStatus(phase="Running", conditions=(ready,)),
    )
    return Holder(pod=pod, daemon=daemon, said=said)


def all_loaded(snapshot: Snapshot, *, at: Any = LONG_AGO) -> Snapshot:
    """Every daemon has loaded what is in the Secrets."""
    files = rotation.wanted_files(snapshot)
    said = KeyFact(files=files, loaded=True, since=at)
    assert snapshot.running is not None
    running = msgspec.structs.replace(snapshot.running, keys=files, keys_since=at)
    holders = tuple(msgspec.structs.replace(holder, said=said) for holder in snapshot.holders)
    return msgspec.structs.replace(snapshot, running=running, holders=holders)


def a_cluster(**more: Any) -> Snapshot:
    return all_loaded(msgspec.structs.replace(settled(), holders=(a_holder("w-0"), a_holder("login", "sackd")), **more))


def asked_for(snapshot: Snapshot, **counters: Any) -> Snapshot:
    spec = msgspec.structs.replace(snapshot.object.spec, key_rotation=KeyRotation(**counters))
    return msgspec.structs.replace(snapshot, object=msgspec.structs.replace(snapshot.object, spec=spec))


def carried_out(snapshot: Snapshot, decided: Plan) -> Snapshot:
    """The cluster after the plan's Secrets were written; nobody has seen them yet."""
    written = {one.metadata.name: one for one in made_by(decided) if isinstance(one, Secret)}
    children = tuple(written.get(one.metadata.name, one) for one in snapshot.children)
    return msgspec.structs.replace(snapshot, children=children)


def written(decided: Plan) -> list[str]:
    """The Secrets that the plan would write."""
    return [one.metadata.name for one in made_by(decided) if isinstance(one, Secret)]


def stage(snapshot: Snapshot) -> Stage:
    keys = rotation.slurm_keys(snapshot)
    assert keys is not None
    return keys.stage


def calls(decided: Plan) -> list[Mapping[str, str]]:
    found = [one.call for one in decided.actions if isinstance(one, Outside)]
    return [call.keys for call in found if isinstance(call, ApplyConfig)]


def events(decided: Plan) -> list[str]:
    return [one.message for one in decided.actions if isinstance(one, EmitEvent)]


def waits(decided: Plan) -> str:
    return " ".join(wait.message for wait in decided.waits)


def test_without_a_rotation_nobody_is_asked_and_nothing_is_done() -> None:
    assert not rotation.is_under_way(a_cluster())
    assert plan(a_cluster()) == Plan()


def test_each_set_is_written_only_when_every_daemon_has_loaded_the_one_before() -> None:
    seen = [stage(now := asked_for(a_cluster(), slurm=1))]
    told = []
    for _step in range(3):
        told += events(plan(now))
        now = carried_out(now, plan(now))
        assert plan(now).actions != ()
        assert not [one for one in plan(now).actions if isinstance(one, Apply | Create)]
        now = all_loaded(now)
        seen.append(stage(now))
    assert seen == [Stage.SETTLED, Stage.INTRODUCED, Stage.SIGNING, Stage.SETTLED]
    assert plan(now).is_empty
    assert [text.partition(": ")[2] for text in told + events(plan(now)) if "slurm key" in text] == [
        "the new key is known, the old one still signs",
        "the new key signs, the old one is still valid",
        "the old key is removed",
        "every daemon has it",
    ]
    assert status(now, Outcome(plan=plan(now))).keys.slurm == 1


def test_the_files_are_renewed_everywhere_before_slurmctld_is_told() -> None:
    now = carried_out(now := asked_for(a_cluster(), slurm=1), plan(now))
    decided = plan(now)
    assert [one.target.name for one in decided.actions if isinstance(one, Patch)] == ["w-0", "login"]
    assert calls(decided) == []
    assert "waiting for slurmctld, slurmd in pod w-0, sackd in pod login" in waits(decided)

    wanted = rotation.wanted_files(now)
    arrived = KeyFact(files=wanted, loaded=False, since=LONG_AGO)
    now = msgspec.structs.replace(now, holders=tuple(msgspec.structs.replace(one, said=arrived) for one in now.holders))
    assert calls(plan(now)) == [{"slurm.jwks": wanted["slurm.jwks"]}]


def test_a_daemon_that_does_not_answer_holds_the_rotation_up_and_is_named() -> None:
    now = asked_for(a_cluster(), slurm=1)
    now = all_loaded(carried_out(now, plan(now)))
    silent = msgspec.structs.replace(now, holders=(*now.holders, a_holder("w-7")))
    assert not [one for one in plan(silent).actions if isinstance(one, Apply)]
    assert "slurmd in pod w-7 (unknown)" in waits(plan(silent))


def test_a_daemon_that_missed_the_reconfigure_is_told_once_more() -> None:
    now = asked_for(a_cluster(), slurm=1)
    now = all_loaded(carried_out(now, plan(now)))
    late = KeyFact(files=rotation.wanted_files(now), loaded=False, since=LONG_AGO)
    missed = msgspec.structs.replace(now, holders=(a_holder("w-0", said=late),))
    assert calls(plan(missed)) == [{}]


def test_the_old_key_stays_until_nothing_that_it_signed_can_be_in_use() -> None:
    now = asked_for(a_cluster(), slurm=1, overlap="60s")
    for _step in range(2):
        now = all_loaded(carried_out(now, plan(now)), at=NOW - timedelta(seconds=30))
    assert stage(now) is Stage.SIGNING
    assert not [one for one in plan(now).actions if isinstance(one, Apply)]
    assert "signatures of the old key to expire" in waits(plan(now))

    later = msgspec.structs.replace(now, now=NOW + timedelta(seconds=31))
    assert stage(carried_out(later, plan(later))) is Stage.SETTLED


def test_slurmdbd_counts_as_well_and_must_be_ready() -> None:
    now = asked_for(a_cluster(accounting=an_accounting()), slurm=1)
    assert "slurmdbd of Accounting acct (not ready)" in waits(plan(now))
    assert written(plan(now)) == []


def test_a_new_jwt_key_is_written_once_and_loaded_at_once() -> None:
    now = asked_for(a_cluster(), jwt=1)
    before = {one.metadata.name: one for one in now.children if isinstance(one, Secret)}
    now = msgspec.structs.replace(now, fresh_keys=now.fresh_keys.__class__(b"x" * 128, b"new" * 20))
    now = carried_out(now, plan(now))
    after = {one.metadata.name: one for one in now.children if isinstance(one, Secret)}
    assert after["demo-auth-jwt"].data != before["demo-auth-jwt"].data
    assert after["demo-auth-slurm"] == before["demo-auth-slurm"]

    decided = plan(now)
    assert calls(decided) == [{"jwt.key": rotation.wanted_files(now)["jwt.key"]}]
    assert [one.target.name for one in decided.actions if isinstance(one, Patch)] == ["demo-controller-0"]
    assert "rotation 1 of the JWT key: waiting for slurmctld" in waits(decided)

    done = all_loaded(now)
    assert status(done, Outcome(plan=plan(done))).keys.jwt == 1
    assert not [one for one in plan(done).actions if isinstance(one, Apply | Outside)]


def test_a_slurmdbd_elsewhere_is_a_clear_refusal() -> None:
    elsewhere = Accounting(metadata=meta("acct"), spec=AccountingSpec(external=External(host="db", port=6819)))
    decided = plan(asked_for(a_cluster(accounting=elsewhere), slurm=1, jwt=1))
    assert [(wait.reason, wait.stalled) for wait in decided.waits] == [("RotationRefused", True)]
    assert written(decided) == []


def test_a_set_of_the_users_own_is_loaded_in_place_when_they_change_it() -> None:
    controller = a_controller(slurm_key_ref=KeyRef(name="mine", key="my.jwks"))
    theirs = {"mine": a_secret("mine", {"my.jwks": keyset.encoded(keyset.first(1, b"k" * 64))})}
    now = all_loaded(settled(controller, secrets=theirs))
    assert plan(now) == Plan()

    more = {"mine": a_secret("mine", {"my.jwks": keyset.encoded(keyset.first(2, b"l" * 64))})}
    changed = msgspec.structs.replace(now, secrets=more)
    assert calls(plan(changed)) == [{"slurm.jwks": rotation.wanted_files(changed)["slurm.jwks"]}]
    assert not [one for one in plan(changed).actions if isinstance(one, Apply)]


@pytest.mark.parametrize("data", [{}, {"slurm.jwks": b"not ours"}])
def test_a_secret_that_is_not_understood_is_never_overwritten(data: Mapping[str, bytes]) -> None:
    now = asked_for(a_cluster(), slurm=1)
    children = tuple(
        msgspec.structs.replace(one, data=data)
        if isinstance(one, Secret) and one.metadata.name == "demo-auth-slurm"
        else one
        for one in now.children
    )
    decided = plan(msgspec.structs.replace(now, children=children))
    assert written(decided) == []


def test_no_key_is_in_the_text_of_a_plan() -> None:
    now = asked_for(a_snapshot(), slurm=1, jwt=1)
    assert "ssss" not in str([getattr(one, "message", "") for one in plan(now).actions])


@pytest.mark.parametrize(
    ("files", "loaded", "has"),
    [
        ({"slurm.jwks": "new"}, True, True),
        ({"slurm.jwks": "new", "database-ca.pem": "theirs"}, True, True),
        ({"slurm.jwks": "new"}, False, False),
        ({"slurm.jwks": "old"}, True, False),
        ({}, True, False),  # asked in the moment in which Kubernetes changed the files
    ],
)
def test_only_what_is_seen_to_be_loaded_counts(files: Mapping[str, str], loaded: bool, has: bool) -> None:
    said = KeyFact(files=files, loaded=loaded, since=LONG_AGO)
    assert rotation.has_loaded(said, {"slurm.jwks": "new", "jwt.key": "other"}) is has
