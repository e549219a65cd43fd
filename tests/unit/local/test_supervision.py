import pytest

from corral.local.processes import Identity
from corral.local.supervision import (
    BACKOFF_S_MAX,
    HEALTHY_AFTER_S,
    Component,
    Record,
    Start,
    Stop,
    died,
    is_due,
    plan,
    started,
    stopped,
    to_probe,
)

NOW_S = 1000.0
ETCD = Component(name="etcd", argv=("etcd",), revision="1")
API = Component(name="api", argv=("api",), after=("etcd",), revision="1")


def a_record(*, revision: str = "1", ended_at_s: float | None = None, failures: int = 0) -> Record:
    return Record(
        process=Identity(7, 70), revision=revision, started_at_s=NOW_S - 1, ended_at_s=ended_at_s, failures=failures
    )


def test_what_is_missing_starts_and_what_comes_after_it_waits() -> None:
    assert plan((ETCD, API), {}, frozenset(), NOW_S) == (Start(ETCD),)


def test_a_component_starts_when_what_it_comes_after_is_ready() -> None:
    assert plan((ETCD, API), {"etcd": a_record()}, frozenset({"etcd"}), NOW_S) == (Start(API),)


def test_nothing_happens_while_everything_runs() -> None:
    assert plan((ETCD, API), {"etcd": a_record(), "api": a_record()}, frozenset(), NOW_S) == ()


def test_a_new_revision_stops_the_old_process_first() -> None:
    (step,) = plan((ETCD,), {"etcd": a_record(revision="0")}, frozenset(), NOW_S)

    assert step == Stop("etcd", Identity(7, 70), "its configuration has changed")


def test_what_is_not_wanted_any_more_is_stopped() -> None:
    assert plan((), {"etcd": a_record()}, frozenset(), NOW_S) == (Stop("etcd", Identity(7, 70), "not wanted"),)


def test_a_component_that_died_waits_for_its_backoff() -> None:
    records = {"etcd": a_record(ended_at_s=NOW_S, failures=2)}

    assert plan((ETCD,), records, frozenset(), NOW_S + 0.9) == ()
    assert plan((ETCD,), records, frozenset(), NOW_S + 1.0) == (Start(ETCD),)


def test_the_backoff_is_bounded() -> None:
    dead = a_record(ended_at_s=NOW_S, failures=100)

    assert not is_due(dead, NOW_S + BACKOFF_S_MAX - 0.1)
    assert is_due(dead, NOW_S + BACKOFF_S_MAX)


def test_a_clock_that_was_set_back_keeps_nobody_waiting() -> None:
    assert is_due(a_record(ended_at_s=NOW_S, failures=3), NOW_S - 3600)


@pytest.mark.parametrize(
    ("lived_s", "failures"), [pytest.param(1.0, 4, id="soon"), pytest.param(HEALTHY_AFTER_S, 0, id="after long")]
)
def test_deaths_count_only_when_they_come(lived_s: float, failures: int) -> None:
    record = died(a_record(failures=3), "exit status 1", NOW_S - 1 + lived_s)

    assert record.failures == failures
    assert record.last_end == "exit status 1"


def test_a_restart_is_counted_and_how_it_ended_stays_known() -> None:
    record = started(died(a_record(), "killed by SIGKILL", NOW_S), Identity(8, 80), "1", NOW_S)

    assert (record.restarts, record.last_end, record.ended_at_s) == (1, "killed by SIGKILL", None)


def test_what_we_stopped_ourselves_starts_without_a_wait() -> None:
    record = stopped(a_record(failures=5), "its configuration has changed", NOW_S)

    assert is_due(record, NOW_S)


def test_only_what_somebody_waits_for_is_probed() -> None:
    assert to_probe((ETCD, API), {"etcd": a_record()}) == {"etcd"}
    assert to_probe((ETCD, API), {"etcd": a_record(), "api": a_record()}) == frozenset()
