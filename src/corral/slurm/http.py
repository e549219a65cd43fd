"""The transport on aiohttp. Redirects are not followed: a token goes to the server it is for, and nowhere else."""

import asyncio
import functools
import re
import ssl

import aiohttp
from aiohttp.client_proto import ResponseHandler

import corral
from corral.slurm.errors import Unreachable
from corral.slurm.transport import Endpoint, Request, Response

CONNECT_S_MAX = 5.0
CONNECTIONS_MAX = 4  # slurmrestd has few threads, and slurmctld answers one big question at a time anyway


class HttpTransport:
    """Speaks to one slurmrestd. Make it while an event loop runs, and close it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.url.rstrip("/")
        connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=_context(endpoint))
        # aiohttp has no public way to say how bytes become answers.
        handler: type[ResponseHandler] = _FirstAnswer
        connector._factory = functools.partial(handler, loop=asyncio.get_running_loop())  # noqa: SLF001
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S_MAX),
            headers={"User-Agent": f"corral/{corral.__version__}", "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def __repr__(self) -> str:
        return f"<HttpTransport to {self._url}>"

    async def request(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(request.deadline_s):
                return await self._ask(request)
        except TimeoutError:
            raise self._unreachable(request, f"no answer within {request.deadline_s:.3g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise self._unreachable(
                request, f"cannot connect: {error.os_error.strerror or error}", sent=False
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Not its message: of a broken answer it quotes the bytes.
            raise self._unreachable(request, f"the connection broke: {type(error).__name__}") from None

    async def _ask(self, request: Request) -> Response:
        headers = {"X-SLURM-USER-TOKEN": request.token.text}
        if request.body:
            headers["Content-Type"] = "application/json"
        async with self._session.request(
            request.method,
            self._url + request.path,
            params=request.query,
            data=request.body or None,
            headers=headers,
            allow_redirects=False,
        ) as response:
            return Response(status=response.status, body=await response.read())

    def _unreachable(self, request: Request, why: str, *, sent: bool = True) -> Unreachable:
        return Unreachable(request.subject, f"slurmrestd at {self._url}: {why}", sent=sent)

    async def close(self) -> None:
        await self._session.close()


def _context(endpoint: Endpoint) -> ssl.SSLContext | bool:
    """Made only where it is needed: reading the system's authorities takes a while."""
    return ssl.create_default_context(cadata=endpoint.ca_pem) if endpoint.ca_pem else True


_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*([0-9]+)")
_CLOSES = re.compile(rb"(?i)\r\nconnection:[ \t]*close")


class _FirstAnswer(ResponseHandler):
    """Drops what comes after an answer that closes the connection.

    slurmrestd 26.05 sends every error twice, the second time as plain text. aiohttp takes that for a broken answer, and
    with it the reason for the refusal would be lost.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._head = b""
        self._left: int | None = None  # of a closing answer's body; None: not in one

    def data_received(self, data: bytes) -> None:
        if self._left is None and (data := self._whole_head(data)):
            head, _, _ = data.partition(b"\r\n\r\n")
            if _CLOSES.search(head) and (length := _LENGTH.search(head)):
                self._left = len(head) + 4 + int(length[1])
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if data:
            super().data_received(data)

    def _whole_head(self, data: bytes) -> bytes:
        """Hold back the beginning of an answer until its head is there; the rest of an answer passes."""
        if not self._head and not data.startswith(b"HTTP/"):
            return data
        self._head += data
        if b"\r\n\r\n" not in self._head:
            return b""
        data, self._head = self._head, b""
        return data
