"""The requests of one program, as the API server has logged them."""

import os
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

LEASES = "leases"
WRITES = ("create", "patch", "update", "delete", "deletecollection")


class Sent(msgspec.Struct, frozen=True):
    """One request; `at` is when it was answered, in seconds since the epoch."""

    at: float
    verb: str
    resource: str
    subresource: str
    status: int

    @property
    def is_write(self) -> bool:
        """Refused attempts are writes too: they cost the same. The lease, which is renewed all the time, is apart."""
        return self.verb in WRITES and self.resource != LEASES


class AuditLog:
    """What is logged from now on of requests with a user agent of this component, read as the log grows."""

    def __init__(self, path: Path, component: str) -> None:
        self._path, self._agent = path, f"({component})".encode()
        self._file = path.open("rb")
        self._file.seek(0, os.SEEK_END)
        self._rest = b""

    def news(self) -> list[Sent]:
        """Only what is new is read: whoever watches must not cost what is watched its processor."""
        was_put_aside = os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        if was_put_aside:
            self._file.close()
            self._file = self._path.open("rb")
        return [sent_of(line) for line in lines if self._agent in line]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Answer(msgspec.Struct):
    code: int = 0


class _Logged(msgspec.Struct, rename="camel"):
    """A line (audit.k8s.io/v1), as far as it is read here."""

    verb: str
    stage_timestamp: datetime
    object_ref: _Object = msgspec.field(default_factory=_Object)
    response_status: _Answer = msgspec.field(default_factory=_Answer)


def sent_of(line: bytes) -> Sent:
    said = msgspec.json.decode(line, type=_Logged)
    at_s, about = said.stage_timestamp.timestamp(), said.object_ref
    return Sent(at_s, said.verb, about.resource, about.subresource, said.response_status.code)
