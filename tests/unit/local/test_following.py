"""A log that is followed. What happens to it while the reader waits is a list of deeds, one a wait."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.local.following import follow

Deed = Callable[[], object]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "etcd.log"
    log.write_bytes(b"one\ntwo\n")
    return log


def followed(log: Path, *deeds: Deed) -> bytes:
    pending: Iterator[Deed] = iter(deeds)

    def wait() -> bool:
        deed = next(pending, None)
        if deed:
            deed()
        return deed is not None

    return b"".join(follow(log, wait))


def adding(log: Path, text: bytes) -> Deed:
    def add() -> None:
        with log.open("ab") as file:
            file.write(text)

    return add


def test_a_log_that_nobody_follows_is_read_once(log: Path) -> None:
    assert followed(log) == b"one\ntwo\n"


def test_what_is_added_is_read_also_a_line_in_two_parts(log: Path) -> None:
    assert followed(log, adding(log, b"thr"), adding(log, b"ee\n")) == b"one\ntwo\nthree\n"


def test_a_log_that_was_emptied_is_read_from_its_new_beginning(log: Path) -> None:
    assert followed(log, lambda: os.truncate(log, 0), adding(log, b"anew\n")) == b"one\ntwo\nanew\n"


def test_a_log_that_was_emptied_and_written_between_two_looks_is_read_from_its_new_beginning(log: Path) -> None:
    assert followed(log, lambda: log.write_bytes(b"anew\n")) == b"one\ntwo\nanew\n"


def test_a_log_that_was_put_aside_is_read_to_its_end_and_then_the_new_one(log: Path) -> None:
    def put_aside() -> None:
        adding(log, b"last\n")()
        log.rename(log.with_suffix(".1"))

    def begin() -> None:
        log.write_bytes(b"a new file that is longer than the old one\n")

    assert followed(log, put_aside, begin) == b"one\ntwo\nlast\na new file that is longer than the old one\n"
