"""A terminal joined to a WebSocket of bytes, such as a guest's serial console."""

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO

from corral.kube.transport import Socket

LEAVE = b"\x1d"  # Ctrl-], as telnet and virtctl have it
CHUNK_BYTES = 4096


async def joined(socket: Socket, typed: AsyncIterator[bytes], show: Callable[[bytes], None]) -> None:
    """Until the other side ends, or LEAVE is typed. What comes after the end of the input is still shown."""
    sending = asyncio.create_task(_send(socket, typed))
    receiving = asyncio.create_task(_receive(socket, show))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if receiving.done() or sending.result():
            return
        await receiving
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


async def _send(socket: Socket, typed: AsyncIterator[bytes]) -> bool:
    """Whether the person asked to leave."""
    async for data in typed:
        before, leave, _ = data.partition(LEAVE)
        if before:
            await socket.send(before)
        if leave:
            return True
    return False


async def _receive(socket: Socket, show: Callable[[bytes], None]) -> None:
    while (message := await socket.receive()) is not None:
        show(message)


@contextlib.contextmanager
def raw_terminal(stdin: IO[bytes]) -> Iterator[None]:
    """Every key goes to the guest, Ctrl-C too; as it was before in the end."""
    if not stdin.isatty():
        yield
        return
    before = termios.tcgetattr(stdin.fileno())
    tty.setraw(stdin.fileno())
    try:
        yield
    finally:
        termios.tcsetattr(stdin.fileno(), termios.TCSADRAIN, before)


async def keyboard(stdin: IO[bytes]) -> AsyncIterator[bytes]:
    """What is typed or piped, as it comes."""
    loop, file = asyncio.get_running_loop(), stdin.fileno()
    ready = asyncio.Event()
    try:
        loop.add_reader(file, ready.set)
    except PermissionError:  # a plain file is always ready, and cannot be waited for
        yield stdin.read()
        return
    try:
        while True:
            await ready.wait()
            ready.clear()
            data = os.read(file, CHUNK_BYTES)
            if not data:
                return
            yield data
    finally:
        loop.remove_reader(file)


def show(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
