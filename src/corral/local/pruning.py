"""Old makings in the user's cache: which of them nobody needs any more, and their removal.

Programs, root folders, images and guests' disks are kept under a key of all that goes into them, so every change leaves
one behind. Another branch or checkout may still use it: of each thing the makings that were used last stay, and so does
whatever was used a short while ago or is run by a cluster. The worst that a wrong guess costs is another making.
"""

import fcntl
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from corral.local.home import existing_names, home_of
from corral.local.paths import cache_dir

KEPT = 2
UNUSED_S_MIN = 3600.0
KEYED = re.compile(r"(?P<thing>.+)-[0-9a-f]{12,16}")


class Making(msgspec.Struct, frozen=True):
    """`thing` is what it is a making of, by whatever key."""

    path: Path
    thing: str
    used_s: float


def outdated(makings: Iterable[Making], now_s: float) -> tuple[Path, ...]:
    """Of each thing: all but those used last, unless they were in use a short while ago."""

    def thing(making: Making) -> str:
        return making.thing

    found = []
    for _, group in groupby(sorted(makings, key=thing), key=thing):
        by_use = sorted(group, key=lambda making: making.used_s, reverse=True)
        found += [making.path for making in by_use[KEPT:] if now_s - making.used_s > UNUSED_S_MIN]
    return tuple(sorted(found))


def prune() -> None:
    """Remove what is outdated. Two at a time do no harm; what cannot be removed stays."""
    now_s = time.time()
    for path in outdated(_images(), now_s):
        path.with_suffix(".cdx.json").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    for disk in outdated(_guests(), now_s):
        disk.unlink(missing_ok=True)
    for folder in outdated(_roots(), now_s):
        _remove_root(folder)
    for folder in outdated(_programs(), now_s):
        shutil.rmtree(folder, ignore_errors=True)


def _images() -> Iterator[Making]:
    """The time of an archive is that of its last use: `images.build` sees to it."""
    for path in (cache_dir() / "images").glob("*.tar"):
        if (keyed := KEYED.fullmatch(path.stem)) and not path.is_symlink():
            yield Making(path, keyed["thing"], path.stat().st_mtime)


def _guests() -> Iterator[Making]:
    """Disks that virtual machines of tests boot from copies of: `corral.testing.guests` marks each use."""
    for path in (cache_dir() / "guests").glob("*.img"):
        if keyed := KEYED.fullmatch(path.stem):
            yield Making(path, keyed["thing"], path.stat().st_mtime)


def _roots() -> Iterator[Making]:
    """Whoever asks for a root folder writes its lock."""
    for lock in (cache_dir() / "roots").glob("*.lock"):
        folder = lock.with_suffix("")
        if (keyed := KEYED.fullmatch(folder.name)) and folder.is_dir():
            yield Making(folder, keyed["thing"], lock.stat().st_mtime)


def _programs() -> Iterator[Making]:
    """Those that a cluster runs are in use; of the others `corral.local.builds` marks each use."""
    run_by_clusters = "".join(_components())
    for folder in (cache_dir() / "bin").glob("*"):
        if (keyed := KEYED.fullmatch(folder.name)) and str(folder) not in run_by_clusters:
            yield Making(folder, keyed["thing"], folder.stat().st_mtime)


def _components() -> Iterator[str]:
    for name in existing_names():
        file = home_of(name).components
        if file.exists():
            yield file.read_text(encoding="utf-8")


def _remove_root(folder: Path) -> None:
    """Under its lock, as it is made. The lock itself stays: somebody may be waiting for it."""
    with folder.with_name(f"{folder.name}.lock").open("r") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        removed = folder.with_name(f"{folder.name}.removed")
        folder.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
