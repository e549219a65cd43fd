import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from corral.engine.clock import virtual_clock
from corral.slurm.clients import Clients
from corral.slurm.errors import Subject, Unreachable
from corral.slurm.facts import Extra, NotAsked, NotReachable, Observed, Reachable, Unknown, View
from corral.slurm.poller import Pace, Poller
from corral.slurm.tokens import Static
from corral.slurm.transport import Endpoint, Response
from tests.unit.slurm_rest.builders import JWT, NEVER, FakeRest, a_client, a_job, a_node, body, jobs, nodes, refused

pytestmark = pytest.mark.looptime
GONE = Unreachable(Subject("lab/slurm", "list", "nodes"), "connection refused")
SAME = Response(status=304)


def a_cluster() -> FakeRest:
    rest = FakeRest()
    rest.answer("nodes", nodes(a_node("w-0", "ALLOCATED"), a_node("w-1")), SAME)
    rest.answer("jobs", jobs(a_job(1, nodes="w-0"), a_job(2, "COMPLETED", nodes="w-1")), jobs(at=0))
    rest.answer("jobs/state", body(jobs=[{"job_id": "1", "state": ["RUNNING"]}]))
    return rest


def a_poller(rest: FakeRest, pace: Pace | None = None) -> Poller:
    return Poller(a_client(rest), virtual_clock(), pace)


@asynccontextmanager
async def looking(poller: Poller) -> AsyncIterator[None]:
    task = asyncio.create_task(poller.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_before_the_first_look_nothing_is_known() -> None:
    poller = a_poller(a_cluster())

    assert isinstance(poller.view, Unknown)
    assert isinstance(poller.reachability, NotAsked)


async def test_a_look_sees_nodes_and_who_holds_them() -> None:
    view = await a_poller(a_cluster()).look()

    assert isinstance(view, Observed)
    assert set(view.nodes) == {"w-0", "w-1"}
    assert [job.id for job in view.jobs_on("w-0")] == [1]
    assert view.jobs_on("w-1") == ()
    assert set(view.jobs) == {1, 2}
    assert view.server.release == "24.11.5"


async def test_a_quiet_cluster_is_asked_for_short_answers_and_keeps_what_it_said() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    for _ in range(3):
        await poller.look()
        await asyncio.sleep(1)
    view = poller.view

    assert isinstance(view, Observed)
    assert (view.at_s, set(view.jobs)) == (2.0, {1, 2})
    assert [len(request.query) for request in rest.asked("/nodes")] == [0, 1, 1]
    assert len(rest.asked("/jobs")) == 2  # the second look has no states to compare with yet
    assert len(rest.asked("/jobs/state")) == 2


async def test_a_changed_state_fetches_the_jobs() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    await poller.look()
    await poller.look()
    rest.answer("jobs/state", body(jobs=[{"job_id": "1", "state": ["COMPLETED"]}]))
    rest.answer("jobs", jobs(a_job(1, "COMPLETED", nodes="w-0"), at=101))

    view = await poller.look()

    assert isinstance(view, Observed)
    assert view.jobs_by_node == {}


async def test_what_a_new_answer_says_again_is_the_very_same_value() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    before = await poller.look()
    rest.answer("nodes", nodes(a_node("w-0", "ALLOCATED"), a_node("w-1", "DOWN"), at=101))
    rest.answer("jobs", jobs(a_job(1, nodes="w-0"), a_job(3, nodes="w-1"), at=101))

    after = await poller.look()

    assert isinstance(before, Observed)
    assert isinstance(after, Observed)
    assert after.nodes["w-0"] is before.nodes["w-0"]
    assert after.jobs_on("w-0") is before.jobs_on("w-0")
    assert after.nodes["w-1"] != before.nodes["w-1"]
    assert [job.id for job in after.jobs_on("w-1")] == [3]


async def test_nodes_are_found_by_their_features() -> None:
    rest = a_cluster()
    rest.answer("nodes", nodes(a_node("w-0", features=["gpu", "a100"]), a_node("w-1", features=["cpu"])))

    view = await a_poller(rest).look()

    assert isinstance(view, Observed)
    assert [node.name for node in view.nodes_with("gpu")] == ["w-0"]
    assert view.nodes_with("tpu") == ()


async def test_a_look_that_somebody_waits_for_asks_for_the_jobs_themselves() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        await asyncio.sleep(0.5)
        before = len(rest.asked("/jobs"))
        await poller.fresh()

        assert len(rest.asked("/jobs")) == before + 1


async def test_a_look_that_somebody_waits_for_sees_that_the_last_node_is_gone() -> None:
    """slurmrestd answers 304 then to whoever asks with a mark."""
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        await asyncio.sleep(0.5)
        rest.answer("nodes", nodes())
        view = await poller.fresh()

    assert isinstance(view, Observed)
    assert view.nodes == {}
    assert rest.asked("/nodes")[-1].query == ()


async def test_marks_are_forgotten_now_and_then() -> None:
    rest = a_cluster()
    poller = a_poller(rest, Pace(full_s=60))
    await poller.look()
    await asyncio.sleep(61)
    rest.answer("nodes", nodes(a_node("w-9")))
    rest.answer("jobs", jobs())
    view = await poller.look()

    assert isinstance(view, Observed)
    assert set(view.nodes) == {"w-9"}
    assert rest.asked("/nodes")[-1].query == ()


async def test_fresh_is_a_look_that_began_after_the_call() -> None:
    poller = a_poller(a_cluster())
    async with looking(poller):
        await asyncio.sleep(0.5)
        asked_s = asyncio.get_running_loop().time()
        view = await poller.fresh()

        assert isinstance(view, Observed)
        assert view.at_s >= asked_s


async def test_fresh_takes_a_look_that_is_young_enough() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        await asyncio.sleep(0.5)
        before = len(rest.requests)

        assert await poller.fresh(1.0) is poller.view
        assert len(rest.requests) == before


async def test_many_who_want_it_fresh_share_one_look() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        await asyncio.sleep(0.5)
        before = len(rest.asked("/nodes"))
        await asyncio.gather(*(poller.fresh() for _ in range(20)))

        assert len(rest.asked("/nodes")) == before + 1


async def test_fresh_of_a_hanging_cluster_is_unknown_in_time() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        seen = await poller.fresh()
        rest.answer("nodes", NEVER)
        view = await poller.fresh(within_s=3)

        assert isinstance(view, Unknown)
        assert view.last is seen
        assert "not seen anew within 3 s" in view.why


async def test_when_none_can_be_had_it_is_unknown_since_it_was_seen_last_and_that_does_not_move() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        seen = await poller.fresh()
        rest.answer("nodes", NEVER)
        first = await poller.fresh(within_s=3)
        second = await poller.fresh(within_s=3)

    assert isinstance(seen, Observed)
    assert isinstance(first, Unknown)
    assert isinstance(second, Unknown)
    assert (first.since, first.since_s) == (second.since, second.since_s) == (seen.at, seen.at_s)


async def test_however_many_want_it_fresh_there_is_a_pause_between_looks() -> None:
    rest = a_cluster()
    poller = a_poller(rest)

    async def draining() -> None:
        while True:
            await poller.fresh()
            await asyncio.sleep(0.05)

    async with looking(poller), asyncio.TaskGroup() as sets:
        tasks = [sets.create_task(draining()) for _ in range(12)]
        for number in range(60):  # jobs come and go all the time
            rest.answer("jobs", jobs(a_job(number, nodes="w-0"), at=200 + number))
            await asyncio.sleep(1)
        for task in tasks:
            task.cancel()

    assert 55 <= len(rest.asked("/nodes")) <= 62


async def test_what_is_current_is_for_everybody_from_after_our_own_write() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        await poller.fresh()
        rest.answer("nodes", nodes())
        poller.wrote()
        first, second = await asyncio.gather(poller.current(), poller.current())
        asked = len(rest.requests)
        third = await poller.current()

    assert [isinstance(view, Observed) and view.nodes for view in (first, second, third)] == [{}] * 3
    assert len(rest.requests) == asked
    assert rest.asked("/nodes")[-1].query == ()


async def test_the_first_look_after_our_write_is_one_in_full_though_nobody_waits_for_it() -> None:
    """With a mark slurmrestd would say that nothing has changed when the last node was deleted."""
    rest = a_cluster()
    poller = a_poller(rest)
    await poller.look()
    poller.wrote()
    await asyncio.sleep(1)
    await poller.look()
    await poller.look()

    assert [len(request.query) for request in rest.asked("/nodes")] == [0, 0, 1]


async def test_a_look_that_began_before_our_write_and_ended_after_it_is_not_current() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    async with looking(poller):
        await poller.fresh()
        rest.answer("jobs", 3.0, jobs())
        looks = asyncio.create_task(poller.fresh())
        await asyncio.sleep(2)
        poller.wrote()
        rest.answer("nodes", nodes())
        view = await poller.current()
        await looks

    assert isinstance(view, Observed)
    assert view.nodes == {}


async def test_extras_are_part_of_each_look_as_long_as_somebody_asks_for_them() -> None:
    rest = a_cluster()
    rest.answer("reservations", body(reservations=[{"name": "corral-gpu", "node_list": "w-0"}]))
    poller = a_poller(rest)
    async with looking(poller):
        await poller.fresh()
        assert rest.asked("/reservations") == []
        views = [await poller.current([Extra.RESERVATIONS]) for _ in range(20)]
        assert len(rest.asked("/reservations")) == 1
        await asyncio.sleep(100)
        asked = len(rest.asked("/reservations"))
        await asyncio.sleep(100)

    assert all(isinstance(view, Observed) and set(view.reservations or ()) == {"corral-gpu"} for view in views)
    assert len(rest.asked("/reservations")) == asked < len(rest.asked("/nodes"))
    assert rest.asked("/partitions") == []


async def test_partitions_are_asked_for_before_the_jobs_that_wait_in_them() -> None:
    rest = a_cluster()
    rest.answer("partitions", body(partitions=[{"name": "gpu", "partition": {"state": ["INACTIVE"]}}]))
    poller = a_poller(rest)
    async with looking(poller):
        view = await poller.fresh(extras=[Extra.PARTITIONS])

    assert isinstance(view, Observed)
    assert view.partitions is not None
    assert view.partitions["gpu"].state == ("INACTIVE",)
    paths = [request.path.rpartition("/")[2] for request in rest.asked()]
    assert paths.index("partitions") < paths.index("jobs")


async def test_an_extra_that_cannot_be_had_makes_nothing_else_unknown() -> None:
    rest = a_cluster()
    rest.answer("reservations", refused(500, 2002))
    poller = a_poller(rest)
    async with looking(poller):
        view = await poller.fresh(extras=[Extra.RESERVATIONS])

    assert isinstance(view, Observed)
    assert (view.reservations, view.extras) == (None, frozenset({Extra.RESERVATIONS}))


async def test_a_view_tells_since_when_every_look_was_answered() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    first = await poller.look()
    await asyncio.sleep(10)
    second = await poller.look()
    rest.answer("nodes", GONE)
    await poller.look()
    rest.answer("nodes", nodes(a_node("w-0")))
    await asyncio.sleep(10)
    back = await poller.look()

    assert isinstance(first, Observed)
    assert isinstance(second, Observed)
    assert isinstance(back, Observed)
    assert (second.since, back.since) == (first.at, back.at)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        pytest.param(GONE, "RestApiUnreachable", id="slurmrestd is gone"),
        pytest.param(refused(502, 1800), "SlurmctldUnreachable", id="slurmctld is gone"),
        pytest.param(refused(511, 1007), "TokenRefused", id="another key"),
        pytest.param(Response(status=200, body=b"<html>"), "AnswerGarbled", id="not Slurm"),
    ],
)
async def test_a_failed_look_makes_all_unknown_and_says_why(trouble: Response | Exception, reason: str) -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    seen = await poller.look()
    rest.answer("nodes", trouble)
    view = await poller.look()

    assert isinstance(view, Unknown)
    assert view.last is seen
    assert isinstance(poller.reachability, NotReachable)
    assert poller.reachability.reason == reason


async def test_after_a_failure_slurmctld_is_pinged_first_and_everything_is_asked_anew() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    await poller.look()
    rest.answer("nodes", refused(502, 1800))
    await poller.look()
    rest.answer("ping", body(pings=[{"hostname": "ctld", "responding": False}]))
    asked = len(rest.asked("/nodes"))
    down = await poller.look()
    still_asked = len(rest.asked("/nodes"))
    rest.answer("ping", body(pings=[{"hostname": "ctld", "responding": True}]))
    rest.answer("nodes", nodes(a_node("w-0")))
    rest.answer("jobs", jobs())
    back = await poller.look()

    assert isinstance(down, Unknown)
    assert "no slurmctld answers slurmrestd: ctld" in down.why
    assert still_asked == asked
    assert isinstance(back, Observed)
    assert rest.asked("/nodes")[-1].query == ()
    assert isinstance(poller.reachability, Reachable)


async def test_since_is_when_it_began_not_when_it_was_last_tried() -> None:
    rest = a_cluster()
    rest.answer("nodes", refused(502, 1800))
    rest.answer("ping", body(pings=[]))
    poller = a_poller(rest)
    await asyncio.sleep(10)
    await poller.look()
    first = poller.reachability
    await asyncio.sleep(10)
    await poller.look()

    assert poller.reachability.since == first.since


async def test_listeners_hear_of_changes_only_and_not_after_they_left() -> None:
    rest = a_cluster()
    poller = a_poller(rest)
    heard: list[View] = []
    leave = poller.subscribe(heard.append)
    for _ in range(3):
        await poller.look()
    assert len(heard) == 1
    rest.answer("nodes", nodes(a_node("w-0", "IDLE"), a_node("w-1")))
    await poller.look()
    assert len(heard) == 2
    leave()
    rest.answer("nodes", nodes())
    await poller.look()

    assert len(heard) == 2


async def test_a_listener_that_fails_does_not_keep_others_from_hearing() -> None:
    poller = a_poller(a_cluster())
    heard: list[View] = []

    def broken(view: View) -> None:
        raise RuntimeError("a bug")

    poller.subscribe(broken)
    poller.subscribe(heard.append)
    await poller.look()

    assert len(heard) == 1


async def test_looks_come_seldom_when_quiet_and_often_after_a_change() -> None:
    rest = a_cluster()
    poller = a_poller(rest, Pace(busy_s=1, quiet_s=5, full_s=NEVER))
    async with looking(poller):
        await asyncio.sleep(100)
        quiet = len(rest.asked("/nodes"))
        rest.answer("nodes", *(nodes(a_node(f"w-{i}"), at=200 + i) for i in range(40)))
        await asyncio.sleep(20)

        assert quiet <= 25
        assert len(rest.asked("/nodes")) - quiet >= 15


def clients_of(rests: dict[str, FakeRest]) -> Clients:
    return Clients(virtual_clock(), transport=lambda endpoint: rests[endpoint.url])


async def test_a_cluster_that_hangs_does_not_slow_another() -> None:
    hanging, good = a_cluster(), a_cluster()
    hanging.answer("nodes", NEVER)
    clients = clients_of({"h": hanging, "g": good})
    clients.connect("lab/h", Endpoint(url="h"), Static(JWT))
    clients.connect("lab/g", Endpoint(url="g"), Static(JWT))
    await asyncio.sleep(20)

    assert isinstance(clients.view("lab/h"), Unknown)
    good_view = clients.view("lab/g")
    assert isinstance(good_view, Observed)
    assert good_view.age_s(20) <= 6
    await clients.close()


async def test_a_client_is_kept_while_its_address_and_issuer_are_the_same_and_replaced_when_not() -> None:
    old, new = a_cluster(), a_cluster()
    clients = clients_of({"old": old, "new": new})
    first = clients.connect("lab/a", Endpoint(url="old"), Static(JWT))
    same = clients.connect("lab/a", Endpoint(url="old"), Static(JWT))
    moved = clients.connect("lab/a", Endpoint(url="new"), Static(JWT))
    await asyncio.sleep(1)

    assert same is first
    assert moved is not first
    assert (old.closed, new.closed) == (True, False)
    rekeyed = clients.connect("lab/a", Endpoint(url="new"), Static(JWT + "x"))
    assert rekeyed is not moved
    await clients.close()


async def test_a_cluster_that_went_has_not_answered_since_it_went() -> None:
    clients = clients_of({"a": a_cluster()})
    await asyncio.sleep(1000)
    clients.connect("lab/a", Endpoint(url="a"), Static(JWT))
    await asyncio.sleep(10)
    clients.disconnect("lab/a")
    await asyncio.sleep(10)
    view, another = clients.view("lab/a"), clients.view("lab/b")

    assert isinstance(view, Unknown)
    assert isinstance(another, Unknown)
    assert (view.since_s - another.since_s, view.since - another.since) == (1010, timedelta(seconds=1010))
    assert clients.reachability("lab/a").since == view.since
    await clients.close()


async def test_what_a_cluster_that_went_would_say_is_unknown_and_told() -> None:
    rest = a_cluster()
    clients = clients_of({"a": rest})
    told: list[tuple[str, View]] = []
    clients.subscribe(lambda key, view: told.append((key, view)))
    clients.connect("lab/a", Endpoint(url="a"), Static(JWT))
    await asyncio.sleep(1)
    clients.disconnect("lab/a")
    await asyncio.sleep(1)

    assert [(key, type(view)) for key, view in told] == [("lab/a", Observed), ("lab/a", Unknown)]
    assert isinstance(clients.reachability("lab/a"), NotAsked)
    assert isinstance(await clients.fresh("lab/a"), Unknown)
    assert rest.closed
    await clients.close()
