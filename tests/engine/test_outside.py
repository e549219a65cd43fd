"""What the world outside sees of a running engine: metrics, health, logs, and what stands still."""

import asyncio
import io
import json
import threading
import time
from contextvars import copy_context

import aiohttp
import pytest
import structlog

from corral.engine import Address, Key, Metrics, Outcome, Plan, Problem, Wait
from corral.engine.health import serving
from corral.engine.logs import begin_pass, configure, described, logger
from corral.engine.metrics import pass_metrics
from corral.engine.tally import Durations, PassTally
from corral.engine.watchdog import LoopWatch, Progress, finding
from corral.kube.meta import ObjectMeta, ObjectRef
from corral.kube.models.core_v1 import Secret
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from corral.testing.toys import Toy, toy_controller

BEAR = Key("lab", "bear")


# --- metrics


@pytest.mark.looptime(noop_cycles=0)
async def test_metrics_have_the_names_of_controller_runtime() -> None:
    server = FakeApiServer()
    server.register(Toy)
    server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    operator = Operator(server, toy_controller)
    operator.start()
    await converged(server, toy_controller, within_s=60)
    await operator.stop()
    samples = {
        (sample.name, sample.labels.get("controller"), sample.labels.get("result")): sample.value
        for metric in operator.metrics.registry.collect()
        for sample in metric.samples
    }

    assert samples["controller_runtime_reconcile_total", "corral-toy", "success"] >= 1
    assert samples["controller_runtime_reconcile_total", "corral-toy", "error"] == 0
    assert samples["controller_runtime_reconcile_errors_total", "corral-toy", None] == 0
    assert samples["controller_runtime_max_concurrent_reconciles", "corral-toy", None] == 4
    assert samples["controller_runtime_active_workers", "corral-toy", None] == 0
    assert samples["controller_runtime_reconcile_time_seconds_count", "corral-toy", None] >= 2
    assert samples["workqueue_depth", "corral-toy", None] == 0
    assert samples["workqueue_adds_total", "corral-toy", None] >= 2
    assert samples["workqueue_queue_duration_seconds_count", "corral-toy", None] >= 2
    assert samples["workqueue_work_duration_seconds_count", "corral-toy", None] >= 2
    assert samples["workqueue_unfinished_work_seconds", "corral-toy", None] == 0
    assert samples["workqueue_longest_running_processor_seconds", "corral-toy", None] == 0
    assert samples["workqueue_retries_total", "corral-toy", None] == 0
    assert samples["corral_barrier_wait_seconds_count", "corral-toy", None] >= 2
    assert samples["corral_stuck_keys", "corral-toy", None] == 0


def test_durations_are_counted_up_to_each_bound_and_beyond_the_last() -> None:
    lengths = Durations((0.1, 1.0, 10.0))
    for seconds in (0.1, 0.5, 20.0):
        lengths.note(seconds)

    assert list(lengths.up_to((0.1, 10.0))) == [("0.1", 1), ("10.0", 2), ("+Inf", 3)]
    assert lengths.sum_s == 20.6


def test_every_result_is_shown_from_the_start() -> None:
    metrics, tally = Metrics(), PassTally()
    metrics.add_source(lambda: pass_metrics({"corral-toy": tally}))
    tally.results["error"] += 1

    count = metrics.registry.get_sample_value
    for result, expected in (("success", 0), ("error", 1), ("requeue", 0), ("requeue_after", 0)):
        assert count("controller_runtime_reconcile_total", {"controller": "corral-toy", "result": result}) == expected


def test_requests_are_counted_by_code_and_method() -> None:
    metrics = Metrics(host="api")
    metrics.on_request("apply", "Pod", 200, 0.1)
    metrics.on_request("list", "Pod", 0, 0.1)

    count = metrics.registry.get_sample_value
    labels = {"code": "200", "method": "PATCH", "host": "api"}
    assert count("rest_client_requests_total", labels) == 1
    assert count("rest_client_requests_total", {"code": "<error>", "method": "GET", "host": "api"}) == 1


# --- health


@pytest.mark.parametrize(
    ("path", "missing", "status", "says"),
    [
        ("/healthz", ("the cache of Pod is not synced",), 200, "ok"),
        ("/readyz", (), 200, "ok"),
        ("/readyz", ("the cache of Pod is not synced",), 503, "the cache of Pod is not synced"),
        ("/metrics", (), 200, "corral_loop_lag_seconds"),
        ("/nothing", (), 404, ""),
    ],
)
async def test_health_says(path: str, missing: tuple[str, ...], status: int, says: str) -> None:
    address = Address("127.0.0.1", 0)
    async with (
        serving(address, lambda: missing, Metrics().registry) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        assert answer.status == status
        assert says in await answer.text()


# --- logs


def logged(**said: object) -> dict[str, object]:
    stream = io.StringIO()
    configure(form="json", stream=stream)
    try:
        logger(controller="corral-toy").info("worker stays", **said)
    finally:
        structlog.reset_defaults()
    line: dict[str, object] = json.loads(stream.getvalue())
    return line


def test_a_log_line_is_json_with_a_constant_event() -> None:
    line = logged(key=BEAR, object=ObjectRef("Pod", "lab", "p"), reasons=("A", "B"), count=3)

    assert (line["event"], line["controller"], line["level"]) == ("worker stays", "corral-toy", "info")
    assert (line["key"], line["object"]) == ("lab/bear", "Pod lab/p")
    assert (line["reasons"], line["count"]) == (["A", "B"], 3)


def test_what_is_said_within_a_pass_bears_its_key_and_an_id_that_no_other_pass_has() -> None:
    def within(key: Key) -> dict[str, object]:
        begin_pass("corral-toy", key)
        return logged()

    first, second = (copy_context().run(within, key) for key in (BEAR, BEAR))
    assert (first["key"], first["controller"]) == ("lab/bear", "corral-toy")
    assert first["reconcile_id"] != second["reconcile_id"]
    assert "reconcile_id" not in logged()


def test_half_a_character_does_not_keep_a_line_from_the_log() -> None:
    assert logged(name="\udce9.conf")["name"] == "\udce9.conf"


def test_an_object_never_reaches_a_log() -> None:
    secret = Secret(metadata=ObjectMeta(name="s"), data={"k": b"hunter2"})
    line = logged(found=secret, several=[secret], mapping={"password": "hunter2"})

    assert (line["found"], line["several"], line["mapping"]) == ("<Secret>", "<list>", "<dict>")


def test_of_a_strangers_exception_the_stack_is_logged_and_not_the_message() -> None:
    with pytest.raises(ValueError, match="hunter2") as caught:
        int("hunter2")
    said = described(caught.value)

    assert said["error"] == "ValueError"
    assert "hunter2" not in said.get("message", "")
    assert "test_outside.py" in said["stack"]


# --- what stands still

WAITING = Outcome(plan=Plan(waits=(Wait(reason="Slow", message="it takes time"),), again_after_s=5))


def test_a_key_that_finds_the_same_for_too_long_is_stuck_once() -> None:
    progress = Progress(stuck_after_s=60)
    progress.note(BEAR, finding(WAITING), 0)
    progress.note(BEAR, finding(WAITING), 50)

    assert progress.newly_stuck(59) == ()
    assert [stuck.key for stuck in progress.newly_stuck(61)] == [BEAR]
    assert progress.newly_stuck(62) == ()
    assert progress.stuck_count() == 1


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Outcome(plan=Plan()), id="done"),
        pytest.param(Outcome(plan=Plan(), problem=Problem(reason="Other", message="another problem")), id="moved on"),
    ],
)
def test_a_key_that_moves_is_not_stuck(outcome: Outcome) -> None:
    progress = Progress(stuck_after_s=60)
    progress.note(BEAR, finding(WAITING), 0)
    progress.note(BEAR, finding(outcome), 50)

    assert progress.newly_stuck(100) == ()


async def test_a_blocked_loop_is_noticed_from_outside() -> None:
    """The one thing here that takes real time, because it is about real time: some hundredths of a second."""
    watch = LoopWatch(asyncio.get_running_loop(), on_lag=lambda _: None, blocked_s=0.02, every_s=0.005)
    with watch:
        deadline = time.monotonic() + 10
        while not watch.reports and time.monotonic() < deadline:
            threading.Event().wait(0.01)  # this is what nobody should do in a coroutine

    assert watch.reports == 1


async def test_a_loop_that_turns_reports_its_lag() -> None:
    lags: list[float] = []
    enough = asyncio.Event()

    def on_lag(lag_s: float) -> None:
        lags.append(lag_s)
        enough.set()

    with LoopWatch(asyncio.get_running_loop(), on_lag=on_lag, every_s=0.001) as watch:
        async with asyncio.timeout(10):
            await enough.wait()

    assert watch.reports == 0
    assert lags[0] >= 0
