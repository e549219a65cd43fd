"""What people ask: plan, dry run, render, explain, status."""

import asyncio
from typing import Any

import pytest

from corral.engine import Apply, Create, Delete, Key, Plan, dry_run, explain, plan_object, render, target
from corral.engine.questions import conditions_of, shown
from corral.kube.client import Client
from corral.kube.errors import NotFound
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from corral.testing.toys import GOODBYE, Toy, ToySpec, toy_controller

pytestmark = pytest.mark.looptime(noop_cycles=0)

BEAR = Key("default", "bear")


def a_manifest(**spec: Any) -> Toy:
    return Toy(metadata=ObjectMeta(name="bear", namespace="default"), spec=ToySpec(**spec))


def a_toy(**spec: object) -> dict[str, Any]:
    meta = {"name": "bear", "finalizers": [GOODBYE]}
    return {"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": meta, "spec": spec}


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer()
    server.register(Toy)
    return server


@pytest.fixture
def client(server: FakeApiServer) -> Client:
    return Client(server.connect("person"))


async def worked(server: FakeApiServer) -> None:
    operator = Operator(server, toy_controller)
    operator.start()
    await converged(server, toy_controller, within_s=60)
    await operator.stop()


async def test_plan_says_what_would_be_made(server: FakeApiServer, client: Client) -> None:
    server.add(a_toy(copies=1))
    planned = await plan_object(client, toy_controller(), BEAR)

    assert [type(action) for action in planned.plan.actions] == [Apply, Create]
    assert server.all_of(ConfigMap) == []


async def test_plan_of_what_does_not_exist_has_no_snapshot(client: Client) -> None:
    planned = await plan_object(client, toy_controller(), BEAR)

    assert (planned.snapshot, planned.plan.is_empty) == (None, True)


async def test_plan_of_a_manifest_is_a_plan_over_the_cluster_as_if_it_were_applied(
    server: FakeApiServer, client: Client
) -> None:
    server.add(a_toy(copies=2))
    await worked(server)
    version = server.storage.version
    planned = await plan_object(client, toy_controller(), a_manifest(copies=1, greeting="bye"))

    first, second = planned.plan.actions
    assert isinstance(first, Apply)
    assert first.message == "desired state changed: data.greeting"
    assert isinstance(second, Delete)
    assert second.target.name == "bear-1"
    assert server.storage.version == version


async def test_plan_of_a_new_manifest_begins_with_its_finalizer_and_goes_on_with_the_rest(client: Client) -> None:
    planned = await plan_object(client, toy_controller(), a_manifest())

    assert [action.reason for action in planned.plan.actions] == ["FinalizerNeeded", "Missing", "Missing"]


async def test_plan_of_an_unchanged_manifest_is_empty(server: FakeApiServer, client: Client) -> None:
    server.add(a_toy(copies=2))
    await worked(server)
    planned = await plan_object(client, toy_controller(), a_manifest(copies=2))

    assert planned.plan.is_empty


async def test_an_index_sees_the_manifest_too(server: FakeApiServer, client: Client) -> None:
    server.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "text"}, "data": {"text": "!"}})
    server.add(a_toy(copies=1))
    planned = await plan_object(client, toy_controller(), a_manifest(copies=1, source="text"))

    (made, _secret) = planned.plan.actions
    assert isinstance(made, Apply)
    assert isinstance(made.object, ConfigMap)
    assert made.object.data == {"greeting": "hello!"}


async def test_a_dry_run_shows_each_change_and_changes_nothing(server: FakeApiServer, client: Client) -> None:
    server.add(a_toy(copies=2))
    await worked(server)
    version = server.storage.version
    planned = await plan_object(client, toy_controller(), a_manifest(copies=1, greeting="bye"))
    changed, deleted = await dry_run(client, toy_controller(), planned.plan)

    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before["data"], changed.after["data"]) == ({"greeting": "hello"}, {"greeting": "bye"})
    assert deleted.after is None
    assert changed.changes_something
    assert deleted.changes_something
    assert server.storage.version == version


async def test_a_dry_run_tells_what_the_server_would_refuse(server: FakeApiServer, client: Client) -> None:
    server.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gone"}})
    seen = await client.get(ConfigMap, "gone", "default")
    server.edit(ConfigMap, "gone", "default", merge={"data": {"k": "v"}})
    plan = Plan(actions=(Delete(target=target(seen), reason="R", message="m"),))
    (change,) = await dry_run(client, toy_controller(), plan)

    assert "delete ConfigMap default/gone" in change.refused


def test_a_diff_shows_that_a_secret_changes_and_never_what_it_is() -> None:
    one = shown(Secret(metadata=ObjectMeta(name="s"), data={"k": b"hunter2"}))
    other = shown(Secret(metadata=ObjectMeta(name="s"), data={"k": b"hunter3"}))

    assert one != other
    assert "aHVudGVyMg" not in str(one)


async def test_render_needs_no_cluster() -> None:
    objects = await render(toy_controller(), a_manifest(copies=2))

    assert [obj.metadata.name for obj in objects] == ["bear-0", "bear-1", "bear-token"]


async def test_explain_has_conditions_the_plan_and_the_last_events(server: FakeApiServer, client: Client) -> None:
    server.add(a_toy(copies=1, source="missing"))
    operator = Operator(server, toy_controller)
    operator.start()
    await asyncio.sleep(1200)  # long enough to be told that nothing moves
    await operator.stop()
    explained = await explain(client, toy_controller(), BEAR)

    assert {c.type: c.status for c in explained.conditions}["Ready"] == "False"
    assert [wait.reason for wait in explained.plan.waits] == ["SourceMissing"]
    assert [(event.reason, event.count) for event in explained.events] == [("NoProgress", 1)]


async def test_explain_of_what_does_not_exist_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        await explain(client, toy_controller(), BEAR)


async def test_status_lists_all_objects_of_the_kind(server: FakeApiServer, client: Client) -> None:
    server.add(a_toy())

    assert [obj.metadata.name for obj in await conditions_of(client, toy_controller())] == ["bear"]
    assert await conditions_of(client, toy_controller(), "elsewhere") == ()
