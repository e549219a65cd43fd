"""The transport against a server that sends exactly the bytes that slurmrestd does."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from corral.slurm.errors import Subject, Unreachable
from corral.slurm.http import HttpTransport
from corral.slurm.tokens import Token
from corral.slurm.transport import Endpoint, Request
from tests.unit.kube.authority import Authority

SUBJECT = Subject("lab/slurm", "read", "job", "9")
TOKEN = Token("s3cret", datetime(2026, 1, 1, tzinfo=UTC))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
TWICE = (
    b"HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 7\r\n\r\n"
    b'{"a":1}HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 4\r\n\r\nnope'
)


def a_request(deadline_s: float = 5.0) -> Request:
    return Request(subject=SUBJECT, method="GET", path="/slurm/v0.0.45/job/9", token=TOKEN, deadline_s=deadline_s)


class Answering(asyncio.Protocol):
    """Sends the same pieces to every request, one write each; nothing when there are none."""

    def __init__(self, pieces: tuple[bytes, ...], heard: list[bytes]) -> None:
        self._pieces, self._heard = pieces, heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard.append(data)
        for piece in self._pieces:
            self.transport.write(piece)
        if b"Connection: Close" in b"".join(self._pieces):
            self.transport.close()


@asynccontextmanager
async def serving(*pieces: bytes) -> AsyncIterator[tuple[HttpTransport, list[bytes]]]:
    heard: list[bytes] = []
    connections: list[Answering] = []

    def connected() -> Answering:
        connections.append(Answering(pieces, heard))
        return connections[-1]

    async with await asyncio.get_running_loop().create_server(connected, "127.0.0.1", 0) as server:
        transport = HttpTransport(Endpoint(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
        try:
            yield transport, heard
        finally:
            await transport.close()
            for connection in connections:
                connection.transport.abort()
            await asyncio.sleep(0)


async def test_the_token_goes_into_its_header() -> None:
    async with serving(OK) as (transport, heard):
        response = await transport.request(a_request())

    assert (response.status, response.body) == (200, b"{}")
    assert b"X-SLURM-USER-TOKEN: s3cret\r\n" in heard[0]


async def test_many_questions_at_once_are_answered_each() -> None:
    async with serving(OK) as (transport, heard):
        answers = await asyncio.gather(*(transport.request(a_request()) for _ in range(10)))

    assert [answer.body for answer in answers] == [b"{}"] * 10
    assert len(heard) == 10


async def test_an_answer_in_chunks_is_put_together() -> None:
    """As a proxy before slurmrestd may send it."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(head, b'4\r\n{"a"\r\n', b"3;x=y\r\n:1}\r\n0\r\n\r\n") as (transport, _):
        assert (await transport.request(a_request())).body == b'{"a":1}'


async def test_a_token_that_would_be_a_second_header_is_not_sent() -> None:
    request = msgspec.structs.replace(a_request(), token=Token("a\r\nX: b", TOKEN.issued_at))
    async with serving(OK) as (transport, heard):
        with pytest.raises(Unreachable, match="no header can carry") as raised:
            await transport.request(request)

    assert not raised.value.sent
    assert heard == []


@pytest.mark.parametrize("size", [1, 10, 70, len(TWICE)])
async def test_of_an_error_sent_twice_the_first_counts(size: int) -> None:
    """As 26.05 does; in one piece or in many."""
    pieces = [TWICE[at : at + size] for at in range(0, len(TWICE), size)]
    async with serving(*pieces) as (transport, _):
        response = await transport.request(a_request())

    assert (response.status, response.body) == (404, b'{"a":1}')


async def test_304_has_no_body() -> None:
    async with serving(b"HTTP/1.1 304 NOT MODIFIED\r\nConnection: Close\r\n\r\n") as (transport, _):
        assert (await transport.request(a_request())).status == 304


async def test_nobody_there_is_unreachable_and_certainly_not_sent() -> None:
    transport = HttpTransport(Endpoint(url="http://127.0.0.1:1"))

    with pytest.raises(Unreachable, match="cannot connect") as raised:
        await transport.request(a_request())
    await transport.close()

    assert not raised.value.sent


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: Close\r\n\r\nhunter2", id="cut short"),
        pytest.param(b"hunter2\r\nConnection: Close\r\n\r\n", id="not HTTP"),
    ],
)
async def test_a_broken_answer_is_unreachable_and_quotes_nothing(answer: bytes) -> None:
    async with serving(answer) as (transport, _):
        with pytest.raises(Unreachable, match="the connection broke") as raised:
            await transport.request(a_request())

    assert raised.value.sent
    assert not any(secret in str(raised.value) for secret in ("s3cret", "hunter2"))


async def test_silence_ends_at_the_deadline() -> None:
    async with serving() as (transport, _):
        with pytest.raises(Unreachable, match=r"no answer within 0\.05 s"):
            await transport.request(a_request(deadline_s=0.05))


@pytest.mark.parametrize("trusted", ["its authority", "itself"])
async def test_an_authority_without_a_key_usage_or_the_very_certificate_is_trusted(
    trusted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    pair = authority.issue("slurmrestd", host="demo-restapi.lab")
    (tmp_path / "pem").write_bytes(pair.certificate + pair.key)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(tmp_path / "pem")
    ordinary = ssl.create_default_context

    def as_in_python_3_13(**options: str | None) -> ssl.SSLContext:
        context = ordinary(cadata=options["cadata"])
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_in_python_3_13)
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: Answering((OK,), []), "127.0.0.1", 0, ssl=served) as server:
        ca = (authority.pem if trusted == "its authority" else pair.certificate).decode()
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        transport = HttpTransport(Endpoint(url=url, ca_pem=ca, name="demo-restapi.lab"))
        answer = await transport.request(a_request())
        await transport.close()
    assert answer.status == 200
