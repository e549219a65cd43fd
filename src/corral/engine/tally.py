"""What passes did, counted where they run and read by whoever asks: for a scrape, `metrics.py`.

A pass notes three durations and a result. Plain numbers, since a metric of the client library costs as much as the
rest of what is measured: it takes a lock and walks its buckets each time.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

# controller-runtime's buckets, so that one query works over operators of both kinds.
RECONCILE_BUCKETS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
    *(10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
QUEUE_BUCKETS_S = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
LAG_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Durations:
    """How many were how long."""

    def __init__(self, bounds_s: Iterable[float]) -> None:
        self._bounds_s = sorted(set(bounds_s))
        self._counts = [0] * (len(self._bounds_s) + 1)
        self.sum_s = 0.0

    def note(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self.sum_s += seconds

    def up_to(self, bounds_s: Iterable[float]) -> Iterator[tuple[str, float]]:
        """How many were not longer than each of these, which are among ours; and how many there were at all."""
        for bound_s in bounds_s:
            yield str(bound_s), sum(self._counts[: self._bounds_s.index(bound_s) + 1])
        yield "+Inf", sum(self._counts)


class PassTally:
    """Of one controller."""

    def __init__(self) -> None:
        self.under_way = 0
        self.results: Counter[str] = Counter()
        self.queue_wait = Durations(QUEUE_BUCKETS_S)
        self.barrier_wait = Durations(LAG_BUCKETS_S)
        self.length = Durations((*RECONCILE_BUCKETS_S, *QUEUE_BUCKETS_S))
