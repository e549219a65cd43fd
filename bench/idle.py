"""A manager with nothing to do: what `corral run` is, with lease, health endpoints and watchdogs, over 10,000 pods.

Every key has been passed over once and waits for its resync in ten hours. Then one minute is looked at: its CPU time,
and its requests that are neither a watch nor about the lease. The client counts them; and the API server counts how
often anybody asked it about pods, other than by watches. Beside each manager runs, before or after it in turn, a
process whose event loop only sleeps for a minute.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import aiohttp
import msgspec

from bench.claims import Claim, Run
from bench.objects import PODS
from bench.process import Settings, answer, measured
from bench.server import bare_session, our_client, requests_served
from bench.sync import HERE, NothingToDo, Snapshot
from corral.engine import Address, Controller, Key, LeaseAddress, Metrics, Reader, run_until_signal
from corral.kube.models.coordination_v1 import Lease
from corral.kube.models.core_v1 import Pod

SETTLE_S = 3.0
WITHIN_S = 900.0

REQUESTS = Claim(
    key="idle-requests",
    title="Requests of an idle manager of 10,000 objects, other than watches and the lease",
    unit="in a minute",
    bound=0.0,
    measured="requests counted by the client",
    measured_unit="in a minute",
    baseline="requests about pods that the API server counted, whoever made them",
)
CPU = Claim(
    key="idle-cpu",
    title="CPU of that manager",
    unit="% of a core",
    bound=1.0,
    strictly=True,
    measured="CPU time in a minute",
    measured_unit="% of a core",
    baseline="a process with an event loop that only sleeps",
)
CLAIMS = (REQUESTS, CPU)


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    cpu_share: float
    requests: int
    served: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    for number in range(settings.sizes.runs):
        order = ("manager", "nothing") if number % 2 else ("nothing", "manager")
        minutes = {part: measured("bench.idle", part, settings, Minute) for part in order}
        ours, bare = minutes["manager"], minutes["nothing"]
        yield {
            REQUESTS.key: Run(ours.requests, ours.served),
            CPU.key: Run(ours.cpu_share * 100, bare.cpu_share * 100),
        }


class AllSeen(NothingToDo):
    """Says when it has looked at every pod."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.all_seen = asyncio.Event()

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        self._left -= 1
        if self._left == 0:
            self.all_seen.set()
        return await super().observe(key, read)


class Counting(Metrics):
    """The usual metrics, and the number of requests that an idle manager should not make."""

    def __init__(self) -> None:
        super().__init__()
        self.unexpected = 0

    def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None:
        super().on_request(verb, kind, status, seconds)
        if verb != "watch" and kind != Lease.resource.kind:
            self.unexpected += 1


async def manager(settings: Settings) -> Minute:
    sizes = settings.sizes
    metrics, reconciler = Counting(), AllSeen(sizes.pods)
    controller = Controller.for_(Pod, reconciler, where=HERE)
    async with (
        our_client(settings, metrics) as client,
        bare_session(settings) as session,
        asyncio.timeout(WITHIN_S),
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(
            run_until_signal(
                client,
                [controller],
                metrics=metrics,
                lease=LeaseAddress(PODS),
                health=Address(host="127.0.0.1", port=0),
            )
        )
        await reconciler.all_seen.wait()
        await asyncio.sleep(SETTLE_S)
        minute = await look(sizes.idle_s, metrics, session)
        os.kill(os.getpid(), signal.SIGTERM)
    return minute


async def look(seconds: float, metrics: Counting, session: aiohttp.ClientSession) -> Minute:
    served, requests = await requests_served(session, Pod.resource.plural), metrics.unexpected
    began_cpu_s = time.process_time()
    await asyncio.sleep(seconds)
    cpu_s = time.process_time() - began_cpu_s
    return Minute(
        cpu_share=cpu_s / seconds,
        requests=metrics.unexpected - requests,
        served=await requests_served(session, Pod.resource.plural) - served,
    )


async def nothing(settings: Settings) -> Minute:
    began_cpu_s = time.process_time()
    await asyncio.sleep(settings.sizes.idle_s)
    return Minute(cpu_share=(time.process_time() - began_cpu_s) / settings.sizes.idle_s, requests=0, served=0)


if __name__ == "__main__":
    answer({"manager": manager, "nothing": nothing})
