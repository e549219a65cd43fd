"""When pieces of a stream are waited for together."""

from random import Random

import pytest

from corral.kube.pace import FLOOD_BYTES_MIN, Pace

PIECE_BYTES = 6000


def busy_share(rate_per_s: float, *, pieces: int, random: Random) -> float:
    """For how many pieces of a stream that comes at random, at this rate, the next ones were worth waiting for."""
    pace, busy = Pace(), 0
    for _ in range(pieces):
        pace.came(PIECE_BYTES, random.expovariate(rate_per_s))
        busy += pace.is_busy
    return busy / pieces


@pytest.mark.parametrize("rate_per_s", [80, 250, 1000, 10_000])
def test_a_stream_that_brings_a_hundred_pieces_a_second_is_busy_whatever_the_gaps_between_them(
    rate_per_s: float,
) -> None:
    assert busy_share(rate_per_s, pieces=2000, random=Random(1)) > 0.9


@pytest.mark.parametrize("rate_per_s", [1, 20])
def test_a_stream_that_a_process_easily_follows_is_never_kept_waiting(rate_per_s: float) -> None:
    assert busy_share(rate_per_s, pieces=2000, random=Random(1)) < 0.01


def test_a_short_burst_is_not_kept_waiting() -> None:
    pace = Pace()

    for _ in range(20):
        pace.came(PIECE_BYTES, 0.0)

    assert not pace.is_busy


def test_a_pause_in_a_flood_is_not_its_end_and_a_second_of_them_is() -> None:
    pace = Pace()
    for _ in range(100):
        pace.came(PIECE_BYTES, 0.002)
    pace.came(PIECE_BYTES, 5.0)
    pace.came(PIECE_BYTES, 0.0)
    pace.came(PIECE_BYTES, 0.0)
    pace.came(PIECE_BYTES, 0.0)

    assert pace.is_busy

    for _ in range(10):
        pace.came(PIECE_BYTES, 0.1)

    assert not pace.is_busy


def test_much_at_once_is_a_flood() -> None:
    pace = Pace()

    pace.came(FLOOD_BYTES_MIN, 1.0)

    assert pace.is_busy
