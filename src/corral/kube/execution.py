"""Run a command in a container, over a WebSocket.

The protocol (v5.channel.k8s.io, and v4 of older servers): each message begins with a byte that names its channel.

    0 stdin    1 stdout    2 stderr    3 how it ended, as a Status    255 close the channel named by the next byte (v5)

A command that ends with another exit code than 0 is an answer and not an error. An error is what kept it from running
(no such container, no such program) or from telling us how it ended.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

import msgspec

from corral.kube.calls import Calls
from corral.kube.codec import error_of
from corral.kube.errors import Garbled, Refused, Subject, Unreachable
from corral.kube.meta import EMPTY, Resource
from corral.kube.requests import READ_S_MAX, path_to
from corral.kube.transport import Fence, Request, Socket

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ENDED, CLOSE = 0, 1, 2, 3, 255
MESSAGE_BYTES_MAX = 1 << 15
OUTPUT_BYTES_MAX = 16 << 20


class ExecResult(msgspec.Struct, frozen=True):
    exit_code: int
    stdout: bytes
    stderr: bytes


class Output(msgspec.Struct, frozen=True):
    """What a running command wrote."""

    channel: Literal["stdout", "stderr"]
    data: bytes


class RunningCommand:
    """A command under way. Read `output` to its end; then `exit_code` is known."""

    def __init__(self, socket: Socket, subject: Subject) -> None:
        self._socket = socket
        self._subject = subject
        self.exit_code: int | None = None

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), MESSAGE_BYTES_MAX):
            await self._socket.send(bytes([STDIN]) + data[start : start + MESSAGE_BYTES_MAX])

    async def close_stdin(self) -> None:
        """The command sees the end of its input."""
        self.need_closable_stdin()
        await self._socket.send(bytes([CLOSE, STDIN]))

    def need_closable_stdin(self) -> None:
        """Only v5 can say that an input ends: with v4 a command that reads to the end would wait for ever."""
        if self._socket.subprotocol != V5:
            raise Refused(self._subject, f"this server speaks {self._socket.subprotocol}, which cannot close stdin")

    async def output(self) -> AsyncGenerator[Output, None]:
        while (message := await self._socket.receive()) is not None:
            channel, data = message[0] if message else None, message[1:]
            if channel == ENDED:
                self.exit_code = exit_code_of(data, self._subject)
            elif channel == STDOUT and data:
                yield Output("stdout", data)
            elif channel == STDERR and data:
                yield Output("stderr", data)
        if self.exit_code is None:
            raise Unreachable(self._subject, "the connection ended before the command said how it ended")


def exec_request(
    pods: Resource, name: str, namespace: str, command: tuple[str, ...], container: str, *, stdin: bool
) -> Request:
    subject = Subject("exec", pods.kind, namespace, name)
    return Request(
        subject=subject,
        method="GET",
        path=path_to(pods, subject, "exec"),
        query=(
            *(("command", part) for part in command),
            *((("container", container),) if container else ()),
            *((("stdin", "true"),) if stdin else ()),
            ("stdout", "true"),
            ("stderr", "true"),
        ),
        accept="*/*",
        deadline_s=READ_S_MAX,
    )


@asynccontextmanager
async def running(calls: Calls, request: Request, fence: Fence | None) -> AsyncIterator[RunningCommand]:
    async with calls.socket(request, (V5, V4), fence) as socket:
        if socket.subprotocol not in (V5, V4):
            raise Garbled(request.subject, f"expected a server that speaks {V5} or {V4}, got {socket.subprotocol!r}")
        yield RunningCommand(socket, request.subject)


async def run(
    calls: Calls, request: Request, fence: Fence | None, *, stdin: bytes | None, run_s_max: float
) -> ExecResult:
    """Feed it, collect what it writes, and leave it alone when it takes too long (it may go on running)."""
    try:
        async with asyncio.timeout(run_s_max), running(calls, request, fence) as command:
            if stdin is None:
                return await _collect(command, request.subject)
            command.need_closable_stdin()
            feeding = asyncio.create_task(_feed(command, stdin))
            try:
                return await _collect(command, request.subject)
            finally:
                feeding.cancel()
                await asyncio.wait((feeding,))
    except TimeoutError:
        raise Unreachable(request.subject, f"the command did not end within {run_s_max:g} s") from None


async def _feed(command: RunningCommand, stdin: bytes) -> None:
    """A command may end without reading all of it; a broken connection is told by the reading side."""
    with suppress(Unreachable):
        await command.write(stdin)
        await command.close_stdin()


async def _collect(command: RunningCommand, subject: Subject) -> ExecResult:
    written: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    async for output in command.output():
        written[output.channel] += output.data
        if len(written[output.channel]) > OUTPUT_BYTES_MAX:
            raise Garbled(subject, f"the command wrote more than {OUTPUT_BYTES_MAX >> 20} MiB; stream it instead")
    return ExecResult(command.exit_code or 0, bytes(written["stdout"]), bytes(written["stderr"]))


def exit_code_of(data: bytes, subject: Subject) -> int:
    """Success is 0; a failure with the cause ExitCode is that code; any other failure is an error."""
    try:
        status = msgspec.json.decode(data, type=_Ended)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Garbled(subject, f"cannot read how the command ended: {error}") from None
    if status.status == "Success":
        return 0
    if status.reason == "NonZeroExitCode":
        for cause in status.details.causes:
            if cause.reason == "ExitCode" and cause.message.isdigit():
                return int(cause.message)
    raise error_of(subject, status.code or 500, EMPTY, data)


class _EndedCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _EndedDetails(msgspec.Struct, frozen=True):
    causes: tuple[_EndedCause, ...] = ()


class _Ended(msgspec.Struct, frozen=True):
    status: str = ""
    reason: str = ""
    code: int = 0
    details: _EndedDetails = _EndedDetails()
