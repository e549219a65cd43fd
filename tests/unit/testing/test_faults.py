"""Each fault, on demand: what the client sees of it, and what has happened on the server."""

import asyncio
from contextlib import aclosing

import pytest

from corral.kube.client import Bookmark, Client, Gone, Put
from corral.kube.errors import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Garbled,
    ServerError,
    ServerTimeout,
    Subject,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from corral.kube.selection import Precondition, Selector
from corral.kube.transport import Request, Response
from corral.kube.unstructured import untyped
from corral.testing.apiserver import Connection, Crashed, FakeApiServer, Fault, Faults
from corral.testing.contract import CONFIG_MAP, POD

pytestmark = pytest.mark.looptime

KIND = untyped(CONFIG_MAP)
PATH = "/api/v1/namespaces/default/configmaps"


def manifest(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def post(connection: Connection, name: str, *, deadline_s: float = 30.0) -> Response:
    """A create without the client's repeats."""
    body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}'.encode()
    subject = Subject("create", "ConfigMap", "default", name)
    return await connection.request(
        Request(
            subject=subject, method="POST", path=PATH, body=body, content_type="application/json", deadline_s=deadline_s
        )
    )


def stored(server: FakeApiServer) -> list[str]:
    return [each["metadata"]["name"] for each in server.all_of(CONFIG_MAP)]


async def test_a_refused_connection_does_nothing() -> None:
    server = FakeApiServer()
    server.fail_next(Fault.REFUSE)

    with pytest.raises(Unreachable, match="refused"):
        await post(server.connect(), "a")
    assert stored(server) == []


async def test_a_lost_answer_has_done_its_work() -> None:
    server = FakeApiServer()
    server.fail_next(Fault.LOSE_ANSWER)

    with pytest.raises(Unreachable, match="reset"):
        await post(server.connect(), "a")
    assert stored(server) == ["a"]


async def test_a_hanging_answer_has_done_its_work_and_ends_at_the_deadline() -> None:
    server = FakeApiServer()
    server.fail_next(Fault.HANG)
    began_s = server.now_s()

    with pytest.raises(Unreachable, match="no answer within 5 s"):
        await post(server.connect(), "a", deadline_s=5.0)
    assert stored(server) == ["a"]
    assert server.now_s() - began_s == 5.0


async def test_a_slow_answer_comes_late() -> None:
    server = FakeApiServer(faults=Faults(slow_s_max=3.0))
    server.fail_next(Fault.SLOW)

    assert (await post(server.connect(), "a")).status == 201
    assert server.now_s() == 3.0


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.CONFLICT, Conflict),
        (Fault.THROTTLE, TooManyRequests),
        (Fault.SERVER_ERROR, ServerError),
        (Fault.UNAVAILABLE, ServerError),
        (Fault.TIMEOUT, ServerTimeout),
        (Fault.UNAUTHORIZED, Unauthorized),
        (Fault.FORBID, Forbidden),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_a_refusal_is_the_error_it_says_and_does_nothing(fault: Fault, error: type[ApiError]) -> None:
    server = FakeApiServer()
    server.add(manifest("a", k="v"))
    server.fail_next(fault, method="PATCH", times=100)
    client = Client(server.connect())

    with pytest.raises(error):
        await client.patch(
            KIND, "a", "default", merge={"data": {"k": "w"}}, precondition=Precondition(), field_manager="m"
        )
    found = server.get(CONFIG_MAP, "a", "default")
    assert found is not None
    assert found["data"] == {"k": "v"}


async def test_too_many_requests_says_when_to_return() -> None:
    server = FakeApiServer(faults=Faults(retry_after_s=7))
    server.fail_next(Fault.THROTTLE)

    response = await post(server.connect(), "a")
    assert (response.status, response.headers["retry-after"]) == (429, "7")


async def test_a_garbled_answer_is_not_json() -> None:
    server = FakeApiServer()
    server.add(manifest("a"))
    server.fail_next(Fault.GARBLE, times=100)

    with pytest.raises(Garbled):
        await Client(server.connect()).get(KIND, "a", "default")


async def test_a_fault_strikes_only_what_it_is_for() -> None:
    server = FakeApiServer()
    server.fail_next(Fault.FORBID, method="POST", resource="configmaps", client="them", times=2)
    us, them = server.connect("us"), server.connect("them")

    answers = [(await post(who, name)).status for who, name in ((us, "a"), (them, "b"), (them, "c"), (them, "d"))]
    assert answers == [201, 403, 403, 201]


@pytest.mark.parametrize("fault", [Fault.EXPIRE, Fault.EXPIRE_IN_STREAM], ids=lambda fault: fault.name)
async def test_a_watch_can_be_told_that_its_version_is_too_old(fault: Fault) -> None:
    server = FakeApiServer()
    server.fail_next(fault, watch=True)

    with pytest.raises(Expired):
        await next_event(Client(server.connect()), "2")


async def next_event(client: Client, version: str) -> object:
    watch = client.watch(KIND, Selector("default"), resource_version=version)
    async with aclosing(watch):
        return await anext(watch)


async def test_after_a_compaction_old_versions_are_expired_and_the_newest_is_not() -> None:
    server = FakeApiServer()
    old = server.add(manifest("a"))["metadata"]["resourceVersion"]
    new = server.add(manifest("b"))["metadata"]["resourceVersion"]
    server.compact()
    client = Client(server.connect())

    with pytest.raises(Expired):
        await next_event(client, old)
    waiting = asyncio.create_task(next_event(client, new))
    await asyncio.sleep(1)
    server.add(manifest("c"))
    assert isinstance(await waiting, Put)


async def test_after_a_compaction_the_next_page_is_expired() -> None:
    server = FakeApiServer()
    for name in "abc":
        server.add(manifest(name))
    client = Client(server.connect())
    page = await client.list_page(KIND, limit=1)
    server.add(manifest("d"))
    server.compact()

    with pytest.raises(Expired):
        await client.list_page(KIND, limit=1, continue_token=page.continue_token)


async def test_a_dropped_watch_breaks_off() -> None:
    server = FakeApiServer()
    watching = asyncio.create_task(next_event(Client(server.connect()), "2"))
    await asyncio.sleep(1)
    server.drop_watches()

    with pytest.raises(Unreachable, match="reset"):
        await watching


async def test_a_stalled_watch_is_silent_until_the_client_gives_up() -> None:
    server = FakeApiServer()
    watching = asyncio.create_task(next_event(Client(server.connect()), "2"))
    await asyncio.sleep(1)
    server.stall_watches()
    server.add(manifest("a"))

    with pytest.raises(Unreachable, match="silent"):
        await watching
    assert server.now_s() >= 60.0


async def test_a_watch_from_a_version_that_is_yet_to_come_is_silent() -> None:
    server = FakeApiServer()

    with pytest.raises(Unreachable, match="silent"):
        await next_event(Client(server.connect()), "1000")


async def test_a_restart_breaks_watches_and_refuses_for_a_while() -> None:
    server = FakeApiServer()
    connection = server.connect()
    watching = asyncio.create_task(next_event(Client(connection), "2"))
    await asyncio.sleep(1)
    server.restart(down_s=5.0)

    with pytest.raises(Unreachable):
        await watching
    with pytest.raises(Unreachable):
        await post(connection, "a")
    await asyncio.sleep(5)
    assert (await post(connection, "a")).status == 201


async def test_a_paused_server_answers_when_it_goes_on() -> None:
    server = FakeApiServer()
    server.pause()
    asking = asyncio.create_task(post(server.connect(), "a"))
    await asyncio.sleep(10)
    assert not asking.done()

    server.resume()
    assert (await asking).status == 201


async def test_a_client_that_is_cut_off_hears_nothing_and_others_do() -> None:
    server = FakeApiServer()
    us, them = server.connect("us"), server.connect("them")
    us.cut()

    with pytest.raises(Unreachable):
        await post(us, "a")
    assert (await post(them, "a")).status == 201
    us.mend()
    assert (await post(us, "b")).status == 201


async def test_a_restored_backup_gives_versions_out_again() -> None:
    server = FakeApiServer()
    first = server.add(manifest("a"))
    backup = server.snapshot()
    lost = server.add(manifest("b"))
    server.restore(backup)
    again = server.add(manifest("c"))

    assert stored(server) == ["a", "c"]
    assert again["metadata"]["resourceVersion"] == lost["metadata"]["resourceVersion"]
    assert server.get(CONFIG_MAP, "a", "default") == first


async def post_all(connection: Connection, names: str) -> None:
    for name in names:
        await post(connection, name)


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_client_dies_after_a_given_write_and_stays_dead(writes: int) -> None:
    server = FakeApiServer()
    connection = server.connect("operator")
    connection.crash_after_writes(writes)

    with pytest.raises(Crashed):
        await post_all(connection, "abcd")
    assert len(stored(server)) == writes
    with pytest.raises(Crashed):
        await post(connection, "z")
    assert (await post(server.connect("successor"), "z")).status == 201


async def test_a_crash_also_ends_the_watches_of_the_client() -> None:
    server = FakeApiServer()
    connection = server.connect("operator")
    watching = asyncio.create_task(next_event(Client(connection), "2"))
    await asyncio.sleep(1)
    connection.crash_after_writes(1)

    with pytest.raises(Crashed):
        await post(connection, "a")
    with pytest.raises(Crashed):
        await watching


async def test_stopped_faults_are_over() -> None:
    server = FakeApiServer(faults=Faults(refuse_p=1.0))
    server.fail_next(Fault.FORBID)
    server.restart(down_s=100.0)
    server.pause()
    server.stop_faults()

    assert (await post(server.connect(), "a")).status == 201


async def test_torn_and_repeated_events_still_say_everything() -> None:
    server = FakeApiServer(seed=3, faults=Faults(tear_p=1.0, repeat_p=0.5, delay_p=0.5))
    client = Client(server.connect())
    for index in range(20):
        server.add(manifest(f"a{index:02}"))
    watch = client.watch(KIND, Selector("default"))
    seen: list[str] = []

    async with aclosing(watch):
        async for event in watch:
            assert isinstance(event, Put)
            seen.append(event.object.metadata.name)
            if event.object.metadata.name == "a19":
                break
    assert sorted(set(seen)) == [f"a{index:02}" for index in range(20)]
    assert len(seen) > 20


async def test_bookmarks_come_every_minute_and_follow_other_kinds() -> None:
    server = FakeApiServer()
    watching = asyncio.create_task(next_event(Client(server.connect()), "2"))
    await asyncio.sleep(1)
    secret = server.add({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})

    bookmark = await watching
    assert isinstance(bookmark, Bookmark)
    assert bookmark.resource_version == secret["metadata"]["resourceVersion"]
    assert server.now_s() == 60.0


async def test_a_pretended_kubelet_gives_pods_their_grace() -> None:
    server = FakeApiServer()
    server.extend(POD, grace=lambda pod, asked_s: 30 if asked_s is None else asked_s)
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = server.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    client = Client(server.connect())

    marked = await client.delete(untyped(POD), "a", "default", precondition=Precondition(uid=pod["metadata"]["uid"]))
    assert marked is not None
    assert marked.metadata.deletion_grace_period_seconds == 30
    server.remove(POD, "a", "default", grace_s=0)
    watch = client.watch(untyped(POD), Selector("default"), resource_version=marked.metadata.resource_version)
    async with aclosing(watch):
        assert isinstance(await anext(watch), Gone)


async def test_an_open_watch_outlives_a_compaction() -> None:
    server = FakeApiServer()
    watching = asyncio.create_task(next_event(Client(server.connect()), "2"))
    await asyncio.sleep(1)
    server.add(manifest("a"))
    server.compact()

    assert isinstance(await watching, Put)
