"""The conditions that tools understand (kstatus: Ready, Reconciling, Stalled), from how a pass went.

    Ready        True: everything is as desired. False: not yet; reason and message of the first thing in the way.
    Reconciling  True: work is under way or waited for.
    Stalled      True: a retry cannot help, a person must act.

`lastTransitionTime` moves only when `status` does; `observedGeneration` says which spec was looked at.
The texts come from the plan's waits and the outcome's problem, so the condition, the event and `corral explain` agree.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

import msgspec

from corral.engine.actions import summary
from corral.engine.reconciler import Outcome, Snapshot
from corral.kube.canonical import canonical
from corral.kube.meta import Condition, Model, Object

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"

PROGRESSING = "Progressing"  # the reason while there is work to do and nothing in its way

WAITS_SHOWN_MAX = 5


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass says about the object; the three conditions are three views of it."""

    ready: bool = False
    reconciling: bool = False
    stalled: bool = False
    reason: str
    message: str


def verdict(outcome: Outcome, *, ready_message: str = "everything is as desired") -> Verdict:
    """Problems before waits, waits before work under way: the first in the way is what a person reads."""
    if outcome.problem is not None:
        problem = outcome.problem
        return Verdict(
            stalled=problem.stalled, reconciling=not problem.stalled, reason=problem.reason, message=problem.message
        )
    if outcome.plan.waits:
        waits = sorted(outcome.plan.waits, key=lambda wait: not wait.stalled)
        return Verdict(
            stalled=waits[0].stalled,
            reconciling=not waits[0].stalled,
            reason=waits[0].reason,
            message=first_few([wait.message for wait in waits]),
        )
    if not outcome.plan.is_empty:
        first = next(action for action in outcome.plan.actions)
        return Verdict(reconciling=True, reason=PROGRESSING, message=summary(first))
    return Verdict(ready=True, reason="AsDesired", message=ready_message)


def first_few(sentences: list[str]) -> str:
    """For a condition, which people read in a terminal; `corral explain` has them all."""
    more = len(sentences) - WAITS_SHOWN_MAX
    return "; ".join(sentences[:WAITS_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


class Status(Model, frozen=True, kw_only=True):
    """What the status of every kind has; a kind's own adds what it counts.

    The generation begins at -1, so that `kubectl wait` takes nothing for ready that nobody has looked at.
    """

    observed_generation: int = -1
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot[Any], outcome: Outcome, **counted: Any) -> Self:
        """What `report` returns: the standard conditions of this outcome, and the fields that are the kind's own."""
        obj = snapshot.object
        found = conditions(obj, conditions_in(obj), verdict(outcome), snapshot.now)
        return cls(observed_generation=obj.metadata.generation, conditions=found, **counted)


def conditions_in(obj: Object) -> tuple[Condition, ...]:
    return tuple(getattr(getattr(obj, "status", None), "conditions", None) or ())


def status_differs(obj: Object, status: msgspec.Struct) -> bool:
    """Whether writing `status` would say anything new about the object as it was observed."""
    before = getattr(obj, "status", None)
    return not isinstance(before, msgspec.Struct) or canonical(before) != canonical(status)


def is_detail(obj: Object, status: msgspec.Struct) -> bool:
    """Whether the new status tells only how far things are: the same generation, reason and conditions, and no stall.

    Nobody waits for that, so it may be gathered; a thousand pods that become ready need not be a thousand writes.
    """
    before = getattr(obj, "status", None)
    turning = _turning(status)
    return turning is not None and isinstance(before, msgspec.Struct) and _turning(before) == turning


def _turning(status: msgspec.Struct) -> tuple[object, ...] | None:
    """What tools wait for; None for a status that is to be told as it is."""
    found: tuple[Condition, ...] = getattr(status, "conditions", ())
    if not found or any(condition.type == STALLED and condition.status == "True" for condition in found):
        return None
    reason = next((condition.reason for condition in found if condition.type == READY), "")
    states = frozenset((condition.type, condition.status) for condition in found)
    return getattr(status, "observed_generation", None), reason, states


def is_asked_anew(obj: Object, status: msgspec.Struct) -> bool:
    """Whether the new status is of another spec than the one that was told last."""
    before = getattr(obj, "status", None)
    return getattr(before, "observed_generation", None) != getattr(status, "observed_generation", None)


def is_ready(status: msgspec.Struct) -> bool:
    found: tuple[Condition, ...] = getattr(status, "conditions", ())
    return any(condition.type == READY and condition.status == "True" for condition in found)


def is_work(status: msgspec.Struct) -> bool:
    """Whether it says only that work is under way: the pass that follows the work has something better to tell."""
    found: tuple[Condition, ...] = getattr(status, "conditions", ())
    return any(condition.type == READY and condition.reason == PROGRESSING for condition in found)


def is_on_its_way(obj: Object, status: msgspec.Struct) -> bool:
    """Whether the object was not ready, is not, and nobody but us has to do anything about it."""
    found: tuple[Condition, ...] = getattr(status, "conditions", ())
    stalled = any(condition.type == STALLED and condition.status == "True" for condition in found)
    was_ready = any(condition.type == READY and condition.status == "True" for condition in conditions_in(obj))
    return bool(found) and not (stalled or was_ready or is_ready(status))


SUSPENDED = Verdict(reason="Suspended", message="spec.suspend is true: Corral changes nothing")


def conditions(
    obj: Object, previous: Iterable[Condition], said: Verdict, now: datetime, *more: Condition
) -> tuple[Condition, ...]:
    """The standard three, then the kind's own (`more`), each keeping its transition time unless its status changed."""
    fresh = tuple(
        Condition(type=name, status="True" if holds else "False", reason=said.reason, message=said.message)
        for name, holds in ((READY, said.ready), (RECONCILING, said.reconciling), (STALLED, said.stalled))
    )
    before = {condition.type: condition for condition in previous}
    return tuple(
        _dated(condition, before.get(condition.type), obj.metadata.generation, now) for condition in (*fresh, *more)
    )


def _dated(condition: Condition, before: Condition | None, generation: int, now: datetime) -> Condition:
    unchanged = before is not None and before.status == condition.status and before.last_transition_time is not None
    since = before.last_transition_time if before is not None and unchanged else now.replace(microsecond=0)
    return msgspec.structs.replace(condition, observed_generation=generation, last_transition_time=since)
