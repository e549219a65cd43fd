"""The first sync of a manager that watches 10,000 pods of 6 KiB.

Memory: what the process has grown by once its caches are synced and every key is in the queue, from a process that has
spoken to the server already. CPU: from the start of the manager to "synced". The baseline has the very bytes of that
stream in memory and decodes them into the same classes in one go.
"""

import asyncio
import gc
import resource
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from bench.claims import Claim, Run
from bench.objects import PODS
from bench.process import Settings, answer, measured
from bench.server import bare_session, our_client
from corral.engine import NOTHING, Controller, Key, Manager, Metrics, Outcome, Plan, Reader, system_clock
from corral.kube import Selector
from corral.kube.models.core_v1 import Namespace, Pod

HERE = Selector(namespace=PODS)
WITHIN_S = 120.0
QUERY = {
    "watch": "true",
    "allowWatchBookmarks": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
}

MEMORY = Claim(
    key="sync-memory",
    title="Memory of the cache of 10,000 pods",
    unit="KiB a pod",
    bound=25.0,
    measured="growth of the resident set by the sync",
    measured_unit="KiB a pod",
    baseline="the decoded objects alone, without their bytes",
)
CPU = Claim(
    key="sync-cpu",
    title="CPU of their first sync",
    unit="x decoding",
    bound=4.0,
    compare="ratio",
    measured="connection, TLS, lines, decoding, store, indexes, queue",
    measured_unit="s",
    baseline="msgspec decodes the same bytes in one go",
)
PEAK = Claim(
    key="sync-peak",
    title="Memory at the peak of the sync",
    unit="KiB a pod",
    measured="growth of the resident set at its peak",
    measured_unit="KiB a pod",
    baseline="the decoded objects alone, without their bytes",
)
CLAIMS = (MEMORY, CPU, PEAK)


class Took(msgspec.Struct, frozen=True, kw_only=True):
    cpu_s: float
    grown_bytes: int
    peak_bytes: int
    wire_bytes: int = 0


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    each_kib = 1 / 1024 / settings.sizes.pods
    for number in range(settings.sizes.runs):
        order = ("decode", "manager") if number % 2 else ("manager", "decode")
        took = {part: measured("bench.sync", part, settings, Took) for part in order}
        manager, decoded = took["manager"], took["decode"]
        yield {
            MEMORY.key: Run(manager.grown_bytes * each_kib, decoded.grown_bytes * each_kib),
            CPU.key: Run(manager.cpu_s, decoded.cpu_s),
            PEAK.key: Run(manager.peak_bytes * each_kib, decoded.grown_bytes * each_kib),
        }


class Snapshot(msgspec.Struct, frozen=True):
    object: Pod
    now: datetime


class NothingToDo:
    """Looks at a pod and finds nothing to do."""

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        pod = read.get(Pod, key.name, key.namespace)
        return Snapshot(pod, read.now) if pod is not None else None

    def plan(self, _snapshot: Snapshot) -> Plan:
        return NOTHING

    def report(self, _snapshot: Snapshot, _outcome: Outcome) -> None:
        return None


async def manager(settings: Settings) -> Took:
    """Without workers: the keys stay where the sync puts them."""
    cpu_s: list[float] = []
    synced, stop = asyncio.Event(), asyncio.Event()

    def on_synced() -> None:
        cpu_s.append(time.process_time())
        synced.set()

    controller = Controller.for_(Pod, NothingToDo(), where=HERE, workers=0)
    async with our_client(settings) as client, asyncio.timeout(WITHIN_S):
        await client.list(Namespace)
        running = Manager(client, [controller], clock=system_clock(), metrics=Metrics(), on_synced=on_synced)
        gc.collect()
        before_bytes, began_cpu_s = resident_bytes(), time.process_time()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(running.run(stop))
            await synced.wait()
            gc.collect()
            grown_bytes = resident_bytes() - before_bytes
            cached = sum(cache.objects for cache in running.informers.statistics())
            stop.set()
    if cached != settings.sizes.pods:
        raise RuntimeError(f"the cache has {cached} pods, not {settings.sizes.pods}")
    return Took(cpu_s=cpu_s[0] - began_cpu_s, grown_bytes=grown_bytes, peak_bytes=peak_resident_bytes() - before_bytes)


class Added(msgspec.Struct, frozen=True):
    type: str
    object: Pod


async def decode(settings: Settings) -> Took:
    lines = await initial_lines(settings)
    decoder = msgspec.json.Decoder(Added)
    gc.collect()
    before_bytes, began_cpu_s = resident_bytes(), time.process_time()
    objects = decoder.decode_lines(lines)
    cpu_s, grown_bytes = time.process_time() - began_cpu_s, resident_bytes() - before_bytes
    if len(objects) != settings.sizes.pods:
        raise RuntimeError(f"the stream has {len(objects)} pods, not {settings.sizes.pods}")
    return Took(cpu_s=cpu_s, grown_bytes=grown_bytes, peak_bytes=grown_bytes, wire_bytes=len(lines))


async def initial_lines(settings: Settings) -> bytes:
    """The initial list as the server streams it, without the bookmark that ends it."""
    async with bare_session(settings) as session, session.get(Pod.resource.path(PODS), params=QUERY) as response:
        response.raise_for_status()
        chunks: list[bytes] = []
        while b"k8s.io/initial-events-end" not in b"".join(chunks[-4:]):
            chunks.append(await response.content.readany())
    lines = b"".join(chunks)
    return lines[: lines.rindex(b'{"type":"BOOKMARK"')]


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak_resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    answer({"manager": manager, "decode": decode})
