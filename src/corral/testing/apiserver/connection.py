"""A client's way to the server: `Transport`, in process. Faults strike here, between the client and the verbs.

Everything that takes time is here and takes it from the event loop, so it runs in virtual time. A request is carried
out in one synchronous step; before and after it are the awaits at which a client can be cancelled or give up.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, NoReturn

from corral.kube.errors import Unreachable
from corral.kube.meta import Resource
from corral.kube.transport import Request, Response, Socket, Stream
from corral.testing.apiserver.faults import Fault, SendFate
from corral.testing.apiserver.watches import Watch

if TYPE_CHECKING:
    from corral.testing.apiserver.server import FakeApiServer

REPEATABLE_LINES_MAX = 16
TICK_S = 0.001  # the least sleep: a shorter one may round to nothing, and time would stand still for ever


class Crashed(BaseException):
    """The client's process dies here. Not an Exception: no handler of the program under test may survive it."""


class Connection:
    """`Transport`. Each client has its own, so that one can crash or be cut off while the others go on."""

    def __init__(self, server: "FakeApiServer", client: str) -> None:
        self._server = server
        self.client = client
        self._writes_left: int | None = None
        self._crashed = False
        self._cut = False

    def crash_after_writes(self, count: int) -> None:
        """The `count`-th write from now is done, and its sender dies before it hears of it; so does who calls later."""
        assert count > 0
        self._writes_left = count

    def crash(self) -> None:
        """Whoever uses this connection dies at its next call."""
        self._crashed = True
        self._server.note(self.client, "CRASH")
        self._server.wake()

    def cut(self) -> None:
        """The network between this client and the server is gone: silence, until `mend`."""
        self._cut = True

    def mend(self) -> None:
        self._cut = False
        self._server.wake()

    async def request(self, request: Request) -> Response:
        self._check_alive()
        try:
            async with asyncio.timeout(request.deadline_s):
                return await self._request(request)
        except TimeoutError:
            self._check_alive()
            self._server.note(self.client, f"{request.method} {request.path} -> no answer")
            raise Unreachable(request.subject, f"no answer within {request.deadline_s:g} s") from None

    async def _request(self, request: Request) -> Response:
        await self._server.passable(lambda: self._cut)
        await asyncio.sleep(0)
        fate = self._server.fate_of(request, self.client)
        if fate.before_s:
            await asyncio.sleep(fate.before_s)
        if self._server.is_down or fate.fault is Fault.REFUSE:
            self._unreachable(request, "connection refused")
        before = self._server.storage.version
        response = self._server.carry_out(request, fate, self.client)
        self._count_write(self._server.storage.version != before)
        if fate.restart_s:
            self._server.restart(fate.restart_s)
        if fate.fault is Fault.LOSE_ANSWER or fate.restart_s:
            self._unreachable(request, "connection reset by peer")
        if fate.fault is Fault.HANG:
            await asyncio.Event().wait()
        await asyncio.sleep(fate.after_s)
        self._check_alive()
        return response

    def _count_write(self, wrote: bool) -> None:
        if wrote and self._writes_left is not None:
            self._writes_left -= 1
            if self._writes_left == 0:
                self._crashed = True
                self._server.note(self.client, "CRASH after a write")
                self._server.wake()
        self._check_alive()

    def _check_alive(self) -> None:
        if self._crashed:
            raise Crashed(f"client {self.client or 'without a name'} has crashed")

    def _unreachable(self, request: Request, why: str) -> NoReturn:
        self._server.note(self.client, f"{request.method} {request.path} -> {why}")
        raise Unreachable(request.subject, why)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self._check_alive()
        try:
            async with asyncio.timeout(request.deadline_s):
                stream = await self._open(request)
        except TimeoutError:
            raise Unreachable(request.subject, f"no answer within {request.deadline_s:g} s") from None
        self._server.streams[stream] = None
        try:
            yield stream
        finally:
            self._server.streams.pop(stream, None)

    async def _open(self, request: Request) -> "WatchStream":
        await self._server.passable(lambda: self._cut)
        await asyncio.sleep(0)
        fate = self._server.fate_of(request, self.client)
        await asyncio.sleep(fate.before_s)
        if self._server.is_down or fate.fault in (Fault.REFUSE, Fault.LOSE_ANSWER):
            self._unreachable(request, "connection refused")
        if fate.fault is Fault.HANG:
            await asyncio.Event().wait()
        response, watch = self._server.open_watch(request, fate, self.client)
        return WatchStream(self, self._server, request, response, watch)

    def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AbstractAsyncContextManager[Socket]:
        raise Unreachable(request.subject, f"the fake server has no WebSockets (asked for {', '.join(subprotocols)})")

    async def close(self) -> None:
        self._server.stop_collecting()

    @property
    def is_crashed(self) -> bool:
        return self._crashed

    @property
    def is_cut(self) -> bool:
        return self._cut


class WatchStream:
    """`Stream`. Without a watch it is the body of a refusal."""

    def __init__(
        self, connection: Connection, server: "FakeApiServer", request: Request, response: Response, watch: Watch | None
    ) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers
        self._connection = connection
        self._server = server
        self._request = request
        self._body = response.body
        self._watch = watch
        self._wake = asyncio.Event()
        self._broken = False
        self._stalled = False
        self._pending: list[bytes] = []  # taken from the watch, and not yet sent
        self._sent: list[bytes] = []

    @property
    def client(self) -> str:
        return self._connection.client

    @property
    def resource(self) -> Resource | None:
        return None if self._watch is None else self._watch.query.served.resource

    def wake(self) -> None:
        self._wake.set()

    def break_off(self) -> None:
        self._broken = True
        self._wake.set()

    def stall(self) -> None:
        """Half-open: nothing comes any more, and nothing says so."""
        self._stalled = True

    def catch_up(self) -> None:
        """History is about to go. What this watch has not sent yet is on its way already, as in the real server."""
        if self._watch is not None:
            self._pending += self._watch.take(self._server.now_s())

    async def chunks(self, *, silence_s_max: float) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body
        if self._watch is None:
            return
        while True:
            for piece in await self._next(silence_s_max):
                yield piece
                await asyncio.sleep(0)
            if self._watch.is_over and not self._stalled and not self._broken:
                return

    async def _next(self, silence_s_max: float) -> list[bytes]:
        """The next pieces; at least one, or the end of the watch."""
        assert self._watch is not None
        silent_until_s = self._server.now_s() + silence_s_max
        while True:
            self._check()
            if not self._is_mute():
                self.catch_up()
                if self._pending:
                    lines, self._pending = self._pending, []
                    return await self._sendable(lines)
                if self._watch.is_over:
                    return []
            await self._sleep(silent_until_s)

    def _check(self) -> None:
        if self._connection.is_crashed:
            raise Crashed(f"client {self._connection.client} has crashed")
        if self._broken:
            raise Unreachable(self._request.subject, "connection reset by peer")

    def _is_mute(self) -> bool:
        return self._stalled or self._server.is_paused or self._connection.is_cut

    async def _sleep(self, silent_until_s: float) -> None:
        assert self._watch is not None
        self._wake.clear()
        until_s = silent_until_s if self._is_mute() else min(silent_until_s, self._watch.wakes_s)
        try:
            async with asyncio.timeout(max(TICK_S, until_s - self._server.now_s())):
                await self._wake.wait()
        except TimeoutError:
            if self._server.now_s() >= silent_until_s:
                raise Unreachable(self._request.subject, "the server has gone silent") from None

    async def _sendable(self, lines: list[bytes]) -> list[bytes]:
        """The lines as they arrive: whole or torn, late, some twice, or only up to a fault."""
        faults, chance = self._server.faults, self._server.chance
        pieces: list[bytes] = []
        for line in lines:
            delay_s = chance.delay_s(faults)
            if delay_s:
                await asyncio.sleep(delay_s)
                self._check()
            match chance.send_fate(faults):
                case SendFate.DROPPED:
                    self._server.note(self._connection.client, "watch dropped")
                    self._broken = True
                    return [*pieces, line[: len(line) // 2]]
                case SendFate.STALLED:
                    self._server.note(self._connection.client, "watch stalled")
                    self._stalled = True
                    return pieces
                case SendFate.REPEATED if self._sent:
                    pieces += chance.torn(faults, line + chance.pick(self._sent))
                case _:
                    pieces += chance.torn(faults, line)
            self._sent = [*self._sent, line][-REPEATABLE_LINES_MAX:]
        return pieces
