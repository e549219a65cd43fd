"""What is mounted where in our own mount namespace, as the kernel lists it in /proc/self/mountinfo.

A path is bytes: blanks and backslashes the kernel writes as octal numbers (`\\040`), and all others as they are.
"""

import os
import re
from pathlib import Path

import msgspec

ESCAPED = re.compile(rb"\\([0-7]{3})")


class Mount(msgspec.Struct, frozen=True):
    point: Path
    kind: str


def mounts(mountinfo: bytes) -> tuple[Mount, ...]:
    """In the kernel's order. One path is listed as often as something is mounted there."""
    return tuple(_mount(line.split(b" ")) for line in mountinfo.split(b"\n") if line)


def mounted() -> tuple[Mount, ...]:
    return mounts(Path("/proc/self/mountinfo").read_bytes())


def _mount(fields: list[bytes]) -> Mount:
    kind = fields[fields.index(b"-", 6) + 1]  # before the dash there may be optional fields
    return Mount(point=Path(os.fsdecode(_unescaped(fields[4]))), kind=kind.decode())


def _unescaped(path: bytes) -> bytes:
    return ESCAPED.sub(lambda escape: bytes([int(escape[1], 8)]), path)
