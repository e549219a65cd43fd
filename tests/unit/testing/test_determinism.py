"""A seed is a run: the same seed gives the same trace to the byte, another seed another one."""

import asyncio
import random
from contextlib import aclosing, suppress

import looptime
import pytest

from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.selection import Precondition, Selector
from corral.kube.unstructured import untyped
from corral.testing.apiserver import ROUGH, FakeApiServer
from corral.testing.contract import CONFIG_MAP

KIND = untyped(CONFIG_MAP)


async def busy_hour(seed: int) -> list[str]:
    """Two writers and a watcher on a rough server."""
    server = FakeApiServer(seed=seed, faults=ROUGH)
    client = Client(server.connect("us"), luck=random.Random(seed).random)
    heard: list[str] = []

    async def write(who: int) -> None:
        for step in range(20):
            content = {"metadata": {"namespace": "default", "generateName": f"w{who}-"}, "data": {"step": str(step)}}
            try:
                made = await client.create(KIND(content=content), field_manager="m")
                await client.delete(KIND, made.metadata.name, "default", precondition=Precondition.of(made))
            except KubeError as error:
                server.note("us", f"{type(error).__name__}")
            await asyncio.sleep(1)

    async def watch() -> None:
        while True:
            try:
                async with aclosing(client.watch(KIND, Selector("default"))) as events:
                    async for event in events:
                        heard.append(repr(event))  # noqa: PERF401 (what came before a fault counts too)
            except KubeError as error:
                heard.append(type(error).__name__)
                await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    await asyncio.gather(write(1), write(2))
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    await client.close()
    return [*server.trace, *heard]


def run(seed: int) -> list[str]:
    loop = looptime.new_event_loop(start=0)
    try:
        return loop.run_until_complete(busy_hour(seed))
    finally:
        loop.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    assert run(seed) == run(seed)


def test_another_seed_gives_another_trace() -> None:
    assert run(1) != run(2)


def test_a_trace_names_time_client_request_and_answer() -> None:
    trace = "\n".join(run(1))

    assert "us POST /api/v1/namespaces/default/configmaps?fieldManager=m&fieldValidation=Strict -> 201 v" in trace
    assert "[SERVER_ERROR]" in trace or "[CONFLICT]" in trace or "[LOSE_ANSWER]" in trace
