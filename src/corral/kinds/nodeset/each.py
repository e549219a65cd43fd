"""Plans beside each other: what is refused of one keeps no other back. Pure.

As the engine's `|`, for thousands of them: each `|` copies what it joins.
"""

from collections.abc import Iterable

from corral.engine import Action, Plan, Wait
from corral.engine.plan import Part


def each(groups: Iterable[tuple[Action, ...]]) -> Plan:
    """Within a group the first refusal ends it."""
    return beside(*(Plan(actions=group) for group in groups))


def beside(*plans: Plan) -> Plan:
    actions: list[Action] = []
    waits: list[Wait] = []
    parts: list[Part] = []
    for plan in plans:
        before = len(actions)
        if before and plan.actions:
            parts.append(Part(before))
        parts += [part.shifted(before) for part in plan.parts]
        actions += plan.actions
        waits += plan.waits
    times = [plan.again_after_s for plan in plans if plan.again_after_s is not None]
    return Plan(actions=tuple(actions), waits=tuple(waits), again_after_s=min(times, default=None), parts=tuple(parts))
