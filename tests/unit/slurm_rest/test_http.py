"""The transport against a server that sends exactly the bytes that slurmrestd does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from corral.slurm.errors import Subject, Unreachable
from corral.slurm.http import HttpTransport
from corral.slurm.tokens import Token
from corral.slurm.transport import Endpoint, Request

SUBJECT = Subject("lab/slurm", "read", "job", "9")
TOKEN = Token("s3cret", datetime(2026, 1, 1, tzinfo=UTC))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
TWICE = (
    b"HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 7\r\n\r\n"
    b'{"a":1}HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 4\r\n\r\nnope'
)


def a_request(deadline_s: float = 5.0) -> Request:
    return Request(subject=SUBJECT, method="GET", path="/slurm/v0.0.45/job/9", token=TOKEN, deadline_s=deadline_s)


@asynccontextmanager
async def serving(*pieces: bytes, silent: bool = False) -> AsyncIterator[tuple[HttpTransport, list[bytes]]]:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not silent and (head := await reader.readuntil(b"\r\n\r\n")):
            heard.append(head)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            if b"Connection: Close" in b"".join(pieces):
                break
        if not silent:
            writer.close()

    async with await asyncio.start_server(_quiet(answer), "127.0.0.1", 0) as server:
        transport = HttpTransport(Endpoint(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
        try:
            yield transport, heard
        finally:
            await transport.close()


def _quiet(answer):  # type: ignore[no-untyped-def]
    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    return quiet


async def test_the_token_goes_into_its_header() -> None:
    async with serving(OK) as (transport, heard):
        response = await transport.request(a_request())

    assert (response.status, response.body) == (200, b"{}")
    assert b"X-SLURM-USER-TOKEN: s3cret\r\n" in heard[0]


async def test_a_connection_is_used_again() -> None:
    async with serving(OK) as (transport, heard):
        for _ in range(3):
            assert (await transport.request(a_request())).body == b"{}"

    assert len(heard) == 3


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
    async with serving(OK) as (transport, _):
        pass
    transport = HttpTransport(Endpoint(url="http://127.0.0.1:1"))

    with pytest.raises(Unreachable, match="cannot connect") as raised:
        await transport.request(a_request())
    await transport.close()

    assert not raised.value.sent


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nConnection: Close", b"what?\r\n\r\nConnection: Close"],
)
async def test_a_broken_answer_is_unreachable_and_quotes_nothing(answer: bytes) -> None:
    async with serving(answer, b"", b"") as (transport, _):
        with pytest.raises(Unreachable) as raised:
            await transport.request(a_request(deadline_s=0.5))

    assert raised.value.sent
    assert "s3cret" not in str(raised.value)
    assert "what?" not in str(raised.value)


async def test_silence_ends_at_the_deadline() -> None:
    async with serving(silent=True) as (transport, _):
        with pytest.raises(Unreachable, match=r"no answer within 0\.05 s"):
            await transport.request(a_request(deadline_s=0.05))
