"""How long a person's change waits while 5,000 keys are queued.

A manager with one worker and a pass that takes 5 ms has 5,000 keys in its queue, all of them ready. Meanwhile somebody
changes the spec of ten objects from the far end of the queue, the next one when the pass of the last has begun: after
the first list the watch is read in pieces of a quarter of a second, and of several changes in one piece each would wait
for those before it. Counted are the passes over other keys that begin between the arrival of such a change in the
queue and its own pass (the worst of the ten changes), and the time between the two in passes (their median). The
baseline is the same change with an empty queue.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from statistics import median

import msgspec

from bench.claims import Claim, Run
from bench.objects import QUEUE, Ticket
from bench.process import Settings, answer, measured
from bench.server import our_client
from corral.engine import (
    NOTHING,
    Controller,
    Key,
    Lane,
    Manager,
    Metrics,
    Outcome,
    Plan,
    Reader,
    key_of,
    system_clock,
)
from corral.engine.informer import Cause
from corral.engine.store import Change, Updated
from corral.kube import Client, Precondition, Selector

HERE = Selector(namespace=QUEUE)
PASS_S = 0.005
CHANGES = 10
WITHIN_S = 120.0

OTHERS = Claim(
    key="waiting-passes",
    title="Passes that begin before a person's change gets its own, 5,000 keys queued",
    unit="passes",
    bound=1.0,
    strictly=True,
    measured="the worst of ten changes",
    measured_unit="passes",
    baseline="with an empty queue",
)
TIME = Claim(
    key="waiting-time",
    title="The time it waits",
    unit="passes",
    bound=1.0,
    strictly=True,
    measured="the median of ten changes, in passes of 5 ms",
    measured_unit="passes",
    baseline="with an empty queue",
)
CLAIMS = (OTHERS, TIME)


class Waited(msgspec.Struct, frozen=True):
    passes: int
    seconds: float


class Took(msgspec.Struct, frozen=True, kw_only=True):
    passes: int
    time_in_passes: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    for _ in range(settings.sizes.runs):
        empty = measured("bench.waiting", "empty", settings, Took)
        full = measured("bench.waiting", "full", settings, Took)
        yield {
            OTHERS.key: Run(full.passes, empty.passes),
            TIME.key: Run(full.time_in_passes, empty.time_in_passes),
        }


class Snapshot(msgspec.Struct, frozen=True):
    object: Ticket
    now: datetime


class FixedCost:
    """Every pass takes the same time. Knows when a change was queued, and notes how long it waited for its pass."""

    def __init__(self) -> None:
        self._now_s = asyncio.get_running_loop().time
        self._passes = 0
        self._spent_s = 0.0
        self._queued: dict[Key, Waited] = {}  # the state of both counts when it was queued
        self.waits: asyncio.Queue[Waited] = asyncio.Queue()

    def on_change(self, change: Change[Ticket], cause: Cause) -> None:
        """Called right after the manager has queued the key."""
        if cause is Cause.WATCH and isinstance(change, Updated):
            self._queued[key_of(change.new)] = Waited(self._passes, self._now_s())

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        began_s = self._now_s()
        if (queued := self._queued.pop(key, None)) is not None:
            self.waits.put_nowait(Waited(self._passes - queued.passes, began_s - queued.seconds))
        self._passes += 1
        ticket = read.get(Ticket, key.name, key.namespace)
        await asyncio.sleep(PASS_S)
        self._spent_s += self._now_s() - began_s
        return Snapshot(ticket, read.now) if ticket is not None else None

    def plan(self, _snapshot: Snapshot) -> Plan:
        return NOTHING

    def report(self, _snapshot: Snapshot, _outcome: Outcome) -> None:
        return None

    @property
    def pass_s(self) -> float:
        return self._spent_s / self._passes


async def full(settings: Settings) -> Took:
    return await changes(settings, crowded=True)


async def empty(settings: Settings) -> Took:
    return await changes(settings, crowded=False)


async def changes(settings: Settings, *, crowded: bool) -> Took:
    reconciler, synced, stop = FixedCost(), asyncio.Event(), asyncio.Event()
    controller = Controller.for_(Ticket, reconciler, where=HERE, workers=1)
    async with our_client(settings) as client, our_client(settings) as person, asyncio.timeout(WITHIN_S):
        manager = Manager(client, [controller], clock=system_clock(), metrics=Metrics(), on_synced=synced.set)
        informer = manager.informers.of(Ticket, HERE)
        informer.subscribe(reconciler.on_change)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stop))
            await synced.wait()
            tickets, queue = sorted(informer.store, key=key_of), manager.passes[0].queue
            if not crowded:
                while queue.statistics().ready[Lane.RESYNC]:
                    queue.done(queue.take_nowait().key)
            for ticket in tickets if crowded else ():
                queue.add(key_of(ticket), lane=Lane.CHANGE)
            waits = [await waited(reconciler, person, ticket) for ticket in tickets[-CHANGES:]]
            left = queue.statistics().ready[Lane.CHANGE]
            stop.set()
    if crowded and not left:
        raise RuntimeError(f"nothing was left in the queue when the last of {CHANGES} changes had its pass")
    return Took(
        passes=max(wait.passes for wait in waits),
        time_in_passes=median(wait.seconds for wait in waits) / reconciler.pass_s,
    )


async def waited(reconciler: FixedCost, person: Client, ticket: Ticket) -> Waited:
    await change(person, ticket)
    return await reconciler.waits.get()


async def change(person: Client, ticket: Ticket) -> None:
    await person.patch(
        Ticket,
        ticket.metadata.name,
        QUEUE,
        merge={"spec": {"number": ticket.spec.number + 1}},
        precondition=Precondition(),
        field_manager="bench-person",
    )


if __name__ == "__main__":
    answer({"full": full, "empty": empty})
