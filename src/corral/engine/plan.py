"""A Plan: the decision of one pass, as a frozen value that can be printed, compared, dry-run and carried out.

    done            no actions, no waits: nothing to do until something changes
    requeue after   `again_after_s`: look again then, even if nothing changes (a certificate's renewal, a grace period)
    wait for        `waits`: what holds the work up, with a reason; shown in conditions, `corral status` and `explain`

The texts that people read about a plan (`summary_lines`, `as_data`) are made here and nowhere else.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from corral.engine.actions import Action, Apply, Delete, EmitEvent, Evict, Outside, about, summary, verb
from corral.kube.meta import ObjectRef


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Why the work cannot go on now. The watch of what is waited for brings the key back; a wait never polls.

    `stalled`: waiting alone will not help, a person must act.
    """

    reason: str
    message: str
    stalled: bool = False
    on: ObjectRef | None = None

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})"


class Part(msgspec.Struct, frozen=True):
    """Actions from `start` to the next part. They go ahead unless an action in one of the ranges `needs` has failed."""

    start: int
    needs: tuple[tuple[int, int], ...] = ()  # from, to

    def shifted(self, by: int) -> "Part":
        return Part(self.start + by, tuple((first + by, end + by) for first, end in self.needs))


FIRST = Part(0)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Actions are carried out in this order; a failure that matters ends its part, or the attempt (see `act`).

    `this + that`: that only when all of this is done. `this | that`: that too, when something of this is refused.
    """

    actions: tuple[Action, ...] = ()
    waits: tuple[Wait, ...] = ()
    again_after_s: float | None = None
    parts: tuple[Part, ...] = ()  # the first one, which needs nothing, is not listed

    @property
    def is_empty(self) -> bool:
        """Nothing would be written: the world is as desired, or only time or someone else can bring us further.

        Telling people (EmitEvent) writes nothing that was asked for, so it does not make a plan non-empty.
        """
        return all(isinstance(action, EmitEvent) for action in self.actions)

    def __add__(self, other: "Plan") -> "Plan":
        """First this, then that; the earlier of the two times to look again."""
        size = len(self.actions)
        return self._joined(other, ((0, size),), is_apart=bool(self.parts))

    def __or__(self, other: "Plan") -> "Plan":
        """This, and also that: what is refused of the one does not keep the other back."""
        return self._joined(other, (), is_apart=True)

    def _joined(self, other: "Plan", needs: tuple[tuple[int, int], ...], *, is_apart: bool) -> "Plan":
        """`needs`: what of this all of the other needs. `is_apart`: the other's first part is one of its own."""
        size = len(self.actions)
        if not size or not other.actions:
            parts = self.parts or other.parts
        else:
            theirs = (FIRST, *other.parts) if is_apart else other.parts
            moved = (part.shifted(size) for part in theirs)
            parts = (*self.parts, *(Part(part.start, needs + part.needs) for part in moved))
        times = [t for t in (self.again_after_s, other.again_after_s) if t is not None]
        return Plan(
            actions=self.actions + other.actions,
            waits=self.waits + other.waits,
            again_after_s=min(times, default=None),
            parts=parts,
        )

    def split(self) -> Iterator[tuple[Part, tuple[Action, ...]]]:
        """Each part, with its actions."""
        if not self.parts:  # as almost always
            yield FIRST, self.actions
            return
        parts = (FIRST, *self.parts)
        ends = (*(part.start for part in self.parts), len(self.actions))
        for part, end in zip(parts, ends, strict=True):
            yield part, self.actions[part.start : end]


NOTHING = Plan()


def summary_lines(plan: Plan) -> tuple[str, ...]:
    """What a person reads: what is to be done and waited for, then the next look."""
    again = () if plan.again_after_s is None else (f"look again in {plan.again_after_s:g} s",)
    return (*work_lines(plan), *again) or ("nothing to do",)


def work_lines(plan: Plan) -> tuple[str, ...]:
    """Actions in order, then waits (what a person must act on is stuck).

    An event that only repeats the message of another action, or of a wait, is left out.
    """
    said = [action.message for action in plan.actions if not isinstance(action, EmitEvent) and action.message]
    said += [wait.message for wait in plan.waits]
    shown = [a for a in plan.actions if not (isinstance(a, EmitEvent) and any(text in a.message for text in said))]
    waits = (f"{'stuck' if wait.stalled else 'wait'}: {wait}" for wait in plan.waits)
    return (*map(summary, shown), *waits)


def as_data(plan: Plan) -> dict[str, Any]:
    """The plan for programs (`-o json`): stable names, no object's content."""
    return {
        "empty": plan.is_empty,
        "actions": [_action_data(action) for action in plan.actions],
        "waits": [msgspec.to_builtins(wait) for wait in plan.waits],
        "againAfterSeconds": plan.again_after_s,
    }


def _action_data(action: Action) -> dict[str, Any]:
    where = about(action)
    data: dict[str, Any] = {
        "action": type(action).__name__,
        "verb": verb(action),
        "kind": where.kind,
        "namespace": where.namespace,
        "name": where.name,
        "reason": action.reason,
        "message": action.message,
    }
    if isinstance(action, Outside):
        data["system"], data["subject"] = action.system, action.subject
        data["call"] = msgspec.to_builtins(action.call)
    if isinstance(action, Apply) and action.drifted:
        data["drifted"] = list(action.drifted)
    if isinstance(action, Delete | Evict) and action.grace_period_s is not None:
        data["gracePeriodSeconds"] = action.grace_period_s
    return data
