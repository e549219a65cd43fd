"""When a status is written: what turned at once, how far things are less and less often, and not before work."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import structs

from corral.engine import Controller, Key, Outcome, Outside, OutsideFailed, Plan, Reader, Wait
from corral.engine.reporting import GIVES_WAY_S_MAX
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


def a_server(*names: str) -> FakeApiServer:
    server = FakeApiServer()
    server.register(Toy)
    for name in names:
        meta: dict[str, Any] = {"name": name, "namespace": "default", "finalizers": [toy_controller().finalizer_name]}
        server.add({"apiVersion": Toy.resource.api_version, "kind": "Toy", "metadata": meta, "spec": {}})
    return server


def patient(reconciler: ToyReconciler) -> Controller[Toy, ToySnapshot]:
    """One worker; of a status nothing but the number of copies is decided by."""
    controller = toy_controller().remembers(lambda status: status.copies, is_patient=True)
    return structs.replace(controller, reconciler=reconciler, workers=1)


class Slow(ToyReconciler):
    """Needs a second for each look. Toys that are called busy are looked at all the time."""

    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        self.told_before_look: list[int] = []

    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        await asyncio.sleep(1)
        self.told_before_look.append(writes_of_status(self._server))
        return await super().observe(key, read)

    def plan(self, snapshot: ToySnapshot, /) -> Plan:
        again_s = 0.0 if snapshot.object.metadata.name.startswith("busy") else None
        return Plan(waits=(Wait(reason="Waiting", message="for the rain"),), again_after_s=again_s)


async def test_words_about_what_is_on_its_way_come_after_the_work_for_others() -> None:
    server = a_server("ant", "bear", "cat")
    slow = Slow(server)
    operator = Operator(server, lambda: patient(slow))
    operator.start()
    await asyncio.sleep(20)

    assert slow.told_before_look[:3] == [0, 0, 0]
    assert writes_of_status(server) == 3, "each is told in the end"
    await operator.stop()
    server.stop_collecting()


async def test_what_later_passes_decide_by_is_written_at_once() -> None:
    server = a_server("ant", "bear", "cat")

    class Counting(Slow):
        def report(self, snapshot: ToySnapshot, outcome: Outcome, /) -> ToyStatus:
            return ToyStatus.of(snapshot, outcome, copies=7)

    counting = Counting(server)
    operator = Operator(server, lambda: patient(counting))
    operator.start()
    await asyncio.sleep(20)

    assert counting.told_before_look[:3] == [0, 1, 2]
    await operator.stop()
    server.stop_collecting()


class Overtaken(ToyReconciler):
    """Learns something in a pass that comes to nothing."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def plan(self, snapshot: ToySnapshot, /) -> Plan:
        deed = Outside(system="sea", subject="a wave", call=snapshot.object.spec, reason="Tide", message="it is time")
        return Plan(actions=(deed,))

    async def perform(self, _call: msgspec.Struct, _snapshot: ToySnapshot, /) -> None:
        await asyncio.sleep(1)
        raise OutsideFailed(self._reason, "somebody was faster")

    def report(self, snapshot: ToySnapshot, outcome: Outcome, /) -> ToyStatus:
        refused = [result for result in outcome.results if result.state in ("refused", "failed")]
        return ToyStatus.of(snapshot, outcome, copies=7 + len(refused))


@pytest.mark.parametrize(
    ("reason", "kept"), [("Conflict", True), ("Superseded", True), ("Stopped", False), ("MayNotWrite", False)]
)
async def test_what_later_passes_decide_by_is_written_also_by_a_pass_that_was_overtaken_and_nothing_else(
    reason: str, kept: bool
) -> None:
    server = a_server("bear")
    operator = Operator(server, lambda: patient(Overtaken(reason)))
    operator.start()
    await asyncio.sleep(20)

    toy = server.get(Toy, "bear", "default") or {}
    assert (writes_of_status(server), "status" in toy) == ((1, True) if kept else (0, False))
    assert not kept or toy["status"] == {"copies": 7}
    await operator.stop()
    server.stop_collecting()


class Again(ToyReconciler):
    """Asks to be looked at again, or fails and is tried again; a look takes a moment."""

    def __init__(self, *, fails: bool) -> None:
        self.looks = 0
        self._fails = fails

    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        await asyncio.sleep(0.01)
        self.looks += 1
        return await super().observe(key, read)

    def plan(self, _snapshot: ToySnapshot, /) -> Plan:
        if self._fails:
            raise ValueError("a bug, or any problem that is tried again with backoff")
        return Plan(waits=(Wait(reason="Waiting", message="for the rain"),), again_after_s=600.0)


@pytest.mark.parametrize("fails", [False, True])
async def test_keys_that_give_way_to_each_other_are_not_each_others_work(fails: bool) -> None:
    server, again = a_server("ant", "bear", "cat"), Again(fails=fails)
    operator = Operator(server, lambda: patient(again))
    operator.start()
    await asyncio.sleep(20)

    assert again.looks < 60
    assert writes_of_status(server) == 3
    await operator.stop()
    server.stop_collecting()


async def test_where_work_never_ends_people_are_told_all_the_same() -> None:
    server = a_server("ant", "busy-bee", "busy-bird")
    operator = Operator(server, lambda: patient(Slow(server)))
    operator.start()
    await asyncio.sleep(GIVES_WAY_S_MAX / 2)
    assert writes_of_status(server) == 0

    await asyncio.sleep(GIVES_WAY_S_MAX)
    assert writes_of_status(server) == 3
    await operator.stop()
    server.stop_collecting()


async def test_how_far_things_are_is_told_less_often_the_longer_it_takes() -> None:
    server, filling = a_server("bear"), Filling()

    def build() -> Controller[Toy, ToySnapshot]:
        return structs.replace(toy_controller(), reconciler=filling)

    operator = Operator(server, build)
    operator.start()
    told = []
    for pause_s in (5, 10, 20, 40, 60, 60):
        await asyncio.sleep(pause_s)
        told.append(writes_of_status(server))
    assert told == [1, 2, 3, 4, 5, 6]

    filling.reason = "AlmostThere"
    await asyncio.sleep(2)
    assert writes_of_status(server) == 7, "what turned is told at once"
    await asyncio.sleep(57)
    assert writes_of_status(server) == 7, "and how far it is, as slowly as before"
    await asyncio.sleep(5)
    assert writes_of_status(server) == 8

    server.edit(Toy, "bear", "default", merge={"spec": {"greeting": "again"}})
    await asyncio.sleep(2)
    assert writes_of_status(server) == 9, "what is asked anew is told at once"
    await asyncio.sleep(11)
    assert writes_of_status(server) == 10, "and from then on, how far it is, as at the beginning"

    filling.is_ready = True
    await asyncio.sleep(2)
    assert writes_of_status(server) == 11
    for told_of_one_that_is_ready in (12, 13, 14):
        await asyncio.sleep(11)
        assert writes_of_status(server) == told_of_one_that_is_ready
    await operator.stop()
    server.stop_collecting()
