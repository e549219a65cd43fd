"""A peer that speaks HTTP over TLS on loopback as badly as a test wants it to."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from tests.unit.kube.authority import Pair

Reply = Callable[["Received", asyncio.StreamWriter], Awaitable[None]]


class Received(msgspec.Struct, frozen=True):
    line: str
    headers: dict[str, str]
    body: bytes
    client: str = ""  # the name in the client's certificate


class Peer(msgspec.Struct):
    port: int
    received: list[Received]
    connections: int = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


def answer(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> Reply:
    async def reply(received: Received, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return reply


def raw(*pieces: bytes, close: bool = True) -> Reply:
    """Bytes as they are; then the connection is closed, or nothing more is said."""

    async def reply(received: Received, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if close:
            writer.close()
        else:
            await asyncio.Event().wait()

    return reply


def chunked(*pieces: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
        f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces
    )


END_OF_CHUNKS = b"0\r\n\r\n"


def tls(pair: Pair, clients: bytes = b"") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    memory = os.memfd_create("server-certificate")
    os.write(memory, pair.certificate + pair.key)
    context.load_cert_chain(f"/proc/self/fd/{memory}")
    os.close(memory)
    if clients:
        context.load_verify_locations(cadata=clients.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


@asynccontextmanager
async def peer(*replies: Reply, context: ssl.SSLContext) -> AsyncIterator[Peer]:
    """Each request gets the next reply; the last one is repeated."""
    waiting = list(replies)
    state = Peer(0, [])
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while received := await _read(reader, writer):
                state.received.append(received)
                reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                await reply(received, writer)
        except (ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    certificate = writer.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for _, value in part]
    return Received(line, headers, body, names[0] if names else "")
