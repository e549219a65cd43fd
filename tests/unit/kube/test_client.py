"""The verbs: what they send, what they make of the answer."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec
import pytest

from corral.kube import (
    AlreadyExists,
    Bookmark,
    Client,
    Conflict,
    Expired,
    Garbled,
    Invalid,
    KubeError,
    Precondition,
    Priority,
    Put,
    Refused,
    Selector,
    TooManyRequests,
    Unreachable,
    Unstructured,
)
from corral.kube.errors import Subject
from corral.kube.meta import Resource
from tests.unit.kube.memory import (
    DEPLOYMENTS,
    Answer,
    MemoryStream,
    MemoryTransport,
    Node,
    Pod,
    a_pod,
    answer,
    refusal,
)

POD = {"metadata": {"name": "web", "namespace": "lab", "uid": "u1", "resourceVersion": "5"}}
SEEN = Precondition("u1", "5")


def client(*answers: Answer, stream: MemoryStream | None = None) -> tuple[Client, MemoryTransport]:
    transport = MemoryTransport(*(answers or (answer(POD),)), stream=stream)
    return Client(transport), transport


def body(transport: MemoryTransport) -> object:
    return msgspec.json.decode(transport.requests[-1].body)


async def test_get_asks_for_one_object_and_returns_its_class() -> None:
    it, transport = client()
    pod = await it.get(Pod, "web", "lab")

    assert pod == a_pod(version="5", uid="u1")
    assert (transport.requests[0].method, transport.requests[0].path) == ("GET", "/api/v1/namespaces/lab/pods/web")


async def test_a_resource_stands_for_a_kind_we_have_no_class_for() -> None:
    it, transport = client(answer({"metadata": {"name": "web"}, "spec": {"replicas": 2}}))
    deployment = await it.get(DEPLOYMENTS, "web", "lab")

    assert isinstance(deployment, Unstructured)
    assert deployment.get("spec", "replicas") == 2
    assert transport.requests[0].path == "/apis/apps/v1/namespaces/lab/deployments/web"


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("a/b", "lab"),
        ("..", "lab"),
        (".", "lab"),
        ("a%2fb", "lab"),
        ("a\nb", "lab"),
        ("web", "../x"),
        ("web", ""),
        ("", "lab"),
    ],
)
async def test_a_name_that_could_lead_elsewhere_is_never_sent(name: str, namespace: str) -> None:
    it, transport = client()

    with pytest.raises(Invalid):
        await it.delete(Pod, name, namespace, precondition=SEEN)
    assert transport.requests == []


async def test_an_odd_name_stays_one_segment_of_the_path() -> None:
    it, transport = client()
    await it.get(Node, "system:node?x=1&y#z")

    assert transport.requests[0].path == "/api/v1/nodes/system:node%3Fx%3D1%26y%23z"


async def test_a_lists_pages_are_joined() -> None:
    first = answer({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [POD]})
    second = answer({"metadata": {"resourceVersion": "9"}, "items": [POD]})
    it, transport = client(first, second)
    page = await it.list(Pod, Selector("lab", labels="app=web"), limit=1)

    assert (len(page.items), page.resource_version, page.continue_token) == (2, "9", "")
    assert transport.requests[0].query == (("labelSelector", "app=web"), ("limit", "1"))
    assert ("continue", "more") in transport.requests[1].query


async def test_pages_that_expire_under_way_are_asked_for_at_once() -> None:
    first = answer({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [POD]})
    whole = answer({"metadata": {"resourceVersion": "12"}, "items": [POD, POD, POD]})
    it, transport = client(first, refusal(410, "Expired"), whole)
    page = await it.list(Pod, limit=1)

    assert (len(page.items), page.resource_version) == (3, "12")
    assert transport.requests[2].query == ()


async def test_create_sends_the_whole_object_once() -> None:
    it, transport = client(Unreachable(Subject("create", "Pod"), "lost", sent=True), answer(POD))

    with pytest.raises(Unreachable):
        await it.create(a_pod(), field_manager="corral")
    assert len(transport.requests) == 1
    assert body(transport) == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "lab"}}
    assert transport.requests[0].path == "/api/v1/namespaces/lab/pods"


async def test_make_asks_for_the_metadata_alone_and_takes_an_answer_that_has_more() -> None:
    it, transport = client(answer(POD))

    told = await it.make(a_pod(), field_manager="corral")
    assert (told.name, told.namespace) == ("web", "lab")
    assert transport.requests[0].accept.startswith("application/json;as=PartialObjectMetadata;")
    assert transport.requests[0].method == "POST"


async def test_create_over_another_is_already_exists() -> None:
    it, _ = client(refusal(409, "AlreadyExists", 'pods "web" already exists'))

    with pytest.raises(AlreadyExists, match="create Pod lab/web"):
        await it.create(a_pod(), field_manager="corral")


@pytest.mark.parametrize(("force", "said"), [(True, "true"), (False, "false")])
async def test_apply_names_its_manager_and_says_whether_it_takes_fields_over(force: bool, said: str) -> None:
    it, transport = client()
    await it.apply(a_pod(), field_manager="corral", force=force, subresource="status", dry_run=True)
    request = transport.requests[0]

    assert (request.method, request.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert request.path.endswith("/pods/web/status")
    assert {("fieldManager", "corral"), ("force", said), ("dryRun", "All")} <= set(request.query)


async def test_a_merge_patch_carries_its_precondition() -> None:
    it, transport = client()
    change = {"metadata": {"labels": {"a": None}}}
    await it.patch(Pod, "web", "lab", merge=change, precondition=SEEN, field_manager="corral")

    assert body(transport) == {"metadata": {"labels": {"a": None}, "uid": "u1", "resourceVersion": "5"}}
    assert change == {"metadata": {"labels": {"a": None}}}


async def test_a_json_patch_carries_its_precondition_first() -> None:
    it, transport = client()
    change = ({"op": "remove", "path": "/spec/x"},)
    await it.patch(Pod, "web", "lab", json=change, precondition=Precondition("", "5"), field_manager="corral")

    assert body(transport) == [{"op": "replace", "path": "/metadata/resourceVersion", "value": "5"}, *change]


async def test_a_patch_of_an_object_that_was_replaced_is_a_conflict() -> None:
    """The server calls it an invalid change of the uid."""
    cause = {"field": "metadata.uid", "message": "immutable", "reason": "FieldValueInvalid"}
    it, _ = client(refusal(422, "Invalid", details={"causes": [cause]}))

    with pytest.raises(Conflict):
        await it.patch(Pod, "web", "lab", merge={}, precondition=SEEN, field_manager="corral")


async def test_a_patch_is_of_one_form() -> None:
    it, _ = client()

    with pytest.raises(TypeError, match="exactly one"):
        await it.patch(Pod, "web", "lab", precondition=SEEN, field_manager="corral")


async def test_delete_carries_its_precondition_and_returns_the_object_as_it_was() -> None:
    it, transport = client()
    deleted = await it.delete(Pod, "web", "lab", precondition=SEEN, propagation="Foreground", grace_period_s=0)

    assert deleted == a_pod(version="5", uid="u1")
    assert body(transport) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u1", "resourceVersion": "5"},
        "gracePeriodSeconds": 0,
    }


async def test_delete_answered_by_a_status_is_none() -> None:
    it, _ = client(answer({"kind": "Status", "status": "Success"}))

    assert await it.delete(Pod, "web", "lab", precondition=SEEN) is None


@pytest.mark.looptime
async def test_a_guarded_delete_is_repeated_an_unguarded_one_is_not() -> None:
    lost = Unreachable(Subject("delete", "Pod"), "lost", sent=True)
    it, _ = client(lost, answer(POD))
    assert await it.delete(Pod, "web", "lab", precondition=SEEN) is not None

    it, _ = client(lost, answer(POD))
    with pytest.raises(Unreachable):
        await it.delete(Pod, "web", "lab", precondition=Precondition())


async def test_an_eviction_against_a_budget_is_told_at_once() -> None:
    budget = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}], "retryAfterSeconds": 10}
    it, transport = client(refusal(429, "TooManyRequests", details=budget))

    with pytest.raises(TooManyRequests):
        await it.evict("web", "lab", precondition=SEEN)
    assert len(transport.requests) == 1
    assert transport.requests[0].path.endswith("/pods/web/eviction")


async def test_scale_is_read_and_set_on_any_kind() -> None:
    scale = {"metadata": {"name": "web", "resourceVersion": "5"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    it, transport = client(answer(scale))
    was = await it.get_scale(DEPLOYMENTS, "web", "lab")
    await it.set_scale(DEPLOYMENTS, "web", "lab", replicas=4, precondition=Precondition.of(was), field_manager="corral")

    assert (was.spec.replicas, was.status.replicas) == (3, 2)
    assert transport.requests[1].path == "/apis/apps/v1/namespaces/lab/deployments/web/scale"
    assert body(transport) == {"spec": {"replicas": 4}, "metadata": {"resourceVersion": "5"}}


async def test_a_fenced_client_writes_nothing_when_the_fence_says_no_and_still_reads() -> None:
    it, transport = client()
    fenced = it.fenced(lambda: False)
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: fenced.create(a_pod(), field_manager="m"),
        lambda: fenced.apply(a_pod(), field_manager="m", force=True),
        lambda: fenced.patch(Pod, "web", "lab", merge={}, precondition=SEEN, field_manager="m"),
        lambda: fenced.delete(Pod, "web", "lab", precondition=SEEN),
        lambda: fenced.evict("web", "lab", precondition=SEEN),
        lambda: fenced.set_scale(DEPLOYMENTS, "web", "lab", replicas=1, precondition=SEEN, field_manager="m"),
        lambda: fenced.exec("web", "lab", ("true",)),
    ]
    for write in writes:
        with pytest.raises(Refused):
            await write()

    assert transport.requests == []
    assert (await fenced.get(Pod, "web", "lab")).metadata.name == "web"


async def test_a_lease_renewal_goes_before_others_who_wait() -> None:
    it, transport = client()
    await it.get(Node, "n", priority=Priority.LEASE)

    assert transport.requests[0].priority is Priority.LEASE


# -- watch --

ADDED = b'{"type":"ADDED","object":{"metadata":{"name":"web","namespace":"lab"}}}\n'
END = (
    b'{"type":"BOOKMARK","object":'
    b'{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


async def events_of(stream: MemoryStream) -> list[object]:
    it, _ = client(stream=stream)
    return [event async for event in it.watch(Pod, Selector("lab"), resource_version="1")]


async def test_a_watch_yields_events_until_the_server_closes_it() -> None:
    assert await events_of(MemoryStream((ADDED + END,))) == [
        Put(a_pod(), "ADDED"),
        Bookmark("9", initial_list_ends=True),
    ]


async def test_events_torn_into_single_bytes_come_whole() -> None:
    torn = tuple(bytes([byte]) for byte in ADDED + ADDED)

    assert await events_of(MemoryStream(torn)) == [Put(a_pod(), "ADDED")] * 2


async def test_a_stream_that_ends_within_an_event_is_unreachable_and_not_silence() -> None:
    with pytest.raises(Unreachable, match="within an event"):
        await events_of(MemoryStream((ADDED, ADDED[:30])))


async def test_a_watch_asks_for_bookmarks_and_for_an_initial_list_only_when_told() -> None:
    it, transport = client(stream=MemoryStream((END,)))
    async for _ in it.watch(Pod, initial_list=True):
        pass
    query = dict(transport.requests[0].query)

    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (MemoryStream((ADDED, b'{"type":"ERROR","object":{"code":410,"message":"old"}}\n')), Expired),
        (MemoryStream((b'{"code":410,"message":"old"}',), status=410), Expired),
        (MemoryStream((b"<html>\n",)), Garbled),
        (MemoryStream((b'{"type":"NEW","object":{}}\n',)), Garbled),
    ],
)
async def test_what_a_watch_cannot_go_on_from_is_a_typed_error(stream: MemoryStream, error: type[KubeError]) -> None:
    with pytest.raises(error):
        await events_of(stream)
    assert stream.closed


async def test_a_watch_left_early_closes_its_connection() -> None:
    stream = MemoryStream((ADDED, ADDED))
    it, _ = client(stream=stream)
    async with aclosing(it.watch(Pod)) as events:
        async for _ in events:
            break

    assert stream.closed


async def test_a_cancelled_watch_closes_its_connection() -> None:
    stream = MemoryStream(tuple(ADDED for _ in range(10_000)))
    it, _ = client(stream=stream)

    async def follow() -> None:
        async with aclosing(it.watch(Pod)) as events:
            async for _ in events:
                pass

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert stream.closed


MACHINES = Resource("machines.example", "v1", "Machine", "machines", namespaced=True)


async def test_an_action_is_put_below_its_object_and_never_sent_again_once_it_may_have_arrived() -> None:
    it, transport = client(answer(b"", status=202))
    await it.act(MACHINES, "vm", "lab", action="stop", options={"gracePeriod": 0})
    await it.act(MACHINES, "vm", "lab", action="start")

    paths = [(request.method, request.path) for request in transport.requests]
    root = "/apis/machines.example/v1/namespaces/lab/machines/vm"
    assert paths == [("PUT", f"{root}/stop"), ("PUT", f"{root}/start")]
    assert [request.body for request in transport.requests] == [b'{"gracePeriod":0}', b"{}"]

    lost, silent = client(Unreachable(Subject("start", "Machine"), "connection reset"), answer(b""))
    with pytest.raises(Unreachable):
        await lost.act(MACHINES, "vm", "lab", action="start")
    assert len(silent.requests) == 1
