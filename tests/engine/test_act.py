"""Carrying out a plan: what each action sends, what ends an attempt, what is recorded."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from corral.engine import (
    Action,
    AddFinalizer,
    Apply,
    Create,
    Delete,
    EmitEvent,
    Evict,
    Key,
    Outcome,
    Patch,
    Plan,
    SetStatus,
    controller_reference,
    summary,
    target,
)
from corral.engine.act import AT_ONCE_MAX, act, waves
from corral.engine.actions import summaries
from corral.engine.actor import Actor
from corral.engine.children import NORMALISED, children
from corral.kube.client import Client
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.core_v1 import ConfigMap, Container, Pod, PodSpec, PodStatus
from corral.kube.transport import Request, Response, Socket, Stream, Transport
from corral.testing.apiserver import FakeApiServer, Fault
from corral.testing.toys import GOODBYE, Toy, ToyStatus

pytestmark = pytest.mark.looptime(noop_cycles=0)

BEAR = Key("default", "bear")
WHY: dict[str, Any] = {"reason": "Because", "message": "it must be"}


class Journal:
    def __init__(self) -> None:
        self.versions: list[str] = []
        self.refusing: list[str] = []
        self.gone: list[Key] = []

    def wrote(self, key: Key, obj: Object) -> None:
        self.versions.append(obj.metadata.resource_version)

    def refused_by(self, key: Key, obj: Object) -> None:
        self.refusing.append(obj.metadata.resource_version)

    def deleted_unseen(self, key: Key, resource: Resource, name: Key, uid: str) -> None:
        self.gone.append(name)


class World:
    def __init__(self) -> None:
        self.server = FakeApiServer()
        self.server.register(Toy)
        toy = {"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}}
        self.server.add(toy)
        self.client = Client(self.server.connect("us"))
        self.journal = Journal()
        self.told: list[EmitEvent] = []

    async def bear(self) -> Toy:
        return await self.client.get(Toy, "bear", "default")

    async def act(self, *actions: Action, stop: str = "", superseded: str = "", stop_after_writes: int = 0) -> Outcome:
        return await self.carry_out(Plan(actions=actions), stop, superseded, stop_after_writes)

    async def carry_out(self, plan: Plan, stop: str = "", superseded: str = "", stop_after_writes: int = 0) -> Outcome:
        actor = Actor(
            client=self.client,
            manager="corral-toy",
            key=BEAR,
            journal=self.journal,
            tell=self.told.append,
            stop=lambda: stop if len(self.journal.versions) >= stop_after_writes else "",
            superseded=lambda: superseded if len(self.journal.versions) >= stop_after_writes else "",
        )
        return await act(plan, actor, target(await self.bear()))

    def add_map(self, name: str, **data: str) -> None:
        self.server.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})

    async def a_map(self, name: str) -> ConfigMap:
        return await self.client.get(ConfigMap, name, "default")


@pytest.fixture
def world() -> World:
    return World()


def a_map(name: str, owner: Toy, **data: str) -> ConfigMap:
    references = (controller_reference(owner),)
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", owner_references=references), data=data)


def states(outcome: Outcome) -> list[str]:
    return [result.state for result in outcome.results]


async def test_every_write_is_recorded_with_its_version(world: World) -> None:
    bear = await world.bear()
    outcome = await world.act(
        Create(object=a_map("one", bear), **WHY),
        Apply(object=a_map("two", bear), **WHY),
        AddFinalizer(target=target(bear), present=(), finalizer=GOODBYE),
    )

    assert states(outcome) == ["done", "done", "done"]
    assert outcome.problem is None
    assert world.journal.versions == sorted(world.journal.versions, key=int)
    assert world.journal.versions[-1] == str(world.server.storage.version)


async def test_the_first_failure_ends_the_attempt(world: World) -> None:
    bear = await world.bear()
    world.server.fail_next(Fault.CONFLICT, method="POST")
    outcome = await world.act(Create(object=a_map("one", bear), **WHY), Create(object=a_map("two", bear), **WHY))

    assert states(outcome) == ["refused", "skipped"]
    assert world.server.get(ConfigMap, "two", "default") is None


async def test_a_stop_comes_between_two_actions(world: World) -> None:
    bear = await world.bear()
    outcome = await world.act(Create(object=a_map("one", bear), **WHY), stop="the process is stopping")

    assert states(outcome) == ["skipped"]
    assert outcome.problem is not None
    assert outcome.problem.message == "stopped before ConfigMap default/one: the process is stopping"


@pytest.mark.parametrize("kind", [Create, Apply])
async def test_one_of_ours_that_is_there_already_is_fine_and_awaited(world: World, kind: type[Any]) -> None:
    bear = await world.bear()
    await world.act(Create(object=a_map("one", bear, k="first"), **WHY))
    outcome = await world.act(kind(object=a_map("one", bear, k="second"), **WHY))

    assert states(outcome) == ["done"]
    assert (await world.a_map("one")).data == {"k": "first"}
    assert len(world.journal.versions) == 2


@pytest.mark.parametrize("kind", [Create, Apply])
async def test_one_of_others_that_is_there_already_is_reported_and_not_touched(world: World, kind: type[Any]) -> None:
    world.add_map("one", k="theirs")
    before = world.server.get(ConfigMap, "one", "default")
    outcome = await world.act(kind(object=a_map("one", await world.bear(), k="ours"), **WHY))

    assert outcome.problem is not None
    assert (outcome.problem.reason, outcome.problem.stalled) == ("NameTaken", True)
    assert world.server.get(ConfigMap, "one", "default") == before


@pytest.mark.parametrize(
    ("labels", "state"), [({"disk": "data", "of": "bear"}, "done"), ({"disk": "data"}, "refused"), ({}, "refused")]
)
async def test_what_has_no_owner_is_ours_by_the_labels_that_it_is_known_by(
    world: World, labels: dict[str, str], state: str
) -> None:
    """What outlives its owner has no reference to it; a lost answer must not make it somebody else's."""
    there = {"name": "one", "labels": labels}
    world.server.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": there, "data": {"k": "first"}})
    ours = ObjectMeta(name="one", namespace="default", labels={"disk": "data", "of": "bear", "more": "x"})
    wanted = ConfigMap(metadata=ours, data={"k": "second"})
    outcome = await world.act(Create(object=wanted, known_by=("disk", "of"), **WHY))
    assert states(outcome) == [state]
    assert (await world.a_map("one")).data == {"k": "first"}

    nameless = await world.act(Create(object=wanted, **WHY))
    assert states(nameless) == ["refused"]


async def test_an_apply_over_an_object_that_was_replaced_meanwhile_is_refused(world: World) -> None:
    bear = await world.bear()
    await world.act(Apply(object=a_map("one", bear), **WHY))
    seen = await world.a_map("one")
    world.server.remove(ConfigMap, "one", "default")
    world.add_map("one", k="another")
    outcome = await world.act(Apply(object=a_map("one", bear, k="ours"), over=target(seen), **WHY))

    assert states(outcome) == ["refused"]
    assert (await world.a_map("one")).data == {"k": "another"}


@pytest.mark.parametrize("gone", [False, True], ids=["changed", "gone"])
async def test_a_deletion_decided_about_an_older_state(world: World, gone: bool) -> None:
    world.add_map("one")
    seen = await world.a_map("one")
    if gone:
        world.server.remove(ConfigMap, "one", "default")
    else:
        world.server.edit(ConfigMap, "one", "default", merge={"data": {"k": "v"}})
    outcome = await world.act(Delete(target=target(seen), **WHY))

    assert states(outcome) == (["done"] if gone else ["refused"])
    assert world.journal.gone == ([Key("default", "one")] if gone else [])


async def test_a_patch_changes_only_the_object_that_was_looked_at(world: World) -> None:
    world.add_map("one")
    seen = await world.a_map("one")
    patch = Patch(target=target(seen), merge={"data": {"k": "v"}}, **WHY)

    assert states(await world.act(patch)) == ["done"]
    assert states(await world.act(patch)) == ["refused"]


async def test_a_status_is_applied_without_the_rest_of_the_object(world: World) -> None:
    bear = await world.bear()
    outcome = await world.act(SetStatus(target=target(bear), status=ToyStatus(copies=3)))

    assert states(outcome) == ["done"]
    assert (await world.bear()).status.copies == 3


async def test_an_eviction_held_back_by_a_budget_does_not_stop_the_others(world: World) -> None:
    for name in ("p", "q"):
        containers = [{"name": "c", "image": "i"}]
        meta = {"name": name, "labels": {"app": "p"}}
        world.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}})
    pods = [await world.client.get(Pod, name, "default") for name in ("p", "q")]
    world.server.fail_next(Fault.THROTTLE, method="POST", resource="pods", name="p", times=100)
    outcome = await world.act(*(Evict(target=target(pod), **WHY) for pod in pods))

    assert states(outcome) == ["refused", "done"]
    assert outcome.problem is not None
    assert outcome.problem.reason == "DisruptionBudget"


async def test_an_event_is_told_and_never_fails_an_attempt(world: World) -> None:
    outcome = await world.act(EmitEvent(regarding=target(await world.bear()), **WHY))

    assert [event.message for event in world.told] == ["it must be"]
    assert not outcome.changed_anything


async def test_drift_that_was_put_back_is_told(world: World) -> None:
    bear = await world.bear()
    desired = ConfigMap(metadata=ObjectMeta(name="one"), data={"k": "v"})
    await world.act(*children(bear, [desired], []).actions)
    world.server.edit(ConfigMap, "one", "default", merge={"data": {"k": "theirs"}}, manager="someone")
    await world.act(*children(bear, [desired], [await world.a_map("one")]).actions)

    assert [event.message for event in world.told] == ["ConfigMap default/one: someone else changed data.k; reverted"]
    assert children(bear, [desired], [await world.a_map("one")]) == Plan()


class Lowering:
    """A server that writes small letters, as a mutating webhook might."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request) -> Response:
        answer = await self._inner.request(request)
        return msgspec.structs.replace(answer, body=answer.body.replace(b'"k":"V"', b'"k":"v"'))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AbstractAsyncContextManager[Socket]:
        return self._inner.socket(request, subprotocols)

    async def close(self) -> None:
        await self._inner.close()


async def test_what_the_server_spells_otherwise_is_marked_and_then_in_sync(world: World) -> None:
    world.client = Client(Lowering(world.server.connect("us")))
    bear = await world.bear()
    desired = ConfigMap(metadata=ObjectMeta(name="one"), data={"k": "V"})
    await world.act(*children(bear, [desired], []).actions)
    there = await world.a_map("one")

    assert there.data == {"k": "v"}
    assert "data.k" in there.metadata.annotations[NORMALISED]
    assert children(bear, [desired], [there]) == Plan()
    assert world.told == []


@pytest.mark.parametrize(
    ("fault", "reason", "stalled"),
    [
        (Fault.FORBID, "Forbidden", True),
        (Fault.CONFLICT, "Conflict", False),
        (Fault.HANG, "Unreachable", False),
        (Fault.UNAUTHORIZED, "Unauthorized", False),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
async def test_an_error_becomes_a_problem_in_words(world: World, fault: Fault, reason: str, stalled: bool) -> None:
    world.add_map("one")
    seen = await world.a_map("one")
    world.server.fail_next(fault, method="DELETE", times=100)
    outcome = await world.act(Delete(target=target(seen), **WHY))

    assert outcome.problem is not None
    assert (outcome.problem.reason, outcome.problem.stalled) == (reason, stalled)
    assert "delete ConfigMap default/one" in outcome.problem.message


async def test_many_of_one_kind_are_created_in_growing_waves_and_order_is_kept_between_kinds(world: World) -> None:
    owner = await world.bear()
    first = Create(object=a_map("first", owner), **WHY)
    pods = [Create(object=a_pod(f"p-{number:02}", owner), **WHY) for number in range(80)]
    gone = Delete(target=target(owner), **WHY)
    sizes = [len(wave) for wave in waves((first, *pods, gone, first, gone))]
    assert sizes == [1, 1, 4, 75, 1, 1, 1]
    assert [action for wave in waves((first, *pods, gone)) for action in wave] == [first, *pods, gone]


async def test_a_refused_creation_ends_the_attempt_after_its_wave(world: World) -> None:
    owner = await world.bear()
    world.add_map("m-1")  # somebody else's
    outcome = await world.act(*(Create(object=a_map(f"m-{number}", owner), **WHY) for number in range(9)))
    assert [result.state for result in outcome.results] == ["done", "refused", *["done"] * 3, *["skipped"] * 4]
    assert outcome.problem is not None
    assert outcome.problem.reason == "NameTaken"
    assert len(world.journal.versions) == 4


async def test_statuses_of_many_objects_of_one_kind_are_set_at_once(world: World) -> None:
    owner = await world.bear()
    pods = [await world.client.create(a_pod(f"p-{number:02}", owner), field_manager="us") for number in range(40)]
    shown = [SetStatus(target=target(pod), status=PodStatus(reason="Seen")) for pod in pods]
    assert [len(wave) for wave in waves(tuple(shown))] == [1, 4, 35]

    outcome = await world.act(*shown)

    assert states(outcome) == ["done"] * 40
    seen = (await world.client.list(Pod)).items
    assert [pod.status.reason for pod in seen] == ["Seen"] * 40


async def test_of_a_large_wave_few_are_sent_in_vain(world: World) -> None:
    owner = await world.bear()
    world.add_map("m-040")  # somebody else's
    outcome = await world.act(*(Create(object=a_map(f"m-{number:03}", owner), **WHY) for number in range(200)))
    states = [result.state for result in outcome.results]
    assert states.index("refused") == 40
    assert states[41:].count("done") < 2 * AT_ONCE_MAX
    assert states == sorted(states, key=lambda state: state == "skipped"), "what was sent are the first ones"
    assert len(states) == 200


async def test_a_stop_within_a_large_wave_ends_it_after_what_is_under_way(world: World) -> None:
    owner = await world.bear()
    maps = (Create(object=a_map(f"m-{number:03}", owner), **WHY) for number in range(200))
    outcome = await world.act(*maps, stop="the lease is lost", stop_after_writes=50)
    states = [result.state for result in outcome.results]
    assert outcome.problem is not None
    assert outcome.problem.reason == "Stopped"
    assert 50 <= states.count("done") <= 50 + AT_ONCE_MAX
    assert states.count("skipped") == 200 - states.count("done")


async def test_a_large_wave_ends_when_its_owner_is_asked_otherwise_and_nothing_smaller_is_torn(world: World) -> None:
    owner = await world.bear()
    maps = (Create(object=a_map(f"m-{number:03}", owner), **WHY) for number in range(200))
    outcome = await world.act(*maps, superseded="it was changed or deleted meanwhile", stop_after_writes=50)
    assert outcome.problem is not None
    assert outcome.problem.reason == "Superseded"
    assert 50 <= states(outcome).count("done") <= 50 + AT_ONCE_MAX

    one_by_one = [Apply(object=a_map(f"n-{number}", owner), **WHY) for number in range(5)]
    assert states(await world.act(*one_by_one, superseded="it was changed or deleted meanwhile")) == ["done"] * 5


async def test_many_objects_of_one_kind_are_told_in_one_line(world: World) -> None:
    owner = await world.bear()
    maps = [Create(object=a_map(f"m-{number:03}", owner), **WHY) for number in range(200)]
    apart = Apply(object=a_map("other", owner), **WHY)
    assert list(summaries((*maps[:2], apart))) == [summary(maps[0]), summary(maps[1]), summary(apart)]
    told = list(summaries((*maps, apart)))
    assert len(told) == 2
    assert told[0] == f"{summary(maps[0])} and 199 more, the last ConfigMap default/m-199"


async def test_what_is_refused_of_one_part_does_not_keep_another_back(world: World) -> None:
    owner = await world.bear()
    world.add_map("taken")  # somebody else's
    taken, after, apart = (Create(object=a_map(name, owner), **WHY) for name in ("taken", "after", "apart"))
    outcome = await world.carry_out(Plan(actions=(taken, after)) | Plan(actions=(apart,)))
    assert states(outcome) == ["refused", "skipped", "done"]
    assert outcome.problem is not None
    assert outcome.problem.reason == "NameTaken"


async def test_what_needs_all_of_the_parts_waits_for_the_one_that_was_refused(world: World) -> None:
    owner = await world.bear()
    world.add_map("taken")
    taken, apart, last = (Plan(actions=(Create(object=a_map(n, owner), **WHY),)) for n in ("taken", "apart", "last"))
    assert states(await world.carry_out((taken | apart) + last)) == ["refused", "done", "skipped"]


async def test_parts_that_follow_what_was_refused_are_skipped_with_it(world: World) -> None:
    owner = await world.bear()
    world.add_map("taken")
    first, one, other = (Plan(actions=(Create(object=a_map(n, owner), **WHY),)) for n in ("taken", "one", "other"))
    assert states(await world.carry_out(first + (one | other))) == ["refused", "skipped", "skipped"]


@pytest.mark.parametrize(
    ("joined", "expected"),
    [
        pytest.param(lambda taken, b, c: taken | (b | c), "refused done done", id="beside what is beside another"),
        pytest.param(lambda taken, b, c: b | (taken + c), "done refused skipped", id="after it, beside another"),
        pytest.param(lambda taken, b, c: b + (taken | c), "done refused done", id="beside it, after another"),
        pytest.param(lambda taken, b, c: (taken | b) + c, "refused done skipped", id="after both"),
        pytest.param(lambda taken, b, c: taken | (b + c), "refused done done", id="beside two in order"),
        pytest.param(lambda taken, b, c: taken + (b + c), "refused skipped skipped", id="three in order"),
    ],
)
async def test_what_was_refused_keeps_back_what_needs_it_however_plans_are_joined(
    world: World, joined: Callable[[Plan, Plan, Plan], Plan], expected: str
) -> None:
    owner = await world.bear()
    world.add_map("taken")
    plans = (Plan(actions=(Create(object=a_map(name, owner), **WHY),)) for name in ("taken", "b", "c"))
    assert states(await world.carry_out(joined(*plans))) == expected.split()


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.SERVER_ERROR, Fault.REFUSE])
async def test_trouble_that_is_not_about_one_object_ends_every_part(world: World, fault: Fault) -> None:
    world.add_map("one")
    seen = await world.a_map("one")
    owner = await world.bear()
    world.server.fail_next(fault, method="DELETE", times=100)
    outcome = await world.carry_out(
        Plan(actions=(Delete(target=target(seen), **WHY),)) | Plan(actions=(Create(object=a_map("two", owner), **WHY),))
    )
    assert states(outcome)[1:] == ["skipped"]


def a_pod(name: str, owner: Toy) -> Pod:
    spec = PodSpec(containers=(Container(name="it", image="it"),))
    references = (controller_reference(owner),)
    return Pod(metadata=ObjectMeta(name=name, namespace="default", owner_references=references), spec=spec)
