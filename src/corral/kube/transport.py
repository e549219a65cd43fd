"""The seam between our verbs and the network: bytes out, bytes in.

`Transport` is implemented by `corral.kube.http.HttpTransport` (aiohttp) and by the fake API server of
`corral.testing`. An implementation raises only `Unreachable`, `CredentialsError`, and `Refused` where it waits for
something before it sends (see `Request.fence`); any HTTP status is a normal answer here (`socket` alone has none to
give, see there). Retries, throttling, priorities and typed errors live above it, in `corral.kube.calls`, so that they
are tested in virtual time without a socket.
"""

import enum
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from corral.kube.errors import Refused, Subject

Fence = Callable[[], bool]
"""May we write now? Asked without an await right before each write is sent."""


class Priority(enum.IntEnum):
    """Who goes first when more requests wait than may be under way. Lower goes first."""

    LEASE = 0
    NORMAL = 1
    BULK = 2


class Request(msgspec.Struct, frozen=True, kw_only=True):
    subject: Subject
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = ""
    accept: str = "application/json"
    priority: Priority = Priority.NORMAL
    deadline_s: float = 30.0  # for the whole answer; for a stream: for its head
    fence: Fence | None = None  # to be asked again after every wait before the sending: for a token, for a connection

    def ask_fence(self) -> None:
        if self.fence is not None and not self.fence():
            raise Refused(self.subject, "not sent: this process may not write now (it does not hold the lease)")

    def __repr__(self) -> str:
        """Without the body, which may hold a secret."""
        return f"<Request {self.subject}: {self.method} {self.path}, {len(self.body)} bytes>"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]  # asked for by names in lower case
    body: bytes


class Stream(Protocol):
    """An answer whose body keeps coming: a watch or a followed log."""

    status: int
    headers: Mapping[str, str]

    def chunks(self, *, silence_s_max: float) -> AsyncIterator[bytes]:
        """Yield bytes as they arrive; raise Unreachable when nothing came for `silence_s_max` or the peer broke off."""
        ...


class Socket(Protocol):
    """A WebSocket of binary messages, for exec, attach and port-forward."""

    subprotocol: str

    async def send(self, message: bytes) -> None: ...
    async def receive(self) -> bytes | None:
        """The next message, or None once the peer has closed."""
        ...


class Transport(Protocol):
    async def request(self, request: Request) -> Response: ...
    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]: ...
    def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AbstractAsyncContextManager[Socket]:
        """An open WebSocket; a typed ApiError when the server answers with anything else."""
        ...

    async def close(self) -> None: ...
