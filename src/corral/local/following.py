"""A component's log as it grows, and begins anew.

The supervisor empties one that has become too long, and the API server puts its audit log aside for another. Either way
reading goes on at the new beginning.
"""

import os
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path


def follow(log: Path, wait: Callable[[], bool]) -> Iterator[bytes]:
    """What it says, and then what is added, as long as `wait` returns True."""
    while True:
        with log.open("rb") as file:
            yield from file
            while (goes_on := wait()) and not _begins_anew(log, file):
                yield from file
            yield from file  # what came in its last moment
        if not goes_on:
            return


def _begins_anew(log: Path, file: BufferedReader) -> bool:
    try:
        now = log.stat()
    except FileNotFoundError:  # put aside, and the new one is not there yet
        return False
    return now.st_size < file.tell() or not os.path.samestat(now, os.fstat(file.fileno()))
