"""The transport on aiohttp.

Two sessions: one for requests, with a bounded pool, and one for streams and sockets without a bound, so that a hundred
watches never keep a write waiting. Credentials are asked for before each request, and once more after a 401. A
request's deadline begins when they are there: a plugin has its own, and a person at a login page needs longer.

Errors of aiohttp, ssl and the sockets become ours in `trouble.py`; none escapes. Redirects are not followed: a token
goes to the server it is for, and nowhere else. Nothing is sent again after a broken connection: `calls.py` knows what
may be.

A write's fence is asked when its connection is there, the last moment that we have: a token and a new connection take
seconds, and by then another process may lead.
"""

import asyncio
import io
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import lru_cache
from urllib.parse import quote, urlencode
from urllib.request import getproxies

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

import corral
from corral.kube.certificates import tls_context
from corral.kube.codec import error_of
from corral.kube.credentials import Auth, ClientCertificate, Credentials
from corral.kube.errors import Subject, Unreachable
from corral.kube.pace import Pace
from corral.kube.proxies import proxy_for
from corral.kube.transport import Request, Response, Socket, Stream
from corral.kube.trouble import border

CONNECT_S_MAX = 10.0
READ_BUFFER_BYTES = 1 << 22  # more than comes while we gather: aiohttp may lose what it holds back when the peer closes
PING_S = 30.0
CLOSE_S_MAX = 2.0
UNACKNOWLEDGED_MS_MAX = 60_000
BODY_AT_ONCE_BYTES_MAX = 1 << 20
GATHER_S, GATHER_BYTES = 0.25, 1 << 18


class HttpTransport:
    """Speaks to one API server. Make it while an event loop runs, and close it.

    `connections_max` is wider than the gate of `calls.py` on purpose: who waits is decided there, by priority.
    """

    def __init__(self, credentials: Credentials, *, component: str = "client", connections_max: int = 64) -> None:
        self._credentials = credentials
        self._url = credentials.server.url
        self._proxy = proxy_for(credentials.server, getproxies())
        self._contexts: dict[ClientCertificate | None, ssl.SSLContext] = {}
        agent = f"corral/{corral.__version__} ({component})"
        self._requests = _session(agent, connections_max)
        self._streams = _session(agent, 0, _keep_refusal)

    def __repr__(self) -> str:
        return f"<HttpTransport to {self._url}>"

    async def request(self, request: Request) -> Response:
        auth = await self._credentials.source.auth()
        with border(request.subject, self._url, f"no answer within {request.deadline_s:g} s"):
            async with asyncio.timeout(request.deadline_s):
                async with await self._ask(auth, self._requests, request) as response:
                    body = await response.read()
        return Response(status=response.status, headers=response.headers, body=body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        auth = await self._credentials.source.auth()
        with border(request.subject, self._url, f"no answer within {request.deadline_s:g} s"):
            async with asyncio.timeout(request.deadline_s):
                response = await self._ask(auth, self._streams, request)
        try:
            yield HttpStream(response, request.subject, self._url)
        finally:
            # Not released: a stream left early has more to say, and its connection cannot be used. Nor closed politely:
            # the farewell of TLS would wait for a peer that still talks, maybe longer than our loop lives.
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
            response.close()

    @asynccontextmanager
    async def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AsyncIterator[Socket]:
        auth = await self._credentials.source.auth()
        with border(request.subject, self._url, f"no answer within {request.deadline_s:g} s"):
            async with asyncio.timeout(request.deadline_s):
                opened = await self._upgrade(auth, request, subprotocols)
        try:
            yield HttpSocket(opened, request.subject, self._url)
        finally:
            await opened.close()

    async def close(self) -> None:
        await self._requests.close()
        await self._streams.close()

    async def _ask(self, auth: Auth, session: aiohttp.ClientSession, request: Request) -> aiohttp.ClientResponse:
        """The head of an answer. A 401 is answered once with other credentials, if there are other ones."""
        response = await self._ask_as(auth, session, request)
        if response.status != 401:
            return response
        other = await self._other_than(auth)
        if other is None:
            return response
        response.close()
        return await self._ask_as(other, session, request)

    async def _ask_as(self, auth: Auth, session: aiohttp.ClientSession, request: Request) -> aiohttp.ClientResponse:
        _to_be_sent.set(request)
        return await session.request(
            request.method,
            self._url_of(request),
            data=_payload(request.body),
            headers=_headers(request, auth),
            allow_redirects=False,
            proxy=self._proxy or None,
            ssl=self._context(auth.certificate),
            server_hostname=self._credentials.server.tls_server_name or None,
        )

    async def _upgrade(
        self, auth: Auth, request: Request, subprotocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse:
        try:
            return await self._upgrade_as(auth, request, subprotocols)
        except _NotUpgradedError as refusal:
            other = await self._other_than(auth) if refusal.status == 401 else None
            if other is None:
                raise error_of(request.subject, refusal.status, refusal.headers, refusal.body) from None
        try:
            return await self._upgrade_as(other, request, subprotocols)
        except _NotUpgradedError as refusal:
            raise error_of(request.subject, refusal.status, refusal.headers, refusal.body) from None

    async def _upgrade_as(
        self, auth: Auth, request: Request, subprotocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse:
        _to_be_sent.set(request)
        return await self._streams.ws_connect(
            self._url_of(request),
            protocols=subprotocols,
            headers=_headers(request, auth),
            proxy=self._proxy or None,
            ssl=self._context(auth.certificate),
            server_hostname=self._credentials.server.tls_server_name or None,
            heartbeat=PING_S,
            max_msg_size=0,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S_MAX),
        )

    async def _other_than(self, refused: Auth) -> Auth | None:
        self._credentials.source.forget(refused)
        other = await self._credentials.source.auth()
        return other if other != refused else None

    def _url_of(self, request: Request) -> URL:
        return URL(self._url + request.path + _query(request.query), encoded=True)

    def _context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """One for each certificate: connections made with an older one are not used again."""
        context = self._contexts.get(certificate)
        if context is None:
            context = tls_context(self._credentials.server, certificate, self._credentials.origin)
            self._contexts = {certificate: context}
        return context


class HttpStream:
    def __init__(self, response: aiohttp.ClientResponse, subject: Subject, url: str) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._content = response.content
        self._subject = subject
        self._url = url

    async def chunks(self, *, silence_s_max: float) -> AsyncGenerator[bytes, None]:
        """What came, as soon as it came; of a busy stream, what came within `GATHER_S`."""
        pace = Pace()
        while True:
            if pace.is_busy:
                await self._gather()
            asked_s = time.monotonic()
            with border(self._subject, self._url, f"nothing came for {silence_s_max:g} s; the connection is given up"):
                async with asyncio.timeout(silence_s_max):
                    chunk = await self._content.readany()
            if not chunk:
                return
            pace.came(len(chunk), time.monotonic() - asked_s)
            yield chunk

    async def _gather(self) -> None:
        """For a moment the kernel tells us of this connection only when much has come, or its end."""
        connection = self._response.connection
        transport = None if connection is None else connection.transport
        wire = None if transport is None else transport.get_extra_info("socket")
        if wire is None:
            return
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, GATHER_BYTES)
        try:
            await asyncio.sleep(GATHER_S)
        finally:
            if wire.fileno() >= 0:
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


class HttpSocket:
    def __init__(self, opened: aiohttp.ClientWebSocketResponse, subject: Subject, url: str) -> None:
        self.subprotocol = opened.protocol or ""
        self._opened = opened
        self._subject = subject
        self._url = url

    async def send(self, message: bytes) -> None:
        with border(self._subject, self._url, "the message could not be sent"):
            await self._opened.send_bytes(message)

    async def receive(self) -> bytes | None:
        with border(self._subject, self._url, "nothing came"):
            message = await self._opened.receive()
        match message.type:
            case aiohttp.WSMsgType.BINARY:
                return bytes(message.data)
            case aiohttp.WSMsgType.TEXT:
                return str(message.data).encode()
            case aiohttp.WSMsgType.ERROR:
                raise Unreachable(self._subject, f"{self._url}: the server broke the connection off")
        return None


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    """aiohttp sends a large body in pieces, so that it does not hold up the loop, only when it is a file."""
    return io.BytesIO(body) if len(body) > BODY_AT_ONCE_BYTES_MAX else body or None


_to_be_sent: ContextVar[Request] = ContextVar("_to_be_sent")


class _FencedConnector(aiohttp.TCPConnector):
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        try:
            _to_be_sent.get().ask_fence()
        except BaseException:
            connection.release()
            raise
        return connection


class _NotUpgradedError(Exception):
    """A WebSocket was asked for and something else came; aiohttp would drop the body, which says why."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


async def _keep_refusal(
    request: aiohttp.ClientRequest, handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    response = await handler(request)
    if response.status != 101 and "Upgrade" in request.headers:
        raise _NotUpgradedError(response.status, response.headers, await response.read())
    return response


def _session(agent: str, connections_max: int, *middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
    """Without compression: unpacking costs as much as decoding, and the API server is near.

    And without aiohttp's own repeats: when a connection breaks it sends every GET, PUT and DELETE once more, also if
    the first one arrived. An exec is a GET, and KubeVirt's `start` is a PUT: both would run twice.
    """
    session = aiohttp.ClientSession(
        connector=_FencedConnector(limit=connections_max, socket_factory=_connection),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S_MAX),
        headers={"User-Agent": agent, "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=READ_BUFFER_BYTES,
        middlewares=middlewares,
    )
    session._retry_connection = False  # noqa: SLF001 - there is no option; aiohttp's own test client does the same
    return session


def _connection(address: aiohttp.AddrInfoType) -> socket.socket:
    """A connection whose peer vanished is noticed by the kernel, also while nobody sends (a followed log)."""
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS_MAX)
    return connection


@lru_cache(maxsize=256)  # most requests of a process ask in a few ways
def _query(query: tuple[tuple[str, str], ...]) -> str:
    return f"?{urlencode(query, quote_via=quote)}" if query else ""


def _headers(request: Request, auth: Auth) -> list[tuple[str, str]]:
    content = [("Content-Type", request.content_type)] if request.content_type else []
    return [("Accept", request.accept), *content, *auth.headers()]
