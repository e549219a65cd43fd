"""When a status is written: what turned at once, how far things are less and less often."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from corral.engine import Controller, Outcome, Plan, Wait
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator
from corral.testing.toys import Toy, ToyReconciler, ToySnapshot, ToyStatus, toy_controller

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Filling(ToyReconciler):
    """Waits for something of which there is more each time that it looks, which is every second."""

    def __init__(self) -> None:
        self.percent = 0
        self.reason = "Filling"
        self.is_ready = False

    def plan(self, _snapshot: ToySnapshot, /) -> Plan:
        self.percent += 1
        if self.is_ready:
            return Plan(again_after_s=1.0)
        return Plan(waits=(Wait(reason=self.reason, message=f"{self.percent} % so far"),), again_after_s=1.0)

    def report(self, snapshot: ToySnapshot, outcome: Outcome, /) -> ToyStatus:
        return ToyStatus.of(snapshot, outcome, copies=self.percent)


def writes_of_status(server: FakeApiServer) -> int:
    return sum(" PATCH " in line and "/status" in line for line in server.trace)


async def test_how_far_things_are_is_told_less_often_the_longer_it_takes() -> None:
    server, filling = FakeApiServer(), Filling()
    server.register(Toy)
    meta: dict[str, Any] = {"name": "bear", "namespace": "default", "finalizers": [toy_controller().finalizer_name]}
    server.add({"apiVersion": Toy.resource.api_version, "kind": "Toy", "metadata": meta, "spec": {}})

    def build() -> Controller[Toy, ToySnapshot]:
        return structs.replace(toy_controller(), reconciler=filling)

    operator = Operator(server, build)
    operator.start()
    told = []
    for pause_s in (5, 10, 20, 30, 30, 30):
        await asyncio.sleep(pause_s)
        told.append(writes_of_status(server))
    assert told == [1, 2, 3, 4, 5, 6]

    filling.reason = "AlmostThere"
    await asyncio.sleep(2)
    assert writes_of_status(server) == 7, "what turned is told at once"
    await asyncio.sleep(11)
    assert writes_of_status(server) == 8, "and from then on, how far it is, as at the beginning"

    filling.is_ready = True
    await asyncio.sleep(2)
    assert writes_of_status(server) == 9
    for told_of_one_that_is_ready in (10, 11, 12):
        await asyncio.sleep(11)
        assert writes_of_status(server) == told_of_one_that_is_ready
    await operator.stop()
    server.stop_collecting()
