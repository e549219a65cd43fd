"""A controller at work against the fake API server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import pytest
from msgspec import structs

from corral.engine import NOTHING, Key, Plan, Reader, plan_object
from corral.kube.client import Client
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.kube.models.events_v1 import Event
from corral.kube.retry import ATTEMPTS_MAX
from corral.testing.apiserver import FakeApiServer, Fault
from corral.testing.operators import Operator, converged
from corral.testing.toys import GOODBYE, Toy, ToyReconciler, ToySnapshot, toy_controller

pytestmark = pytest.mark.looptime(noop_cycles=0)  # nothing outside the loop can happen: time may jump at once


def a_toy(name: str = "bear", **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": Toy.resource.api_version,
        "kind": "Toy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer()
    server.register(Toy)
    return server


@asynccontextmanager
async def running(server: FakeApiServer) -> AsyncIterator[Operator]:
    """Not a fixture: only the test itself runs in virtual time."""
    operator = Operator(server, toy_controller)
    operator.start()
    yield operator
    await operator.stop()
    server.stop_collecting()


def in_operation(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @wraps(test)
    async def wrapped(server: FakeApiServer, **given: Any) -> None:
        async with running(server):
            await test(server, **given)

    return wrapped


def greetings(server: FakeApiServer) -> dict[str, str]:
    return {m["metadata"]["name"]: m["data"]["greeting"] for m in server.all_of(ConfigMap) if "greeting" in m["data"]}


def condition(server: FakeApiServer, name: str = "bear", kind: str = "Ready") -> dict[str, Any]:
    toy = server.get(Toy, name, "default")
    assert toy is not None
    found: dict[str, Any] = next(c for c in toy["status"]["conditions"] if c["type"] == kind)
    return found


@in_operation
async def test_makes_what_is_desired_and_says_that_it_is_ready(server: FakeApiServer) -> None:
    server.add(a_toy(copies=2))
    await converged(server, toy_controller, within_s=60)

    assert greetings(server) == {"bear-0": "hello", "bear-1": "hello"}
    assert condition(server)["status"] == "True"
    assert condition(server, kind="Stalled")["status"] == "False"


@in_operation
async def test_follows_a_change_of_mind_and_prunes_what_is_no_longer_desired(server: FakeApiServer) -> None:
    server.add(a_toy(copies=3))
    await converged(server, toy_controller, within_s=60)
    server.edit(Toy, "bear", "default", merge={"spec": {"copies": 1, "greeting": "good day"}})
    await converged(server, toy_controller, within_s=60)

    assert greetings(server) == {"bear-0": "good day"}


@in_operation
async def test_puts_back_what_someone_else_changed_and_tells_it(server: FakeApiServer) -> None:
    server.add(a_toy())
    await converged(server, toy_controller, within_s=60)
    server.edit(ConfigMap, "bear-0", "default", merge={"data": {"greeting": "go away", "theirs": "stays"}})
    await converged(server, toy_controller, within_s=60)

    child = server.get(ConfigMap, "bear-0", "default")
    assert child is not None
    assert child["data"] == {"greeting": "hello", "theirs": "stays"}
    drifted = [event for event in server.all_of(Event) if event["reason"] == "Drifted"]
    assert [event["note"] for event in drifted] == [
        "ConfigMap default/bear-0: someone else changed data.greeting; reverted"
    ]


@in_operation
async def test_never_changes_a_child_that_is_made_once(server: FakeApiServer) -> None:
    server.add(a_toy())
    await converged(server, toy_controller, within_s=60)
    server.edit(Secret, "bear-token", "default", merge={"data": {"token": "bXk="}})
    await converged(server, toy_controller, within_s=60)

    secret = server.get(Secret, "bear-token", "default")
    assert secret is not None
    assert secret["data"] == {"token": "bXk="}


@in_operation
async def test_makes_a_deleted_child_again(server: FakeApiServer) -> None:
    server.add(a_toy())
    await converged(server, toy_controller, within_s=60)
    server.remove(ConfigMap, "bear-0", "default")
    await converged(server, toy_controller, within_s=60)

    assert greetings(server) == {"bear-0": "hello"}


@in_operation
async def test_reports_a_name_that_is_taken_and_leaves_the_foreign_object_alone(server: FakeApiServer) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bear-0"}, "data": {"greeting": "mine"}}
    before = server.add(theirs)
    server.add(a_toy())
    await asyncio.sleep(10)

    assert server.get(ConfigMap, "bear-0", "default") == before
    assert condition(server, kind="Stalled")["status"] == "True"
    assert condition(server)["reason"] == "NameTaken"
    assert "ConfigMap default/bear-0 exists" in condition(server)["message"]


@in_operation
async def test_waits_for_what_it_needs_and_goes_on_when_it_comes(server: FakeApiServer) -> None:
    server.add(a_toy(source="text"))
    await asyncio.sleep(5)
    waiting = condition(server)
    server.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "text"}, "data": {"text": " world"}})
    await converged(server, toy_controller, within_s=60)

    assert (waiting["status"], waiting["reason"]) == ("False", "SourceMissing")
    assert greetings(server) == {"bear-0": "hello world"}


@in_operation
async def test_a_deleted_object_goes_when_its_plan_lets_it_go(server: FakeApiServer) -> None:
    server.add(a_toy(copies=2))
    await converged(server, toy_controller, within_s=60)
    toy = server.get(Toy, "bear", "default")
    server.remove(Toy, "bear", "default")
    await asyncio.sleep(10)

    assert toy is not None
    assert toy["metadata"]["finalizers"] == [GOODBYE]
    assert server.get(Toy, "bear", "default") is None
    assert greetings(server) == {}
    assert "Goodbye" in {event["reason"] for event in server.all_of(Event)}


@pytest.mark.parametrize(
    "fault",
    [Fault.CONFLICT, Fault.THROTTLE, Fault.SERVER_ERROR, Fault.LOSE_ANSWER, Fault.REFUSE, Fault.HANG, Fault.GARBLE],
    ids=lambda fault: fault.name,
)
@in_operation
async def test_a_write_that_fails_once_is_decided_anew(server: FakeApiServer, fault: Fault) -> None:
    server.fail_next(fault, method="PATCH", resource="configmaps")
    server.fail_next(fault, method="POST", resource="secrets")
    server.add(a_toy(copies=2))
    await converged(server, toy_controller, within_s=120)

    assert greetings(server) == {"bear-0": "hello", "bear-1": "hello"}
    assert condition(server)["status"] == "True"


@in_operation
async def test_a_right_that_is_missing_stalls_and_is_tried_again_slowly(server: FakeApiServer) -> None:
    server.fail_next(Fault.FORBID, method="PATCH", resource="configmaps", times=2)  # again after the finalizer is seen
    server.add(a_toy())
    await asyncio.sleep(10)
    stalled = condition(server, kind="Stalled")
    await converged(server, toy_controller, within_s=400)

    assert (stalled["status"], stalled["reason"]) == ("True", "Forbidden")
    assert condition(server, kind="Stalled")["status"] == "False"


@in_operation
async def test_an_idle_controller_asks_for_nothing(server: FakeApiServer) -> None:
    server.add(a_toy())
    await converged(server, toy_controller, within_s=60)
    server.trace.clear()
    await asyncio.sleep(600)

    assert [line for line in server.trace if " operator " in line and "watch=true" not in line] == []


@in_operation
async def test_what_was_made_is_what_plan_would_make(server: FakeApiServer) -> None:
    client = Client(server.connect("person"))
    server.add(a_toy())
    await converged(server, toy_controller, within_s=60)
    planned = await plan_object(client, toy_controller(), Key("default", "bear"))

    assert planned.plan == NOTHING


@in_operation
async def test_a_status_whose_answer_was_lost_is_written_again_though_the_cache_does_not_know(
    server: FakeApiServer,
) -> None:
    """Found by a seed: the write is done, its answer is lost, and the watch is down while the next pass looks."""
    toys = Toy.resource.plural_and_group
    server.add(a_toy())
    await converged(server, toy_controller, within_s=60)
    server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource="configmaps")
    server.fail_next(Fault.SERVER_ERROR, method="PATCH", resource="configmaps", times=ATTEMPTS_MAX - 1)
    server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource=toys)
    server.fail_next(Fault.REFUSE, method="PATCH", resource=toys, times=ATTEMPTS_MAX - 1)
    server.edit(ConfigMap, "bear-0", "default", merge={"data": {"greeting": "go away"}})
    server.drop_watches()
    server.fail_next(Fault.REFUSE, resource=toys, watch=True, times=6)
    await converged(server, toy_controller, within_s=600, quiet_s=120)

    assert condition(server)["status"] == "True"


async def test_what_nobody_has_looked_at_comes_before_what_was_as_desired(server: FakeApiServer) -> None:
    """After a start, and in turn: none is followed to its end before the last new one is begun."""
    for name in ("a", "b", "c"):
        server.add({**a_toy(name), "status": {"observedGeneration": 1}})
    for name in ("x", "y", "z"):
        server.add(a_toy(name))
    begun: list[str] = []

    class Noting(ToyReconciler):
        def plan(self, snapshot: ToySnapshot, /) -> Plan:
            begun.append(snapshot.object.metadata.name)
            return super().plan(snapshot)

    operator = Operator(server, lambda: structs.replace(toy_controller(), reconciler=Noting(), workers=1))
    operator.start()
    await converged(server, toy_controller, within_s=60)
    await operator.stop()
    server.stop_collecting()
    assert begun[:3] == ["x", "y", "z"]
    assert {"a", "b", "c"} <= set(begun[3:])


class Noting(ToyReconciler):
    """Notes who was looked at. A look takes a second, so that others come meanwhile."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []

    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        await asyncio.sleep(1)
        self.looked_at.append(key.name)
        return await super().observe(key, read)


async def test_what_we_did_ourselves_is_looked_at_after_what_happened_to_others(server: FakeApiServer) -> None:
    noting = Noting()
    operator = Operator(server, lambda: structs.replace(toy_controller(), reconciler=noting, workers=1))
    operator.start()
    for name in ("ant", "bear", "cat"):
        server.add(a_toy(name))
    await asyncio.sleep(60)
    noting.looked_at.clear()

    for name in ("ant", "cat"):
        server.edit(Toy, name, "default", merge={"spec": {"greeting": "good day"}})
    await asyncio.sleep(1.5)  # what was done for ant has been seen, and cat is being looked at
    server.edit(ConfigMap, "bear-0", "default", merge={"data": {"greeting": "go away"}})
    await asyncio.sleep(10)

    assert noting.looked_at[:3] == ["ant", "cat", "bear"]
    assert sorted(noting.looked_at[3:]) == ["ant", "bear", "cat"]
    await operator.stop()
    server.stop_collecting()
