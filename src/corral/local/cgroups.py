"""The cluster's cgroups: where its containers are confined, and the one sure list of all its processes.

Whatever a cluster starts, directly or through a container, stays below the directory `corral<N>-NAME` (N is the block
of its addresses) of the tracking hierarchy, because a process inherits its place and nothing moves it out. `down` needs
no names and no luck.

The tracking hierarchy is cgroup v2 wherever it is mounted (also beside v1), else the v1 hierarchy `pids`.
"""

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import msgspec

from corral.local import mountinfo
from corral.local.errors import LocalError
from corral.local.mountinfo import Mount

POD_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


class Hierarchies(msgspec.Struct, frozen=True):
    """The cgroup mounts of this machine."""

    v2: tuple[Path, ...]
    v1: tuple[Path, ...]

    @property
    def all(self) -> tuple[Path, ...]:
        return (*self.v2, *self.v1)

    @property
    def tracking(self) -> Path:
        by_name = sorted(self.v1, key=lambda path: path.name != "pids")
        return (*self.v2, *by_name)[0]

    @property
    def is_pure_v2(self) -> bool:
        return bool(self.v2) and not self.v1


def hierarchies(mounts: Iterable[Mount]) -> Hierarchies:
    found: dict[str, list[Path]] = {"cgroup": [], "cgroup2": []}
    for mount in mounts:
        if mount.kind in found:
            found[mount.kind].append(mount.point)
    return Hierarchies(v2=tuple(found["cgroup2"]), v1=tuple(found["cgroup"]))


def mounted() -> Hierarchies:
    return hierarchies(mountinfo.mounted())


def supervised(cgroup: str) -> Path:
    """Make the tracking cgroup. Who joins it takes along everything it starts from then on."""
    directory = mounted().tracking / cgroup / "supervised"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def prepare_node(cgroup: str, node: str) -> None:
    """Make the cgroup below which kubelet keeps its pods: in every hierarchy of v1, or the one of v2."""
    here = mounted()
    for root in here.v1:
        _make_v1(root, (cgroup, node))
    if here.is_pure_v2:
        _make_v2(here.v2[0], cgroup, node)


def _make_v2(root: Path, cgroup: str, node: str) -> None:
    (root / cgroup / node).mkdir(parents=True, exist_ok=True)
    for directory in (root, root / cgroup):
        for controller in (*POD_CONTROLLERS, "hugetlb", "io"):
            with contextlib.suppress(OSError):  # what matters is what arrives below
                (directory / "cgroup.subtree_control").write_text(f"+{controller}")
    lacking = set(POD_CONTROLLERS) - set((root / cgroup / node / "cgroup.controllers").read_text().split())
    if lacking:
        raise LocalError(
            f"the cgroup controllers {', '.join(sorted(lacking))} cannot be used below {root} (inside a container?): "
            "run it on the machine itself, or use an existing cluster by `--context NAME`"
        )


def _make_v1(root: Path, parts: tuple[str, ...]) -> None:
    for part in parts:
        parent, root = root, root / part
        root.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new cgroup, and then nothing may run there
            if (root / setting).exists():
                (root / setting).write_text((parent / setting).read_text())


def processes(cgroup: str) -> frozenset[int]:
    """Every live process of the cluster."""
    return frozenset(pid for root in mounted().all for pid in _processes_below(root / cgroup))


def kill(cgroup: str) -> None:
    """Ask the kernel to end them all at once where it can, else one by one."""
    for root in mounted().all:
        directory = root / cgroup
        if (directory / "cgroup.kill").exists():
            with contextlib.suppress(OSError):
                (directory / "cgroup.kill").write_text("1")
        for pid in _processes_below(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def remove(cgroup: str) -> tuple[Path, ...]:
    """Remove the empty directories; returns those that are still in use."""
    left: list[Path] = []
    for root in mounted().all:
        for directory in _deepest_first(root / cgroup):
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                left.append(directory)
    return tuple(left)


def _processes_below(directory: Path) -> Iterable[int]:
    for place in _deepest_first(directory):
        with contextlib.suppress(OSError):
            yield from (int(pid) for pid in (place / "cgroup.procs").read_text().split())


def _deepest_first(directory: Path) -> Iterable[Path]:
    for path, _, _ in os.walk(directory, topdown=False):
        yield Path(path)
