"""What a person has to do something about is told in an event, once."""

from corral.engine import EmitEvent, Plan, Wait
from corral.kinds.controller.spec import Controller
from corral.kinds.telling import trouble
from corral.kube.meta import Condition, ObjectMeta

STUCK = Plan(
    waits=(Wait(reason="BadOverride", message="no field x", stalled=True), Wait(reason="Slow", message="soon"))
)
OBJECT = Controller(metadata=ObjectMeta(name="demo", namespace="lab", uid="u"))


def said(message: str) -> Condition:
    return Condition(type="Ready", status="False", reason="BadOverride", message=message)


def test_what_a_person_must_act_on_is_a_warning_and_other_waits_are_none() -> None:
    events = trouble(OBJECT, (), STUCK).actions
    assert [(e.type, e.reason, e.message) for e in events if isinstance(e, EmitEvent)] == [
        ("Warning", "BadOverride", "no field x")
    ]


def test_what_the_status_says_already_is_not_told_again() -> None:
    assert trouble(OBJECT, (said("no field x; soon"),), STUCK) == Plan()
    assert trouble(OBJECT, (said("no field y"),), STUCK) != Plan()
