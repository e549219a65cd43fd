"""The transport over HTTP/1.1: one connection a question, closed after the first answer.

slurmrestd 26.05 sends every error twice on one connection, the second time as plain text. HTTP libraries take that for
a broken answer, and with it the reason for the refusal would be lost; whoever reads one answer and hangs up never sees
it. Connections are cheap here: a cluster is asked a few questions a second at the most. Redirects are not followed: a
token goes to the server it is for, and nowhere else.
"""

import asyncio
import http.client
import io
import ssl
from collections.abc import AsyncIterator
from email.message import Message
from typing import NoReturn
from urllib.parse import urlencode, urlsplit

import corral
from corral.slurm.errors import Unreachable
from corral.slurm.transport import Endpoint, Request, Response

CONNECT_S_MAX = 5.0
CONNECTIONS_MAX = 4  # slurmrestd has few threads, and slurmctld answers one big question at a time anyway
BUFFER_BYTES = 1 << 20  # reading pauses when so much is unread; a list of nodes has megabytes
HEAD_BYTES_MAX = 1 << 16


class HttpTransport:
    """Speaks to one slurmrestd. Make it while an event loop runs, and close it."""

    def __init__(self, endpoint: Endpoint) -> None:
        url = urlsplit(endpoint.url)
        self._url = endpoint.url.rstrip("/")
        self._prefix = url.path.rstrip("/")
        self._host, self._authority = url.hostname or "", url.netloc
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._tls = _context(endpoint) if url.scheme == "https" else None
        self._certified = (endpoint.name or self._host) if self._tls else None
        self._gate = asyncio.Semaphore(CONNECTIONS_MAX)
        self._open: set[asyncio.StreamWriter] = set()

    def __repr__(self) -> str:
        return f"<HttpTransport to {self._url}>"

    async def request(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(request.deadline_s), self._gate:
                return await self._ask(request)
        except TimeoutError:
            self._fail(request, f"no answer within {request.deadline_s:.3g} s")
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, http.client.HTTPException) as error:
            # Not its message: of a broken answer it quotes the bytes.
            self._fail(request, f"the connection broke: {type(error).__name__}")

    async def _ask(self, request: Request) -> Response:
        question = self._question(request)
        reader, writer = await self._connected(request)
        self._open.add(writer)
        try:
            writer.write(question)
            await writer.drain()
            return await _answer(reader)
        finally:
            self._open.discard(writer)
            writer.transport.abort()  # not a polite end: the peer may have more to say, and nobody listens

    async def _connected(self, request: Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                return await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, server_hostname=self._certified, limit=BUFFER_BYTES
                )
        except ssl.SSLCertVerificationError as error:
            self._fail(request, f"cannot connect: its certificate is not good: {error.verify_message}", sent=False)
        except TimeoutError:
            self._fail(request, f"cannot connect within {CONNECT_S_MAX:g} s", sent=False)
        except OSError as error:
            self._fail(request, f"cannot connect: {error.strerror or type(error).__name__}", sent=False)

    def _question(self, request: Request) -> bytes:
        token = request.token.text
        if not token.isascii() or not token.isprintable():
            self._fail(request, "the token has a character that no header can carry", sent=False)
        query = f"?{urlencode(request.query)}" if request.query else ""
        lines = [
            f"{request.method} {self._prefix}{request.path}{query} HTTP/1.1",
            f"Host: {self._authority}",
            f"User-Agent: corral/{corral.__version__}",
            "Accept: application/json",
            "Connection: close",
            f"X-SLURM-USER-TOKEN: {token}",
        ]
        if request.body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(request.body)}"]
        return "".join(f"{line}\r\n" for line in lines).encode("ascii") + b"\r\n" + request.body

    def _fail(self, request: Request, why: str, *, sent: bool = True) -> NoReturn:
        raise Unreachable(request.subject, f"slurmrestd at {self._url}: {why}", sent=sent) from None

    async def close(self) -> None:
        for writer in tuple(self._open):
            writer.transport.abort()


async def _answer(reader: asyncio.StreamReader) -> Response:
    head = await reader.readuntil(b"\r\n\r\n")
    if len(head) > HEAD_BYTES_MAX:
        raise ValueError("the head is too long")
    first, _, rest = head.partition(b"\r\n")
    words = first.split(maxsplit=2)
    if not first.startswith(b"HTTP/1.") or len(words) < 2:
        raise ValueError("not HTTP")
    status = int(words[1])
    return Response(status=status, body=await _body(reader, status, http.client.parse_headers(io.BytesIO(rest))))


async def _body(reader: asyncio.StreamReader, status: int, headers: Message) -> bytes:
    if status in (204, 304):
        return b""
    if headers.get("Transfer-Encoding", "").lower() == "chunked":  # a proxy's way; slurmrestd says the length
        return b"".join([chunk async for chunk in _chunks(reader)])
    length = headers.get("Content-Length")
    return await reader.read() if length is None else await reader.readexactly(int(length))


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)


def _context(endpoint: Endpoint) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=endpoint.ca_pem or None)
    # As curl and kubectl: a server's own certificate may be trusted, and so may an authority without a key usage, such
    # as `openssl req -x509` makes. Python 3.11 refuses the one by default, 3.13 the other.
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    return context
