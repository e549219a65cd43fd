import io

import pytest

from corral.local.progress import (
    HEARTBEAT_S,
    Board,
    Progress,
    Row,
    State,
    board_lines,
    elapsed,
    heartbeat_due,
    is_interactive,
    step_line,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def plain(clock: Clock, *titles: str) -> tuple[Progress, io.StringIO]:
    stream = io.StringIO()
    return Progress(titles, stream=stream, environment={}, clock=clock), stream


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.96, "10 s"), (59.4, "59 s"), (60, "1 min 00 s"), (185, "3 min 05 s")]
)
def test_elapsed_time_reads_like_a_person_says_it(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("row", "line"),
    [
        pytest.param(Row("etcd"), "[1/1] etcd", id="waiting"),
        pytest.param(Row("etcd", State.CACHED, note="v3"), "[1/1] etcd: cached (v3)", id="cached"),
        pytest.param(Row("etcd", State.RUNNING, began_s=5, last_line="raft"), "[1/1] etcd: 15 s  raft", id="running"),
        pytest.param(Row("etcd", State.DONE, began_s=5, ended_s=8), "[1/1] etcd: done in 3.0 s", id="done"),
        pytest.param(Row("etcd", State.FAILED, began_s=5, ended_s=8), "[1/1] etcd: FAILED after 3.0 s", id="failed"),
    ],
)
def test_a_step_says_what_it_does_and_for_how_long(row: Row, line: str) -> None:
    assert step_line(Board(rows=(row,), began_s=0), 0, now_s=20) == line


def test_the_board_shows_every_step_and_counts_what_was_cached() -> None:
    rows = (
        Row("a", State.CACHED),
        Row("b", State.DONE, began_s=1, ended_s=4),
        Row("c", State.RUNNING, began_s=4),
        Row("d"),
    )

    lines = board_lines(Board(rows=rows, began_s=0), now_s=6)

    assert lines == (
        "= [1/4] a: cached",
        "✓ [2/4] b: done in 3.0 s",
        "> [3/4] c: 2.0 s",
        "  [4/4] d",
        "  2 of 4 steps, 1 cached, 6.0 s",
    )


def test_a_log_has_a_line_for_the_start_and_one_for_the_end_of_a_step(clock: Clock) -> None:
    progress, stream = plain(clock, "packages", "etcd")

    with progress:
        progress.cached("packages", "11 present")
        with progress.step("etcd") as step:
            clock.now_s += 70
            step.note("v3.6.16")

    assert stream.getvalue().splitlines() == [
        "[1/2] packages: cached (11 present)",
        "[2/2] etcd ...",
        "[2/2] etcd: done in 1 min 10 s (v3.6.16)",
        "2 of 2 steps, 1 cached, 1 min 10 s",
    ]


def test_a_step_that_raises_is_shown_as_failed_and_the_error_goes_on(clock: Clock) -> None:
    progress, stream = plain(clock, "etcd")

    with pytest.raises(KeyboardInterrupt), progress.step("etcd"):
        raise KeyboardInterrupt

    assert progress.board.rows[0].state is State.FAILED
    assert "FAILED after 0.0 s" in stream.getvalue()


def test_a_long_step_gives_a_sign_of_life_with_its_last_line_of_output(clock: Clock) -> None:
    progress, stream = plain(clock, "etcd")

    with progress.step("etcd") as step:
        step.say("  go.etcd.io/raft/v3\n")
        clock.now_s += HEARTBEAT_S - 1
        progress.heartbeat()
        before = stream.getvalue()
        clock.now_s += 1
        progress.heartbeat()

    assert before == "[1/1] etcd ...\n"
    assert stream.getvalue().splitlines()[1] == "[1/1] etcd: 30 s  go.etcd.io/raft/v3"


def test_the_next_sign_of_life_comes_after_another_while() -> None:
    row = Row("etcd", State.RUNNING, began_s=0)

    assert heartbeat_due(row, said_s=0, now_s=HEARTBEAT_S)
    assert not heartbeat_due(row, said_s=HEARTBEAT_S, now_s=HEARTBEAT_S + 1)
    assert heartbeat_due(row, said_s=HEARTBEAT_S, now_s=2 * HEARTBEAT_S)


def test_a_blank_line_of_output_does_not_hide_the_one_before(clock: Clock) -> None:
    progress, _ = plain(clock, "etcd")

    with progress.step("etcd") as step:
        step.say("compiling")
        step.say("   \n")

    assert progress.board.rows[0].last_line == "compiling"


def test_two_steps_of_one_title_are_our_bug() -> None:
    with pytest.raises(ValueError, match="same title"):
        Progress(("etcd", "etcd"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        pytest.param(Terminal(), {"TERM": "xterm"}, True, id="a terminal"),
        pytest.param(Terminal(), {"TERM": "xterm", "CI": "true"}, False, id="a terminal in CI"),
        pytest.param(Terminal(), {}, False, id="a terminal that cannot move its cursor"),
        pytest.param(io.StringIO(), {"TERM": "xterm"}, False, id="a pipe"),
    ],
)
def test_only_a_terminal_is_repainted(stream: io.StringIO, environment: dict[str, str], expected: bool) -> None:
    assert is_interactive(stream, environment) is expected


def test_a_terminal_ends_with_the_whole_board(clock: Clock) -> None:
    stream = Terminal()

    progress = Progress(("etcd",), stream=stream, environment={"TERM": "xterm"}, clock=clock)
    with progress, progress.step("etcd"), progress.screen_released():
        clock.now_s += 2

    assert "✓ [1/1] etcd: done in 2.0 s" in stream.getvalue()
