"""Where the API server is and who we are to it, as values; and the ways to find out.

`Server` does not change while we run; `Auth` may at any time (a rotated token, a plugin's short-lived certificate), so
it is asked for before each request from a `Source`, which keeps it for as long as it is good. No value here shows a
secret in its `repr`, and no error quotes one.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec
from yarl import URL

from corral.kube.errors import CredentialsError, Subject

FILE_AGE_S_MAX = 60.0  # a projected token lives for an hour at least; the kubelet renews it at 80 %
CONTROL = "a line break or another control character"


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """`url` may have a path (a server behind a gateway). Without `ca` the system's authorities are trusted."""

    url: str
    ca: bytes = b""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""

    def __repr__(self) -> str:
        return f"<Server {self.url}>"


class ClientCertificate(msgspec.Struct, frozen=True):
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "<ClientCertificate>"


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """Everything optional: an Auth with nothing set is anonymous."""

    token: str = ""
    username: str = ""
    password: str = ""
    certificate: ClientCertificate | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # headers

    def __repr__(self) -> str:
        has = [name for name in ("token", "username", "certificate") if getattr(self, name)]
        return f"<Auth by {' and '.join(has) or 'nothing'}>"

    def headers(self) -> tuple[tuple[str, str], ...]:
        if self.token:
            return (("Authorization", f"Bearer {self.token}"), *self.impersonation)
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            return (("Authorization", f"Basic {pair}"), *self.impersonation)
        return self.impersonation


class Source(Protocol):
    """Where an Auth comes from. Raises only CredentialsError."""

    async def auth(self) -> Auth: ...
    def forget(self, refused: Auth) -> None:
        """The server did not accept this one (401): read it anew next time, unless that has been done meanwhile."""
        ...


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    server: Server
    source: Source
    namespace: str = "default"
    origin: str = ""  # for messages: where all this was found

    def __repr__(self) -> str:
        return f"<Credentials for {self.server.url} from {self.origin}>"


class Reread:
    """An Auth from values and files. Files change under us, so they are read again every minute and after a 401.

    A file that cannot be read while the last answer is still held (it is being replaced) keeps the last answer.
    """

    def __init__(self, source: Callable[[], Auth], now_s: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._now_s = now_s
        self._held: Auth | None = None
        self._read_at_s = 0.0

    def __repr__(self) -> str:
        return f"<Reread {self._held!r}>"

    async def auth(self) -> Auth:
        return self.read()

    def read(self) -> Auth:
        now_s = self._now_s()
        if self._held is None:
            self._held, self._read_at_s = self._source(), now_s
        elif now_s - self._read_at_s >= FILE_AGE_S_MAX:
            self._read_at_s = now_s
            with suppress(CredentialsError):
                self._held = self._source()
        return self._held

    def forget(self, refused: Auth) -> None:
        if self._held is refused:
            self._held = None


def fits_header(text: str) -> bool:
    """A header cannot carry `CONTROL`. Said when credentials are read, and not by aiohttp in the midst of a request."""
    return re.search(r"[\x00-\x1f\x7f]", text) is None


def can_be_asked(url: str) -> bool:
    """Whether it has a host, and a port that can be one: yarl would raise only when the first request is made."""
    try:
        parts = URL(url, encoded=True)
        return bool(parts.host) and parts.port is not None
    except ValueError:
        return False


def wrong(origin: str, message: str) -> CredentialsError:
    """`origin` is a file, a service account, a plugin: where a person has to look."""
    return CredentialsError(Subject("read", "credentials", name=origin), message)
