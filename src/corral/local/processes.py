"""Starting, recognising and ending processes.

A pid alone names nobody: it is used again after its owner has died. Here a process is a pid with its start time,
and nothing is ever signalled by name.
"""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec


class Identity(msgspec.Struct, frozen=True):
    """One process and no other, until the machine restarts."""

    pid: int
    start_ticks: int  # since boot, as the kernel counts


def identity(pid: int) -> Identity | None:
    """None when there is no such process or it has ended and only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    state, start_ticks = fields[0], int(fields[19])
    return None if state in "ZX" else Identity(pid, start_ticks)


def is_alive(process: Identity) -> bool:
    return identity(process.pid) == process


def command_line(pid: int) -> tuple[str, ...]:
    try:
        # Whatever bytes a container's program was started with.
        return tuple(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).rstrip("\0").split("\0"))
    except OSError:
        return ()


def memory_bytes(pid: int) -> int:
    """What the process alone costs (proportional share), or 0 when it is gone or not ours to see."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def start(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start in a session of its own, so that Ctrl-C in a terminal does not reach it, with its output in a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=dict(environment),
        )


def end(process: Identity, grace_s: float) -> None:
    """Ask it to end, then make it. Returns when it is gone."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        if not is_alive(process):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        wait([process], wait_s)


def wait(those: Sequence[Identity], timeout_s: float) -> None:
    """Return when one of them has ended, or after the time."""
    poll = select.poll()
    descriptors: list[int] = []
    try:
        for process in those:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(process.pid)
                descriptors.append(descriptor)
                poll.register(descriptor, select.POLLIN)
            if not is_alive(process):
                return
        poll.poll(timeout_s * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
