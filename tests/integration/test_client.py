"""The client against a real API server: what a fake could only pretend."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec
import pytest

from corral.kube import (
    AlreadyExists,
    Bookmark,
    Client,
    Conflict,
    Credentials,
    Forbidden,
    Gone,
    HttpTransport,
    Invalid,
    ObjectMeta,
    Precondition,
    Priority,
    Put,
    Resource,
    Selector,
    Unauthorized,
    Unreachable,
    Unstructured,
    load_credentials,
)
from corral.kube.credentials import Auth, Reread
from corral.kube.models.core_v1 import ConfigMap, Namespace, Node
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster

CONFIG_MAPS = ConfigMap.resource
MANAGER = "corral-test"


@pytest.fixture
def credentials(corral_cluster: Cluster) -> Credentials:
    return load_credentials(corral_cluster.kubeconfig)


@pytest.fixture
async def client(credentials: Credentials) -> AsyncIterator[Client]:
    async with Client(HttpTransport(credentials, component="test")) as client:
        yield client


def a_map(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


async def test_an_object_lives_from_create_to_delete(client: Client, corral_namespace: str) -> None:
    made = await client.create(a_map("life", corral_namespace, a="1"), field_manager=MANAGER)
    with pytest.raises(AlreadyExists, match=f"create ConfigMap {corral_namespace}/life"):
        await client.create(a_map("life", corral_namespace), field_manager=MANAGER)
    changed = await client.patch(
        ConfigMap,
        "life",
        corral_namespace,
        merge={"data": {"b": "2"}},
        precondition=Precondition.of(made),
        field_manager=MANAGER,
    )
    gone = await client.delete(ConfigMap, "life", corral_namespace, precondition=Precondition.of(changed))

    assert changed.data == {"a": "1", "b": "2"}
    assert gone is None or gone.metadata.uid == made.metadata.uid


@pytest.mark.parametrize("precondition", [Precondition("another-uid"), Precondition("", "1"), Precondition("x", "1")])
async def test_a_change_of_an_object_that_has_become_another_is_a_conflict(
    client: Client, corral_namespace: str, precondition: Precondition
) -> None:
    await client.create(a_map("guarded", corral_namespace, a="1"), field_manager=MANAGER)
    guarded = {"precondition": precondition, "field_manager": MANAGER}

    with pytest.raises(Conflict):
        await client.patch(ConfigMap, "guarded", corral_namespace, merge={"data": {"a": "2"}}, **guarded)  # type: ignore[arg-type]
    change = ({"op": "replace", "path": "/data/a", "value": "2"},)
    with pytest.raises(Conflict):
        await client.patch(ConfigMap, "guarded", corral_namespace, json=change, **guarded)  # type: ignore[arg-type]
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, "guarded", corral_namespace, precondition=precondition)
    assert (await client.get(ConfigMap, "guarded", corral_namespace)).data == {"a": "1"}


async def test_apply_of_the_same_changes_nothing_and_of_anothers_field_is_a_conflict(
    client: Client, corral_namespace: str
) -> None:
    wanted = a_map("applied", corral_namespace, a="1")
    first = await client.apply(wanted, field_manager=MANAGER, force=False)
    again = await client.apply(wanted, field_manager=MANAGER, force=False)
    with pytest.raises(Conflict, match=MANAGER):
        await client.apply(a_map("applied", corral_namespace, a="2"), field_manager="other", force=False)
    forced = await client.apply(a_map("applied", corral_namespace, a="2"), field_manager="other", force=True)

    assert again.metadata.resource_version == first.metadata.resource_version
    assert forced.data == {"a": "2"}


async def test_a_dry_run_answers_and_changes_nothing(client: Client, corral_namespace: str) -> None:
    made = await client.create(a_map("dry", corral_namespace, a="1"), field_manager=MANAGER, dry_run=True)

    assert made.metadata.uid
    assert (await client.list(ConfigMap, Selector(corral_namespace, fields="metadata.name=dry"))).items == ()


async def test_what_is_wrong_comes_by_field(client: Client, corral_namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(a_map("Not_A_Name", corral_namespace), field_manager=MANAGER)

    assert [cause.field for cause in caught.value.causes] == ["metadata.name"]


async def test_a_field_the_server_does_not_know_is_refused(client: Client, corral_namespace: str) -> None:
    content = {"metadata": {"name": "odd", "namespace": corral_namespace}, "dada": {}}

    with pytest.raises(Invalid, match='unknown field "dada"'):
        await client.create(CONFIG_MAPS.untyped()(content=content), field_manager=MANAGER)


async def test_an_untyped_object_keeps_what_the_server_said(client: Client, corral_namespace: str) -> None:
    await client.create(a_map("plain", corral_namespace, a="1"), field_manager=MANAGER)
    seen = await client.get(CONFIG_MAPS, "plain", corral_namespace)

    assert isinstance(seen, Unstructured)
    assert seen.get("data", "a") == "1"
    assert seen.get("metadata", "managedFields", 0, "manager") == MANAGER


async def test_a_list_in_pages_is_the_same_as_at_once(client: Client, corral_namespace: str) -> None:
    names = [f"page-{number}" for number in range(7)]
    await asyncio.gather(*(client.create(a_map(name, corral_namespace), field_manager=MANAGER) for name in names))
    where = Selector(corral_namespace, fields="metadata.name!=kube-root-ca.crt")

    in_pages = await client.list(ConfigMap, where, limit=2)
    assert [one.metadata.name for one in in_pages.items] == names
    assert in_pages.items == (await client.list(ConfigMap, where, limit=0)).items


async def test_a_watch_streams_the_list_then_every_change(client: Client, corral_namespace: str) -> None:
    where = Selector(corral_namespace, fields="metadata.name=watched")
    made = await client.create(a_map("watched", corral_namespace, a="1"), field_manager=MANAGER)
    async with asyncio.timeout(60), aclosing(client.watch(ConfigMap, where, initial_list=True)) as events:
        assert await anext(events) == Put(made, "ADDED")
        end = await anext(events)
        assert isinstance(end, Bookmark)
        assert end.initial_list_ends
        await client.delete(ConfigMap, "watched", corral_namespace, precondition=Precondition.of(made))
        gone = await anext(event async for event in events if isinstance(event, Gone))
    assert int(gone.object.metadata.resource_version) > int(made.metadata.resource_version)


async def test_the_largest_object_passes_both_ways_and_through_a_watch(client: Client, corral_namespace: str) -> None:
    large = a_map("large", corral_namespace, a="x" * 1_000_000)
    made = await client.create(large, field_manager=MANAGER)
    where = Selector(corral_namespace, fields="metadata.name=large")
    async with asyncio.timeout(60), aclosing(client.watch(ConfigMap, where, initial_list=True)) as events:
        assert await anext(events) == Put(made, "ADDED")


async def test_who_may_not_is_told_who_they_are(credentials: Credentials) -> None:
    nobody = (("Impersonate-User", "nobody"), ("Impersonate-Group", "system:authenticated"))
    auth = msgspec.structs.replace(await credentials.source.auth(), impersonation=nobody)
    limited = msgspec.structs.replace(credentials, source=Reread(lambda: auth))
    async with Client(HttpTransport(limited)) as client:
        with pytest.raises(Forbidden, match='User "nobody" cannot get resource "nodes"'):
            await client.get(Node, "node-1")


async def test_a_token_the_server_does_not_know_is_unauthorized(credentials: Credentials) -> None:
    unknown = msgspec.structs.replace(credentials, source=Reread(lambda: Auth(token="unknown")))
    async with Client(HttpTransport(unknown)) as client:
        with pytest.raises(Unauthorized):
            await client.get(Node, "node-1")


async def test_an_authority_that_did_not_sign_the_server_is_said(credentials: Credentials) -> None:
    server = msgspec.structs.replace(credentials.server, ca=b"")
    stranger = msgspec.structs.replace(credentials, server=server)
    async with Client(HttpTransport(stranger)) as client:
        with pytest.raises(Unreachable, match="certificate-authority does not know"):
            await client.get(Node, "node-1", deadline_s=2)


async def test_a_renewal_passes_two_hundred_writes_that_wait(client: Client, corral_namespace: str) -> None:
    names = [f"bulk-{number}" for number in range(200)]
    done: list[str] = []

    async def write(name: str) -> None:
        await client.create(a_map(name, corral_namespace), field_manager=MANAGER, priority=Priority.BULK)
        done.append(name)

    writes = [asyncio.create_task(write(name)) for name in names]
    await asyncio.sleep(0)
    await client.get(Namespace, corral_namespace, priority=Priority.LEASE)

    assert len(done) < 100
    await asyncio.gather(*writes)
    assert client.statistics().gate.under_way == 0


async def test_what_the_server_serves_can_be_asked(client: Client) -> None:
    version = await client.server_version()
    served = {one.resource for one in await client.resources()}

    assert version.number >= (1, 33)
    assert {ConfigMap.resource, Node.resource} <= served
    assert await client.served(ConfigMap.resource)
    assert not await client.served(Resource("", "v1", "Ship", "ships", namespaced=True))
    assert b'"openapi"' in await client.openapi((await client.openapi_paths())["api/v1"])
