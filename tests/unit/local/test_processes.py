"""With real processes: what is recognised and ended must be the one that was started."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from corral.local.processes import Identity, command_line, end, identity, is_alive


@contextmanager
def running_cat(*arguments: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """It has answered, so it is the new program: just after the fork its command line may still be empty."""
    command = [b"cat", b"-", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"ready\n")
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with running_cat() as process:
        yield process


def test_a_running_process_is_alive_and_has_its_command_line(sleeper: subprocess.Popen[bytes]) -> None:
    found = identity(sleeper.pid)

    assert found is not None
    assert is_alive(found)
    assert command_line(sleeper.pid) == ("cat", "-")


def test_another_process_with_the_same_pid_is_not_it(sleeper: subprocess.Popen[bytes]) -> None:
    found = identity(sleeper.pid)

    assert found is not None
    assert not is_alive(Identity(found.pid, found.start_ticks - 1))


def test_ending_a_process_waits_until_it_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    found = identity(sleeper.pid)
    assert found is not None

    end(found, grace_s=10.0)

    assert not is_alive(found)


def test_a_process_that_only_waits_to_be_reaped_is_dead() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    try:
        assert identity(child) is None
    finally:
        os.waitpid(child, 0)


def test_ending_what_is_not_there_does_nothing() -> None:
    end(Identity(pid=2**22 + 1, start_ticks=1), grace_s=0.0)


def test_a_command_line_may_hold_any_bytes() -> None:
    with running_cat(b"caf\xe9") as process:
        assert command_line(process.pid) == ("cat", "-", os.fsdecode(b"caf\xe9"))
