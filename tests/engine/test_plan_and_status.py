"""What people and tools read about a decision: summaries, JSON, conditions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from corral.engine import (
    NOTHING,
    SUSPENDED,
    Action,
    AddFinalizer,
    Apply,
    Create,
    Delete,
    EmitEvent,
    Evict,
    Outcome,
    Patch,
    Plan,
    Problem,
    RemoveFinalizer,
    SetStatus,
    Verdict,
    Wait,
    as_data,
    conditions,
    summary,
    summary_lines,
    target,
    verdict,
)
from corral.engine.controller import with_finalizer
from corral.engine.status import is_detail, is_on_its_way, is_work, status_differs
from corral.kube.meta import Condition, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Pod, PodSpec
from corral.testing.toys import GOODBYE, Toy, ToyStatus, toy_controller

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MAP = ConfigMap(metadata=ObjectMeta(name="a", namespace="lab", uid="u", resource_version="3"), data={"k": "secret"})
POD = Pod(metadata=ObjectMeta(name="p", namespace="lab", uid="u", resource_version="3"), spec=PodSpec(containers=()))
TOY = Toy(metadata=ObjectMeta(name="bear", namespace="lab", uid="u", resource_version="3", generation=4))
WHY: dict[str, Any] = {"reason": "Because", "message": "it must be"}

ACTIONS: list[tuple[Action, str]] = [
    (Create(object=MAP, **WHY), "create ConfigMap lab/a: it must be (Because)"),
    (Apply(object=MAP, **WHY), "create ConfigMap lab/a: it must be (Because)"),
    (Apply(object=MAP, over=target(MAP), **WHY), "change ConfigMap lab/a: it must be (Because)"),
    (Patch(target=target(MAP), merge={}, **WHY), "patch ConfigMap lab/a: it must be (Because)"),
    (Delete(target=target(MAP), **WHY), "delete ConfigMap lab/a: it must be (Because)"),
    (Evict(target=target(POD), **WHY), "evict Pod lab/p: it must be (Because)"),
    (AddFinalizer(target=target(MAP), present=(), finalizer="f"), "add finalizer to ConfigMap lab/a (FinalizerNeeded)"),
    (
        RemoveFinalizer(target=target(MAP), present=("f",), finalizer="f"),
        "remove finalizer from ConfigMap lab/a (CleanupFinished)",
    ),
    (SetStatus(target=target(TOY), status=ToyStatus()), "set status of Toy lab/bear (StatusChanged)"),
    (EmitEvent(regarding=target(TOY), **WHY), "record event for Toy lab/bear: it must be (Because)"),
]


@pytest.mark.parametrize(("action", "says"), ACTIONS, ids=[type(action).__name__ for action, _ in ACTIONS])
def test_an_action_is_one_line_for_a_person(action: Action, says: str) -> None:
    assert summary(action) == says


def test_a_plan_is_read_as_actions_then_waits_then_when_to_look_again() -> None:
    plan = Plan(
        actions=(Delete(target=target(MAP), **WHY),),
        waits=(Wait(reason="Slow", message="it takes time"),),
        again_after_s=90,
    )

    assert summary_lines(plan) == (
        "delete ConfigMap lab/a: it must be (Because)",
        "wait: it takes time (Slow)",
        "look again in 90 s",
    )
    assert summary_lines(NOTHING) == ("nothing to do",)


def test_an_event_that_says_what_a_wait_says_is_read_once() -> None:
    told = EmitEvent(regarding=target(MAP), reason="Stuck", message="a person must act", type="Warning")
    plan = Plan(actions=(told,), waits=(Wait(reason="Stuck", message="a person must act", stalled=True),))

    assert summary_lines(plan) == ("stuck: a person must act (Stuck)",)


def test_the_json_of_a_plan_names_objects_and_never_their_content() -> None:
    data = as_data(Plan(actions=(Apply(object=MAP, drifted=("data.k",), **WHY),)))

    assert data["actions"] == [
        {
            "action": "Apply",
            "verb": "create",
            "kind": "ConfigMap",
            "namespace": "lab",
            "name": "a",
            "reason": "Because",
            "message": "it must be",
            "drifted": ["data.k"],
        }
    ]
    assert "secret" not in str(data)


@pytest.mark.parametrize(
    ("plan", "empty"),
    [
        pytest.param(NOTHING, True, id="nothing"),
        pytest.param(Plan(again_after_s=5), True, id="only time"),
        pytest.param(Plan(waits=(Wait(reason="W", message="w"),)), True, id="only a wait"),
        pytest.param(Plan(actions=(EmitEvent(regarding=target(TOY), **WHY),)), True, id="only news"),
        pytest.param(Plan(actions=(Delete(target=target(MAP), **WHY),)), False, id="a write"),
    ],
)
def test_a_plan_is_empty_when_it_writes_nothing(plan: Plan, empty: bool) -> None:
    assert plan.is_empty is empty


def test_plans_add_up_in_order_with_the_earlier_time() -> None:
    first = Plan(waits=(Wait(reason="A", message="a"),), again_after_s=9)
    second = Plan(waits=(Wait(reason="B", message="b"),), again_after_s=3)

    assert [wait.reason for wait in (first + second).waits] == ["A", "B"]
    assert (first + second).again_after_s == 3
    assert (first + NOTHING).again_after_s == 9


STALLED = Problem(reason="Invalid", message="spec is wrong", stalled=True)
RETRIED = Problem(reason="Unreachable", message="no answer")
A_WAIT = Wait(reason="Slow", message="it takes time")
A_PERSON = Wait(reason="NameTaken", message="rename it", stalled=True)
ACTED = Plan(actions=(Delete(target=target(MAP), **WHY),))


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(Outcome(plan=NOTHING), ("True", "False", "False", "AsDesired"), id="as desired"),
        pytest.param(Outcome(plan=ACTED), ("False", "True", "False", "Progressing"), id="work done just now"),
        pytest.param(Outcome(plan=Plan(waits=(A_WAIT,))), ("False", "True", "False", "Slow"), id="waiting"),
        pytest.param(
            Outcome(plan=Plan(waits=(A_WAIT, A_PERSON))),
            ("False", "False", "True", "NameTaken"),
            id="a person must act",
        ),
        pytest.param(Outcome(plan=ACTED, problem=RETRIED), ("False", "True", "False", "Unreachable"), id="in trouble"),
        pytest.param(Outcome(plan=ACTED, problem=STALLED), ("False", "False", "True", "Invalid"), id="invalid"),
    ],
)
def test_conditions_say(outcome: Outcome, expected: tuple[str, str, str, str]) -> None:
    ready, reconciling, stalled = conditions(TOY, (), verdict(outcome), NOW)

    assert (ready.status, reconciling.status, stalled.status, ready.reason) == expected
    assert {c.observed_generation for c in (ready, reconciling, stalled)} == {4}


def test_a_transition_time_moves_only_with_the_status() -> None:
    before = conditions(TOY, (), verdict(Outcome(plan=NOTHING)), NOW)
    later = NOW + timedelta(hours=1)
    same = conditions(TOY, before, verdict(Outcome(plan=NOTHING), ready_message="still fine"), later)
    other = conditions(TOY, before, verdict(Outcome(plan=ACTED)), later)

    assert [c.last_transition_time for c in same] == [NOW, NOW, NOW]
    assert [c.last_transition_time for c in other] == [later, later, NOW]


def test_a_kind_adds_conditions_of_its_own() -> None:
    own = Condition(type="Drained", status="True", reason="Idle")
    found = conditions(TOY, (), verdict(Outcome(plan=NOTHING)), NOW, own)

    assert [(c.type, c.last_transition_time) for c in found][-1] == ("Drained", NOW)


def test_suspension_is_neither_ready_nor_an_alarm() -> None:
    found = conditions(TOY, (), SUSPENDED, NOW)

    assert {c.status for c in found} == {"False"}
    assert isinstance(SUSPENDED, Verdict)


def test_a_status_that_says_nothing_new_is_not_written() -> None:
    said = ToyStatus(copies=1, conditions=conditions(TOY, (), verdict(Outcome(plan=NOTHING)), NOW))
    toy = Toy(metadata=TOY.metadata, status=said)

    assert not status_differs(toy, ToyStatus(copies=1, conditions=said.conditions))
    assert status_differs(toy, ToyStatus(copies=2, conditions=said.conditions))


def test_the_finalizer_comes_before_anything_it_is_to_undo_which_needs_it() -> None:
    plan = with_finalizer(toy_controller(), TOY, ACTED | ACTED)

    assert [type(action) for action in plan.actions] == [AddFinalizer, *(type(a) for a in (ACTED | ACTED).actions)]
    assert all((0, 1) in part.needs for part in plan.parts)


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param(ObjectMeta(name="bear", finalizers=(GOODBYE,)), id="it is there"),
        pytest.param(ObjectMeta(name="bear", deletion_timestamp=NOW), id="the object is going"),
    ],
)
def test_a_plan_stays_as_it_is_when(meta: ObjectMeta) -> None:
    assert with_finalizer(toy_controller(), Toy(metadata=meta), ACTED) is ACTED


def a_status(generation: int = 4, reason: str = "Waiting", message: str = "", **states: str) -> ToyStatus:
    said = {"Ready": "False", "Reconciling": "True", "Stalled": "False", **states}
    told = tuple(Condition(type=kind, status=state, reason=reason, message=message) for kind, state in said.items())
    return ToyStatus(observed_generation=generation, conditions=told)


@pytest.mark.parametrize(
    ("new", "detail"),
    [
        pytest.param(a_status(message="2 of 3"), True, id="how far"),
        pytest.param(a_status(reason="Other"), False, id="what for"),
        pytest.param(a_status(generation=5), False, id="another wish"),
        pytest.param(a_status(Ready="True"), False, id="a condition turned"),
        pytest.param(a_status(message="2 of 3", Stalled="True"), False, id="somebody must act"),
        pytest.param(ToyStatus(), False, id="no condition"),
    ],
)
def test_only_how_far_things_are_may_be_told_later(new: ToyStatus, detail: bool) -> None:
    before = a_status(
        message="1 of 3", Stalled=next((c.status for c in new.conditions if c.type == "Stalled"), "False")
    )
    assert is_detail(msgspec.structs.replace(TOY, status=before), new) is detail


@pytest.mark.parametrize(
    ("before", "new", "on_its_way"),
    [
        pytest.param(ToyStatus(), a_status(), True, id="begun"),
        pytest.param(a_status(), a_status(reason="Other"), True, id="not there yet"),
        pytest.param(a_status(), a_status(Ready="True"), False, id="there"),
        pytest.param(a_status(Ready="True"), a_status(), False, id="no longer there"),
        pytest.param(a_status(), a_status(Stalled="True"), False, id="somebody must act"),
        pytest.param(ToyStatus(), ToyStatus(), False, id="no condition"),
    ],
)
def test_what_is_on_its_way(before: ToyStatus, new: ToyStatus, on_its_way: bool) -> None:
    assert is_on_its_way(msgspec.structs.replace(TOY, status=before), new) is on_its_way


def test_work_under_way_is_told_by_the_pass_that_follows_it() -> None:
    assert is_work(a_status(reason="Progressing"))
    assert not is_work(a_status(reason="SourceMissing"))
