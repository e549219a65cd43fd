"""A write that is done, but whose answer is lost: the repeat is refused, and what is there is what was wanted.

No pass may decide on a cache that does not show it, nobody is told of a failure, and nothing is done twice.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from corral.engine import Action, Apply, Barrier, Controller, Create, Key, Patch, Reader, target
from corral.engine.children import NORMALISED, children
from corral.engine.send import send_status
from corral.kube.client import Client
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.kube.transport import Request, Response, Socket, Stream, Transport
from corral.testing.apiserver import FakeApiServer, Fault, Faults
from corral.testing.operators import Operator
from corral.testing.toys import Toy, ToyReconciler, ToySnapshot, ToyStatus
from tests.engine.test_act import Lowering, World, a_map, states

pytestmark = pytest.mark.looptime(noop_cycles=0)


@pytest.fixture
def world() -> World:
    return World()


def wish(**data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="one"), data=data)


async def decided(world: World, desired: ConfigMap) -> tuple[Action, ...]:
    there = world.server.get(ConfigMap, "one", "default")
    observed = [await world.a_map("one")] if there is not None else []
    return children(await world.bear(), [desired], observed).actions


async def test_a_change_whose_answer_was_lost_is_done_and_awaited(world: World) -> None:
    await world.act(*await decided(world, wish(k="old")))
    changed = await decided(world, wish(k="new"))
    world.server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource="configmaps")
    outcome = await world.act(*changed)

    assert states(outcome) == ["done"]
    there = await world.a_map("one")
    assert there.data == {"k": "new"}
    assert world.journal.versions[-1] == there.metadata.resource_version


async def test_drift_that_was_put_back_is_told_though_the_answer_was_lost(world: World) -> None:
    await world.act(*await decided(world, wish(k="v")))
    world.server.edit(ConfigMap, "one", "default", merge={"data": {"k": "theirs"}}, manager="someone")
    put_back = await decided(world, wish(k="v"))
    world.server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource="configmaps")
    outcome = await world.act(*put_back)

    assert states(outcome) == ["done"]
    assert [event.message for event in world.told] == ["ConfigMap default/one: someone else changed data.k; reverted"]


@pytest.mark.parametrize("drifts", [False, True])
async def test_what_somebody_else_made_of_it_meanwhile_is_not_taken_for_ours(world: World, drifts: bool) -> None:
    await world.act(*await decided(world, wish(k="v")))
    if drifts:
        world.server.edit(ConfigMap, "one", "default", merge={"data": {"k": "theirs"}}, manager="someone")
    stale = await decided(world, wish(k="v" if drifts else "new"))
    world.server.edit(ConfigMap, "one", "default", merge={"metadata": {"labels": {"a": "b"}}}, manager="someone")
    before = await world.a_map("one")
    outcome = await world.act(*stale)

    assert states(outcome) == ["refused"]
    assert world.told == []
    assert await world.a_map("one") == before
    assert world.journal.refusing == [before.metadata.resource_version], "the next pass sees nothing older"


async def test_what_refuses_a_patch_is_awaited_too(world: World) -> None:
    world.add_map("one")
    patch = Patch(target=target(await world.a_map("one")), merge={"data": {"k": "v"}}, reason="Because", message="so")
    world.server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource="configmaps")
    outcome = await world.act(patch)

    assert states(outcome) == ["refused"]
    assert world.journal.refusing == [(await world.a_map("one")).metadata.resource_version]


class Between:
    """Somebody touches the object directly after each of our first applies of it: a controller that reports on it."""

    def __init__(self, inner: Transport, touch: Callable[[], None], times: int) -> None:
        self._inner, self._touch, self._left = inner, touch, times

    async def request(self, request: Request) -> Response:
        answer = await self._inner.request(request)
        if request.method == "PATCH" and "/configmaps/" in request.path and self._left:
            self._left -= 1
            self._touch()
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AbstractAsyncContextManager[Socket]:
        return self._inner.socket(request, subprotocols)

    async def close(self) -> None:
        await self._inner.close()


def touched(world: World, times: int) -> None:
    count = iter(range(100))

    def touch() -> None:
        labels = {"metadata": {"labels": {"touched": str(next(count))}}}
        world.server.edit(ConfigMap, "one", "default", merge=labels, manager="someone")

    world.client = Client(Between(Lowering(world.server.connect("us")), touch, times))


@pytest.mark.parametrize("is_new", [True, False])
async def test_what_the_server_spells_otherwise_is_marked_though_somebody_touches_it_in_between(
    world: World, is_new: bool
) -> None:
    if not is_new:
        await world.act(*await decided(world, wish(k="old")))
    touched(world, times=2)
    outcome = await world.act(*await decided(world, wish(k="V")))

    there = await world.a_map("one")
    assert states(outcome) == ["done"]
    assert "data.k" in there.metadata.annotations[NORMALISED]
    assert await decided(world, wish(k="V")) == ()
    assert there.metadata.resource_version in world.journal.versions
    assert world.told == []


async def test_one_that_is_touched_all_the_time_is_awaited_without_a_mark(world: World) -> None:
    touched(world, times=50)
    outcome = await world.act(*await decided(world, wish(k="V")))

    assert states(outcome) == ["done"]
    assert world.journal.versions != []
    assert world.told == []


async def test_what_was_made_though_the_answer_was_lost_is_marked(world: World) -> None:
    world.client = Client(Lowering(world.server.connect("us")))
    world.server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource="configmaps")
    outcome = await world.act(*await decided(world, wish(k="V")))

    assert states(outcome) == ["done"]
    assert await decided(world, wish(k="V")) == ()


async def test_what_is_made_once_and_is_there_already_is_not_applied_over(world: World) -> None:
    """By an earlier pass that was not answered, or that the cache does not show: as it would be if this one made it."""
    world.client = Client(Lowering(world.server.connect("us")))
    (apply,) = await decided(world, wish(k="V"))
    assert isinstance(apply, Apply)
    create = Create(object=apply.object, reason="", message="")
    outcomes = [await world.act(create), await world.act(create)]

    there = await world.a_map("one")
    assert [states(outcome) for outcome in outcomes] == [["done"], ["done"]]
    assert NORMALISED not in there.metadata.annotations
    assert world.journal.versions == [there.metadata.resource_version] * 2


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_status_whose_answer_was_lost_is_written_once_and_awaited(world: World, lost: int) -> None:
    bear = await world.bear()
    world.server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource=Toy.resource.plural_and_group, times=lost)
    seen: list[Object] = []
    await send_status(ToyStatus(copies=7), bear, world.client, "test", note=seen.append)

    after = await world.bear()
    assert after.status.copies == 7
    assert seen[-1].metadata.resource_version == after.metadata.resource_version
    assert int(after.metadata.resource_version) == int(bear.metadata.resource_version) + 1


# --- no pass decides on a cache that does not show the last one


class Looking(ToyReconciler):
    """Notes each look at a toy that is older than what the server has."""

    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        self.looks = self.stale = 0

    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        seen = await super().observe(key, read)
        there = self._server.get(Toy, key.name, key.namespace)
        if seen is not None and there is not None:
            self.looks += 1
            self.stale += seen.object.metadata.resource_version != there["metadata"]["resourceVersion"]
        return seen


class Unaware(Barrier[Key]):
    """The mechanism switched off."""

    def wrote(self, key: Key, obj: Object) -> None:
        pass


async def looks_after_a_lost_status(barrier: type[Barrier[Key]]) -> Looking:
    server = FakeApiServer(faults=Faults(delay_p=1.0, delay_s_max=3.0))
    server.register(Toy)
    looking = Looking(server)
    build = lambda: Controller.for_(Toy, looking).owns(ConfigMap).owns(Secret)  # noqa: E731
    operator = Operator(server, build, barrier=barrier)
    operator.start()
    server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    await asyncio.sleep(60)
    server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource=Toy.resource.plural_and_group)
    looking.looks = looking.stale = 0
    server.edit(Toy, "bear", "default", merge={"spec": {"copies": 3}})
    await asyncio.sleep(60)
    await operator.stop()
    server.stop_collecting()
    return looking


async def test_no_pass_looks_at_a_cache_that_lacks_a_status_whose_answer_was_lost() -> None:
    looking = await looks_after_a_lost_status(Barrier)
    assert looking.stale == 0
    assert 2 <= looking.looks <= 4


async def test_without_the_barrier_passes_do() -> None:
    assert (await looks_after_a_lost_status(Unaware)).stale > 0


async def test_an_apply_that_needs_no_mark_is_one_request(world: World) -> None:
    await world.act(*await decided(world, wish(k="v")))
    assert sum("PATCH" in line and "configmaps" in line for line in world.server.trace) == 1


async def test_a_lost_answer_of_an_apply_without_a_mark_is_refused_and_awaited(world: World) -> None:
    """It is not known by what it was sent for; the next pass sees what there is."""
    bear = await world.bear()
    await world.act(Apply(object=a_map("one", bear), reason="Because", message="so"))
    over = target(await world.a_map("one"))
    world.server.fail_next(Fault.LOSE_ANSWER, method="PATCH", resource="configmaps")
    outcome = await world.act(Apply(object=a_map("one", bear, k="new"), over=over, reason="Because", message="so"))

    assert states(outcome) == ["refused"]
    assert world.journal.refusing == [(await world.a_map("one")).metadata.resource_version]
