"""Tell a person what is going on: step x of y, how long, what was cached, what runs now and its last line of output.

The core is a frozen `Board` and pure functions from it to lines; it knows no terminal and no clock. `Progress` is the
shell: on a terminal it repaints the board, elsewhere (CI, a pipe) it writes one line when a step begins, one when it
ends, and a sign of life every 30 seconds in between. It never decides what the steps are: the caller names them all
beforehand, so that "of y" is true from the first line.

    with Progress(("Debian packages", "etcd")) as progress:
        progress.cached("Debian packages", "13 present")
        with progress.step("etcd") as step:
            step.say("compiling ...")  # shown as its last line of output
            step.note("v3.6.16")       # shown when it has ended
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Self, TextIO

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

HEARTBEAT_S = 30.0
REPAINTS_PER_S = 4
TICK_S = 1.0


class State(Enum):
    WAITING = " "
    RUNNING = ">"
    DONE = "✓"
    CACHED = "="
    FAILED = "✗"


class Row(msgspec.Struct, frozen=True):
    """One step. `note` is what its end has to say, `last_line` what it said last while it ran."""

    title: str
    state: State = State.WAITING
    began_s: float = 0.0
    ended_s: float = 0.0
    last_line: str = ""
    note: str = ""


class Board(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]
    began_s: float


def change(board: Board, number: int, row: Row) -> Board:
    """The board with row `number` (from 0) exchanged."""
    return msgspec.structs.replace(board, rows=(*board.rows[:number], row, *board.rows[number + 1 :]))


def elapsed(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


def step_name(board: Board, number: int) -> str:
    total = len(board.rows)
    return f"[{number + 1:>{len(str(total))}}/{total}] {board.rows[number].title}"


def step_line(board: Board, number: int, now_s: float) -> str:
    """One row as one line, the same words on a terminal and in a log."""
    row, head = board.rows[number], step_name(board, number)
    if row.state is State.WAITING:
        return head
    if row.state is State.CACHED:
        return f"{head}: cached{_in_brackets(row.note)}"
    if row.state is State.RUNNING:
        return f"{head}: {elapsed(now_s - row.began_s)}" + (f"  {row.last_line}" if row.last_line else "")
    verb = "done in" if row.state is State.DONE else "FAILED after"
    return f"{head}: {verb} {elapsed(row.ended_s - row.began_s)}{_in_brackets(row.note)}"


def summary_line(board: Board, now_s: float) -> str:
    """How far the whole thing is: `4 of 10 steps, 3 cached, 2 min 10 s`."""
    finished = sum(row.state in (State.DONE, State.CACHED) for row in board.rows)
    cached = sum(row.state is State.CACHED for row in board.rows)
    parts = [
        f"{finished} of {len(board.rows)} steps",
        f"{cached} cached" if cached else "",
        elapsed(now_s - board.began_s),
    ]
    return ", ".join(part for part in parts if part)


def board_lines(board: Board, now_s: float) -> tuple[str, ...]:
    """The whole board as a terminal shows it."""
    steps = (f"{row.state.value} {step_line(board, number, now_s)}" for number, row in enumerate(board.rows))
    return (*steps, f"  {summary_line(board, now_s)}")


def heartbeat_due(row: Row, said_s: float, now_s: float) -> bool:
    """Whether a log without repainting needs a sign of life; `said_s` is when it last had a line about this row."""
    return row.state is State.RUNNING and now_s - max(said_s, row.began_s) >= HEARTBEAT_S


def _in_brackets(note: str) -> str:
    return f" ({note})" if note else ""


def is_interactive(stream: TextIO, environment: Mapping[str, str]) -> bool:
    return stream.isatty() and environment.get("TERM", "dumb") != "dumb" and not environment.get("CI")


class Step:
    """What runs now. Its methods may be called from any thread."""

    def __init__(
        self, update: Callable[..., None], screen_released: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._update = update
        self.screen_released = screen_released

    def say(self, line: str) -> None:
        """Show a line of output instead of the one before."""
        text = " ".join(line.split())
        if text:
            self._update(last_line=text)

    def note(self, note: str) -> None:
        """What to add in brackets when the step has ended, e.g. a version."""
        self._update(note=note)


class Progress:
    """Shows steps as they happen. Each planned title is used once, in any order."""

    def __init__(
        self,
        titles: Sequence[str],
        *,
        stream: TextIO | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len(set(titles)) != len(titles):
            raise ValueError(f"two steps have the same title: {titles}")
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._lock = threading.RLock()
        self._board = Board(rows=tuple(Row(title=title) for title in titles), began_s=clock())
        self._said_s = clock()
        self._live = self._make_live() if is_interactive(self._stream, environment) else None
        self._closing = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        else:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            return
        self._closing.set()
        self._ticker.join()
        self._print_plain(summary_line(self._board, self._clock()))

    @property
    def board(self) -> Board:
        return self._board

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Run one planned step; leaving with an exception marks it as failed."""
        number = self._number(title)
        self._update(number, state=State.RUNNING, began_s=self._clock())
        self._print_plain(f"{step_name(self._board, number)} ...")
        try:
            yield Step(partial(self._update, number), self.screen_released)
        except BaseException:
            self._end(number, State.FAILED)
            raise
        self._end(number, State.DONE)

    def cached(self, title: str, note: str = "") -> None:
        """A planned step for which nothing has to be done."""
        number = self._number(title)
        self._update(number, note=note)
        self._end(number, State.CACHED)

    @contextmanager
    def screen_released(self) -> Iterator[None]:
        """Stop repainting, for a program that asks the person something (sudo)."""
        if self._live is None:
            yield
            return
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def heartbeat(self) -> None:
        """Write a sign of life for each step that has been silent for long. Called by the ticker."""
        with self._lock:
            now_s, said_s = self._clock(), self._said_s
            for number, row in enumerate(self._board.rows):
                if heartbeat_due(row, said_s, now_s):
                    self._print_plain(step_line(self._board, number, now_s))

    def _number(self, title: str) -> int:
        return [row.title for row in self._board.rows].index(title)

    def _end(self, number: int, state: State) -> None:
        self._update(number, state=state, ended_s=self._clock())
        self._print_plain(step_line(self._board, number, self._clock()))

    def _update(self, number: int, **fields: object) -> None:
        with self._lock:
            row = msgspec.structs.replace(self._board.rows[number], **fields)
            self._board = change(self._board, number, row)

    def _print_plain(self, line: str) -> None:
        if self._live is not None:
            return
        with self._lock:
            self._said_s = self._clock()
            print(line, file=self._stream, flush=True)

    def _tick(self) -> None:
        while not self._closing.wait(TICK_S):
            self.heartbeat()

    def _make_live(self) -> Live:
        console = Console(file=self._stream, soft_wrap=False)
        return Live(console=console, get_renderable=self._painted, refresh_per_second=REPAINTS_PER_S)

    def _painted(self) -> Text:
        with self._lock:
            lines = board_lines(self._board, self._clock())
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
