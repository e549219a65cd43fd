"""A manager: start in order, lead alone, stop cleanly, leave nothing running."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from corral.engine import (
    CannotStart,
    Controller,
    Key,
    LeaseAddress,
    LeaseLost,
    Manager,
    Metrics,
    Outside,
    Plan,
    RateLimit,
    Reader,
    virtual_clock,
)
from corral.engine.manager import STOP_S_MAX
from corral.kube.client import Client
from corral.kube.errors import Subject, Unreachable
from corral.kube.models.coordination_v1 import Lease
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret
from corral.kube.models.events_v1 import Event
from corral.testing.apiserver import FakeApiServer, Fault, Faults
from corral.testing.operators import Operator, converged
from corral.testing.toys import Toy, ToyReconciler, ToySnapshot, toy_controller

pytestmark = pytest.mark.looptime(noop_cycles=0)

LEASE = LeaseAddress("default", "toys")


class Tidy(msgspec.Struct, frozen=True):
    """A call of another system."""


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer()
    server.register(Toy)
    return server


def a_toy(name: str = "bear", **spec: object) -> dict[str, Any]:
    return {"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": name}, "spec": spec}


def writes_of(server: FakeApiServer, client: str) -> list[str]:
    verbs = (" POST ", " PATCH ", " DELETE ")
    return [line for line in server.trace if f" {client} " in line and any(v in line for v in verbs)]


async def ended(operator: Operator) -> None:
    async with asyncio.timeout(1000):
        await operator.task


async def until(holds: Callable[[], bool], step_s: float = 0.01) -> None:
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(step_s)
    raise AssertionError("it never came to that")


async def test_a_kind_that_is_not_served_is_one_clear_sentence() -> None:
    operator = Operator(FakeApiServer(), toy_controller)
    operator.start()
    with pytest.raises(CannotStart, match=r"the server has no toys\.test\.corral\.dev of version v1: install"):
        await ended(operator)


async def test_a_kind_that_we_may_not_list_is_one_clear_sentence(server: FakeApiServer) -> None:
    server.fail_next(Fault.FORBID, resource="secrets")
    operator = Operator(server, toy_controller)
    operator.start()
    with pytest.raises(CannotStart, match="not allowed to list secrets in all namespaces"):
        await ended(operator)


async def test_caches_that_do_not_sync_end_the_start_with_the_reason(server: FakeApiServer) -> None:
    operator = Operator(server, toy_controller)
    operator.start()
    await until(lambda: any("toys?limit=1" in line for line in server.trace), step_s=0)  # every kind was found
    operator.connection.cut()
    with pytest.raises(CannotStart, match=r"not synced after 300 s: .*the cache of Toy is not synced: .*no answer"):
        await ended(operator)


async def test_of_two_only_the_leader_writes_and_the_standby_is_ready(server: FakeApiServer) -> None:
    first = Operator(server, toy_controller, name="first", lease=LEASE)
    second = Operator(server, toy_controller, name="second", lease=LEASE)
    first.start()
    await asyncio.sleep(5)
    second.start()
    server.add(a_toy())
    await asyncio.sleep(30)

    assert server.get(ConfigMap, "bear-0", "default") is not None
    assert writes_of(server, "second") == []
    assert second.manager.missing() == ()
    await first.stop()
    await second.stop()


async def test_a_clean_stop_hands_over_at_once(server: FakeApiServer) -> None:
    first = Operator(server, toy_controller, name="first", lease=LEASE)
    second = Operator(server, toy_controller, name="second", lease=LEASE)
    first.start()
    await asyncio.sleep(5)
    second.start()
    await asyncio.sleep(5)
    await first.stop()
    server.add(a_toy())
    await asyncio.sleep(5)

    assert server.get(ConfigMap, "bear-0", "default") is not None
    await second.stop()
    lease = server.get(Lease, "toys", "default")
    assert lease is not None
    assert lease["spec"].get("holderIdentity", "") == ""


async def test_a_leader_that_cannot_renew_ends_before_another_leads(server: FakeApiServer) -> None:
    first = Operator(server, toy_controller, name="first", lease=LEASE)
    first.start()
    await asyncio.sleep(5)
    first.connection.cut()
    with pytest.raises(LeaseLost):
        await first.task
    second = Operator(server, toy_controller, name="second", lease=LEASE)
    second.start()
    server.add(a_toy())
    await asyncio.sleep(30)

    assert server.get(ConfigMap, "bear-0", "default") is not None
    await second.stop()


async def test_an_operator_that_crashed_is_followed_by_the_next(server: FakeApiServer) -> None:
    operator = Operator(server, toy_controller, lease=LEASE)
    operator.start()
    await asyncio.sleep(5)
    await operator.crash()
    server.add(a_toy(copies=2))
    operator.start()
    await asyncio.sleep(60)

    assert len(server.all_of(ConfigMap)) == 2
    await operator.stop()


async def test_nothing_is_left_running_after_a_stop(server: FakeApiServer) -> None:
    before = asyncio.all_tasks()
    operator = Operator(server, toy_controller, lease=LEASE)
    operator.start()
    server.add(a_toy())
    await asyncio.sleep(20)
    await operator.stop()

    assert asyncio.all_tasks() == before
    assert not server.streams


async def test_a_stop_ends_a_pass_after_the_action_it_is_at(server: FakeApiServer) -> None:
    operator = Operator(server, toy_controller)
    operator.start()
    await asyncio.sleep(5)
    server.faults = Faults(slow_p=1.0, slow_s_max=8.0)
    server.add(a_toy(copies=20))
    await until(lambda: server.get(ConfigMap, "bear-1", "default") is not None)
    await operator.stop()

    assert 2 <= len(server.all_of(ConfigMap)) < 20
    assert not any("no answer" in line for line in server.trace)


async def test_an_action_that_outlasts_the_time_for_stopping_is_cancelled_and_the_lease_released(
    server: FakeApiServer,
) -> None:
    class Endless(ToyReconciler):
        def plan(self, snapshot: ToySnapshot, /) -> Plan:
            tidied = Outside(system="toys", subject="box", call=Tidy(), reason="Because", message="it must be")
            return Plan(actions=(tidied,))

        async def perform(self, _call: Tidy, _snapshot: ToySnapshot, /) -> None:
            await asyncio.sleep(10_000)

    endless = Controller.for_(Toy, Endless(), deadline_s=5_000).owns(ConfigMap).owns(Secret)
    before = asyncio.all_tasks()
    operator = Operator(server, lambda: endless, lease=LEASE)
    operator.start()
    server.add(a_toy())
    await asyncio.sleep(5)
    began_s = asyncio.get_running_loop().time()
    await operator.stop()

    assert STOP_S_MAX <= asyncio.get_running_loop().time() - began_s < STOP_S_MAX + 10
    assert asyncio.all_tasks() == before
    lease = server.get(Lease, "toys", "default")
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")


async def test_a_stop_does_not_wait_for_an_observation(server: FakeApiServer) -> None:
    class Slow(ToyReconciler):
        async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
            await asyncio.sleep(100)
            return await super().observe(key, read)

    operator = Operator(server, lambda: Controller.for_(Toy, Slow()).owns(ConfigMap).owns(Secret))
    operator.start()
    server.add(a_toy())
    await asyncio.sleep(5)
    began_s = asyncio.get_running_loop().time()
    await operator.stop()

    assert asyncio.get_running_loop().time() - began_s < 1


async def test_an_observation_without_end_costs_only_its_own_key(server: FakeApiServer) -> None:
    class Hanging(ToyReconciler):
        async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
            if key.name == "bear":
                await asyncio.Event().wait()
            return await super().observe(key, read)

    operator = Operator(server, lambda: Controller.for_(Toy, Hanging(), deadline_s=10).owns(ConfigMap).owns(Secret))
    operator.start()
    server.add(a_toy("bear"))
    server.add(a_toy("wolf"))
    await asyncio.sleep(100)

    assert [m["metadata"]["name"] for m in server.all_of(ConfigMap)] == ["wolf-0"]
    await operator.stop()


@pytest.mark.parametrize(
    ("trouble", "reason", "says"),
    [
        pytest.param(None, "DeadlinePassed", "observing default/bear took longer than 10 s", id="it hangs"),
        pytest.param(
            Unreachable(Subject("exec", "Pod", "lab", "p"), "no answer"), "Unreachable", "no answer", id="no answer"
        ),
        pytest.param(TimeoutError(), "InternalError", "has a bug: TimeoutError", id="its own deadline"),
    ],
)
async def test_an_object_that_cannot_be_observed_any_more_is_not_ready_because_it_was(
    server: FakeApiServer, trouble: Exception | None, reason: str, says: str
) -> None:
    class Failing(ToyReconciler):
        fails = False

        async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
            if self.fails and trouble is None:
                await asyncio.Event().wait()
            if self.fails and trouble is not None:
                raise trouble
            return await super().observe(key, read)

    reconciler = Failing()
    operator = Operator(server, lambda: Controller.for_(Toy, reconciler, deadline_s=10).owns(ConfigMap).owns(Secret))
    operator.start()
    server.add(a_toy("bear"))
    await asyncio.sleep(30)
    reconciler.fails = True
    server.edit(Toy, "bear", "default", merge={"spec": {"greeting": "good night"}})
    await asyncio.sleep(30)

    toy = server.get(Toy, "bear", "default")
    assert toy is not None
    ready = toy["status"]["conditions"][0]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", reason)
    assert says in ready["message"]
    assert (toy["status"]["copies"], toy["status"]["observedGeneration"]) == (1, 1)  # as they were told

    reconciler.fails = False
    await asyncio.sleep(600)
    toy = server.get(Toy, "bear", "default")
    assert toy is not None
    assert toy["status"]["conditions"][0]["reason"] == "AsDesired"
    await operator.stop()


async def test_the_status_of_somebody_elses_kind_is_not_ours_to_write(server: FakeApiServer) -> None:
    class Broken(ToyReconciler):
        async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
            raise RuntimeError

    server.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )
    operator = Operator(server, lambda: Controller.for_(Pod, Broken()))
    operator.start()
    await asyncio.sleep(60)
    await operator.stop()

    assert not [line for line in server.trace if "operator" in line and "PATCH" in line]


async def test_a_bug_in_a_plan_is_told_in_the_status_and_costs_only_its_own_key(server: FakeApiServer) -> None:
    class Buggy(ToyReconciler):
        def plan(self, snapshot: ToySnapshot, /) -> Any:
            return super().plan(snapshot) if snapshot.object.metadata.name == "wolf" else 1 / 0

    operator = Operator(server, lambda: Controller.for_(Toy, Buggy()).owns(ConfigMap).owns(Secret))
    operator.start()
    server.add(a_toy("bear"))
    server.add(a_toy("wolf"))
    await asyncio.sleep(20)

    toy = server.get(Toy, "bear", "default")
    assert toy is not None
    assert toy["status"]["conditions"][0]["reason"] == "InternalError"
    assert "ZeroDivisionError" in toy["status"]["conditions"][0]["message"]
    assert server.get(ConfigMap, "wolf-0", "default") is not None
    await operator.stop()


async def test_a_key_that_makes_no_progress_is_told_once(server: FakeApiServer) -> None:
    operator = Operator(server, toy_controller)
    operator.start()
    server.add(a_toy(source="missing"))
    await asyncio.sleep(3600)

    told = [event for event in server.all_of(Event) if event["reason"] == "NoProgress"]
    assert [event["note"] for event in told] == [
        "no progress for 15 min: wait: waiting for ConfigMap default/missing (SourceMissing)"
    ]
    await operator.stop()


async def test_a_controller_may_limit_how_often_it_looks_and_a_person_does_not_wait_for_that(
    server: FakeApiServer,
) -> None:
    looked: list[tuple[str, float]] = []

    class Noting(ToyReconciler):
        async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
            looked.append((key.name, asyncio.get_running_loop().time()))
            return await super().observe(key, read)

    limited = Controller.for_(Toy, Noting(), rate=RateLimit(per_s=1, burst=1)).owns(ConfigMap).owns(Secret)
    for number in range(20):
        server.add(a_toy(f"toy-{number:02}"))
    operator = Operator(server, lambda: limited)
    operator.start()
    await until(lambda: len(looked) == 3)
    server.add(a_toy("asked-for-now"))
    await asyncio.sleep(0.5)
    await operator.stop()

    others = [at_s for name, at_s in looked if name != "asked-for-now"]
    assert looked[3][0] == "asked-for-now"
    assert others[-1] - others[0] >= len(others) - 1


async def test_two_controllers_of_one_name_are_refused(server: FakeApiServer) -> None:
    with pytest.raises(ValueError, match="two controllers are called corral-toy"):
        Manager(
            Client(server.connect()), (toy_controller(), toy_controller()), clock=virtual_clock(), metrics=Metrics()
        )


@pytest.mark.parametrize("writes", range(1, 16))
async def test_a_crash_after_any_write_leaves_nothing_that_the_next_cannot_finish(
    server: FakeApiServer, writes: int
) -> None:
    operator = Operator(server, toy_controller)
    operator.start()
    operator.connection.crash_after_writes(writes)
    server.add(a_toy(copies=3))
    await asyncio.sleep(30)
    server.edit(Toy, "bear", "default", merge={"spec": {"copies": 1, "greeting": "bye"}})
    await asyncio.sleep(30)
    await operator.crash()
    operator.start()
    await converged(server, toy_controller, within_s=300)

    assert [m["data"]["greeting"] for m in server.all_of(ConfigMap)] == ["bye"]
    assert len(server.all_of(Secret)) == 1
    await operator.stop()


async def test_a_cancellation_at_any_step_leaves_nothing_that_the_next_cannot_finish() -> None:
    """At every turn of the event loop from the start to the end of the work: each is an await somewhere."""
    for steps in range(0, 240, 3):
        server = FakeApiServer(seed=steps)
        server.register(Toy)
        server.add(a_toy(copies=2))
        operator = Operator(server, toy_controller, seed=steps)
        operator.start()
        for _ in range(steps):
            await asyncio.sleep(0)
        await operator.crash()
        operator.start()
        await converged(server, toy_controller, within_s=120, quiet_s=10)
        await operator.crash()
        server.stop_collecting()

        assert len(server.all_of(ConfigMap)) == 2, f"cancelled after {steps} steps"
