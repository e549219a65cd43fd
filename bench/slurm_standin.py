"""`python -m bench.slurm_standin SETTINGS NAMESPACE`: a Slurm for workers that have no slurmd, as kwok's have none.

It plays slurmctld and slurmrestd by the models of the simulator (tests/sim), over real HTTP: the pod of a worker that
is Ready has registered. Prints the address that it answers at.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from random import Random

import msgspec
from aiohttp import web

from bench.lab import CHECKOUT
from bench.process import Settings
from bench.server import our_client
from corral.engine.clock import VIRTUAL_EPOCH
from corral.kinds import names
from corral.kinds.nodeset.registration import line_of
from corral.kube import Gone, Put, Selector
from corral.kube.models.core_v1 import Pod
from corral.slurm.errors import Subject
from corral.slurm.tokens import Token
from corral.slurm.transport import Request
from tests.sim.slurmctld import Slurmctld, Slurmd
from tests.sim.slurmrestd import Slurmrestd

NOBODY = Token("", datetime.min.replace(tzinfo=UTC))


@contextmanager
def slurm(settings: Settings, namespace: str) -> Iterator[str]:
    """Its address, while the block runs."""
    command = [sys.executable, "-m", "bench.slurm_standin", msgspec.json.encode(settings).decode(), namespace]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def play(settings: Settings, namespace: str) -> None:
    chance, began_s = Random(0), VIRTUAL_EPOCH.timestamp()

    def now_s() -> float:
        return time.time() - began_s

    slurmctld = Slurmctld(now_s, chance, lambda _said: None)
    slurmrestd = Slurmrestd(slurmctld, now_s, chance)
    runner = web.AppRunner(app := web.Application())
    app.router.add_route("*", "/{path:.*}", lambda request: answered(slurmrestd, request))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await follow_pods(settings, namespace, slurmctld, now_s)


async def answered(slurmrestd: Slurmrestd, request: web.Request) -> web.Response:
    asked = Request(
        subject=Subject("bench", request.method, request.path),
        method=request.method,
        path=request.path,
        query=tuple(request.query.items()),
        body=await request.read(),
        token=NOBODY,
        deadline_s=60.0,
    )
    said = await slurmrestd.answer(asked, "bench")
    return web.Response(status=said.status, body=said.body, content_type="application/json")


async def follow_pods(settings: Settings, namespace: str, slurmctld: Slurmctld, now_s: Callable[[], float]) -> None:
    workers: dict[str, Slurmd] = {}  # by uid of the pod
    where = Selector(namespace=namespace, labels=names.NODESET_LABEL)
    async with our_client(settings) as client:
        while True:  # a server ends a watch after half an hour or more
            async for event in client.watch(Pod, where, initial_list=True):
                if isinstance(event, Gone) and (ended := workers.pop(event.object.metadata.uid, None)):
                    slurmctld.slurmd_ended(ended, "its deletion")
                elif isinstance(event, Put) and is_ready(event.object) and event.object.metadata.uid not in workers:
                    workers[event.object.metadata.uid] = slurmd = slurmd_of(event.object, now_s())
                    slurmctld.register(slurmd)


def slurmd_of(pod: Pod, started_s: float) -> Slurmd:
    words = dict(word.partition("=")[::2] for word in line_of(pod).split())
    features = tuple(words.get("Feature", "").split(","))
    return Slurmd(pod.metadata.name, pod.metadata.uid, features, started_s, int(words.get("CPUs", 0)))


def is_ready(pod: Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


if __name__ == "__main__":
    asyncio.run(play(msgspec.json.decode(sys.argv[1], type=Settings), sys.argv[2]))
