"""Root folders of Debian releases: made by mmdebstrap from packages alone, kept in the user's cache, never changed.

A folder is named after everything that goes into it, so another list of packages is another folder. Whoever runs
programs in one puts an overlay over it.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from corral.local import logged
from corral.local.errors import LocalError
from corral.local.paths import cache_dir
from corral.local.progress import Step

EPOCH = 1_735_689_600  # "today" for what is made: 2025-01-01. A day in /etc/shadow must not tell two makings apart.


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is for people. `manuals` keeps section 5 of the manual pages."""

    name: str
    suite: str
    packages: tuple[str, ...]
    manuals: bool = False

    @property
    def folder(self) -> Path:
        digest = hashlib.sha256(msgspec.json.encode([self, EPOCH])).hexdigest()[:12]
        return cache_dir() / "roots" / f"{self.name}-{digest}"


def ensure(root: Root, step: Step) -> Path:
    """The root folder, made now if there is none. Two callers at a time make one."""
    folder = root.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _make(root, folder, step)
    return folder


def _make(root: Root, folder: Path, step: Step) -> None:
    has_mmdebstrap = shutil.which("mmdebstrap") is not None
    if why := obstacle(is_root=os.geteuid() == 0, has_mmdebstrap=has_mmdebstrap):
        raise LocalError(f"the root folder {root.name} cannot be made: {why}")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    log = cache_dir() / "logs" / f"root-{root.name}.log"
    try:
        logged.run(command(root, unfinished), step=step, log=log, environment={"SOURCE_DATE_EPOCH": str(EPOCH)})
    except logged.ProgramError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise error.sentence(f"making the root folder {root.name} from Debian {root.suite}") from error
    unfinished.rename(folder)


def obstacle(*, is_root: bool, has_mmdebstrap: bool) -> str:
    """What keeps us from making one and what to do about it; empty when nothing does."""
    if not is_root:
        return "only root can do that: run the same command with sudo"
    return "" if has_mmdebstrap else "mmdebstrap is not installed: apt install mmdebstrap"


def command(root: Root, folder: Path) -> Sequence[str]:
    return [
        "nice",
        "mmdebstrap",
        "--mode=root",
        "--variant=essential",
        "--components=main",
        '--aptopt=Apt::Install-Recommends "false"',
        '--aptopt=Acquire::Check-Valid-Until "false"',  # a testing suite's Release file may be past its date
        *(f"--dpkgopt=path-exclude=/usr/share/{kind}/*" for kind in ("man", "locale", "info", "doc", "lintian")),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        *(["--dpkgopt=path-include=/usr/share/man/man5/*"] if root.manuals else []),
        f"--include={','.join(root.packages)}",
        root.suite,
        str(folder),
    ]
