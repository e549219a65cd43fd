"""Following a kind: the state machine as a table, and the loop around it against the fake server."""

import asyncio
from contextlib import aclosing
from random import Random
from typing import Any

import pytest

from corral.kube.client import Bookmark, Client, Gone, Page, Put
from corral.kube.errors import (
    ApiError,
    Cause,
    Expired,
    Forbidden,
    Garbled,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    ServerTimeout,
    StreamingListUnsupported,
    Subject,
    TooManyRequests,
    Unreachable,
)
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.core_v1 import ConfigMap
from corral.kube.watch import (
    BACKOFF_S_MAX,
    FAILURES_MAX,
    Ended,
    Event,
    InitDone,
    InitGone,
    InitPut,
    InitStart,
    Paging,
    Probing,
    Progress,
    Server,
    State,
    Step,
    Streaming,
    Trouble,
    Watching,
    advance,
    backoff_s,
    follow,
    recover,
)
from corral.testing.apiserver import FakeApiServer, Fault

SUBJECT = Subject("watch", "ConfigMap")


def a_map(version: int | str = 1, name: str = "a") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", resource_version=str(version)))


def said(state: State, answer: Page[ConfigMap] | Put[ConfigMap] | Gone[ConfigMap] | Bookmark) -> Step[ConfigMap]:
    return advance(state, answer, streams_lists=True)


def failed(state: State, trouble: KubeError | Ended, *, streams_lists: bool = True) -> Step[ConfigMap]:
    return recover(state, trouble, streams_lists=streams_lists, jitter=0.5)


def an_error(kind: type[ApiError], status: int, message: str = "no", **more: Any) -> ApiError:
    return kind(SUBJECT, message, status=status, **more)


EXPIRED = an_error(Expired, 410)
TOO_LARGE = an_error(ServerTimeout, 504, "Timeout: Too large resource version: 9, current: 5")
TOO_LARGE_BY_CAUSE = an_error(ServerTimeout, 504, causes=(Cause("", "", "ResourceVersionTooLarge"),))
SILENCE = Unreachable(SUBJECT, "nothing came")


def test_a_streamed_list_is_complete_with_its_closing_bookmark() -> None:
    assert said(Streaming(), Put(a_map(3))) == Step(Streaming(), (InitPut((a_map(3),)),))
    assert said(Streaming(), Gone(a_map(4))) == Step(Streaming(), (InitGone(a_map(4)),))
    assert said(Streaming(2), Bookmark("9", True)) == Step(Watching("9", 2), (InitDone("9"),))


def test_a_plain_bookmark_instead_of_the_closing_one_means_that_the_server_did_not_understand() -> None:
    assert said(Streaming(), Bookmark("9")) == Step(Paging(), reconnect=True, cannot_stream=True)


def test_pages_follow_each_other_until_the_last() -> None:
    first, last = Page((a_map(1),), "9", "more"), Page((a_map(2, "b"),), "9")

    assert said(Paging(), first) == Step(Paging(0, "more"), (InitPut((a_map(1),)),), reconnect=True)
    assert said(Paging(0, "more"), last).events == (InitPut((a_map(2, "b"),)), InitDone("9"))
    assert said(Paging(0, "more"), last).state == Watching("9")


@pytest.mark.parametrize("answer", [Put(a_map(7)), Gone(a_map(7))])
def test_a_change_moves_the_version_and_ends_the_count_of_failures(answer: Put[ConfigMap] | Gone[ConfigMap]) -> None:
    assert said(Watching("5", 3), answer) == Step(Watching("7", 0, True), (answer,))


def test_a_late_change_is_passed_on_but_does_not_move_the_version_back() -> None:
    assert said(Watching("10"), Put(a_map(9))).state == Watching("10", 0, True)


def test_a_bookmark_moves_the_version() -> None:
    assert said(Watching("5", 3), Bookmark("8")) == Step(Watching("8", 0, True), (Progress("8"),))


def test_a_bookmark_from_the_past_means_that_history_was_set_back() -> None:
    assert said(Watching("10"), Bookmark("9")) == Step(Streaming(), reconnect=True)


def test_versions_that_are_no_numbers_move_in_the_order_in_which_they_come() -> None:
    assert said(Watching("zulu"), Put(a_map("alpha"))).state == Watching("alpha", 0, True)


def test_a_server_that_is_behind_us_must_list_again() -> None:
    assert said(Probing("10", 1), Page((), "9")).state == Streaming(1)
    assert said(Probing("10", 1), Page((), "10")).state == Watching("10", 1)


@pytest.mark.parametrize(
    ("state", "trouble", "expected"),
    [
        pytest.param(Watching("5", 0, True), Ended(), Watching("5"), id="a watch ends as it may: resume"),
        pytest.param(Watching("5"), Ended(), Probing("5", 1), id="a watch ends before it brought anything"),
        pytest.param(Watching("5"), EXPIRED, Streaming(1), id="410: list"),
        pytest.param(Watching("5"), TOO_LARGE, Streaming(1), id="a version the server has not reached: list"),
        pytest.param(Watching("5"), TOO_LARGE_BY_CAUSE, Streaming(1), id="the same, told as a cause"),
        pytest.param(Watching("5"), SILENCE, Probing("5", 1), id="no answer: see whether the server is behind"),
        pytest.param(Probing("5", 8), SILENCE, Probing("5", 9), id="still no answer: it will come back"),
        pytest.param(Watching("5"), an_error(ServerError, 500), Probing("5", 1), id="500 once: resume"),
        pytest.param(Probing("5", FAILURES_MAX - 1), an_error(ServerError, 500), Paging(3), id="500 again: list"),
        pytest.param(Watching("5"), an_error(Invalid, 400), Streaming(1), id="400: this version is no good"),
        pytest.param(Watching("5"), an_error(NotFound, 404), Streaming(1), id="404: the kind went"),
        pytest.param(Watching("5"), Garbled(SUBJECT, "?"), Streaming(1), id="undecodable: list"),
        pytest.param(Watching("5"), an_error(Forbidden, 403), Probing("5", 1), id="403: resume when allowed"),
        pytest.param(Streaming(), Ended(), Streaming(1), id="the list broke off: from nothing"),
        pytest.param(Streaming(), an_error(ServerError, 500), Paging(1), id="500 to a streamed list: in pages"),
        pytest.param(Streaming(), an_error(Invalid, 422), Paging(1), id="422 to a streamed list: in pages"),
        pytest.param(Streaming(FAILURES_MAX - 1), SILENCE, Paging(FAILURES_MAX), id="streams keep breaking: in pages"),
        pytest.param(Paging(5, "more"), SILENCE, Streaming(6), id="pages keep failing: as a stream"),
        pytest.param(Paging(0, "more"), EXPIRED, Paging(1, at_once=True), id="410 between pages: all at once"),
    ],
)
def test_after_a_failure(state: State, trouble: KubeError | Ended, expected: State) -> None:
    assert failed(state, trouble).state == expected


def test_a_server_that_cannot_stream_lists_is_asked_for_pages_at_once_and_remembered() -> None:
    step = failed(Streaming(), an_error(StreamingListUnsupported, 500, "RequestWatchProgress is disabled"))

    assert step == Step(Paging(), cannot_stream=True)
    assert failed(Watching("5"), EXPIRED, streams_lists=False).state == Paging(1)


def test_failures_are_told_with_their_reason_and_the_time_of_the_next_attempt() -> None:
    (told,) = failed(Watching("5"), an_error(Forbidden, 403, "may not watch")).events

    assert isinstance(told, Trouble)
    assert told.reason == "Forbidden"
    assert "watch ConfigMap: may not watch" in told.message
    assert 0 < told.retry_s < 1


def test_pauses_grow_to_a_maximum_and_are_never_the_same_for_all() -> None:
    assert [backoff_s(failures, 1.0) for failures in (0, 1, 2, 50)] == [0.8, 1.6, 3.2, BACKOFF_S_MAX]
    assert backoff_s(50, 0.0) == BACKOFF_S_MAX / 2


def test_a_server_that_says_when_to_come_back_is_obeyed() -> None:
    assert failed(Streaming(), an_error(TooManyRequests, 429, retry_after_s=20.0)).pause_s >= 20


# --- the loop, against the fake server


def a_server(count: int = 2) -> FakeApiServer:
    server = FakeApiServer()
    for number in range(count):
        server.add(a_manifest(f"map-{number}"))
    return server


def a_manifest(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def events_until(
    server: FakeApiServer,
    last: type[Any],
    *,
    times: int = 1,
    features: Server | None = None,
    kind: type[Any] = ConfigMap,
) -> list[Event[Any]]:
    seen: list[Event[Any]] = []
    client = Client(server.connect())
    async with (
        asyncio.timeout(1000),
        aclosing(follow(client, kind, server=features or Server(), random=Random(1))) as events,
    ):
        async for event in events:
            seen.append(event)
            times -= isinstance(event, last)
            if not times:
                break
    return seen


def names(seen: list[Event[Any]]) -> list[str]:
    return [obj.metadata.name for event in seen if isinstance(event, InitPut) for obj in event.objects]


@pytest.mark.looptime
@pytest.mark.parametrize("streams_lists", [True, False])
async def test_a_full_picture_comes_first(streams_lists: bool) -> None:
    features = Server()
    features.streams_lists = streams_lists

    seen = await events_until(a_server(1200), InitDone, features=features)

    assert seen[0] == InitStart()
    assert len(set(names(seen))) == 1200


@pytest.mark.looptime
async def test_pages_that_expire_under_way_are_asked_for_at_once() -> None:
    server, features = a_server(1200), Server()
    features.streams_lists = False
    server.fail_next(Fault.SLOW, method="GET")
    server.fail_next(Fault.EXPIRE, method="GET")

    seen = await events_until(server, InitDone, features=features)

    assert [type(event) for event in seen] == [InitStart, InitPut, Trouble, InitStart, InitPut, InitDone]
    assert isinstance(seen[4], InitPut)
    assert len(seen[4].objects) == 1200


class Widget(Object, frozen=True, kw_only=True):
    resource = Resource("test.corral.dev", "v1", "Widget", "widgets", True)


@pytest.mark.looptime
async def test_a_kind_that_is_not_served_yet_is_trouble_and_recovers_when_it_appears() -> None:
    server = FakeApiServer()
    asyncio.get_running_loop().call_later(100, server.register, Widget)

    seen = await events_until(server, InitDone, kind=Widget)

    troubles = [event for event in seen if isinstance(event, Trouble)]
    assert {trouble.reason for trouble in troubles} == {"NotFound"}
    assert 3 <= len(troubles) < 20
    assert asyncio.get_running_loop().time() < 140


@pytest.mark.looptime
async def test_a_server_that_stops_sending_without_closing_is_left_after_a_while() -> None:
    server = a_server()
    loop = asyncio.get_running_loop()
    loop.call_later(1, server.stall_watches)
    loop.call_later(2, lambda: server.add(a_manifest("unseen")))

    seen = await events_until(server, Put)

    assert isinstance(seen[-1], Put)
    assert seen[-1].object.metadata.name == "unseen"
    assert 70 < loop.time() < 100


@pytest.mark.looptime
async def test_an_idle_kind_costs_no_request_beyond_its_watch() -> None:
    server = a_server()

    async with asyncio.timeout(1000):
        seen = await events_until(server, Progress)

    assert [type(event) for event in seen] == [InitStart, InitPut, InitPut, InitDone, Progress]
    assert sum("GET" in line or "WATCH" in line for line in server.trace) == 1


@pytest.mark.looptime
async def test_a_server_restored_while_its_list_was_under_way_is_listed_again() -> None:
    server = a_server()
    backup = server.snapshot()
    server.add(a_manifest("lost-in-the-restore"))
    features = Server()
    features.streams_lists = False
    server.fail_next(Fault.SLOW, method="GET", resource="configmaps")
    asyncio.get_running_loop().call_later(1, lambda: server.restore(backup, down_s=0))

    seen = await events_until(server, InitDone, times=2, features=features)

    assert names(seen) == ["lost-in-the-restore", "map-0", "map-1", "map-0", "map-1"]


@pytest.mark.looptime
async def test_a_server_restored_from_a_backup_is_listed_again() -> None:
    server = a_server()
    backup = server.snapshot()
    server.add(a_manifest("lost-in-the-restore"))
    asyncio.get_running_loop().call_later(5, lambda: server.restore(backup, down_s=1))

    seen = await events_until(server, InitDone, times=2)

    assert [type(event) for event in seen[-5:]] == [Trouble, InitStart, InitPut, InitPut, InitDone]
    assert names(seen) == ["lost-in-the-restore", "map-0", "map-1", "map-0", "map-1"]
