"""The seam between our verbs and the network: bytes out, bytes in.

`Transport` is implemented by `corral.slurm.http` (sockets), by tests and by the simulator. An implementation raises
only `Unreachable`; any HTTP status is a normal answer here. Tokens, versions, retries and typed errors live above it,
in `corral.slurm.calls`, so that they are tested in virtual time without a socket.
"""

from typing import Protocol

import msgspec

from corral.slurm.errors import Subject
from corral.slurm.tokens import Token


class Request(msgspec.Struct, frozen=True, kw_only=True):
    subject: Subject
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    token: Token
    deadline_s: float

    def __repr__(self) -> str:
        return f"<Request {self.subject}: {self.method} {self.path}, {len(self.body)} bytes>"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    body: bytes = b""


class Transport(Protocol):
    async def request(self, request: Request) -> Response: ...
    async def close(self) -> None: ...


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a cluster's slurmrestd is.

    For https: `ca_pem` says whom to trust instead of the system's authorities, `name` is the name that its certificate
    must have where the url has an address.
    """

    url: str
    ca_pem: str = ""
    name: str = ""
