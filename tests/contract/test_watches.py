"""Watches: what they begin with, what they send, how they end."""

import asyncio
from contextlib import aclosing

import pytest

from corral.kube.client import Bookmark, Gone, Put
from corral.kube.errors import Invalid, Subject
from corral.kube.selection import Selector
from corral.kube.transport import Request
from corral.kube.unstructured import untyped
from corral.testing.contract import CONFIG_MAP, SECRET, WITHIN_S, World


async def test_a_watch_from_a_version_sends_everything_since_in_order(world: World) -> None:
    before = await world.create(world.secret("a"))
    after = await world.create(world.secret("b"))
    changed = await world.merge(before, {"metadata": {"labels": {"x": "y"}}})
    await world.delete(after)

    events = await world.events(SECRET, 3, since=before.metadata.resource_version)
    assert [event[:2] for event in events] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert events[1][2] == changed.metadata.resource_version
    assert [int(event[2]) for event in events] == sorted(int(event[2]) for event in events)


async def test_a_watch_sends_what_happens_while_it_is_open(world: World) -> None:
    made = await world.create(world.secret("a"))
    watching = asyncio.create_task(world.events(SECRET, 1, since=made.metadata.resource_version))
    await world.merge(made, {"metadata": {"labels": {"x": "y"}}})

    assert [event[:2] for event in await watching] == [("MODIFIED", "a")]


async def test_a_watch_without_a_version_begins_with_what_is_there(world: World) -> None:
    await world.create(world.secret("b"))
    await world.create(world.secret("a"))

    events = await world.events(SECRET, 2)
    assert sorted(event[:2] for event in events) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_streamed_list_ends_with_a_bookmark_of_its_version(world: World) -> None:
    await world.create(world.secret("a"))
    last = await world.create(world.secret("b"))

    events = await world.events(SECRET, 3, initial_list=True)
    assert [event[0] for event in events] == ["ADDED", "ADDED", "END"]
    assert int(events[-1][2]) >= int(last.metadata.resource_version)


async def test_a_streamed_list_of_nothing_is_only_the_bookmark(world: World) -> None:
    events = await world.events(SECRET, 1, initial_list=True)

    assert [event[0] for event in events] == ["END"]


async def test_a_streamed_list_goes_on_as_a_watch(world: World) -> None:
    made = await world.create(world.secret("a"))
    watch = world.client.watch(untyped(SECRET), world.here, initial_list=True)

    async with asyncio.timeout(WITHIN_S), aclosing(watch):
        assert isinstance(await anext(watch), Put)
        assert isinstance(await anext(watch), Bookmark)
        await world.delete(made)
        assert isinstance(await anext(watch), Gone)


async def test_an_object_that_leaves_the_selector_is_deleted_for_the_watch_and_added_when_it_returns(
    world: World,
) -> None:
    made = await world.create(world.secret("a", labels={"x": "y"}))
    left = await world.merge(made, {"metadata": {"labels": {"x": None}}})
    await world.merge(made, {"metadata": {"labels": {"other": "1"}}})
    back = await world.merge(made, {"metadata": {"labels": {"x": "y"}}})
    where = Selector(world.namespace, labels="x=y")

    events = await world.events(SECRET, 2, since=made.metadata.resource_version, where=where)
    assert events == [
        ("DELETED", "a", left.metadata.resource_version),
        ("ADDED", "a", back.metadata.resource_version),
    ]


async def test_the_last_state_of_an_object_that_leaves_the_selector_is_the_one_that_matched(world: World) -> None:
    made = await world.create(world.secret("a", labels={"x": "y"}))
    await world.merge(made, {"metadata": {"labels": {"x": None}}})
    watch = world.client.watch(
        untyped(SECRET), Selector(world.namespace, labels="x=y"), resource_version=made.metadata.resource_version
    )

    async with asyncio.timeout(WITHIN_S), aclosing(watch):
        event = await anext(watch)
    assert isinstance(event, Gone)
    assert event.object.metadata.labels == {"x": "y"}


async def test_a_watch_can_be_for_one_name(world: World) -> None:
    made = await world.create(world.secret("a"))
    other = await world.create(world.secret("b"))
    await world.delete(other)
    await world.delete(made)
    where = Selector(world.namespace, fields="metadata.name=a")

    events = await world.events(SECRET, 1, since=made.metadata.resource_version, where=where)
    assert [event[:2] for event in events] == [("DELETED", "a")]


async def test_a_watch_of_all_namespaces_sees_this_one(world: World) -> None:
    made = await world.create(world.config_map("a"))
    await world.merge(made, {"data": {"b": "2"}})
    where = Selector(fields=f"metadata.namespace={world.namespace},metadata.name=a")

    events = await world.events(CONFIG_MAP, 1, since=made.metadata.resource_version, where=where)
    assert [event[:2] for event in events] == [("MODIFIED", "a")]


async def test_a_deleted_object_and_its_successor_are_two_events(world: World) -> None:
    made = await world.create(world.secret("a"))
    await world.delete(made)
    await world.create(world.secret("a"))

    events = await world.events(SECRET, 2, since=made.metadata.resource_version)
    assert [event[:2] for event in events] == [("DELETED", "a"), ("ADDED", "a")]


async def test_a_watch_from_the_future_is_silent(world: World) -> None:
    """After an etcd restore that is what a client with an old version gets: nothing, for as long as it waits."""
    made = await world.create(world.secret("a"))
    future = str(int(made.metadata.resource_version) + 1_000_000)
    watching = asyncio.create_task(world.events(SECRET, 1, since=future))
    seeing = asyncio.create_task(world.events(SECRET, 1, since=made.metadata.resource_version))
    await world.delete(made)
    await seeing

    assert not watching.done()
    watching.cancel()


async def test_a_streamed_list_from_the_future_is_refused_within_the_stream(world: World) -> None:
    lines = await watch_body(
        world,
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", "99999999999"),
    )

    assert b'"ERROR"' in lines
    assert b"Too large resource version" in lines


async def test_a_streamed_list_must_say_how_old_it_may_be(world: World) -> None:
    answer = await world.raw("GET", secrets(world), ("watch", "true"), ("sendInitialEvents", "true"))

    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "resourceVersionMatch")


async def test_a_watch_ends_when_its_time_is_up(world: World) -> None:
    await world.create(world.secret("a"))

    lines = await watch_body(world, ("timeoutSeconds", "1"))
    assert lines.count(b"\n") >= 1


async def test_a_watch_with_a_broken_selector_is_refused(world: World) -> None:
    with pytest.raises(Invalid):
        await world.events(SECRET, 1, where=Selector(world.namespace, labels="a in ("))


def secrets(world: World) -> str:
    return f"/api/v1/namespaces/{world.namespace}/secrets"


async def watch_body(world: World, *query: tuple[str, str]) -> bytes:
    """All that a watch sends until the server ends it."""
    request = Request(
        subject=Subject("watch", "Secret"), method="GET", path=secrets(world), query=(("watch", "true"), *query)
    )
    body = b""
    async with asyncio.timeout(WITHIN_S), world.transport.stream(request) as stream:
        async for chunk in stream.chunks(silence_s_max=WITHIN_S):
            body += chunk
    return body
