"""Metrics under controller-runtime's names, so that existing dashboards and alerts work; a few of our own beside them.

The registry is a value that belongs to one manager: nothing is global, and two managers in one process do not mix.
What a part counts itself (`statistics()`) is read at the time of a scrape and stored nowhere else.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from corral.engine.barrier import BarrierStatistics
from corral.engine.events import RecorderStatistics
from corral.engine.informer import InformerStatistics
from corral.engine.queue import QueueStatistics
from corral.engine.tally import LAG_BUCKETS_S, QUEUE_BUCKETS_S, RECONCILE_BUCKETS_S, Durations, PassTally

RESULTS = ("success", "error", "requeue", "requeue_after")


class Metrics:
    def __init__(self, *, host: str = "") -> None:
        self.registry = registry = CollectorRegistry()
        by_controller = ["controller"]
        self.errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that ended with a problem.", by_controller, registry=registry
        )
        self.terminal_errors = Counter(
            "controller_runtime_terminal_reconcile_errors",
            "Passes that ended with a problem that only a person can solve.",
            by_controller,
            registry=registry,
        )
        self.panics = Counter(
            "controller_runtime_reconcile_panics", "Passes that ended with a bug.", by_controller, registry=registry
        )
        self.workers_max = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Passes at a time.", by_controller, registry=registry
        )
        self.loop_lag_s = Histogram(
            "corral_loop_lag_seconds", "How late the event loop was.", buckets=LAG_BUCKETS_S, registry=registry
        )
        self.stuck_keys = Gauge(
            "corral_stuck_keys", "Keys that have made no progress for too long.", by_controller, registry=registry
        )
        self.leads = Gauge("leader_election_master_status", "1 while this process leads.", ["name"], registry=registry)
        self._requests: Tally[tuple[int, str]] = Tally()  # by status and verb
        self.add_source(lambda: request_metrics(self._requests, host))

    def add_controller(self, name: str, workers: int) -> None:
        """Show a controller's series from the start: a rate over a series that begins at its first error is blind."""
        self.workers_max.labels(name).set(workers)
        self.stuck_keys.labels(name).set(0)
        for counter in (self.errors, self.terminal_errors, self.panics):
            counter.labels(name)

    def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None:  # noqa: ARG002
        """`corral.kube.calls.Observer`."""
        self._requests[status, verb] += 1

    def add_source(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.registry.register(_Source(collect))


METHODS: Mapping[str, str] = {
    "create": "POST",
    "evict": "POST",
    "apply": "PATCH",
    "patch": "PATCH",
    "delete": "DELETE",
}


class _Source(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def request_metrics(requests: Mapping[tuple[int, str], int], host: str) -> Iterator[Metric]:
    """By method, as client-go counts them. Status 0, no answer, is its `<error>`."""
    by_method: Tally[tuple[str, str]] = Tally()
    for (status, verb), count in requests.items():
        by_method[str(status) if status else "<error>", METHODS.get(verb, "GET")] += count
    counter = CounterMetricFamily(
        "rest_client_requests", "Requests to the API server.", labels=["code", "method", "host"]
    )
    for (code, method), count in by_method.items():
        counter.add_metric([code, method, host], count)
    yield counter


def pass_metrics(tallies: Mapping[str, PassTally]) -> Iterator[Metric]:
    """Every result from the start, like the series of `add_controller`."""
    results = CounterMetricFamily(
        "controller_runtime_reconcile", "Passes per controller and how they ended.", labels=["controller", "result"]
    )
    under_way = GaugeMetricFamily("controller_runtime_active_workers", "Passes under way.", labels=["controller"])
    for controller, tally in tallies.items():
        under_way.add_metric([controller], tally.under_way)
        for result in RESULTS:
            results.add_metric([controller, result], tally.results[result])
    yield from (results, under_way)
    for name, text, labels, bounds_s, durations in HISTOGRAMS:
        histogram = HistogramMetricFamily(name, text, labels=labels)
        for controller, tally in tallies.items():
            found = durations(tally)
            histogram.add_metric([controller] * len(labels), list(found.up_to(bounds_s)), found.sum_s)
        yield histogram


HISTOGRAMS: tuple[tuple[str, str, tuple[str, ...], tuple[float, ...], Callable[[PassTally], Durations]], ...] = (
    (
        "controller_runtime_reconcile_time_seconds",
        "Length of a pass.",
        ("controller",),
        RECONCILE_BUCKETS_S,
        lambda tally: tally.length,
    ),
    (
        "workqueue_queue_duration_seconds",
        "How long a key waited for its pass.",
        ("name", "controller"),
        QUEUE_BUCKETS_S,
        lambda tally: tally.queue_wait,
    ),
    (
        "workqueue_work_duration_seconds",
        "How long a key's pass took.",
        ("name", "controller"),
        QUEUE_BUCKETS_S,
        lambda tally: tally.length,
    ),
    (
        "corral_barrier_wait_seconds",
        "How long a key waited until the caches showed its own writes.",
        ("controller",),
        LAG_BUCKETS_S,
        lambda tally: tally.barrier_wait,
    ),
)


def queue_metrics(queues: Mapping[str, QueueStatistics]) -> Iterator[Metric]:
    labels = ["name", "controller"]
    gauges: tuple[tuple[str, str, Callable[[QueueStatistics], float]], ...] = (
        ("workqueue_depth", "Keys that are ready.", lambda q: sum(q.ready.values())),
        ("workqueue_unfinished_work_seconds", "Sum of the passes under way.", lambda q: q.unfinished_s),
        ("workqueue_longest_running_processor_seconds", "The longest of them.", lambda q: q.longest_running_s),
    )
    counters: tuple[tuple[str, str, Callable[[QueueStatistics], float]], ...] = (
        ("workqueue_adds", "Keys added.", lambda q: q.adds_total),
        ("workqueue_retries", "Keys added again after a problem.", lambda q: q.retries_total),
    )
    for name, text, value in gauges:
        gauge = GaugeMetricFamily(name, text, labels=labels)
        for controller, queue in queues.items():
            gauge.add_metric([controller, controller], value(queue))
        yield gauge
    for name, text, value in counters:
        counter = CounterMetricFamily(name, text, labels=labels)
        for controller, queue in queues.items():
            counter.add_metric([controller, controller], value(queue))
        yield counter


def cache_metrics(informers: Iterable[InformerStatistics]) -> Iterator[Metric]:
    """The same kind with two selectors is two caches, told apart by their selector's text."""
    labels = ["kind", "selector"]
    objects = GaugeMetricFamily("corral_cache_objects", "Objects in a cache.", labels=labels)
    synced = GaugeMetricFamily("corral_cache_synced", "1 once the first list is in.", labels=labels)
    lists = CounterMetricFamily("corral_cache_lists", "Full lists received.", labels=labels)
    events = CounterMetricFamily("corral_cache_events", "Events received.", labels=labels)
    troubles = CounterMetricFamily("corral_cache_troubles", "Times that a watch broke.", labels=labels)
    for cache in informers:
        where = ",".join(
            part for part in (cache.selector.namespace, cache.selector.labels, cache.selector.fields) if part
        )
        at = [cache.kind, where]
        objects.add_metric(at, cache.objects)
        synced.add_metric(at, cache.synced)
        lists.add_metric(at, cache.lists)
        events.add_metric(at, cache.events)
        troubles.add_metric(at, cache.troubles)
    yield from (objects, synced, lists, events, troubles)


def barrier_metrics(barriers: Mapping[str, BarrierStatistics]) -> Iterator[Metric]:
    timeouts = CounterMetricFamily(
        "corral_barrier_timeouts", "Passes begun although a cache was late.", labels=["controller"]
    )
    for controller, barrier in barriers.items():
        timeouts.add_metric([controller], barrier.timeouts_total)
    yield timeouts


def event_metrics(recorder: RecorderStatistics) -> Iterator[Metric]:
    yield CounterMetricFamily("corral_events_written", "Events written.", value=recorder.written)
    yield CounterMetricFamily("corral_events_dropped", "Events not told.", value=recorder.dropped + recorder.failed)
