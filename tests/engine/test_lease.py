"""The lease: one leader at a time, whatever clocks say and whoever sleeps; and the fence in front of every write."""

import asyncio
import random as randomness
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from corral.engine.clock import Clock, virtual_clock
from corral.engine.lease import Create, Election, LeaseLost, Observed, Renew, Take, Wait, decide, observe
from corral.kube.client import Client
from corral.kube.errors import Refused
from corral.kube.meta import ObjectMeta
from corral.kube.models.coordination_v1 import Lease, LeaseSpec
from corral.kube.models.core_v1 import ConfigMap
from corral.kube.values import micro_time
from corral.testing.apiserver import Connection, FakeApiServer, Fault

WALL = datetime(2026, 1, 1, tzinfo=UTC)


def a_lease(holder: str = "other", *, renewed: datetime = WALL, transitions: int = 3) -> Lease:
    return Lease(
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=15,
            renew_time=micro_time(renewed),
            lease_transitions=transitions,
        )
    )


@pytest.mark.parametrize(
    ("observed", "decision"),
    [
        pytest.param(None, Create(), id="there is none"),
        pytest.param(Observed(a_lease("me"), 0), Renew(), id="it is ours"),
        pytest.param(Observed(a_lease("other"), 90), Wait("other", 105), id="another holds it"),
        pytest.param(Observed(a_lease("other"), 85), Take(4), id="another held it and has not renewed it for long"),
        pytest.param(Observed(a_lease(""), 100), Take(4), id="it was released"),
    ],
)
def test_at_time_100(observed: Observed | None, decision: object) -> None:
    assert decide("me", observed, now_s=100) == decision


def test_only_what_we_saw_change_counts_and_not_what_the_holders_clock_says() -> None:
    century_old = a_lease(renewed=WALL - timedelta(days=36500))
    observed = observe(None, century_old, now_s=100)

    assert decide("me", observed, now_s=110) == Wait("other", 115)
    observed = observe(observed, a_lease(renewed=WALL), now_s=112)
    assert decide("me", observed, now_s=120) == Wait("other", 127)


def test_a_label_on_the_lease_does_not_keep_it_alive() -> None:
    observed = observe(None, a_lease(), now_s=100)
    labelled = msgspec.structs.replace(a_lease(), metadata=ObjectMeta(resource_version="9", labels={"a": "b"}))

    assert observe(observed, labelled, now_s=114).since_s == 100


class Candidate:
    """One process: its election, its own idea of time, and whether it is stopped."""

    def __init__(self, server: FakeApiServer, identity: str, *, wall_ahead: timedelta = timedelta()) -> None:
        clock = virtual_clock(seed=sum(identity.encode()))
        self.slept_s = 0.0  # time that passes for the machine and not for its event loop
        self.clock = Clock(
            monotonic_s=clock.monotonic_s,
            wall=lambda: clock.wall() + wall_ahead,
            random=randomness.Random(identity),
            boottime_s=lambda: clock.boottime_s() + self.slept_s,
        )
        self.connection: Connection = server.connect(identity)
        self.client = Client(self.connection)
        self.election = Election(self.client, self.clock, name="corral", namespace="default", identity=identity)
        self.writer = self.client.fenced(self.election.may_write)

    async def lead(self) -> None:
        await self.election.acquire()
        await self.election.hold()


def leaders(*candidates: Candidate) -> list[str]:
    return [candidate.connection.client for candidate in candidates if candidate.election.may_write()]


@pytest.mark.looptime
async def test_the_first_leads_and_the_second_follows_when_the_first_releases() -> None:
    server = FakeApiServer()
    first, second = Candidate(server, "first"), Candidate(server, "second")
    async with asyncio.TaskGroup() as group:
        leading = group.create_task(first.lead())
        await asyncio.sleep(1)
        waiting = group.create_task(second.election.acquire())
        await asyncio.sleep(60)
        assert leaders(first, second) == ["first"]

        leading.cancel()
        await first.election.release()
        assert leaders(first, second) == []
        await asyncio.sleep(3)
        assert leaders(first, second) == ["second"]
        await waiting
    assert second.election.statistics().transitions == 1


@pytest.mark.looptime
async def test_a_lease_is_released_also_when_the_answer_to_the_last_renewal_was_not_waited_for() -> None:
    server = FakeApiServer()
    first = Candidate(server, "first")
    leading = asyncio.create_task(first.lead())
    await asyncio.sleep(1)
    server.fail_next(Fault.HANG, method="PATCH")
    await asyncio.sleep(3)  # a renewal is done by now, and unanswered
    leading.cancel()
    await asyncio.wait((leading,))

    await first.election.release()

    lease = server.get(Lease, "corral", "default")
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")


@pytest.mark.looptime
async def test_when_the_leader_falls_silent_another_takes_over_after_the_lease_has_run_out() -> None:
    server = FakeApiServer()
    first, second = Candidate(server, "first"), Candidate(server, "second", wall_ahead=timedelta(days=300))
    leading, following = asyncio.create_task(first.lead()), asyncio.create_task(second.lead())
    await asyncio.sleep(30)
    assert leaders(first, second) == ["first"]
    first.connection.cut()
    seen = []
    for _ in range(300):
        await asyncio.sleep(0.1)
        seen.append(tuple(leaders(first, second)))

    assert list(dict.fromkeys(seen)) == [("first",), (), ("second",)]
    assert seen.count(()) > 40  # the time for writes that are still under way
    with pytest.raises(LeaseLost, match="was not renewed within 10 s"):
        await leading
    following.cancel()


@pytest.mark.looptime
async def test_a_leader_that_was_suspended_does_not_write_when_it_wakes() -> None:
    """The first thing after waking may be a write: the fence must say no before any task or timer has run."""
    server = FakeApiServer()
    leader = Candidate(server, "leader")
    leading = asyncio.create_task(leader.lead())
    await asyncio.sleep(5)
    write = leader.writer.create(ConfigMap(metadata=ObjectMeta(name="late", namespace="default")), field_manager="test")
    assert leader.election.may_write()

    leader.slept_s = 20.0

    with pytest.raises(Refused, match="not sent"):
        await write
    assert server.get(ConfigMap, "late", "default") is None
    with pytest.raises(LeaseLost):
        await leading


@pytest.mark.looptime
async def test_without_the_fence_the_suspended_leader_would_write() -> None:
    """The mechanism switched off: this is what the test above guards against."""
    server = FakeApiServer()
    leader = Candidate(server, "leader")
    leading = asyncio.create_task(leader.lead())
    await asyncio.sleep(5)
    leader.slept_s = 20.0
    await leader.client.create(ConfigMap(metadata=ObjectMeta(name="late", namespace="default")), field_manager="test")

    assert server.get(ConfigMap, "late", "default") is not None
    with pytest.raises(LeaseLost):
        await leading


@pytest.mark.looptime
async def test_a_lease_once_lost_stays_lost_though_nobody_took_it() -> None:
    leader = Candidate(FakeApiServer(), "leader")
    await leader.election.acquire()
    leader.slept_s = 20.0
    assert not leader.election.may_write()
    leader.slept_s = 0.0

    assert not leader.election.may_write()
    with pytest.raises(LeaseLost):
        await leader.election.acquire()


@pytest.mark.looptime
async def test_an_answer_that_comes_after_the_deadline_does_not_bring_the_lease_back() -> None:
    leader = Candidate(FakeApiServer(), "leader")
    leading = asyncio.create_task(leader.lead())
    await asyncio.sleep(5)
    leader.connection.cut()
    renewed_s = leader.election._renewed_s
    assert renewed_s is not None
    await asyncio.sleep(renewed_s + 10.001 - leader.clock.boottime_s())
    leader.connection.mend()

    with pytest.raises(LeaseLost):
        await asyncio.wait_for(leading, 5)
    assert leader.election._renewed_s == renewed_s


@pytest.mark.looptime
@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.CONFLICT, Fault.SERVER_ERROR, Fault.REFUSE, Fault.HANG])
async def test_a_renewal_that_fails_once_does_not_cost_the_lease(fault: Fault) -> None:
    server = FakeApiServer()
    leader = Candidate(server, "leader")
    leading = asyncio.create_task(leader.lead())
    await asyncio.sleep(5)
    server.fail_next(fault, method="PATCH", resource="leases.coordination.k8s.io")
    for _ in range(200):
        await asyncio.sleep(0.1)
        assert leader.election.may_write()

    assert leader.election.statistics().failures == 0
    leading.cancel()


@pytest.mark.looptime
async def test_a_lease_that_another_took_is_lost_at_once() -> None:
    server = FakeApiServer()
    leader = Candidate(server, "leader")
    leading = asyncio.create_task(leader.lead())
    await asyncio.sleep(5)
    server.edit(Lease, "corral", "default", merge={"spec": {"holderIdentity": "usurper"}})

    with pytest.raises(LeaseLost, match="is now held by usurper"):
        await asyncio.wait_for(leading, 3)


@pytest.mark.looptime
async def test_a_lease_that_was_deleted_is_made_again() -> None:
    server = FakeApiServer()
    leader = Candidate(server, "leader")
    leading = asyncio.create_task(leader.lead())
    await asyncio.sleep(5)
    server.remove(Lease, "corral", "default")
    await asyncio.sleep(6)

    lease = server.get(Lease, "corral", "default")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "leader"
    assert leader.election.may_write()
    leading.cancel()


@pytest.mark.looptime
@pytest.mark.parametrize("seed", range(30))
async def test_never_two_at_a_time(seed: int) -> None:
    """Three candidates whose connections and machines fail at random; the statement is checked all the time."""
    random = randomness.Random(seed)
    server = FakeApiServer(seed=seed)
    candidates = [Candidate(server, f"c{number}", wall_ahead=timedelta(hours=number)) for number in range(3)]
    tasks = [asyncio.create_task(candidate.lead()) for candidate in candidates]
    led = set()
    for _ in range(1000):
        await asyncio.sleep(0.1)
        held = leaders(*candidates)
        assert len(held) <= 1, f"seed {seed}: {held}"
        led |= set(held)
        victim = random.choice(candidates)
        match random.randrange(60):
            case 0:
                victim.connection.cut()
            case 1 | 2:
                victim.connection.mend()
            case 3 if victim.election.may_write():  # time that only one clock shows is safe only for the leader
                victim.slept_s += random.uniform(0, 8)
            case 4:
                server.fail_next(random.choice(list(Fault)), client=victim.connection.client)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    assert led
