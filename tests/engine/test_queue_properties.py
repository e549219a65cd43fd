"""Whatever is added, taken and done in whatever order, what the queue promises holds.

The model is a plain dictionary of what was asked for. The properties: a key is never given out twice at a time; nothing
is given out before it is due; what is due is given out; the most urgent lane goes first, unless it had its turns;
nothing asked for is lost, nothing is invented, and no book-keeping remains.
"""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from corral.engine.queue import TURNS_MAX, Lane, NothingDue, WorkQueue

keys = st.sampled_from("abcdef")
lanes = st.sampled_from(Lane)


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.queue: WorkQueue[str] = WorkQueue(now_s=lambda: self.now_s, random=Random(0))
        self.waiting: dict[
            str, tuple[float, Lane]
        ] = {}  # earliest due, most urgent lane; what is only to be told stays so until the other is due
        self.running: set[str] = set()
        self.again: dict[str, tuple[float, Lane]] = {}
        self.turns_in_a_row = 0

    @rule(key=keys, lane=lanes, after_s=st.sampled_from([0.0, 0.5, 1.0, 7.0, 100.0]))
    def add(self, key: str, lane: Lane, after_s: float) -> None:
        self.queue.add(key, lane=lane, after_s=after_s)
        self._expect(key, self.now_s + after_s, lane)

    @rule(key=keys, lane=lanes)
    def retry(self, key: str, lane: Lane) -> None:
        delay_s = self.queue.retry(key, lane=lane)
        self._expect(key, self.now_s + delay_s, lane)

    def _expect(self, key: str, due_s: float, lane: Lane) -> None:
        asked = self.again if key in self.running else self.waiting
        known = asked.get(key, (due_s, lane))
        (first_s, first_lane), (second_s, second_lane) = sorted((known, (due_s, lane)), key=lambda one: one[0])
        stays = first_lane is Lane.TELLING and second_s > self.now_s
        asked[key] = (first_s, first_lane if stays else min(first_lane, second_lane))

    @rule(key=keys)
    def forget(self, key: str) -> None:
        self.queue.forget(key)

    @rule(seconds=st.sampled_from([0.25, 1.0, 10.0, 1000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def take(self) -> None:
        due = {key: lane for key, (due_s, lane) in self.waiting.items() if due_s <= self.now_s}
        if not due:
            with pytest.raises(NothingDue) as nothing:
                self.queue.take_nowait()
            times = [due_s for due_s, _ in self.waiting.values()]
            assert nothing.value.due_in_s == (min(times) - self.now_s if times else None)
            return
        taken = self.queue.take_nowait()
        assert taken.key not in self.running
        assert taken.lane == due[taken.key]
        first = min(due.values())
        assert taken.lane == first or self.turns_in_a_row >= TURNS_MAX
        self.turns_in_a_row = self.turns_in_a_row + 1 if taken.lane == first else 0
        del self.waiting[taken.key]
        self.running.add(taken.key)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.queue.done(key)
        self.running.remove(key)
        if key in self.again:
            self.waiting[key] = self.again.pop(key)

    @invariant()
    def counts_agree(self) -> None:
        statistics = self.queue.statistics()
        assert statistics.running == len(self.running)
        assert sum(statistics.ready.values()) + statistics.delayed == len(self.waiting)
        assert len(self.queue._alarms) <= 2 * len(self.waiting) + 65


Queue.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
test_the_queue_keeps_its_promises = Queue.TestCase
