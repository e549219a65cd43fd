from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.kube.values import (
    Duration,
    format_duration,
    micro_time,
    parse_duration,
    parse_time,
    resolve_percentage,
)

durations = st.timedeltas(min_value=timedelta(days=-90_000), max_value=timedelta(days=90_000))
moments = st.datetimes(timezones=st.just(UTC))


@given(durations)
def test_a_duration_survives_being_written_and_read(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(durations)
def test_a_written_duration_passes_the_pattern_of_its_type(duration: timedelta) -> None:
    text = format_duration(duration)

    assert msgspec.convert(text, Duration) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1h5m", "1h5m0s"),
        ("65m", "1h5m0s"),
        ("90s", "1m30s"),
        ("1.5s", "1.5s"),
        ("0.5h", "30m0s"),
        ("-300ms", "-300ms"),
        ("1500us", "1.5ms"),
        ("7µs", "7µs"),
        ("0", "0s"),
        ("24h", "24h0m0s"),
        ("2000ns", "2µs"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(text: str, written: str) -> None:
    assert format_duration(parse_duration(text)) == written


@pytest.mark.parametrize("wrong", ["", "5", "1d", "h", "1h 5m", "PT1H", "1..5s", "."])
def test_what_is_no_duration_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected a duration like 1h30m or 45s, got"):
        parse_duration(wrong)


@given(moments)
def test_a_micro_time_always_has_six_digits_and_survives(moment: datetime) -> None:
    text = micro_time(moment)

    assert len(text) == len("2026-01-31T12:00:00.000000Z")
    assert parse_time(text) == moment


def test_a_micro_time_is_in_utc() -> None:
    noon_in_bern = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1)))

    assert micro_time(noon_in_bern) == "2026-01-31T11:00:00.000000Z"


def test_a_time_without_a_zone_is_refused_in_both_directions() -> None:
    with pytest.raises(ValueError, match="expected a time with its zone"):
        micro_time(datetime(2026, 1, 31))  # noqa: DTZ001
    with pytest.raises(ValueError, match="expected an RFC 3339 time like"):
        parse_time("2026-01-31T12:00:00")


@pytest.mark.parametrize(
    ("value", "round_up", "count"),
    [(3, True, 3), ("25%", True, 3), ("25%", False, 2), ("100%", True, 10), ("0%", True, 0)],
)
def test_an_int_or_percentage_of_ten_is(value: int | str, round_up: bool, count: int) -> None:
    assert resolve_percentage(value, 10, round_up=round_up) == count


def test_a_word_is_no_percentage() -> None:
    with pytest.raises(ValueError, match="expected a number or a percentage like 25%, got 'http'"):
        resolve_percentage("http", 10, round_up=True)
