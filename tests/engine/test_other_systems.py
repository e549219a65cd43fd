"""What reaches beyond Kubernetes' own objects: actions in other systems, sources of keys, kinds that may be missing."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import structlog
import yaml
from structlog.testing import capture_logs

from corral.engine import (
    Action,
    Controller,
    Create,
    EmitEvent,
    Key,
    Outcome,
    Outside,
    OutsideFailed,
    Plan,
    Reader,
    as_data,
    dry_run,
    summary,
    target,
)
from corral.engine.act import act
from corral.engine.actor import Actor
from corral.engine.controller import AnyController
from corral.kube.client import Client
from corral.kube.crd import crd_of, kind, to_yaml
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.core_v1 import ConfigMap
from corral.testing.apiserver import FakeApiServer, Fault
from corral.testing.operators import Operator
from corral.testing.toys import Toy, ToySnapshot, ToyStatus

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Drain(msgspec.Struct, frozen=True):
    node: str


DRAIN = Outside(
    system="Slurm lab/demo", subject="node gpu-3", call=Drain("gpu-3"), reason="Surplus", message="to be removed"
)


@kind(group="monitoring.test.dev", version="v1", plural="gauges")
class Gauge(Object, frozen=True, kw_only=True):
    """A kind of a third party, which a server may have or not."""


class Journal:
    def wrote(self, key: Key, obj: Object) -> None: ...
    def refused_by(self, key: Key, obj: Object) -> None: ...
    def deleted_unseen(self, key: Key, resource: Any, name: Key, uid: str) -> None: ...


def a_server() -> FakeApiServer:
    server = FakeApiServer()
    server.register(Toy)
    server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    return server


async def carried_out(
    *actions: Action,
    perform: Callable[[msgspec.Struct], Any],
    perform_s_max: float = 10,
    tell: Callable[[EmitEvent], None] = lambda _event: None,
    may_write: bool = True,
) -> Outcome:
    client = Client(a_server().connect("us")).fenced(lambda: may_write)
    actor = Actor(
        client=client,
        manager="corral-toy",
        key=Key("default", "bear"),
        journal=Journal(),
        tell=tell,
        perform=perform,
        perform_s_max=perform_s_max,
    )
    return await act(Plan(actions=actions), actor, target(await client.get(Toy, "bear", "default")))


def test_an_action_in_another_system_reads_like_any_other() -> None:
    data = as_data(Plan(actions=(DRAIN,)))["actions"][0]

    assert summary(DRAIN) == "drain node gpu-3 in Slurm lab/demo: to be removed (Surplus)"
    assert (data["system"], data["subject"]) == ("Slurm lab/demo", "node gpu-3")
    assert data["call"] == {"node": "gpu-3"}
    assert not Plan(actions=(DRAIN,)).is_empty


async def test_the_reconciler_carries_it_out_in_the_order_of_the_plan() -> None:
    asked: list[object] = []

    async def perform(call: msgspec.Struct) -> None:
        asked.append(call)

    outcome = await carried_out(DRAIN, DRAIN, perform=perform)

    assert asked == [Drain("gpu-3")] * 2
    assert [result.state for result in outcome.results] == ["done", "done"]
    assert outcome.changed_anything


async def test_who_has_lost_the_lease_asks_no_other_system_for_anything() -> None:
    asked: list[object] = []

    async def perform(call: msgspec.Struct) -> None:
        asked.append(call)

    outcome = await carried_out(DRAIN, perform=perform, may_write=False)

    assert asked == []
    assert outcome.problem is not None
    assert outcome.problem.reason == "MayNotWrite"


@pytest.mark.parametrize("stalled", [True, False])
async def test_a_refusal_that_a_person_must_act_on_is_told_in_an_event(stalled: bool) -> None:
    told: list[EmitEvent] = []

    async def perform(_call: msgspec.Struct) -> None:
        raise OutsideFailed("NodeUnknown", "Slurm knows no node gpu-3", stalled=stalled)

    await carried_out(DRAIN, perform=perform, tell=told.append)

    found = [(event.type, event.reason, event.message) for event in told]
    assert found == ([("Warning", "NodeUnknown", "Slurm knows no node gpu-3")] if stalled else [])


async def test_a_refusal_by_the_other_system_ends_the_attempt() -> None:
    async def perform(_call: msgspec.Struct) -> None:
        raise OutsideFailed("NodeUnknown", "Slurm knows no node gpu-3", stalled=True, retry_after_s=7)

    late = Create(object=ConfigMap(metadata=ObjectMeta(name="x", namespace="default")), reason="R", message="")
    outcome = await carried_out(DRAIN, late, perform=perform)

    assert [result.state for result in outcome.results] == ["failed", "skipped"]
    assert outcome.problem is not None
    assert (outcome.problem.reason, outcome.problem.stalled, outcome.problem.retry_after_s) == ("NodeUnknown", True, 7)


async def test_a_call_that_never_returns_is_given_up() -> None:
    async def perform(_call: msgspec.Struct) -> None:
        await asyncio.Event().wait()

    outcome = await carried_out(DRAIN, perform=perform, perform_s_max=30)

    assert outcome.problem is not None
    assert outcome.problem.reason == "DeadlinePassed"
    assert "Slurm lab/demo" in outcome.problem.message


async def test_a_dry_run_says_that_it_did_not_ask_the_other_system() -> None:
    changes = await dry_run(Client(a_server().connect("us")), watching(), Plan(actions=(DRAIN,)))

    assert changes[0].changes_something
    assert "cannot be asked" in changes[0].untried


class Onlooker:
    """Decides nothing; remembers what it saw of gauges, and how often it was called for whom."""

    def __init__(self) -> None:
        self.passes: list[str] = []
        self.gauges: list[tuple[bool, int]] = []
        self.asked: list[object] = []
        self.wishes: list[Outside] = []

    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        self.passes.append(key.name)
        toy = read.get(Toy, key.name, key.namespace)
        self.gauges.append((read.serves(Gauge), len(read.list(Gauge))))
        return None if toy is None else ToySnapshot(toy, read.now)

    def plan(self, _snapshot: ToySnapshot, /) -> Plan:
        return Plan(actions=tuple(self.wishes))

    async def perform(self, call: Any, snapshot: ToySnapshot, /) -> None:
        self.asked.append((call, snapshot.object.metadata.name))
        self.wishes.clear()

    def report(self, _snapshot: ToySnapshot, _outcome: Outcome, /) -> ToyStatus:
        return ToyStatus()


def watching(onlooker: Onlooker | None = None) -> AnyController:
    def all_toys(_gauge: Gauge, read: Reader) -> list[Key]:
        return [Key(toy.metadata.namespace, toy.metadata.name) for toy in read.list(Toy)]

    return Controller.for_(Toy, onlooker or Onlooker()).watches(Gauge, to=all_toys, optional=True)


async def test_what_a_pass_plans_outside_is_given_to_the_reconcilers_perform() -> None:
    onlooker = Onlooker()
    onlooker.wishes.append(DRAIN)
    operator = Operator(a_server(), lambda: watching(onlooker))
    operator.start()
    await asyncio.sleep(5)
    await operator.stop()

    assert onlooker.asked == [(Drain("gpu-3"), "bear")]


async def test_a_missing_kind_does_not_stop_the_start_and_is_picked_up_when_it_is_defined() -> None:
    server, onlooker = a_server(), Onlooker()
    operator = Operator(server, lambda: watching(onlooker))
    operator.start()
    await asyncio.sleep(5)
    assert onlooker.gauges == [(False, 0)]

    server.add(yaml.safe_load(to_yaml(crd_of(Gauge))))
    await asyncio.sleep(5)
    assert onlooker.gauges == [(False, 0), (True, 0)]

    server.add({"apiVersion": "monitoring.test.dev/v1", "kind": "Gauge", "metadata": {"name": "g"}})
    await asyncio.sleep(5)
    await operator.stop()

    assert onlooker.gauges[-1] == (True, 1)


async def test_a_kind_that_is_served_without_a_definition_of_its_own_is_found_a_little_later() -> None:
    server, onlooker = a_server(), Onlooker()
    operator = Operator(server, lambda: watching(onlooker))
    operator.start()
    await asyncio.sleep(5)

    server.register(Gauge)
    await asyncio.sleep(700)
    await operator.stop()

    assert onlooker.gauges == [(False, 0), (True, 0)]


async def test_nobody_asks_again_and_again_for_a_kind_that_is_not_defined() -> None:
    server = a_server()
    operator = Operator(server, watching)
    operator.start()
    await asyncio.sleep(500)
    await operator.stop()

    assert sum("gauges" in line for line in server.trace) == 1


async def test_who_may_not_watch_definitions_says_so_once() -> None:
    server = a_server()
    server.fail_next(Fault.FORBID, resource="customresourcedefinitions.apiextensions.k8s.io", times=1000)
    operator = Operator(server, watching)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with capture_logs() as told:
        operator.start()
        await asyncio.sleep(300)
        await operator.stop()

    assert [line["log_level"] for line in told if "definitions may not be watched" in line["event"]] == ["warning"]


@pytest.mark.parametrize("had", [0, 1], ids=["that had no objects", "with its objects"])
async def test_a_kind_that_goes_brings_everybody_back_and_so_does_its_return(had: int) -> None:
    server, onlooker = a_server(), Onlooker()
    server.register(Gauge)
    for number in range(had):
        server.add({"apiVersion": "monitoring.test.dev/v1", "kind": "Gauge", "metadata": {"name": f"g{number}"}})
    operator = Operator(server, lambda: watching(onlooker))
    operator.start()
    await asyncio.sleep(5)
    assert onlooker.gauges == [(True, had)]

    server.unregister(Gauge)
    await asyncio.sleep(60)
    assert onlooker.gauges[-1] == (False, 0)

    server.add(yaml.safe_load(to_yaml(crd_of(Gauge))))
    await asyncio.sleep(5)
    await operator.stop()

    assert onlooker.gauges[-1] == (True, 0)


async def test_a_kind_whose_definition_went_is_gone_though_its_watch_stays_open() -> None:
    server, onlooker = a_server(), Onlooker()
    server.add(yaml.safe_load(to_yaml(crd_of(Gauge))))
    operator = Operator(server, lambda: watching(onlooker))
    operator.start()
    await asyncio.sleep(5)
    assert onlooker.gauges == [(True, 0)]

    server.unregister(Gauge, ends_watches=False)
    server.remove(CustomResourceDefinition, Gauge.resource.plural_and_group)
    await asyncio.sleep(5)
    await operator.stop()

    assert onlooker.gauges[-1] == (False, 0)


async def test_a_server_that_serves_a_kind_for_a_while_without_its_definition_is_asked_until_it_does_not() -> None:
    server, onlooker = a_server(), Onlooker()
    server.add(yaml.safe_load(to_yaml(crd_of(Gauge))))
    operator = Operator(server, lambda: watching(onlooker))
    operator.start()
    await asyncio.sleep(5)

    server.remove(CustomResourceDefinition, Gauge.resource.plural_and_group)
    await asyncio.sleep(20)
    server.unregister(Gauge, ends_watches=False)
    await asyncio.sleep(60)
    assert onlooker.gauges[-1] == (False, 0)

    await asyncio.sleep(2000)
    await operator.stop()
    assert sum("gauges" in line for line in server.trace) < 30  # and then it is left in peace


@pytest.mark.parametrize("comes_back", [False, True], ids=["and stays away", "and is another one now"])
async def test_a_definition_that_went_while_nobody_could_see_it_is_missed(comes_back: bool) -> None:
    server, onlooker = a_server(), Onlooker()
    definition = yaml.safe_load(to_yaml(crd_of(Gauge)))
    server.add(definition)
    operator = Operator(server, lambda: watching(onlooker))
    operator.start()
    await asyncio.sleep(5)

    server.stall_watches(of=Gauge)
    server.unregister(Gauge, ends_watches=False)
    server.remove(CustomResourceDefinition, Gauge.resource.plural_and_group)
    if comes_back:
        server.add(definition)
        server.add({"apiVersion": "monitoring.test.dev/v1", "kind": "Gauge", "metadata": {"name": "g"}})
    server.drop_watches(of=CustomResourceDefinition)
    server.compact()
    await asyncio.sleep(60)
    await operator.stop()

    assert onlooker.gauges[-1] == ((True, 1) if comes_back else (False, 0))


async def test_a_source_outside_kubernetes_brings_keys_back_while_the_controller_runs() -> None:
    onlooker, log = Onlooker(), list[str]()
    bring: list[Callable[[Key, str], None]] = []

    @asynccontextmanager
    async def poller(enqueue: Callable[[Key, str], None]) -> AsyncIterator[None]:
        log.append("opened")
        bring.append(enqueue)
        yield
        log.append("closed")

    operator = Operator(a_server(), lambda: watching(onlooker).also(poller))
    operator.start()
    await asyncio.sleep(5)
    bring[0](Key("default", "bear"), "Slurm says so")
    await asyncio.sleep(5)
    await operator.stop()

    assert onlooker.passes == ["bear", "bear"]
    assert log == ["opened", "closed"]
