"""Metrics under controller-runtime's names, so that existing dashboards and alerts work; a few of our own beside them.

The registry is a value that belongs to one manager: nothing is global, and two managers in one process do not mix.
What a part counts itself (`statistics()`) is read at the time of a scrape and stored nowhere else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from corral.engine.barrier import BarrierStatistics
from corral.engine.events import RecorderStatistics
from corral.engine.informer import InformerStatistics
from corral.engine.queue import QueueStatistics

# controller-runtime's buckets, so that one query works over operators of both kinds.
RECONCILE_BUCKETS_S: tuple[float, ...] = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
)
RECONCILE_BUCKETS_S += (
    1.0,
    1.25,
    1.5,
    1.75,
    2.0,
    2.5,
    3.0,
    3.5,
    4.0,
    4.5,
    5,
    6,
    7,
    8,
    9,
    10,
    15,
    20,
    25,
    30,
    40,
    50,
    60,
)
QUEUE_BUCKETS_S = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
LAG_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

RESULTS = ("success", "error", "requeue", "requeue_after")


class Metrics:
    def __init__(self, *, host: str = "") -> None:
        self.registry = registry = CollectorRegistry()
        self._host = host
        by_controller = ["controller"]
        self.reconciles = Counter(
            "controller_runtime_reconcile",
            "Passes per controller and how they ended.",
            ["controller", "result"],
            registry=registry,
        )
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
        self.reconcile_s = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of a pass.",
            by_controller,
            buckets=RECONCILE_BUCKETS_S,
            registry=registry,
        )
        self.active_workers = Gauge(
            "controller_runtime_active_workers", "Passes under way.", by_controller, registry=registry
        )
        self.workers_max = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Passes at a time.", by_controller, registry=registry
        )
        self.queue_wait_s = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waited for its pass.",
            ["name", "controller"],
            buckets=QUEUE_BUCKETS_S,
            registry=registry,
        )
        self.work_s = Histogram(
            "workqueue_work_duration_seconds",
            "How long a key's pass took.",
            ["name", "controller"],
            buckets=QUEUE_BUCKETS_S,
            registry=registry,
        )
        self.barrier_wait_s = Histogram(
            "corral_barrier_wait_seconds",
            "How long a key waited until the caches showed its own writes.",
            by_controller,
            buckets=LAG_BUCKETS_S,
            registry=registry,
        )
        self.loop_lag_s = Histogram(
            "corral_loop_lag_seconds", "How late the event loop was.", buckets=LAG_BUCKETS_S, registry=registry
        )
        self.stuck_keys = Gauge(
            "corral_stuck_keys", "Keys that have made no progress for too long.", by_controller, registry=registry
        )
        self.leads = Gauge("leader_election_master_status", "1 while this process leads.", ["name"], registry=registry)
        self.requests = Counter(
            "rest_client_requests", "Requests to the API server.", ["code", "method", "host"], registry=registry
        )

    def add_controller(self, name: str, workers: int) -> None:
        """Show a controller's series from the start: a rate over a series that begins at its first error is blind."""
        self.workers_max.labels(name).set(workers)
        self.active_workers.labels(name).set(0)
        self.stuck_keys.labels(name).set(0)
        for result in RESULTS:
            self.reconciles.labels(name, result)
        for counter in (self.errors, self.terminal_errors, self.panics):
            counter.labels(name)

    def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None:  # noqa: ARG002
        """`corral.kube.calls.Observer`. Status 0, no answer, is client-go's `<error>`."""
        self.requests.labels(str(status) if status else "<error>", METHODS.get(verb, "GET"), self._host).inc()

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
