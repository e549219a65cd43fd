"""What one change costs a process that watches, from the socket to the key in the queue.

A manager watches 10,000 pods of 6 KiB. Another process changes an annotation of 5,000 of them. Counted is the CPU time,
user and system, of the manager's process, divided by the number of events; and beside it, what the same process uses in
as much time when nothing happens. There are no workers, so what is measured ends where the key is queued.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator

import msgspec

from bench.claims import Claim, Run
from bench.objects import PODS, worker_pod
from bench.process import Settings, answer, command, measured
from bench.server import our_client
from bench.sync import HERE, NothingToDo
from bench.world import at_once
from corral.engine import Controller, Manager, Metrics, system_clock
from corral.engine.informer import Cause
from corral.engine.manager import freeze_heap
from corral.engine.queue import NothingDue
from corral.kube import Precondition
from corral.kube.models.core_v1 import Pod

PRODUCERS = 8
IDLE_S = 5.0
WITHIN_S = 300.0

COST = Claim(
    key="events",
    title="One event, from socket to queue",
    unit="ms of CPU",
    bound=0.1,
    compare="difference",
    measured="CPU for each of 5,000 events",
    measured_unit="ms",
    baseline="CPU of as much time without events",
)
CLAIMS = (COST,)


class Took(msgspec.Struct, frozen=True, kw_only=True):
    events: int
    seconds: float
    cpu_s: float
    idle_cpu_share: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    for _ in range(settings.sizes.runs):
        took = measured("bench.events", "consume", settings, Took)
        each_ms = 1000 / took.events
        yield {COST.key: Run(took.cpu_s * each_ms, took.idle_cpu_share * took.seconds * each_ms)}


async def consume(settings: Settings) -> Took:
    sizes, stop, synced, seen = settings.sizes, asyncio.Event(), asyncio.Event(), asyncio.Event()
    expected = sizes.events
    controller = Controller.for_(Pod, NothingToDo(), where=HERE, workers=0)

    def on_synced() -> None:
        freeze_heap()  # as a manager does by itself
        synced.set()

    async with our_client(settings) as client, asyncio.timeout(WITHIN_S):
        manager = Manager(client, [controller], clock=system_clock(), metrics=Metrics(), on_synced=on_synced)
        informer = manager.informers.of(Pod, HERE)
        count = itertools.count(1)
        informer.subscribe(lambda _change, cause: note(cause, count, expected, seen))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stop))
            await synced.wait()
            drain(manager)
            idle_cpu_share = await cpu_share_of(IDLE_S)
            producer = await asyncio.create_subprocess_exec(
                *command("bench.events", "produce", settings), stdin=asyncio.subprocess.PIPE, stdout=sys.stderr
            )
            await asyncio.sleep(1)  # it connects; the measured time begins when it is told to
            began_s, began_cpu_s = time.monotonic(), time.process_time()
            await producer.communicate(b"go\n")
            await seen.wait()
            seconds, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
            events = informer.statistics().events
            stop.set()
    return Took(events=events, seconds=seconds, cpu_s=cpu_s, idle_cpu_share=idle_cpu_share)


def note(cause: Cause, count: Iterator[int], expected: int, seen: asyncio.Event) -> None:
    if cause is Cause.WATCH and next(count) == expected:
        seen.set()


def drain(manager: Manager) -> None:
    """As if workers had passed over everything that the sync has queued."""
    queue = manager.passes[0].queue
    while True:
        try:
            queue.done(queue.take_nowait().key)
        except NothingDue:
            return


async def cpu_share_of(seconds: float) -> float:
    began_cpu_s = time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - began_cpu_s) / seconds


class Produced(msgspec.Struct, frozen=True):
    events: int


async def produce(settings: Settings) -> Produced:
    async with our_client(settings) as client:

        async def change(number: int) -> None:
            await client.patch(
                Pod,
                worker_pod(number).metadata.name,
                PODS,
                merge={"metadata": {"annotations": {"bench.corral.dev/beat": str(time.time_ns())}}},
                precondition=Precondition(),
                field_manager="bench-person",
            )

        await client.server_version()
        await asyncio.to_thread(sys.stdin.readline)
        await at_once(range(settings.sizes.events), change, workers=PRODUCERS)
    return Produced(settings.sizes.events)


if __name__ == "__main__":
    answer({"consume": consume, "produce": produce})
