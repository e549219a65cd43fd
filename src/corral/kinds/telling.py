"""Events that kinds have in common. Pure."""

from collections.abc import Iterable

from corral.engine import EmitEvent, Plan, target
from corral.kube.meta import Condition, Object


def trouble(obj: Object, said: Iterable[Condition], whole: Plan) -> Plan:
    """A warning for what a person has to do something about, once: not while the status says it already."""
    known = {condition.message for condition in said}
    found = [wait for wait in whole.waits if wait.stalled and not any(wait.message in text for text in known)]
    return Plan(
        actions=tuple(
            EmitEvent(regarding=target(obj), reason=wait.reason, message=wait.message, type="Warning") for wait in found
        )
    )
