"""When a stream counts as busy."""

from corral.kube.pace import FLOOD_BYTES_MIN, QUICK_PIECES_MIN, QUICK_S, Pace


def test_what_comes_now_and_then_is_never_waited_for() -> None:
    pace = Pace()
    for _ in range(100):
        pace.came(100, QUICK_S)
        assert not pace.is_busy


def test_a_short_burst_is_not_busy_and_a_long_one_is() -> None:
    pace = Pace()
    for _ in range(QUICK_PIECES_MIN - 1):
        pace.came(100, 0)
    assert not pace.is_busy
    pace.came(100, 0)
    assert pace.is_busy


def test_a_pause_ends_the_hurry_and_it_takes_as_long_to_begin_again() -> None:
    pace = Pace()
    for _ in range(QUICK_PIECES_MIN):
        pace.came(100, 0)
    pace.came(100, 2 * QUICK_S)
    assert not pace.is_busy
    pace.came(100, 0)
    assert not pace.is_busy


def test_one_large_piece_is_a_flood() -> None:
    pace = Pace()
    pace.came(FLOOD_BYTES_MIN, 60)
    assert pace.is_busy
