"""Calls: turns, deadlines, repeats and the fence, in virtual time over a transport in memory."""

import asyncio

import pytest

from corral.kube.calls import Calls
from corral.kube.errors import Invalid, NotFound, Refused, Subject, TooManyRequests, Unreachable
from corral.kube.gate import Gate
from corral.kube.retry import Repeat
from corral.kube.transport import Priority, Request, Response
from tests.unit.kube.memory import Answer, MemoryStream, MemoryTransport, answer, refusal

ABOUT = Subject("get", "Pod", "lab", "web")
FINE = answer({})


def a_request(*, deadline_s: float = 30.0, priority: Priority = Priority.NORMAL) -> Request:
    return Request(subject=ABOUT, method="GET", path="/x", deadline_s=deadline_s, priority=priority)


def calls(*answers: Answer, slots: int = 4) -> tuple[Calls, MemoryTransport]:
    transport = MemoryTransport(*answers)
    return Calls(transport, gate=Gate(slots=slots, slots_lease=1), luck=lambda: 0.0), transport


async def never(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


def unreachable(*, sent: bool) -> Unreachable:
    return Unreachable(ABOUT, "lost", sent=sent)


@pytest.mark.looptime
async def test_a_harmless_call_is_repeated_until_it_is_answered() -> None:
    call, transport = calls(unreachable(sent=True), refusal(503), FINE)

    assert await call.send(a_request(), Repeat.HARMLESS) == FINE
    assert len(transport.requests) == 3
    assert call.statistics().repeated == 2


async def test_a_call_that_may_have_been_carried_out_is_not_repeated() -> None:
    call, transport = calls(unreachable(sent=True), FINE)

    with pytest.raises(Unreachable):
        await call.send(a_request(), Repeat.UNSENT)
    assert len(transport.requests) == 1


@pytest.mark.looptime
async def test_it_waits_as_long_as_the_server_says() -> None:
    busy = answer({"message": "later"}, 429, {"retry-after": "7"})
    call, _ = calls(busy, FINE)
    started_s = asyncio.get_running_loop().time()
    await call.send(a_request(), Repeat.UNSENT)

    assert asyncio.get_running_loop().time() - started_s == pytest.approx(7.05)


async def test_a_server_that_asks_for_too_much_patience_is_reported_with_what_it_said() -> None:
    call, _ = calls(answer({"message": "later"}, 429, {"retry-after": "120"}))

    with pytest.raises(TooManyRequests) as caught:
        await call.send(a_request(), Repeat.HARMLESS)
    assert caught.value.retry_after_s == 120


@pytest.mark.looptime
async def test_the_deadline_covers_all_attempts() -> None:
    call, transport = calls(unreachable(sent=True), never)
    started_s = asyncio.get_running_loop().time()
    with pytest.raises(Unreachable, match="no answer in time"):
        await call.send(a_request(deadline_s=5), Repeat.HARMLESS)

    assert asyncio.get_running_loop().time() - started_s == pytest.approx(5.0)
    assert len(transport.requests) == 2
    assert transport.under_way == 0


@pytest.mark.looptime
async def test_a_call_that_never_got_its_turn_says_so() -> None:
    call, transport = calls(never, slots=1)
    first = asyncio.create_task(call.send(a_request(), Repeat.HARMLESS))
    await asyncio.sleep(1)
    with pytest.raises(Unreachable, match="no turn") as caught:
        await call.send(a_request(deadline_s=2), Repeat.HARMLESS)

    assert not caught.value.sent
    assert len(transport.requests) == 1
    first.cancel()


@pytest.mark.looptime
async def test_a_pause_does_not_keep_the_slot() -> None:
    call, transport = calls(answer({}, 429, {"retry-after": "5"}), FINE, slots=1)
    pausing = asyncio.create_task(call.send(a_request(), Repeat.HARMLESS))
    await asyncio.sleep(1)
    await call.send(a_request(), Repeat.HARMLESS)

    assert len(transport.requests) == 2
    await pausing


@pytest.mark.looptime
@pytest.mark.parametrize("after_s", [0.0, 0.5, 1.5])
async def test_cancelled_anywhere_it_leaves_gate_and_transport_free(after_s: float) -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(1)
        return refusal(503)

    call, transport = calls(slow, answer({}, 429, {"retry-after": "5"}), slots=1)
    task = asyncio.create_task(call.send(a_request(), Repeat.HARMLESS))
    await asyncio.sleep(after_s)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert call.statistics().gate.under_way == 0
    assert transport.under_way == 0


async def test_a_fence_that_says_no_keeps_the_write_from_being_sent() -> None:
    call, transport = calls(FINE)

    with pytest.raises(Refused, match="not sent"):
        await call.send(a_request(), Repeat.HARMLESS, fence=lambda: False)
    assert transport.requests == []
    assert call.statistics().refused == 1


@pytest.mark.looptime
async def test_the_fence_is_asked_again_before_each_attempt() -> None:
    may_write = iter([True, False])
    call, transport = calls(unreachable(sent=True), FINE)

    with pytest.raises(Refused):
        await call.send(a_request(), Repeat.HARMLESS, fence=lambda: next(may_write))
    assert len(transport.requests) == 1


@pytest.mark.looptime
async def test_the_fence_is_asked_after_the_wait_for_a_turn() -> None:
    """A lease lost while the write waited must stop it: the answer of before the wait is worth nothing."""
    call, transport = calls(never, slots=1)
    first = asyncio.create_task(call.send(a_request(), Repeat.HARMLESS))
    await asyncio.sleep(0.1)
    leading = True
    second = asyncio.create_task(call.send(a_request(), Repeat.HARMLESS, fence=lambda: leading))
    await asyncio.sleep(0.1)
    leading = False
    first.cancel()

    with pytest.raises(Refused):
        await second
    assert len(transport.requests) == 1


async def test_an_observer_hears_of_every_attempt() -> None:
    heard: list[tuple[str, str, int]] = []

    class Observer:
        def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None:
            heard.append((verb, kind, status))

    call = Calls(MemoryTransport(unreachable(sent=False), FINE), observer=Observer(), luck=lambda: 0.0)
    await call.send(a_request(), Repeat.HARMLESS)

    assert heard == [("get", "Pod", 0), ("get", "Pod", 200)]


async def test_a_refused_stream_is_the_error_its_body_tells_of() -> None:
    body = b'{"kind":"Status","code":404,"reason":"NotFound","message":"no such pod"}'
    stream = MemoryStream((body[:20], body[20:]), status=404)
    call = Calls(MemoryTransport(FINE, stream=stream))

    with pytest.raises(NotFound, match="no such pod"):
        async with call.stream(a_request()):
            pass
    assert stream.closed


async def test_a_refused_stream_that_breaks_off_is_still_its_status() -> None:
    call = Calls(MemoryTransport(FINE, stream=MemoryStream((b"{", unreachable(sent=True)), status=422)))

    with pytest.raises(Invalid):
        async with call.stream(a_request()):
            pass
