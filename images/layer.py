"""From a root folder and a recipe to one layer: a tar that is the same for the same files, whoever made them when.

Left out is what differs between two makings and what has no use in a container: logs, caches, lists of apt, keys that
packages generate, and the host's names.
"""

import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

import msgspec

from corral.local.roots import EPOCH
from images.recipes import SCRIPTS_FOLDER, Folder, Recipe

EMPTIED = ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/cache", "/var/lib/apt", "/var/log", "/var/tmp")  # noqa: S108
DROPPED = (
    "/etc/.pwd.lock",
    "/etc/group-",
    "/etc/gshadow-",
    "/etc/hostname",
    "/etc/machine-id",
    "/etc/munge/munge.key",
    "/etc/passwd-",
    "/etc/resolv.conf",
    "/etc/shadow-",
    "/etc/subgid-",
    "/etc/subuid-",
    "/var/lib/dpkg/lock",
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/status-old",
    "/var/lib/systemd",
)
DROPPED_PREFIX = "/etc/ssh/ssh_host_"
FASTEST = 1


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A gzip file, and the digest of what is in it."""

    file: Path
    diff_id: str


class Hashed(io.RawIOBase):
    """Compresses what is written, and knows the digest of what came in. Python's gzip would write a time."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._digest = hashlib.sha256()
        self._compressor = zlib.compressobj(FASTEST, zlib.DEFLATED, wbits=31)  # 31: with gzip's header, time 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._digest.update(data)
        self._sink.write(self._compressor.compress(data))
        return len(data)

    def finish(self) -> str:
        self._sink.write(self._compressor.flush())
        return self._digest.hexdigest()


def write_layer(root: Path, recipe: Recipe, target: Path) -> Layer:
    with target.open("wb") as sink:
        stream = Hashed(sink)
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, bufsize=1 << 20) as tar:
            replaced = recipe.files.keys() | recipe.links.keys()
            paths = tuple(path for path in kept(root, recipe.dropped) if path not in replaced)
            folders = with_parents(recipe, frozenset(paths))
            for path in paths:
                if path not in folders:
                    _add(tar, root, path, recipe)
                else:
                    tar.addfile(_folder_entry(path, folders[path]))
            for path in sorted(folders.keys() - set(paths)):
                tar.addfile(_folder_entry(path, folders[path]))
            for name, content in sorted(recipe.scripts.items()):
                _add_content(tar, f"{SCRIPTS_FOLDER}/{name}", 0o755, content)
            for path, content in sorted(recipe.files.items()):
                _add_content(tar, path, 0o644, content)
            for path, target_path in sorted(recipe.links.items()):
                tar.addfile(_link_entry(path, target_path))
        return Layer(file=target, diff_id=f"sha256:{stream.finish()}")


def kept(root: Path, dropped: tuple[str, ...] = ()) -> Iterator[str]:
    """Absolute paths in the image of all that stays, parents first, always in the same order."""

    def goes(path: str) -> bool:
        return path in DROPPED or path.startswith(DROPPED_PREFIX) or any(fnmatchcase(path, one) for one in dropped)

    pending = [""]
    while pending:
        folder = pending.pop()
        names = sorted(os.listdir(f"{root}{folder}"), reverse=True)
        for path in sorted(f"{folder}/{name}" for name in names):
            if not goes(path):
                yield path
        for name in names:
            path = f"{folder}/{name}"
            inside = Path(f"{root}{path}")
            if path not in EMPTIED and not goes(path) and inside.is_dir() and not inside.is_symlink():
                pending.append(path)


def with_parents(recipe: Recipe, present: frozenset[str]) -> dict[str, Folder]:
    """The recipe's folders, and those above them that are not present."""
    wanted = {**recipe.folders, SCRIPTS_FOLDER: Folder()}
    parents = {str(parent) for path in wanted for parent in Path(path).parents if parent != Path("/")}
    return {**{path: Folder() for path in parents - present}, **wanted}


def _add(tar: tarfile.TarFile, root: Path, path: str, recipe: Recipe) -> None:
    source = Path(f"{root}{path}")
    if path == "/etc/passwd" and recipe.users:
        lines = "".join(f"{user}\n" for user in recipe.users)
        _add_content(tar, path, 0o644, source.read_bytes() + lines.encode())
        return
    entry = tar.gettarinfo(source, arcname=path.lstrip("/"))
    entry.mtime, entry.uname, entry.gname = EPOCH, "", ""
    if entry.isreg():
        with source.open("rb") as content:
            tar.addfile(entry, content)
    else:
        tar.addfile(entry)


def _folder_entry(path: str, folder: Folder) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, folder.mode, EPOCH
    entry.uid = entry.gid = folder.owner
    return entry


def _link_entry(path: str, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.linkname, entry.mode, entry.mtime = tarfile.SYMTYPE, target, 0o777, EPOCH
    return entry


def _add_content(tar: tarfile.TarFile, path: str, mode: int, content: bytes) -> None:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode, entry.size, entry.mtime = mode, len(content), EPOCH
    tar.addfile(entry, io.BytesIO(content))
