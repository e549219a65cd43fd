"""Between the verbs and the transport: turns, deadlines, repeats, and answers made into typed errors.

One call: wait for a turn at the gate, ask the fence (writes only), hand the request to the transport, and read the
answer. What `retry.py` calls harmless is repeated until the deadline, which covers all of it: the wait for a turn,
every attempt (the transport is told what is left) and every pause. A pause does not keep the slot. Streams and sockets
live long: they pass no gate and are never repeated here.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Protocol

import msgspec

from corral.kube.codec import error_of
from corral.kube.errors import KubeError, Refused, Subject, Unreachable
from corral.kube.gate import Gate, GateStatistics
from corral.kube.retry import Repeat, pause_s
from corral.kube.transport import Fence, Request, Response, Socket, Stream, Transport

ERROR_BODY_BYTES_MAX = 1 << 20
ERROR_BODY_S_MAX = 10.0


class Observer(Protocol):
    """Told of every attempt; `status` is 0 when there was no answer. Metrics are bound to this."""

    def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None: ...


class Unobserved:
    def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None:
        pass


class CallStatistics(msgspec.Struct, frozen=True):
    sent: int
    repeated: int
    refused: int
    gate: GateStatistics


class Calls:
    def __init__(
        self,
        transport: Transport,
        *,
        gate: Gate | None = None,
        observer: Observer | None = None,
        luck: Callable[[], float] = random.random,
    ) -> None:
        self._transport = transport
        self._gate = gate or Gate()
        self._observer = observer or Unobserved()
        self._luck = luck
        self._sent = self._repeated = self._refused = 0

    def statistics(self) -> CallStatistics:
        return CallStatistics(self._sent, self._repeated, self._refused, self._gate.statistics())

    async def send(self, request: Request, repeat: Repeat, fence: Fence | None = None) -> Response:
        """An answer below 400, or a typed error."""
        now_s = asyncio.get_running_loop().time
        deadline = now_s() + request.deadline_s
        attempts = 0
        while True:
            attempts += 1
            try:
                return await self._attempt(request, deadline, fence)
            except KubeError as error:
                wait_s = pause_s(error, repeat, attempts=attempts, left_s=deadline - now_s(), luck=self._luck())
                if wait_s is None:
                    raise
            self._repeated += 1
            await asyncio.sleep(wait_s)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """An open stream with a status below 400, or a typed error."""
        async with AsyncExitStack() as stack:
            with self._observed(request.subject) as told:
                stream = await stack.enter_async_context(self._transport.stream(request))
                told.status = stream.status
            if stream.status >= 400:
                body = await _first_bytes(stream)
                raise error_of(request.subject, stream.status, stream.headers, body)
            yield stream

    @asynccontextmanager
    async def socket(
        self, request: Request, subprotocols: tuple[str, ...], fence: Fence | None = None
    ) -> AsyncIterator[Socket]:
        async with AsyncExitStack() as stack:
            fenced = msgspec.structs.replace(request, fence=fence)
            try:
                self._ask_fence(fenced)
                with self._observed(request.subject) as told:
                    socket = await stack.enter_async_context(self._transport.socket(fenced, subprotocols))
                    told.status = 101
            except Refused:
                self._refused += 1
                raise
            yield socket

    async def close(self) -> None:
        await self._transport.close()

    async def _attempt(self, request: Request, deadline: float, fence: Fence | None) -> Response:
        now_s = asyncio.get_running_loop().time
        if not self._gate.enter_nowait(request.priority):
            await self._turn(request, deadline)
        started_s, status = now_s(), 0
        try:
            hurried = msgspec.structs.replace(request, deadline_s=max(deadline - started_s, 0.001), fence=fence)
            self._ask_fence(hurried)
            response = await self._transport.request(hurried)
            status = response.status
        except Refused:
            self._refused += 1
            raise
        finally:
            self._gate.leave(request.priority)
            self._observer.on_request(request.subject.verb, request.subject.kind, status, now_s() - started_s)
        if status >= 400:
            raise error_of(request.subject, status, response.headers, response.body)
        return response

    async def _turn(self, request: Request, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._gate.enter(request.priority)
        except TimeoutError:
            gate = self._gate.statistics()
            waiting = f"{gate.under_way} requests under way, {sum(gate.waiting.values())} waiting"
            late = f"no turn to be sent within {request.deadline_s:g} s ({waiting})"
            raise Unreachable(request.subject, late, sent=False) from None

    def _ask_fence(self, request: Request) -> None:
        """Asked here and, since a transport may have to wait before it sends, by the transport again."""
        request.ask_fence()
        self._sent += 1

    @contextmanager
    def _observed(self, subject: Subject) -> Iterator["_Told"]:
        now_s = asyncio.get_running_loop().time
        started_s, told = now_s(), _Told()
        try:
            yield told
        finally:
            self._observer.on_request(subject.verb, subject.kind, told.status, now_s() - started_s)


class _Told:
    """What an observer will be told once the attempt is over."""

    status = 0


async def _first_bytes(stream: Stream) -> bytes:
    """The body of a refusal; what comes slowly or breaks off is not waited for: the status says enough."""
    body = b""
    try:
        async with asyncio.timeout(ERROR_BODY_S_MAX):
            async for chunk in stream.chunks(silence_s_max=ERROR_BODY_S_MAX):
                body += chunk
                if len(body) > ERROR_BODY_BYTES_MAX:
                    break
    except (Unreachable, TimeoutError):
        pass
    return body
