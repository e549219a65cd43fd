import pytest

from corral.kube import Client, LogOptions, NotFound, Unreachable
from corral.kube.errors import Subject
from tests.unit.kube.memory import MemoryStream, MemoryTransport, answer


def client(*chunks: bytes | Exception, status: int = 200) -> tuple[Client, MemoryTransport]:
    transport = MemoryTransport(answer({}), stream=MemoryStream(chunks, status))
    return Client(transport), transport


async def test_lines_come_whole_and_the_last_one_needs_no_end() -> None:
    it, transport = client("grü".encode()[:3], "grü".encode()[3:] + b"n\r\n\nb", b"lau")

    assert [line async for line in it.logs("web", "lab")] == ["grün", "", "blau"]
    assert transport.requests[0].path == "/api/v1/namespaces/lab/pods/web/log"
    assert transport.requests[0].query == ()


async def test_only_what_is_asked_for_is_sent() -> None:
    it, transport = client(b"x")
    options = LogOptions(container="main", follow=True, timestamps=True, tail_lines=0, since_s=60)
    async for _ in it.logs("web", "lab", options):
        pass

    assert dict(transport.requests[0].query) == {
        "container": "main",
        "follow": "true",
        "timestamps": "true",
        "tailLines": "0",
        "sinceSeconds": "60",
    }


async def test_a_log_that_breaks_off_gives_its_lines_and_then_says_so() -> None:
    it, _ = client(b"one\ntw", Unreachable(Subject("logs", "Pod"), "lost"))
    lines = it.logs("web", "lab")

    assert await anext(lines) == "one"
    with pytest.raises(Unreachable):
        await anext(lines)


async def test_a_pod_that_is_not_there_is_not_found() -> None:
    it, _ = client(b'{"code":404,"message":"pods \\"web\\" not found"}', status=404)

    with pytest.raises(NotFound, match="logs Pod lab/web"):
        async for _ in it.logs("web", "lab"):
            pass
