"""Creating many small objects: through the engine, and by a bare loop over aiohttp.

Engine: a Manager with a lease runs a controller with 16 workers; the plan of each key is one Create. The clock runs
from the first pass to the last answer; passes that look at an object again after it was made are within that time.
Bare: 16 tasks post the same bodies over the same TLS and read the answers: the whole objects, as they come when nobody
asks otherwise (the engine asks back the metadata alone). The objects are deleted after each.
"""

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime

import aiohttp
import msgspec

from bench.claims import Claim, Run
from bench.objects import CREATION, Ticket, small_object
from bench.process import Settings, answer, measured
from bench.server import bare_session, our_client
from bench.world import at_once
from corral.engine import (
    NOTHING,
    Controller,
    Create,
    Key,
    LeaseAddress,
    Manager,
    Metrics,
    Outcome,
    Plan,
    Reader,
    system_clock,
)
from corral.kube import Selector
from corral.kube.codec import encode
from corral.kube.models.core_v1 import ConfigMap

PATH = ConfigMap.resource.path(CREATION)
MADE = {"labelSelector": "app.kubernetes.io/part-of=bench"}
WITHIN_S = 120.0

TIME = Claim(
    key="creation",
    title="Creating 2,000 small objects through the engine",
    unit="x the bare time",
    bound=1.3,
    compare="ratio",
    measured="from the first pass to the last answer, 16 workers",
    measured_unit="s",
    baseline="a bare aiohttp loop, same bodies, 16 at a time",
)
SETTLED = Claim(
    key="creation-settled",
    title="The same, until every key was looked at again and nothing was left to do",
    unit="x the bare time",
    compare="ratio",
    measured="from the first pass to the last empty plan",
    measured_unit="s",
    baseline="the same loop",
)
CPU = Claim(
    key="creation-cpu",
    title="CPU of that process for one object",
    unit="x the bare loop's",
    compare="ratio",
    measured="observe, plan, create, watch, barrier, second pass",
    measured_unit="ms",
    baseline="post and read",
)
CLAIMS = (TIME, SETTLED, CPU)


class Took(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    settled_s: float
    cpu_s: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    for number in range(settings.sizes.runs):
        order = ("engine", "bare") if number % 2 else ("bare", "engine")
        took = {part: measured("bench.creation", part, settings, Took) for part in order}
        engine, bare = took["engine"], took["bare"]
        each_ms = 1000 / settings.sizes.creations
        yield {
            TIME.key: Run(engine.seconds, bare.seconds),
            SETTLED.key: Run(engine.settled_s, bare.settled_s),
            CPU.key: Run(engine.cpu_s * each_ms, bare.cpu_s * each_ms),
        }


class Snapshot(msgspec.Struct, frozen=True):
    object: Ticket
    now: datetime
    made: tuple[ConfigMap, ...]


class OneEach:
    """Plans one Create for a ticket that has none; notes when it began, and when nothing was left to do."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._settled_keys: set[str] = set()
        self.began_s = self.began_cpu_s = self.settled_s = self.settled_cpu_s = 0.0
        self.settled = asyncio.Event()

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        if not self.began_s:
            self.began_s, self.began_cpu_s = time.monotonic(), time.process_time()
        ticket = read.get(Ticket, key.name, key.namespace)
        return Snapshot(ticket, read.now, read.owned(ConfigMap, ticket)) if ticket is not None else None

    def plan(self, snapshot: Snapshot) -> Plan:
        if snapshot.made:
            return NOTHING
        message = "this ticket has none yet"
        return Plan(actions=(Create(object=small_object(snapshot.object), reason="Missing", message=message),))

    def report(self, snapshot: Snapshot, outcome: Outcome) -> None:
        name = snapshot.object.metadata.name
        if outcome.plan is NOTHING and name not in self._settled_keys:
            self._settled_keys.add(name)
            if len(self._settled_keys) == self._count:
                self.settled_s, self.settled_cpu_s = time.monotonic(), time.process_time()
                self.settled.set()


class LastAnswer(Metrics):
    """The usual metrics, and when the last create was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.created = 0
        self.answered_s = 0.0

    def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None:
        super().on_request(verb, kind, status, seconds)
        if verb == "create" and kind == ConfigMap.resource.kind and status == 201:
            self.created += 1
            self.answered_s = time.monotonic()


async def engine(settings: Settings) -> Took:
    sizes, here = settings.sizes, Selector(namespace=CREATION)
    reconciler, metrics, stop = OneEach(sizes.creations), LastAnswer(), asyncio.Event()
    controller = Controller.for_(Ticket, reconciler, where=here, workers=sizes.workers).owns(ConfigMap, where=here)
    async with our_client(settings, metrics) as client, asyncio.timeout(WITHIN_S):
        manager = Manager(client, [controller], clock=system_clock(), metrics=metrics, lease=LeaseAddress(CREATION))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stop))
            await reconciler.settled.wait()
            stop.set()
    async with bare_session(settings) as session:
        await clear(session)
    if metrics.created != sizes.creations:
        raise RuntimeError(f"the engine made {metrics.created} objects, not {sizes.creations}")
    return Took(
        seconds=metrics.answered_s - reconciler.began_s,
        settled_s=reconciler.settled_s - reconciler.began_s,
        cpu_s=reconciler.settled_cpu_s - reconciler.began_cpu_s,
    )


async def bare(settings: Settings) -> Took:
    async with our_client(settings) as client:
        tickets = (await client.list(Ticket, Selector(namespace=CREATION))).items
    bodies = [encode(small_object(ticket)) for ticket in tickets]
    headers, query = {"Content-Type": "application/json"}, {"fieldManager": "bench-bare"}
    async with bare_session(settings, connections=settings.sizes.workers) as session:

        async def post(body: bytes) -> None:
            async with session.post(PATH, data=body, headers=headers, params=query) as response:
                await response.read()
                response.raise_for_status()

        began_s, began_cpu_s = time.monotonic(), time.process_time()
        await at_once(bodies, post, workers=settings.sizes.workers)
        took_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
        await clear(session)
    return Took(seconds=took_s, settled_s=took_s, cpu_s=cpu_s)


async def clear(session: aiohttp.ClientSession) -> None:
    """Delete what was made, so that the next one begins where this one did."""
    async with session.delete(PATH, params=MADE) as response:
        await response.read()
        response.raise_for_status()


if __name__ == "__main__":
    answer({"engine": engine, "bare": bare})
