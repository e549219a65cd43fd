"""Carry out a Plan: in order, each action with its precondition, each part up to the first failure that matters.

What goes at once         creations, or status writes, of one kind in a row, in growing waves (see `waves`)
What ends a wave early    the reconciled object is asked something else of by now: the rest may be in vain
What ends a part          a refusal that is about its object alone: the server does not accept it, a right or the
                          object is missing, its name is taken. Parts that do not need it go ahead.
What ends an attempt      any other refusal or failure, except an event that cannot be told and an eviction that a
                          disruption budget holds back. The rest is skipped; the key is observed and planned again.
What is never done        sending an old decision again; cancelling within an action or a wave (a stop waits).
What is left behind       the version of every write, and of what refused one, in the barrier: the next pass
                          sees nothing older.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from corral.engine.actions import (
    Action,
    Apply,
    Create,
    Delete,
    EmitEvent,
    Evict,
    Outside,
    OutsideFailed,
    Target,
    about,
    likeness_of,
)
from corral.engine.actor import Actor, Journal, look, written
from corral.engine.applying import NameTaken, change, make
from corral.engine.failures import STALLED_RETRY_S, failure_of
from corral.engine.plan import Plan
from corral.engine.reconciler import Outcome, Problem, Result
from corral.engine.send import send
from corral.engine.store import Key
from corral.kube.errors import Conflict, KubeError, NotFound, TooManyRequests
from corral.kube.meta import Object, Resource

EVICTION_RETRY_S = 10.0
BUDGET = "DisruptionBudget"
SECOND_WAVE = 4
AT_ONCE_MAX = 16  # half of the gate: one key with many objects leaves room for the others


async def act(plan: Plan, actor: Actor, regarding: Target) -> Outcome:
    """`regarding` is the reconciled object: drift that was put back is told about it."""
    journal = _OwnNoted(actor.journal, regarding.uid)
    actor = msgspec.structs.replace(actor, journal=journal)
    results: list[Result] = []
    first: Problem | None = None
    lost: list[int] = []  # places of actions that were not done
    for part, actions in plan.split():
        if any(begin <= place < end for place in lost for begin, end in part.needs):
            lost += range(len(results), len(results) + len(actions))
            results += _skipped(actions, first)
            continue
        done, problem = await _act_in_order(actions, actor, regarding)
        first = first or problem
        if problem is not None and problem.reason != BUDGET:
            undone = (place for place, result in enumerate(done) if result.state != "done")
            lost += range(len(results) + next(undone, len(done)), len(results) + len(actions))
        results += (*done, *_skipped(actions[len(done) :], problem))
        if problem is not None and problem.reason != BUDGET and not problem.alone:
            results += _skipped(plan.actions[len(results) :], problem)
            break
    return Outcome(plan=plan, results=tuple(results), problem=first, version=journal.version)


class _OwnNoted:
    """The journal, and what version the object with `uid` has come to."""

    def __init__(self, journal: Journal, uid: str) -> None:
        self._journal = journal
        self._uid = uid
        self.version = ""

    def wrote(self, key: Key, obj: Object) -> None:
        if obj.metadata.uid == self._uid:
            self.version = obj.metadata.resource_version
        self._journal.wrote(key, obj)

    def refused_by(self, key: Key, obj: Object) -> None:
        self._journal.refused_by(key, obj)  # not what the pass has made of it

    def deleted_unseen(self, key: Key, resource: Resource, name: Key, uid: str) -> None:
        self._journal.deleted_unseen(key, resource, name, uid)


async def _act_in_order(
    actions: tuple[Action, ...], actor: Actor, regarding: Target
) -> tuple[list[Result], Problem | None]:
    """How the first ones went, and what kept us from the rest or, without a rest, from an eviction."""
    results: list[Result] = []
    held: Problem | None = None
    for wave in waves(actions):
        if why := actor.stop():
            return results, _stopped(wave[0], why)
        done = await _together(wave, actor, regarding)
        results += (result for result, _ in done)
        for _, problem in done:
            if problem is not None and problem.reason != BUDGET:
                return results, problem
            held = held or problem
        if len(done) < len(wave):
            why = actor.stop()
            first_left = wave[len(done)]
            return results, _stopped(first_left, why) if why else _superseded(first_left, actor)
    return results, held


def waves(actions: tuple[Action, ...]) -> Iterator[tuple[Action, ...]]:
    """What is sent at once: one action, or of many that are alike 1, 4, then all the rest.

    Between those there is no order to keep, and what the server refuses once (a quota, a bad template) it refuses
    always: the small waves come first so that few are sent in vain. (Of the last wave no more than AT_ONCE_MAX are
    under way, and none follows a refusal.)
    """
    for likeness, run in groupby(actions, likeness_of):
        left = tuple(run)
        size = 1
        while left:
            yield left[:size]
            left = left[size:]
            size = 1 if likeness is None else len(left) if size == SECOND_WAVE else SECOND_WAVE


async def _together(
    wave: tuple[Action, ...], actor: Actor, regarding: Target
) -> Sequence[tuple[Result, Problem | None]]:
    """So many under way at a time, until there is a problem or a reason to stop: how the first ones of them went."""
    if len(wave) == 1:
        return [await _one(wave[0], actor, regarding)]
    left = iter(enumerate(wave))
    done: dict[int, tuple[Result, Problem | None]] = {}
    problems: list[Problem] = []

    async def send_some() -> None:
        for place, action in left:
            _, problem = done[place] = await _one(action, actor, regarding)
            if problem is not None:
                problems.append(problem)
            if problems or actor.stop() or actor.superseded():
                return

    async with asyncio.TaskGroup() as sending:
        for _ in range(AT_ONCE_MAX):
            sending.create_task(send_some())
    return [done[place] for place in sorted(done)]


def _stopped(before: Action, why: str) -> Problem:
    return Problem(reason="Stopped", message=f"stopped before {about(before)}: {why}")


def _superseded(before: Action, actor: Actor) -> Problem:
    return Problem(reason="Superseded", message=f"ended before {about(before)}: {actor.superseded()}")


def _skipped(actions: Sequence[Action], problem: Problem | None) -> Iterator[Result]:
    reason = problem.reason if problem is not None else ""
    return (Result(action=action, state="skipped", reason=reason) for action in actions)


async def _one(action: Action, actor: Actor, regarding: Target) -> tuple[Result, Problem | None]:
    try:
        return Result(action=action, state="done", changed=await _perform(action, actor, regarding)), None
    except NameTaken as taken:
        problem = Problem(
            reason="NameTaken", message=taken.message, stalled=True, alone=True, retry_after_s=STALLED_RETRY_S
        )
        return Result(action=action, state="refused", reason="NameTaken", message=taken.message), problem
    except OutsideFailed as error:
        if error.stalled:
            actor.tell(EmitEvent(regarding=regarding, type="Warning", reason=error.reason, message=error.message))
        problem = Problem(
            reason=error.reason,
            message=error.message,
            stalled=error.stalled,
            alone=error.alone,
            retry_after_s=error.retry_after_s,
        )
        return Result(action=action, state="failed", reason=error.reason, message=error.message), problem
    except KubeError as error:
        failure = failure_of(error)
        problem = failure.problem
        if isinstance(action, Evict) and isinstance(error, TooManyRequests):
            message = f"{about(action)}: its disruption budget does not allow an eviction now"
            problem = Problem(reason=BUDGET, message=message, retry_after_s=error.retry_after_s or EVICTION_RETRY_S)
        return Result(action=action, state=failure.state, reason=problem.reason, message=problem.message), problem


async def _perform(action: Action, actor: Actor, regarding: Target) -> bool:
    """Whether the server changed anything."""
    match action:
        case EmitEvent():
            actor.tell(action)
            return False
        case Create() | Apply(over=None):
            return await make(action, actor)
        case Apply(over=over):
            assert over is not None  # noqa: S101  (the case above)
            return await change(action, over, actor, regarding)
        case Delete():
            return await _delete(action, actor)
        case Evict():
            return await _evict(action, actor)
        case Outside():
            return await _outside(action, actor)
        case _:
            return written(actor, await _send(action, action.target, actor), action.target)


async def _send(action: Action, over: Target, actor: Actor) -> Object | None:
    try:
        return await send(action, actor.client, actor.manager)
    except Conflict:
        await look(actor, over.kind, over.name, over.namespace)
        raise


async def _delete(action: Delete, actor: Actor) -> bool:
    target = action.target
    try:
        answer = await _send(action, target, actor)
    except NotFound:
        answer = None
    if answer is None:
        actor.journal.deleted_unseen(actor.key, target.kind.resource, Key(target.namespace, target.name), target.uid)
        return True
    return written(actor, answer, target)


async def _evict(action: Evict, actor: Actor) -> bool:
    """The answer to an eviction has no version: ask for the pod, so that the next pass knows of it."""
    target = action.target
    try:
        await _send(action, target, actor)
        answer = await actor.client.get(target.kind, target.name, target.namespace)
    except NotFound:
        actor.journal.deleted_unseen(actor.key, target.kind.resource, Key(target.namespace, target.name), target.uid)
        return True
    return written(actor, answer, target)


async def _outside(action: Outside, actor: Actor) -> bool:
    """Always counted as a change: only the next observation can tell what the other system made of it."""
    if not actor.client.may_write:
        message = f"{action.system}, {action.subject}: not asked, this process does not hold the lease now"
        raise OutsideFailed("MayNotWrite", message)
    try:
        async with asyncio.timeout(actor.perform_s_max):
            await actor.perform(action.call)
    except TimeoutError:
        message = f"{action.system}, {action.subject}: no answer within {actor.perform_s_max:g} s"
        raise OutsideFailed("DeadlinePassed", message) from None
    return True
