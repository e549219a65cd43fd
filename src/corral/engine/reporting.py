"""The last step of a pass: what `report` says is written, if it says something new and now is the time to say it.

    what turned                  the generation, a condition, the reason of Ready: at once
    how far things are           ten seconds after the last word; of what is not ready yet, then after twenty, forty,
                                 then every minute: a thousand pods are not a thousand writes, nor is a slow start
    that work is under way       by the pass that follows the work, which has something better to tell
    what later passes decide by  at once; a controller says what that is (`Controller.remembers`)
    what else is on its way      where the controller is patient, when no key waits for work: of hundreds that are begun
                                 at once, words about the first would hold up the last
    what had no answer           again, whatever the cache shows: it may not show yet that the write was done

What is not worth a word (UNTOLD_REASONS) leaves the conditions as they were; what later passes decide by is written all
the same where the pass was merely overtaken (OVERTAKEN): the next one may find nothing left that it follows from.

A write that fails is the pass's problem if it has no other. Of a pass that could not even observe, the conditions are
told, and the rest of the status stays as it was: an object that nobody can look at is not ready because it once was.
"""

from datetime import datetime
from typing import Any

import msgspec

from corral.engine.barrier import Barrier
from corral.engine.clock import Clock
from corral.engine.controller import AnyController
from corral.engine.failures import failure_of
from corral.engine.queue import TIMER_S_MIN, Lane, WorkQueue
from corral.engine.reconciler import Outcome
from corral.engine.send import send_status
from corral.engine.status import (
    conditions,
    conditions_in,
    is_asked_anew,
    is_detail,
    is_on_its_way,
    is_ready,
    is_work,
    status_differs,
    verdict,
)
from corral.engine.store import Key
from corral.kube.client import Client
from corral.kube.crd import own_kinds
from corral.kube.errors import KubeError, NotFound
from corral.kube.meta import Condition, Object

DETAILS_TOLD_AFTER_S, DETAILS_TOLD_AFTER_S_MAX = 10.0, 60.0
GIVES_WAY_S_MAX = 30.0

# Passing states of ours that a person can do nothing with: not worth a status write.
UNTOLD_REASONS = frozenset({"Conflict", "MayNotWrite", "Stopped", "Superseded"})
OVERTAKEN = frozenset({"Conflict", "Superseded"})  # and we may still write


class _Told(msgspec.Struct, frozen=True):
    at_s: float
    details: int  # since it was asked for, of an object that is not ready

    @property
    def rest_s(self) -> float:
        """Until details are told again."""
        return min(DETAILS_TOLD_AFTER_S * 2.0**self.details, DETAILS_TOLD_AFTER_S_MAX)

    def then(self, obj: Object, status: msgspec.Struct, now_s: float) -> "_Told":
        if is_ready(status) or is_asked_anew(obj, status):
            return _Told(now_s, 0)
        return _Told(now_s, self.details + 1 if is_detail(obj, status) else self.details)


NEVER = _Told(0.0, 0)


class Reporting:
    """Of one controller. It keeps of each key when it was told, and whether that is certain."""

    def __init__(
        self, controller: AnyController, *, client: Client, queue: WorkQueue[Key], barrier: Barrier[Key], clock: Clock
    ) -> None:
        self._controller = controller
        self._client = client
        self._queue = queue
        self._barrier = barrier
        self._now_s, self._wall = clock.monotonic_s, clock.wall
        self._unknown: set[Key] = set()  # written, but never answered
        self._told: dict[Key, _Told] = {}
        self._gave_way_s: dict[Key, float] = {}  # since when there is something to tell, and work to do
        self._has_status = controller.kind in own_kinds()  # of other kinds it is somebody else's to write

    async def report(self, key: Key, snapshot: Any, outcome: Outcome, *, follows: bool) -> Outcome:
        """The outcome; with a problem where there was none, if the status could not be written.

        `follows`: another pass comes right after one that changed something.
        """
        is_untold = _is_untold(outcome)
        if is_untold and (self._controller.remembered is None or not _is_overtaken(outcome)):
            return outcome
        status = self._controller.reconciler.report(snapshot, _without_conflicts(outcome) if is_untold else outcome)
        self._has_status = status is not None
        if status is None or (is_untold and not self._is_decided_by(snapshot.object, status)):
            return outcome
        if is_untold:
            status = _as_told_before(snapshot.object, status)
        is_followed = follows and outcome.changed_anything and outcome.problem is None
        return await self._tell(key, snapshot.object, status, outcome, is_followed=is_followed)

    async def report_unobserved(self, key: Key, obj: Object | None, outcome: Outcome) -> Outcome:
        """`obj` as the cache has it. Nothing is told where there is nothing to tell it in."""
        before: Any = getattr(obj, "status", None)
        if obj is None or not self._has_status or not hasattr(before, "conditions") or _is_untold(outcome):
            return outcome
        status = msgspec.structs.replace(before, conditions=_with_verdict(obj, outcome, self._wall()))
        return await self._tell(key, obj, status, outcome, is_followed=False)

    async def _tell(
        self, key: Key, obj: Object, status: msgspec.Struct, outcome: Outcome, *, is_followed: bool
    ) -> Outcome:
        if not self._is_due(key, obj, status, outcome, is_followed=is_followed):
            return outcome
        self._unknown.add(key)
        try:
            await send_status(
                status,
                obj,
                self._client,
                self._controller.name,
                note=lambda seen: self._barrier.wrote(key, seen),
                version=outcome.version,
            )
        except NotFound:
            self._unknown.discard(key)
            return outcome  # it went meanwhile: perhaps this very pass let it go
        except KubeError as error:
            problem = outcome.problem or failure_of(error).problem
            return msgspec.structs.replace(outcome, problem=problem)
        self._unknown.discard(key)
        self._gave_way_s.pop(key, None)
        self._told[key] = self._told.get(key, NEVER).then(obj, status, self._now_s())
        return outcome

    def forget(self, key: Key) -> None:
        self._unknown.discard(key)
        self._told.pop(key, None)
        self._gave_way_s.pop(key, None)

    def _is_due(self, key: Key, obj: Object, status: msgspec.Struct, outcome: Outcome, *, is_followed: bool) -> bool:
        """Whether this pass writes it. If not, a later one does: the next, or one that is asked for here."""
        if key in self._unknown:
            return True
        if not status_differs(obj, status):
            self._gave_way_s.pop(key, None)
            return False
        if self._is_decided_by(obj, status):
            return True
        is_patient = self._controller.is_patient and outcome.problem is None  # a retry keeps its own time
        if is_followed and (is_patient or is_work(status)):
            return False
        told = self._told.get(key)
        rest_s = told.at_s + told.rest_s - self._now_s() if told is not None and is_detail(obj, status) else 0.0
        if rest_s > TIMER_S_MIN:  # or the queue would ring at once, and so for ever
            self._queue.add(key, after_s=rest_s, reason="to tell details")
            return False
        return not (is_patient and self._gives_way(key, obj, status))

    def _is_decided_by(self, obj: Object, status: msgspec.Struct) -> bool:
        """Whether later passes would decide otherwise without what is new in it."""
        remembered, before = self._controller.remembered, getattr(obj, "status", None)
        return remembered is not None and before is not None and remembered(before) != remembered(status)

    def _gives_way(self, key: Key, obj: Object, status: msgspec.Struct) -> bool:
        """For so long at the most: where work never ends, people want to know all the same."""
        now_s = self._now_s()
        since_s = self._gave_way_s.setdefault(key, now_s)
        if self._queue.has_work and is_on_its_way(obj, status) and now_s - since_s < GIVES_WAY_S_MAX:
            self._queue.add(key, lane=Lane.TELLING, reason="to tell how far it is")
            return True
        return False


def _is_untold(outcome: Outcome) -> bool:
    return outcome.problem is not None and outcome.problem.reason in UNTOLD_REASONS


def _is_overtaken(outcome: Outcome) -> bool:
    return outcome.problem is not None and outcome.problem.reason in OVERTAKEN


def _without_conflicts(outcome: Outcome) -> Outcome:
    """A kind that tells what was refused has nothing to tell of it: it is as if it had not been tried."""
    results = tuple(
        msgspec.structs.replace(one, state="skipped", message="") if one.reason in OVERTAKEN else one
        for one in outcome.results
    )
    return msgspec.structs.replace(outcome, results=results)


def _as_told_before(obj: Object, status: Any) -> Any:
    """What is new in it, except what it says of this pass."""
    before: Any = getattr(obj, "status", None)
    told = {name: getattr(before, name) for name in ("observed_generation", "conditions") if hasattr(before, name)}
    return msgspec.structs.replace(status, **told)


def _with_verdict(obj: Object, outcome: Outcome, now: datetime) -> tuple[Condition, ...]:
    """The standard conditions anew; those of the kind itself as they were."""
    fresh = conditions(obj, conditions_in(obj), verdict(outcome), now)
    said = {condition.type for condition in fresh}
    return (*fresh, *(condition for condition in conditions_in(obj) if condition.type not in said))
