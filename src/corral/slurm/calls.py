"""One call: a version both know, a token, the request, its repeats, and what the answer means.

Repeated at most three times, after 250 ms to 2 s, and only where a repeat is harmless:

| verb                                  | repeats  | because                                                          |
|---------------------------------------|----------|------------------------------------------------------------------|
| every read                            | HARMLESS | nothing changes                                                  |
| drain, and other plain node fields    | HARMLESS | setting a field twice to one value is setting it once            |
| undrain, resume, delete, reservations | UNSENT   | between the two somebody may have drained, made, or asked anew   |
| reconfigure                           | UNSENT   | each one makes every daemon read its files                       |

Whoever is behind slurmrestd and does not answer has been tried by slurmrestd for 9 s: that is not repeated. A token
that was not accepted is replaced once. A path that is not there means another slurmrestd: we negotiate once more.
"""

import asyncio
import enum
from typing import TypeVar
from urllib.parse import quote

import msgspec

from corral.slurm.answers import Envelope, NoSuchPath, decoded
from corral.slurm.clock import Clock
from corral.slurm.errors import (
    Garbled,
    ServerError,
    SlurmError,
    Subject,
    TokenUnavailable,
    Unauthorized,
    Unreachable,
    Unsupported,
)
from corral.slurm.tokens import IssuerError, Token, Tokens
from corral.slurm.transport import Request, Response, Transport
from corral.slurm.values import Server
from corral.slurm.versions import KNOWN, Dialect, dialect, server_versions

REPEATS_MAX = 3
PAUSE_S_FIRST = 0.25
PAUSE_S_MAX = 2.0
NEGOTIATION_S = 15.0  # at the least: a server's list of its paths has megabytes, and a ping may have only 5 s
LARGE_BYTES = 200_000  # from here on decoding takes longer than other tasks should wait

E = TypeVar("E", bound=Envelope)


class Repeat(enum.Enum):
    HARMLESS = enum.auto()
    UNSENT = enum.auto()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    subject: Subject
    method: str
    path: str  # below the version: `node/{}`
    area: str = "slurm"
    name: str = ""  # goes into the path's {}
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    repeat: Repeat = Repeat.HARMLESS
    deadline_s: float = 20.0  # with all repeats
    instead: tuple[str, ...] = ()  # the command to run where the server cannot do it


class _Paths(msgspec.Struct):
    paths: dict[str, dict[str, msgspec.Raw]]


class Calls:
    def __init__(self, cluster: str, transport: Transport, tokens: Tokens, clock: Clock) -> None:
        self._cluster, self._transport, self._tokens, self._clock = cluster, transport, tokens, clock
        self._dialect: Dialect | None = None
        self._server: Server | None = None
        self._negotiating = asyncio.Lock()

    @property
    def server(self) -> Server | None:
        """Who answered last."""
        return self._server

    async def answer(self, call: Call, shape: type[E]) -> E | None:
        """The answer without errors; None for 304."""
        deadline_s = self._clock.monotonic_s() + call.deadline_s
        renewals = {Unauthorized, NoSuchPath}
        repeats = 0
        while True:
            try:
                return await self._once(call, shape, deadline_s)
            except (Unauthorized, NoSuchPath) as error:
                if type(error) not in renewals:
                    raise self._final(error, call) from None
                renewals.discard(type(error))
            except SlurmError as error:
                wait_s = self._pause_s(error, call.repeat, repeats, deadline_s)
                if wait_s is None:
                    raise
                repeats += 1
                await asyncio.sleep(wait_s)

    async def _once(self, call: Call, shape: type[E], deadline_s: float) -> E | None:
        began_s = self._clock.monotonic_s()
        known = await self._negotiated(call.subject, max(deadline_s, began_s + NEGOTIATION_S))
        deadline_s += self._clock.monotonic_s() - began_s
        _require(call, known)
        path = f"/{call.area}/{known.api}/{call.path.replace('{}', _quoted(call.name))}"
        try:
            response = await self._request(call.subject, call.method, path, deadline_s, call.query, call.body)
            if response.status == 304:
                return None
            answer = await self._decoded(response, shape, call.subject)
        except (NoSuchPath, Unreachable):
            self._dialect = None  # whoever answers next may be another
            raise
        said = answer.meta.slurm if answer.meta is not None else None
        if said is not None:
            self._server = Server(api=known.api, release=said.release or "", cluster=said.cluster or "")
        return answer

    async def _negotiated(self, subject: Subject, deadline_s: float) -> Dialect:
        """The version both know, from the server's own list; asked for once, however many calls wait."""
        if self._dialect is not None:
            return self._dialect
        try:
            async with asyncio.timeout(self._left_s(subject, deadline_s)):
                await self._negotiating.acquire()
        except TimeoutError:
            raise Unreachable(
                subject, "slurmrestd has not said in time which API versions it has", sent=False
            ) from None
        try:
            if self._dialect is None:
                self._dialect = await self._negotiate(subject, deadline_s)
            return self._dialect
        finally:
            self._negotiating.release()

    async def _negotiate(self, subject: Subject, deadline_s: float) -> Dialect:
        response = await self._request(subject, "GET", "/openapi/v3", deadline_s)
        if response.status != 200:
            await self._decoded(response, Envelope, subject)
        try:
            listed = await asyncio.to_thread(msgspec.json.decode, response.body, type=_Paths)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Garbled(subject, f"HTTP {response.status}: no list of paths") from None
        found = dialect(listed.paths)
        if found is None:
            theirs = ", ".join(server_versions(listed.paths)) or "none"
            raise Unsupported(
                subject,
                f"expected one of {', '.join(KNOWN)}, and the server speaks {theirs}",
                command=("slurmrestd", "-d", "list"),
            )
        return found

    async def _request(
        self,
        subject: Subject,
        method: str,
        path: str,
        deadline_s: float,
        query: tuple[tuple[str, str], ...] = (),
        body: bytes = b"",
    ) -> Response:
        token = await self._token(subject, deadline_s)
        request = Request(
            subject=subject,
            method=method,
            path=path,
            query=query,
            body=body,
            token=token,
            deadline_s=self._left_s(subject, deadline_s),
        )
        response = await self._transport.request(request)
        if response.status in (401, 511):
            self._tokens.reject(token)
        return response

    async def _token(self, subject: Subject, deadline_s: float) -> Token:
        try:
            async with asyncio.timeout(self._left_s(subject, deadline_s)):
                return await self._tokens.current()
        except IssuerError as error:
            raise TokenUnavailable(subject, f"no token, so nothing was sent: {error}") from None
        except TimeoutError:
            raise TokenUnavailable(subject, "no token in time, so nothing was sent") from None

    async def _decoded(self, response: Response, shape: type[E], subject: Subject) -> E:
        if len(response.body) < LARGE_BYTES:
            return decoded(response, shape, subject)
        return await asyncio.to_thread(decoded, response, shape, subject)

    def _left_s(self, subject: Subject, deadline_s: float) -> float:
        left_s = deadline_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise Unreachable(subject, "the deadline passed before it was sent", sent=False)
        return left_s

    def _pause_s(self, error: SlurmError, repeat: Repeat, repeats: int, deadline_s: float) -> float | None:
        left_s = deadline_s - self._clock.monotonic_s()
        wait_s = pause_s(repeats, self._clock.random.random())
        return wait_s if repeats < REPEATS_MAX and may_repeat(error, repeat) and wait_s < left_s else None

    def _final(self, error: SlurmError, call: Call) -> SlurmError:
        if isinstance(error, NoSuchPath):
            return ServerError(call.subject, "slurmrestd does not know a path that it lists", status=404)
        return error

    async def close(self) -> None:
        await self._tokens.close()
        await self._transport.close()


def _require(call: Call, known: Dialect) -> None:
    operation = f"{call.method.lower()} {call.area} {call.path}"
    if not known.has(operation):
        raise Unsupported(call.subject, f"REST {known.api} of this server has no `{operation}`", command=call.instead)


def may_repeat(error: SlurmError, repeat: Repeat) -> bool:
    match error:
        case Unreachable(part="slurmrestd", sent=sent):
            return repeat is Repeat.HARMLESS or not sent
        case ServerError():
            return repeat is Repeat.HARMLESS
    return False


def pause_s(repeats: int, luck: float) -> float:
    """`luck` is from [0, 1): not all clients come back at once."""
    return min(PAUSE_S_MAX, PAUSE_S_FIRST * float(2**repeats) * (1 + luck))


def _quoted(name: str) -> str:
    return quote(name, safe="")
