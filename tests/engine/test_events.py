"""Telling people: series instead of floods, and never at the cost of a pass."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from corral.engine import EmitEvent, target, virtual_clock
from corral.engine.events import PENDING_MAX, Recorder
from corral.kube.client import Client
from corral.kube.meta import ObjectMeta
from corral.kube.models.events_v1 import Event
from corral.testing.apiserver import FakeApiServer, Fault
from corral.testing.toys import Toy

pytestmark = pytest.mark.looptime(noop_cycles=0)


def said(message: str = "it happened", *, name: str = "bear", uid: str = "u") -> EmitEvent:
    toy = Toy(metadata=ObjectMeta(name=name, namespace="default", uid=uid))
    return EmitEvent(regarding=target(toy), reason="Happened", message=message, type="Warning")


@asynccontextmanager
async def recording(server: FakeApiServer) -> AsyncIterator[Recorder]:
    recorder = Recorder(Client(server.connect()), virtual_clock(), instance="here")
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.wait((task,))


async def test_an_event_says_who_what_and_about_whom() -> None:
    server = FakeApiServer()
    async with recording(server) as recorder:
        recorder.tell("corral-toy", said())
        await asyncio.sleep(1)

    (event,) = server.all_of(Event)
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "Happened", "it happened")
    assert event["reportingController"] == "corral-toy"
    assert event["regarding"]["name"] == "bear"
    assert event["regarding"]["apiVersion"] == "test.corral.dev/v1"
    assert event["action"] == "Reconcile"


async def test_what_is_said_again_is_counted_in_a_series() -> None:
    server = FakeApiServer()
    async with recording(server) as recorder:
        for _ in range(50):
            recorder.tell("corral-toy", said())
            await asyncio.sleep(0.5)
        await asyncio.sleep(15)

    (event,) = server.all_of(Event)
    assert event["series"]["count"] == 50
    assert recorder.statistics().written < 6


async def test_what_is_said_again_after_a_pause_is_a_new_event() -> None:
    server = FakeApiServer()
    async with recording(server) as recorder:
        recorder.tell("corral-toy", said())
        await asyncio.sleep(400)
        recorder.tell("corral-toy", said())
        await asyncio.sleep(15)

    assert len(server.all_of(Event)) == 2


async def test_an_object_that_says_too_many_things_is_cut_short_and_others_are_not() -> None:
    server = FakeApiServer()
    async with recording(server) as recorder:
        for number in range(100):
            recorder.tell("corral-toy", said(f"problem {number}"))
        recorder.tell("corral-toy", said(name="wolf", uid="w"))
        await asyncio.sleep(5)

    assert len(server.all_of(Event)) == 26
    assert recorder.statistics().dropped == 75


async def test_the_queue_is_bounded_and_what_does_not_fit_is_counted() -> None:
    recorder = Recorder(Client(FakeApiServer().connect()), virtual_clock(), instance="here")
    for number in range(PENDING_MAX + 10):
        recorder.tell("corral-toy", said(uid=f"u{number}"))

    assert recorder.statistics().pending == PENDING_MAX
    assert recorder.statistics().dropped == 10


async def test_a_server_that_does_not_take_events_costs_nothing_but_the_events() -> None:
    server = FakeApiServer()
    server.fail_next(Fault.FORBID, resource="events.events.k8s.io", times=5)
    async with recording(server) as recorder:
        for number in range(6):
            recorder.tell("corral-toy", said(f"problem {number}"))
        await asyncio.sleep(60)

    assert recorder.statistics().failed == 5
    assert len(server.all_of(Event)) == 1


async def test_what_could_not_be_told_is_told_when_it_is_said_again() -> None:
    """A stalled object says the same every five minutes: within the time of a series."""
    server = FakeApiServer()
    server.fail_next(Fault.FORBID, resource="events.events.k8s.io", times=1)
    async with recording(server) as recorder:
        recorder.tell("corral-toy", said())
        await asyncio.sleep(300)
        recorder.tell("corral-toy", said())
        await asyncio.sleep(15)

    (event,) = server.all_of(Event)
    assert event["note"] == "it happened"


async def test_a_series_whose_event_has_expired_begins_anew() -> None:
    server = FakeApiServer()
    async with recording(server) as recorder:
        recorder.tell("corral-toy", said())
        await asyncio.sleep(1)
        (event,) = server.all_of(Event)
        server.remove(Event, event["metadata"]["name"], "default")
        recorder.tell("corral-toy", said())
        await asyncio.sleep(15)
        recorder.tell("corral-toy", said())
        await asyncio.sleep(15)

    assert len(server.all_of(Event)) == 1


async def test_a_flush_sends_what_is_left() -> None:
    server = FakeApiServer()
    recorder = Recorder(Client(server.connect()), virtual_clock(), instance="here")
    recorder.tell("corral-toy", said())
    recorder.tell("corral-toy", said())
    await recorder.flush()

    (event,) = server.all_of(Event)
    assert event["series"]["count"] == 2


@pytest.mark.parametrize("letter", ["x", "ä", "→", "😀"])
async def test_a_long_note_is_shortened_to_what_the_server_takes(letter: str) -> None:
    server = FakeApiServer()
    recorder = Recorder(Client(server.connect()), virtual_clock(), instance="here")
    recorder.tell("corral-toy", said(letter * 5000))
    await recorder.flush()

    (event,) = server.all_of(Event)
    assert 1020 <= len(event["note"].encode()) <= 1024
    assert set(event["note"]) == {letter, "."}
