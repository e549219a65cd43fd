"""The questions that people ask about an object, answered by the same observe and plan that the controller runs.

    plan_object   what would happen?          (`corral plan`; with a manifest: what would happen if I applied this?)
    dry_run       what exactly would change?  (the plan's writes sent with dryRun=All, before and after side by side)
    render        what is desired?            (the plan over an empty world; no cluster needed)
    explain       why is it so?               (conditions, waits, the plan's reasons, the last events)

Nothing here writes. Everything is generic over kinds.
"""

from datetime import datetime
from typing import Any

import msgspec

from corral.engine.actions import Action
from corral.engine.controller import AnyController
from corral.engine.plan import Plan
from corral.engine.reconciler import Snapshot
from corral.engine.store import Key
from corral.kube.client import Client
from corral.kube.meta import Condition, Object


class Planned(msgspec.Struct, frozen=True):
    """What was seen, and the decision. `snapshot` is None when the object does not exist: nothing to decide."""

    snapshot: Snapshot[Any] | None
    plan: Plan


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one action would do on the server. Wire form (plain dicts); None: the object does not exist then."""

    action: Action
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    refused: str = ""  # why the server would say no

    @property
    def changes_something(self) -> bool:
        return bool(self.refused) or self.before != self.after


class SeenEvent(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    reason: str
    note: str
    count: int
    last_seen: datetime | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    object: Object
    conditions: tuple[Condition, ...]
    plan: Plan
    events: tuple[SeenEvent, ...]


async def plan_object(
    client: Client, controller: AnyController, what: Key | Object, *, now: datetime | None = None
) -> Planned:
    """A Key: the object as it is in the cluster. An Object: the cluster as if that manifest had been applied."""
    raise NotImplementedError


async def dry_run(client: Client, controller: AnyController, plan: Plan) -> tuple[Change, ...]:
    """Send each write with dryRun=All. Secret values are replaced by their digest in `before` and `after`."""
    raise NotImplementedError


async def render(controller: AnyController, manifest: Object, *, now: datetime | None = None) -> tuple[Object, ...]:
    """The objects that a plan over an empty world would make, in order."""
    raise NotImplementedError


async def explain(client: Client, controller: AnyController, key: Key, *, now: datetime | None = None) -> Explanation:
    """Raises NotFound when there is no such object."""
    raise NotImplementedError


async def conditions_of(client: Client, controller: AnyController, namespace: str = "") -> tuple[Object, ...]:
    """All objects of the kind, for `corral status`."""
    raise NotImplementedError
