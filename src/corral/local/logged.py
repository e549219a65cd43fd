"""Run one long program to its end: its output goes to a log file, its last line to the progress display.

Never a shell, never a secret on the command line. A failure is a `ProgramError` that keeps the end of the output, so
that the caller can tell a full disk from a missing network and say so in one sentence.
"""

import os
import shlex
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from corral.local.errors import LocalError
from corral.local.progress import Step

TAIL_LINES = 40


class ProgramError(Exception):
    """The program ended with a status other than 0. Never shown as it is: the caller says what it means."""

    def __init__(self, command: Sequence[str], status: int, tail: Sequence[str], log: Path) -> None:
        super().__init__(f"{shlex.join(command)} ended with status {status}")
        self.status = status
        self.tail = tuple(tail)
        self.log = log

    def sentence(self, task: str) -> LocalError:
        """`task` failed, and why as far as the output tells; the rest is in the log."""
        last = self.tail[-1] if self.tail else f"no output, status {self.status}"
        return LocalError(f"{task} failed: {cause(self.tail) or last} (the full log is {self.log})")


def run(
    command: Sequence[str],
    *,
    step: Step,
    log: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    inherited: Sequence[int] = (),
) -> None:
    """Run `command` with `environment` on top of our own, and with the file descriptors `inherited` open.

    If we are interrupted, the program is told to end, and we wait for it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)  # a file of root's can be replaced by the person whose folder it is in, not written
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with log.open("w", encoding="utf-8") as record:
        record.write(f"$ {shlex.join(command)}\n")
        with subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process:
            try:
                for line in process.stdout or ():
                    record.write(line)
                    record.flush()
                    if line.strip():
                        tail.append(line.strip())
                        step.say(line)
            except BaseException:
                with suppress(PermissionError):  # sudo's process is root's; Ctrl-C reaches it by the terminal
                    process.terminate()
                raise
    if process.returncode != 0:
        raise ProgramError(command, process.returncode, tail, log)


def cause(tail: Sequence[str]) -> str | None:
    """The cause that a person can do something about, found in a program's output; None if there is none known."""
    text = "\n".join(tail).lower()
    return next((cause for sign, cause in CAUSES if sign in text), None)


NO_NETWORK = "there is no network, or name resolution does not work"

CAUSES = (  # The first that matches is told.
    ("no space left on device", "the disk is full; free some space, then run the same command again"),
    ("disk quota exceeded", "your disk quota is used up; free some space, then run the same command again"),
    ("signal: killed", "it was killed, most likely for lack of memory; linking needs about 3 GB free"),
    ("cannot allocate memory", "there is not enough memory; linking needs about 3 GB free"),
    (
        "checksum mismatch",
        "a downloaded module is not the one pinned in go.sum; something on the way changes downloads",
    ),
    ("certificate signed by unknown authority", "this machine does not trust the download server's certificate"),
    ("no such host", NO_NETWORK),
    ("temporary failure in name resolution", NO_NETWORK),
    ("temporary failure resolving", NO_NETWORK),
    ("failed to lookup address", NO_NETWORK),
    ("dns error", NO_NETWORK),
    ("network is unreachable", NO_NETWORK),
    ("connection refused", "the download server refused the connection"),
    ("i/o timeout", "the download server did not answer in time"),
    ("timed out", "the download server did not answer in time"),
    ("permission denied", "this user may not write a file that it needs to"),
)
