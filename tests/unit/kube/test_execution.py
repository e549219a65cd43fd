"""Commands in containers: the channel protocol, spoken with a socket in memory."""

import asyncio

import msgspec
import pytest

from corral.kube import Client, ExecResult, Garbled, Output, Refused, ServerError, Unreachable
from tests.unit.kube.memory import MemorySocket, MemoryTransport, answer

SUCCESS = b'\x03{"status":"Success"}'


def failure(code: str) -> bytes:
    cause = {"reason": "ExitCode", "message": code}
    return b"\x03" + msgspec.json.encode(
        {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
    )


def client(*messages: bytes, subprotocol: str = "v5.channel.k8s.io") -> tuple[Client, MemorySocket, MemoryTransport]:
    socket = MemorySocket(messages, subprotocol)
    transport = MemoryTransport(answer({}), socket=socket)
    return Client(transport), socket, transport


async def test_a_command_is_answered_by_what_it_wrote_and_how_it_ended() -> None:
    it, socket, transport = client(b"\x01", b"\x01out", b"\x02err", b"\x01put", SUCCESS)
    result = await it.exec("web", "lab", ("ls", "-l", "a b"), container="main")

    assert result == ExecResult(0, b"output", b"err")
    assert transport.requests[0].path == "/api/v1/namespaces/lab/pods/web/exec"
    assert transport.requests[0].query == (
        ("command", "ls"),
        ("command", "-l"),
        ("command", "a b"),
        ("container", "main"),
        ("stdout", "true"),
        ("stderr", "true"),
    )
    assert socket.closed


async def test_an_exit_code_is_an_answer() -> None:
    it, _, _ = client(failure("3"))

    assert (await it.exec("web", "lab", ("false",))).exit_code == 3


async def test_a_command_that_could_not_run_is_an_error() -> None:
    it, _, _ = client(b'\x03{"status":"Failure","code":500,"message":"no such file or directory"}')

    with pytest.raises(ServerError, match="exec Pod lab/web: no such file"):
        await it.exec("web", "lab", ("nope",))


async def test_a_connection_that_ends_before_the_command_told_how_is_unreachable() -> None:
    it, _, _ = client(b"\x01half")

    with pytest.raises(Unreachable, match="before the command said how it ended"):
        await it.exec("web", "lab", ("ls",))


async def test_what_cannot_be_read_is_garbled() -> None:
    it, _, _ = client(b"\x03junk")

    with pytest.raises(Garbled):
        await it.exec("web", "lab", ("ls",))


async def test_input_is_sent_in_pieces_and_closed() -> None:
    big = b"x" * 40_000
    it, socket, transport = client(*([b"\x01."] * 10), SUCCESS)
    await it.exec("web", "lab", ("cat",), stdin=big)

    assert b"".join(message[1:] for message in socket.sent[:-1]) == big
    assert all(message[0] == 0 for message in socket.sent[:-1])
    assert socket.sent[-1] == b"\xff\x00"
    assert ("stdin", "true") in transport.requests[0].query


async def test_input_to_a_server_that_cannot_close_it_is_refused() -> None:
    it, socket, _ = client(SUCCESS, subprotocol="v4.channel.k8s.io")

    with pytest.raises(Refused, match="cannot close stdin"):
        await it.exec("web", "lab", ("cat",), stdin=b"x")
    assert socket.closed


async def test_without_input_an_older_server_will_do() -> None:
    it, _, _ = client(SUCCESS, subprotocol="v4.channel.k8s.io")

    assert (await it.exec("web", "lab", ("ls",))).exit_code == 0


@pytest.mark.looptime
async def test_a_command_that_does_not_end_is_left() -> None:
    class Silent(MemorySocket):
        async def receive(self) -> bytes | None:
            await asyncio.Event().wait()
            return None

    socket = Silent(())
    it = Client(MemoryTransport(answer({}), socket=socket))

    with pytest.raises(Unreachable, match="did not end within 60 s"):
        await it.exec("web", "lab", ("sleep", "inf"))
    assert socket.closed


async def test_a_streamed_command_is_read_as_it_writes() -> None:
    it, _, _ = client(b"\x01one", b"\x02two", failure("2"))
    async with it.exec_stream("web", "lab", ("sh",), stdin=True) as command:
        await command.write(b"exit 2\n")
        seen = [output async for output in command.output()]

    assert seen == [Output("stdout", b"one"), Output("stderr", b"two")]
    assert command.exit_code == 2
