"""The engine's theorem: after faults stop, within a bound, `plan(observe())` is empty and stays empty.

Each run is a seed: people change toys, strangers change children, the server and its watches fail, the operator crashes
after any write and at any moment. Then faults stop, and besides the theorem it must hold that every toy has exactly its
children, that what is made once was made once, and that no field of a stranger was touched.

A failure prints its seed and the last requests. To repeat it: SEEDS=n uv run pytest tests/engine/test_convergence.py
"""

import asyncio
import os
from random import Random
from typing import Any

import pytest

from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.testing.apiserver import ROUGH, FakeApiServer
from corral.testing.operators import Operator, converged
from corral.testing.toys import Toy, toy_controller

pytestmark = pytest.mark.looptime(noop_cycles=0)  # nothing outside the loop can happen: time may jump at once

SEEDS_TOTAL = 2000
BATCHES = 40
FAULTY_S = 45.0
CONVERGED_WITHIN_S = 600.0
QUIET_S = 120.0  # a stalled watch is noticed after 75 s, and caught up with within seconds
TRACE_LINES_SHOWN = 80

NAMES = ("ant", "bee", "cat")
THEIRS = {"theirs": "untouched"}


def seeds_of(batch: int) -> list[int]:
    if chosen := os.environ.get("SEEDS"):
        return [int(seed) for seed in chosen.split(",")] if batch == 0 else []
    return list(range(batch, SEEDS_TOTAL, BATCHES))


@pytest.mark.parametrize("batch", range(BATCHES))
async def test_converges_after_any_faults(batch: int) -> None:
    for seed in seeds_of(batch):
        await repeatable(seed)


async def repeatable(seed: int) -> None:
    server = FakeApiServer(seed=seed, faults=ROUGH)
    try:
        await run(seed, server)
    except BaseException:
        print(f"SEED {seed}", *server.trace[-TRACE_LINES_SHOWN:], sep="\n")
        raise


async def run(seed: int, server: FakeApiServer) -> None:
    server.register(Toy)
    stranger = server.add(a_map("stranger", THEIRS))
    operator = Operator(server, toy_controller, seed=seed)
    operator.start()
    kubelet = asyncio.create_task(operator.keep_running())
    try:
        await troubled_times(server, operator, Random(f"{seed} people"))
        server.stop_faults()
        await converged(server, toy_controller, within_s=CONVERGED_WITHIN_S, quiet_s=QUIET_S)
    finally:
        kubelet.cancel()
        await operator.crash()
        server.stop_collecting()

    assert server.get(ConfigMap, "stranger", "default") == stranger
    check_children(server)


async def troubled_times(server: FakeApiServer, operator: Operator, chance: Random) -> None:
    now_s = asyncio.get_running_loop().time
    until_s = now_s() + FAULTY_S
    while now_s() < until_s:
        await asyncio.sleep(chance.uniform(0, FAULTY_S / 8))
        happening = chance.choice((a_person, a_person, a_person, a_meddler, a_crash, a_crash_after_a_write))
        await happening(server, operator, chance)


async def a_person(server: FakeApiServer, _operator: Operator, chance: Random) -> None:
    name = chance.choice(NAMES)
    spec = {"copies": chance.randrange(4), "greeting": chance.choice(("hello", "good day"))}
    toy = server.get(Toy, name, "default")
    if toy is None:
        server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": name}, "spec": spec})
    elif chance.random() < 0.25:
        server.remove(Toy, name, "default")
    else:
        server.edit(Toy, name, "default", merge={"spec": spec})


async def a_meddler(server: FakeApiServer, _operator: Operator, chance: Random) -> None:
    """Someone changes a field of ours, adds one of theirs, or deletes a child."""
    children = [m for m in server.all_of(ConfigMap) if m["metadata"].get("ownerReferences")]
    if not children:
        return
    name = chance.choice(children)["metadata"]["name"]
    if chance.random() < 0.3:
        server.remove(ConfigMap, name, "default")
    else:
        server.edit(ConfigMap, name, "default", merge={"data": {"greeting": "go away", **THEIRS}})


async def a_crash(_server: FakeApiServer, operator: Operator, chance: Random) -> None:
    for _ in range(chance.randrange(50)):
        await asyncio.sleep(0)
    operator.task.cancel()


async def a_crash_after_a_write(_server: FakeApiServer, operator: Operator, chance: Random) -> None:
    operator.connection.crash_after_writes(chance.randint(1, 4))


def a_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def check_children(server: FakeApiServer) -> None:
    toys = {toy["metadata"]["name"]: toy for toy in server.all_of(Toy)}
    wanted = {
        f"{name}-{number}": toy["spec"]["greeting"]
        for name, toy in toys.items()
        for number in range(toy["spec"]["copies"])
    }
    maps = {m["metadata"]["name"]: m["data"] for m in server.all_of(ConfigMap) if m["metadata"]["name"] != "stranger"}
    assert {name: data["greeting"] for name, data in maps.items()} == wanted
    assert all(data.get("theirs", "untouched") == "untouched" for data in maps.values())
    tokens = {s["metadata"]["name"]: s["metadata"]["ownerReferences"][0]["uid"] for s in server.all_of(Secret)}
    assert tokens == {f"{name}-token": toy["metadata"]["uid"] for name, toy in toys.items()}
    for toy in toys.values():
        ready = next(c for c in toy["status"]["conditions"] if c["type"] == "Ready")
        assert (ready["status"], ready["observedGeneration"]) == ("True", toy["metadata"]["generation"])
