"""The queue: each key waits once, none runs twice at a time, people first, nobody starves, nothing piles up."""

import asyncio
from random import Random

import pytest

from corral.engine.queue import Backoff, Lane, NothingDue, QueueClosed, RateLimit, Taken, WorkQueue


class Hand:
    """A clock moved by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def a_queue(
    clock: Hand | None = None, *, rate: RateLimit | None = None, backoff: Backoff | None = None
) -> WorkQueue[str]:
    return WorkQueue(now_s=clock or Hand(), random=Random(1), rate=rate, backoff=backoff or Backoff())


def taken_keys(queue: WorkQueue[str], *, finish: bool = True) -> list[str]:
    keys: list[str] = []
    while True:
        try:
            taken = queue.take_nowait()
        except (NothingDue, QueueClosed):
            return keys
        keys.append(taken.key)
        if finish:
            queue.done(taken.key)


def test_a_key_added_many_times_is_taken_once() -> None:
    queue = a_queue()
    for _ in range(100):
        queue.add("a")

    assert taken_keys(queue) == ["a"]
    assert queue.statistics().coalesced_total == 99


def test_keys_of_one_lane_leave_in_the_order_in_which_they_came() -> None:
    queue = a_queue()
    for key in "abcab":
        queue.add(key)

    assert taken_keys(queue) == ["a", "b", "c"]


def test_a_key_that_runs_is_not_given_out_again_before_it_is_done() -> None:
    queue = a_queue()
    queue.add("a")
    queue.take_nowait()
    queue.add("a")

    with pytest.raises(NothingDue):
        queue.take_nowait()
    queue.done("a")
    assert queue.take_nowait().key == "a"


def test_done_without_take_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'a'.*was not taken"):
        a_queue().done("a")


def test_a_delayed_key_waits_for_its_time() -> None:
    clock = Hand()
    queue = a_queue(clock)
    queue.add("a", after_s=10)

    with pytest.raises(NothingDue) as nothing:
        queue.take_nowait()
    assert nothing.value.due_in_s == 10
    clock.now_s += 10
    assert queue.take_nowait().key == "a"


@pytest.mark.parametrize("delays", [(10, 3), (3, 10)])
def test_of_two_delays_the_earlier_wins(delays: tuple[float, float]) -> None:
    clock = Hand()
    queue = a_queue(clock)
    for delay in delays:
        queue.add("a", after_s=delay)
    clock.now_s += 3

    assert taken_keys(queue) == ["a"]
    clock.now_s += 100
    assert taken_keys(queue) == []


def test_a_change_does_not_wait_for_a_backoff() -> None:
    queue = a_queue(backoff=Backoff(base_s=1000))
    queue.retry("a")
    queue.add("a")

    assert taken_keys(queue) == ["a"]


def test_the_backoff_doubles_up_to_its_maximum_and_forgetting_starts_anew() -> None:
    queue = a_queue(backoff=Backoff(base_s=1, delay_s_max=8))

    delays = [queue.retry("a") for _ in range(6)]

    assert all(bound / 2 <= delay <= bound for delay, bound in zip(delays, [1, 2, 4, 8, 8, 8], strict=True))
    queue.forget("a")
    assert queue.retry("a") <= 1


def test_the_backoff_of_one_key_is_not_that_of_another() -> None:
    queue = a_queue(backoff=Backoff(base_s=1))
    for _ in range(5):
        queue.retry("a")

    assert queue.retry("b") <= 1


def test_a_persons_change_is_next_however_many_wait() -> None:
    queue = a_queue()
    for number in range(5000):
        queue.add(f"resync-{number}", lane=Lane.RESYNC)
        queue.add(f"change-{number}", lane=Lane.CHANGE)
    for _ in range(1000):
        queue.done(queue.take_nowait().key)
        queue.add("person", lane=Lane.PERSON)
        assert queue.take_nowait().key == "person"
        queue.done("person")


def test_a_key_that_waits_moves_up_when_it_becomes_urgent() -> None:
    queue = a_queue()
    for key in "abc":
        queue.add(key, lane=Lane.RESYNC)
    queue.add("c", lane=Lane.PERSON)

    assert taken_keys(queue) == ["c", "a", "b"]


def test_a_key_that_waits_does_not_lose_its_place_by_being_added_again() -> None:
    queue = a_queue()
    for key in "aba":
        queue.add(key)

    assert taken_keys(queue) == ["a", "b"]


def test_no_lane_starves_while_higher_ones_never_run_empty() -> None:
    queue = a_queue()
    queue.add("change", lane=Lane.CHANGE)
    queue.add("resync", lane=Lane.RESYNC)
    seen = []
    for number in range(60):
        queue.add(f"person-{number}", lane=Lane.PERSON)
        queue.add(f"person-{number}-too", lane=Lane.PERSON)
        taken = queue.take_nowait()
        queue.done(taken.key)
        seen.append(taken.key)

    assert "change" in seen
    assert "resync" in seen


def test_reasons_are_carried_each_once_and_only_those_that_are_due() -> None:
    queue = a_queue()
    queue.add("a", after_s=600, reason="periodic")
    queue.add("a", reason="Pod lab/a changed")
    queue.add("a", reason="Pod lab/a changed")
    queue.add("a", reason="spec changed")

    assert queue.take_nowait().reasons == ("Pod lab/a changed", "spec changed")


def test_a_taken_key_tells_how_long_it_could_have_run() -> None:
    clock = Hand()
    queue = a_queue(clock)
    queue.add("a", after_s=5)
    clock.now_s += 7

    assert queue.take_nowait().waited_s == 2


def test_a_periodic_key_comes_again_after_each_pass() -> None:
    clock = Hand()
    queue = a_queue(clock)
    queue.repeat("a", every_s=60)
    passes = 0
    for _ in range(10):
        clock.now_s += 66
        passes += len(taken_keys(queue))

    assert passes == 10
    queue.stop_repeating("a")
    clock.now_s += 66
    assert taken_keys(queue) == ["a"]  # it waited already
    clock.now_s += 1000
    assert taken_keys(queue) == []


def test_any_pass_starts_the_period_anew() -> None:
    clock = Hand()
    queue = a_queue(clock)
    queue.repeat("a", every_s=60)
    clock.now_s += 50
    queue.add("a")
    assert taken_keys(queue) == ["a"]

    clock.now_s += 50
    assert taken_keys(queue) == []


@pytest.mark.parametrize(
    ("asked_s", "next_s"),
    [pytest.param(1000, 66, id="later than the period"), pytest.param(10, 10, id="sooner than the period")],
)
def test_what_a_pass_asks_for_and_the_period_are_whichever_is_sooner(asked_s: float, next_s: float) -> None:
    clock = Hand()
    queue = a_queue(clock)
    queue.repeat("a", every_s=60)
    queue.add("a")
    queue.take_nowait()
    queue.add("a", after_s=asked_s)
    queue.done("a")

    clock.now_s += next_s
    assert taken_keys(queue) == ["a"]
    clock.now_s += 66
    assert taken_keys(queue) == ["a"]  # and the period goes on


def test_the_rate_limit_holds_back_everything_but_people() -> None:
    clock = Hand()
    queue = a_queue(clock, rate=RateLimit(per_s=1, burst=2))
    for key in "abcd":
        queue.add(key)

    assert taken_keys(queue) == ["a", "b"]
    queue.add("person", lane=Lane.PERSON)
    assert taken_keys(queue) == ["person"]
    with pytest.raises(NothingDue) as nothing:
        queue.take_nowait()
    assert nothing.value.due_in_s == 2  # one token was borrowed
    clock.now_s += 2
    assert taken_keys(queue) == ["c"]


def test_entries_that_were_superseded_do_not_pile_up() -> None:
    clock = Hand()
    queue = a_queue(clock)
    for number in range(10_000):
        queue.add("a", after_s=20_000 - number)

    assert len(queue._alarms) < 200


def test_nothing_is_left_of_a_key_that_succeeded() -> None:
    queue = a_queue()
    for number in range(1000):
        queue.retry(f"key-{number}")
        queue.add(f"key-{number}")
        taken = queue.take_nowait()
        queue.forget(taken.key)
        queue.done(taken.key)

    statistics = queue.statistics()
    assert (statistics.failing, statistics.delayed, statistics.running, sum(statistics.ready.values())) == (0, 0, 0, 0)
    assert len(queue._alarms) < 100


def test_draining_gives_out_what_is_ready_and_then_ends() -> None:
    queue = a_queue()
    queue.add("ready")
    queue.add("later", after_s=5)
    queue.close(drain=True)
    queue.add("too late")

    assert taken_keys(queue) == ["ready"]
    with pytest.raises(QueueClosed):
        queue.take_nowait()


def test_dropping_gives_out_nothing_more() -> None:
    queue = a_queue()
    queue.add("ready")
    queue.close(drain=False)

    with pytest.raises(QueueClosed):
        queue.take_nowait()


def test_statistics_tell_what_waits_and_what_runs() -> None:
    clock = Hand()
    queue = a_queue(clock)
    queue.add("running")
    queue.take_nowait()
    queue.add("ready", lane=Lane.RESYNC)
    queue.retry("failing")
    clock.now_s += 0.001
    statistics = queue.statistics()

    assert statistics.ready == {Lane.PERSON: 0, Lane.CHANGE: 0, Lane.EFFECT: 0, Lane.RESYNC: 1, Lane.TELLING: 0}
    assert (statistics.delayed, statistics.running, statistics.failing) == (1, 1, 1)
    assert statistics.longest_running_s == pytest.approx(0.001)
    assert repr(queue) == "<WorkQueue: 1 ready, 1 delayed, 1 running>"


# --- the one await


def a_live_queue() -> WorkQueue[str]:
    return WorkQueue(now_s=asyncio.get_running_loop().time, random=Random(1))


@pytest.mark.looptime
async def test_a_taker_sleeps_until_a_key_is_due() -> None:
    queue = a_live_queue()
    queue.add("a", after_s=3600)
    started_s = asyncio.get_running_loop().time()

    taken = await queue.take()

    assert taken.key == "a"
    assert asyncio.get_running_loop().time() - started_s == pytest.approx(3600, abs=0.01)


@pytest.mark.looptime
async def test_a_sleeping_taker_notices_a_key_that_is_due_earlier() -> None:
    queue = a_live_queue()
    queue.add("late", after_s=3600)
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(1)
    queue.add("early", after_s=10)

    assert (await taker).key == "early"


@pytest.mark.looptime
async def test_as_many_takers_wake_as_there_are_keys() -> None:
    queue = a_live_queue()
    takers = [asyncio.create_task(queue.take()) for _ in range(5)]
    await asyncio.sleep(0)
    for key in "abc":
        queue.add(key, after_s=1)
    await asyncio.sleep(2)

    assert sorted(taker.result().key for taker in takers if taker.done()) == ["a", "b", "c"]
    queue.close(drain=False)
    ends = await asyncio.gather(*takers, return_exceptions=True)
    assert sum(isinstance(end, QueueClosed) for end in ends) == 2


@pytest.mark.looptime
async def test_a_taker_cancelled_at_its_turn_passes_it_on() -> None:
    queue = a_live_queue()
    first, second = (asyncio.create_task(queue.take()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    async with asyncio.timeout(1):
        taken = await second

    assert isinstance(taken, Taken)
    assert taken.key == "a"
