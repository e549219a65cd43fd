"""Writes that were under way when their leader was suspended, and arrive when the next one has acted.

The fence cannot stop them: they were sent in time. Each meets a world that is not the one it was decided in, and its
precondition refuses it. Where it is let through, nobody has touched what it is about, or the next leader puts it right.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest

from corral.engine import LeaseAddress, LeaseLost
from corral.engine.send import send_status
from corral.kube.client import Client
from corral.kube.errors import Conflict
from corral.kube.meta import Object
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.kube.transport import Request, Response, Socket, Stream, Transport
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator
from corral.testing.toys import GOODBYE, Toy, ToyStatus, toy_controller

pytestmark = pytest.mark.looptime(noop_cycles=0)

LEASE = LeaseAddress("default", "toys")
BEAR = {"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}}


class SlowWire:
    """Holds the first request back that `holds` names, after its sender was asked whether it may write."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._holds = ("", "")
        self.held: Request | None = None

    def hold(self, method: str, path_end: str) -> None:
        self._holds = method, path_end

    async def request(self, request: Request) -> Response:
        method, path_end = self._holds
        if self.held is None and request.method == method and request.path.endswith(path_end):
            request.ask_fence()
            self.held = request
            await asyncio.Event().wait()
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AbstractAsyncContextManager[Socket]:
        return self._inner.socket(request, subprotocols)

    async def close(self) -> None:
        await self._inner.close()


class Story:
    """A leader with a toy, `bear`, whose write is held back; then it is suspended, and another leads."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self._first = Operator(server, toy_controller, name="first", lease=LEASE, through=self._slow)
        self._second = Operator(server, toy_controller, name="second", lease=LEASE)

    def _slow(self, way: Transport) -> Transport:
        self.wire = SlowWire(way)
        return self.wire

    def want(self, **spec: str | int) -> None:
        self.server.edit(Toy, "bear", "default", merge={"spec": spec})

    async def lead(self) -> None:
        self._first.start()
        await asyncio.sleep(5)
        self.server.add(BEAR)
        await asyncio.sleep(20)

    async def suspend(self) -> None:
        """With a write under way. The connection stands still, and its process with it."""
        await asyncio.sleep(5)
        assert self.wire.held is not None
        self._first.connection.cut()
        with pytest.raises(LeaseLost):
            await self._first.task

    async def next_leads(self) -> None:
        self._second.start()
        await asyncio.sleep(40)

    async def arrive(self, *, guarded: bool = True) -> int:
        """The status that the server answers, to nobody."""
        assert self.wire.held is not None
        request = self.wire.held if guarded else unguarded(self.wire.held)
        return (await self.server.connect("first").request(request)).status

    async def end(self) -> None:
        await self._second.stop()
        self.server.stop_collecting()

    def greeting(self, name: str) -> str | None:
        found = self.server.get(ConfigMap, name, "default")
        return None if found is None else str(found["data"]["greeting"])

    @property
    def toy(self) -> dict[str, Any]:
        found = self.server.get(Toy, "bear", "default")
        assert found is not None
        return found


def unguarded(request: Request) -> Request:
    """The mechanism switched off."""
    body: dict[str, Any] = msgspec.json.decode(request.body)
    body.pop("preconditions", None)
    for name in ("uid", "resourceVersion"):
        body.get("metadata", {}).pop(name, None)
    return msgspec.structs.replace(request, body=msgspec.json.encode(body))


@asynccontextmanager
async def a_story() -> AsyncIterator[Story]:
    server = FakeApiServer()
    server.register(Toy)
    story = Story(server)
    await story.lead()
    yield story
    await story.end()


async def an_apply(story: Story) -> None:
    """Of a child, decided by a wish that is not the present one."""
    story.wire.hold("PATCH", "/configmaps/bear-0")
    story.want(greeting="older")
    await story.suspend()
    story.want(greeting="newer")
    await story.next_leads()
    assert story.greeting("bear-0") == "newer"


async def a_status(story: Story) -> None:
    story.wire.hold("PATCH", "/toys/bear/status")
    story.want(copies=2)
    await story.suspend()
    story.want(copies=3)
    await story.next_leads()
    assert story.toy["status"]["copies"] == 3


async def a_deletion(story: Story) -> None:
    story.wire.hold("DELETE", "/configmaps/bear-0")
    story.want(copies=0)
    await story.suspend()
    story.want(copies=1, greeting="wanted again")
    await story.next_leads()
    assert story.greeting("bear-0") == "wanted again"


async def the_removal_of_a_finalizer(story: Story) -> None:
    """Of a toy that has gone meanwhile; there is another of its name."""
    story.wire.hold("PATCH", "/toys/bear")
    story.server.remove(Toy, "bear", "default")
    await story.suspend()
    await story.next_leads()
    story.server.add(BEAR)
    await asyncio.sleep(20)
    assert story.toy["metadata"]["finalizers"] == [GOODBYE]


async def an_apply_that_makes(story: Story) -> None:
    story.wire.hold("PATCH", "/configmaps/bear-1")
    story.want(copies=2, greeting="older")
    await story.suspend()
    story.want(greeting="newer")
    await story.next_leads()
    assert story.greeting("bear-1") == "newer"


async def a_creation(story: Story) -> None:
    story.server.remove(Secret, "bear-token", "default")
    story.wire.hold("POST", "/secrets")
    await story.suspend()
    await story.next_leads()
    assert story.server.get(Secret, "bear-token", "default") is not None


GUARDED = [an_apply, a_status, a_deletion, the_removal_of_a_finalizer, an_apply_that_makes]


@pytest.mark.parametrize("under_way", [*GUARDED, a_creation])
async def test_a_write_that_arrives_after_the_next_leader_acted_is_refused(
    under_way: Callable[[Story], Awaitable[None]],
) -> None:
    async with a_story() as story:
        await under_way(story)
        before = story.server.storage.version

        assert await story.arrive() == 409
        assert story.server.storage.version == before


@pytest.mark.parametrize("under_way", GUARDED)
async def test_without_its_precondition_it_would_be_carried_out(under_way: Callable[[Story], Awaitable[None]]) -> None:
    """The mechanism switched off. (A creation needs none: its name is its precondition.)"""
    async with a_story() as story:
        await under_way(story)
        before = story.server.storage.version

        assert await story.arrive(guarded=False) < 300
        assert story.server.storage.version > before


async def test_what_is_made_though_nobody_wants_it_any_more_is_pruned() -> None:
    """What does not exist has no version that a creation could insist on."""
    async with a_story() as story:
        story.wire.hold("PATCH", "/configmaps/bear-1")
        story.want(copies=2)
        await story.suspend()
        story.want(copies=1)
        await story.next_leads()

        assert await story.arrive() == 201
        await asyncio.sleep(20)
        assert story.greeting("bear-1") is None


async def test_what_is_deleted_because_nobody_had_touched_it_since_is_made_again() -> None:
    async with a_story() as story:
        story.wire.hold("DELETE", "/configmaps/bear-0")
        story.want(copies=0)
        await story.suspend()
        story.want(copies=1)
        await story.next_leads()

        assert await story.arrive() == 200
        assert story.greeting("bear-0") is None
        await asyncio.sleep(20)
        assert story.greeting("bear-0") == "hello"


async def test_a_status_is_written_though_its_object_was_labelled_meanwhile() -> None:
    """What later passes decide by must not be lost because somebody touched another part of the object."""
    server, client, bear = await a_bear()
    server.edit(Toy, "bear", "default", merge={"metadata": {"labels": {"a": "b"}}})

    await send_status(ToyStatus(copies=7), bear, client, "test", note=nobody)

    after = server.get(Toy, "bear", "default")
    assert after is not None
    assert (after["status"]["copies"], after["metadata"]["labels"]) == (7, {"a": "b"})


@pytest.mark.parametrize("is_another", [False, True])
async def test_a_status_is_not_written_over_one_that_nobody_has_looked_at(is_another: bool) -> None:
    server, client, bear = await a_bear()
    if is_another:
        server.remove(Toy, "bear", "default")
        server.add(BEAR)
    else:
        server.edit(Toy, "bear", "default", merge={"status": {"copies": 3}}, subresource="status")
    before = server.get(Toy, "bear", "default")

    with pytest.raises(Conflict):
        await send_status(ToyStatus(copies=7), bear, client, "test", note=nobody)
    assert server.get(Toy, "bear", "default") == before


def nobody(_: Object) -> None:
    pass


async def a_bear() -> tuple[FakeApiServer, Client, Toy]:
    server = FakeApiServer()
    server.register(Toy)
    server.add(BEAR)
    client = Client(server.connect())
    return server, client, await client.get(Toy, "bear", "default")
