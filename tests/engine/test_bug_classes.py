"""The classes of concurrency bugs that the engine removes by construction: each test fails without its mechanism.

Each is tried with the mechanism, and with it switched off in the harness, where the bug must appear. (For mappings
inside cached objects, which only the type checker protects, test_mutation.py has the detector.)
"""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import msgspec
import pytest

from corral.engine import (
    Barrier,
    Controller,
    Create,
    Delete,
    Key,
    Outcome,
    Plan,
    Reader,
    RemoveFinalizer,
    controller_reference,
    target,
)
from corral.engine.act import act
from corral.engine.actor import Actor
from corral.kube.client import Client
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.kube.selection import Selector
from corral.kube.transport import Request, Response, Socket, Stream, Transport
from corral.testing.apiserver import FakeApiServer, Faults
from corral.testing.operators import Operator
from corral.testing.toys import GOODBYE, Toy, ToyReconciler, ToySnapshot

pytestmark = pytest.mark.looptime(noop_cycles=0)


# --- stale decision: a pass runs before the caches show what the last one did


class CountingReconciler(ToyReconciler):
    """Makes nameless copies until there are enough: the one thing that a stale view turns into too many."""

    def plan(self, snapshot: ToySnapshot, /) -> Plan:
        toy, copies = snapshot.object, snapshot.copies
        surplus = copies[toy.spec.copies :]
        if surplus:
            return Plan(actions=tuple(Delete(target=target(c), reason="Surplus", message="too many") for c in surplus))
        meta = ObjectMeta(
            generate_name="copy-",
            namespace=toy.metadata.namespace,
            owner_references=(controller_reference(toy),),
        )
        missing = toy.spec.copies - len(copies)
        create = Create(object=ConfigMap(metadata=meta), reason="Missing", message="one more")
        return Plan(actions=(create,) * missing)

    def report(self, snapshot: ToySnapshot, outcome: Outcome, /) -> None:  # type: ignore[override]
        return None


def counting_controller() -> Controller[Toy, ToySnapshot]:
    return Controller.for_(Toy, CountingReconciler()).owns(ConfigMap).owns(Secret)


class NoBarrier(Barrier[Key]):
    """The mechanism switched off: nothing is ever awaited."""

    def wrote(self, key: Key, obj: Object) -> None:
        pass


async def copies_made(barrier: type[Barrier[Key]]) -> int:
    server = FakeApiServer(faults=Faults(delay_p=1.0, delay_s_max=1.0))
    server.register(Toy)
    operator = Operator(server, counting_controller, barrier=barrier)
    operator.start()
    await asyncio.sleep(5)
    toy = {"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}, "spec": {"copies": 3}}
    server.add(toy)
    await asyncio.sleep(30)
    await operator.stop()
    server.stop_collecting()
    return sum(" 201 " in line and "configmaps" in line for line in server.trace)


async def test_a_pass_waits_until_the_caches_show_the_last_one() -> None:
    assert await copies_made(Barrier) == 3


async def test_without_the_barrier_a_stale_view_makes_too_many() -> None:
    assert await copies_made(NoBarrier) > 3


class OutOfSight(ToyReconciler):
    """Makes one copy that its own cache leaves out: only a bookmark, some day, says that the cache is past it."""

    def __init__(self) -> None:
        super().__init__()
        self._made: set[str] = set()

    def plan(self, snapshot: ToySnapshot, /) -> Plan:
        name = snapshot.object.metadata.name
        if name in self._made:
            return Plan()
        self._made.add(name)
        copy = ConfigMap(metadata=ObjectMeta(name=name, namespace=snapshot.object.metadata.namespace))
        return Plan(actions=(Create(object=copy, reason="Missing", message="one"),))

    def report(self, snapshot: ToySnapshot, outcome: Outcome, /) -> None:  # type: ignore[override]
        return None


async def test_a_key_that_waits_for_the_caches_keeps_no_worker_from_the_others() -> None:
    server = FakeApiServer()
    server.register(Toy)
    unlike = Selector(labels="like=another")
    operator = Operator(
        server, lambda: Controller.for_(Toy, OutOfSight(), workers=1).owns(ConfigMap, where=unlike).owns(Secret)
    )
    operator.start()
    await asyncio.sleep(5)
    for name in ("first", "second", "third"):
        server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": name}})
        await asyncio.sleep(1)
    assert [made["metadata"]["name"] for made in server.all_of(ConfigMap)] == ["first", "second", "third"]
    await operator.stop()
    server.stop_collecting()


@pytest.mark.parametrize("seed", range(8))
async def test_a_change_is_looked_at_once_by_its_event_and_not_again_by_the_barrier(seed: int) -> None:
    looks: list[str] = []

    class Looking(CountingReconciler):
        async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
            looks.append(key.name)
            return await super().observe(key, read)

    server = FakeApiServer(seed=seed, faults=Faults(delay_p=1.0, delay_s_max=1.0))
    server.register(Toy)
    operator = Operator(server, lambda: Controller.for_(Toy, Looking()).owns(ConfigMap).owns(Secret))
    operator.start()
    await asyncio.sleep(5)
    server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}, "spec": {"copies": 1}})
    await asyncio.sleep(10)
    assert looks == ["bear", "bear"]  # to make the copy, and to see that it is there
    await operator.stop()
    server.stop_collecting()


# --- lost update: two writers of one object


class Unguarded:
    """The mechanism switched off: a transport that takes the preconditions out of every patch."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH":
            body: dict[str, Any] = msgspec.json.decode(request.body)
            for name in ("uid", "resourceVersion"):
                body.get("metadata", {}).pop(name, None)
            request = msgspec.structs.replace(request, body=msgspec.json.encode(body))
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AbstractAsyncContextManager[Socket]:
        return self._inner.socket(request, subprotocols)

    async def close(self) -> None:
        await self._inner.close()


class Unrecorded:
    def wrote(self, key: Key, obj: Object) -> None:
        pass

    def refused_by(self, key: Key, obj: Object) -> None:
        pass

    def deleted_unseen(self, key: Key, resource: Resource, name: Key, uid: str) -> None:
        pass


async def finalizers_after_both_wrote(transport: type[Unguarded] | None) -> list[str]:
    """We decide to remove our finalizer; before we write, someone adds theirs."""
    server = FakeApiServer()
    server.register(Toy)
    toy = {"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear", "finalizers": [GOODBYE]}}
    server.add(toy)
    connection: Transport = server.connect()
    client = Client(transport(connection) if transport else connection)
    seen = await client.get(Toy, "bear", "default")
    plan = farewell_of(seen)
    server.edit(Toy, "bear", "default", merge={"metadata": {"finalizers": [GOODBYE, "theirs.dev/keep"]}})
    actor = Actor(client=client, manager="us", key=Key("default", "bear"), journal=Unrecorded(), tell=lambda _: None)
    outcome = await act(plan, actor, target(seen))
    after = server.get(Toy, "bear", "default")
    assert after is not None
    if transport is None:
        assert outcome.problem is not None
        assert outcome.problem.reason == "Conflict"
    return list(after["metadata"].get("finalizers", []))


def farewell_of(toy: Toy) -> Plan:
    return Plan(actions=(RemoveFinalizer(target=target(toy), present=toy.metadata.finalizers, finalizer=GOODBYE),))


async def test_a_decision_about_an_older_state_is_refused_and_nothing_is_lost() -> None:
    assert await finalizers_after_both_wrote(None) == [GOODBYE, "theirs.dev/keep"]


async def test_without_preconditions_the_other_writer_is_overwritten() -> None:
    assert await finalizers_after_both_wrote(Unguarded) == []


# --- cache pollution: one pass changes an object that others share


class LooseSpec(msgspec.Struct, kw_only=True):
    """The mechanism switched off: a part that can be changed in place."""

    copies: int = 1


class LooseToy(Object, frozen=True, kw_only=True):
    resource = Toy.resource
    spec: LooseSpec


class MeddlingReconciler:
    """Changes what it read, and notes what the next reader of the cache then sees."""

    def __init__(self, kind: type[Toy | LooseToy]) -> None:
        self._kind = kind
        self.seen_by_others: list[int] = []

    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        toy = read.get(self._kind, key.name, key.namespace)
        if toy is not None:
            with suppress(AttributeError):
                toy.spec.copies = 9  # type: ignore[misc]
            again = read.get(self._kind, key.name, key.namespace)
            self.seen_by_others.append(again.spec.copies if again else 0)
        return None

    def plan(self, snapshot: ToySnapshot, /) -> Plan:
        raise AssertionError("nothing is ever observed here")

    def report(self, snapshot: ToySnapshot, outcome: Outcome, /) -> None:
        return None


async def copies_seen_after_meddling(kind: type[Toy | LooseToy]) -> list[int]:
    reconciler = MeddlingReconciler(kind)
    server = FakeApiServer()
    server.register(Toy)
    server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}, "spec": {"copies": 1}})
    operator = Operator(server, lambda: Controller.for_(kind, reconciler))
    operator.start()
    await asyncio.sleep(5)
    await operator.stop()
    return reconciler.seen_by_others


async def test_a_reconciler_cannot_change_what_the_cache_shares() -> None:
    assert await copies_seen_after_meddling(Toy) == [1]


async def test_without_frozen_objects_the_cache_is_polluted() -> None:
    assert await copies_seen_after_meddling(LooseToy) == [9]
