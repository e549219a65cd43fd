"""Where a cluster keeps its files: one directory a cluster, and nothing anywhere else.

The directory is also the lock: `up` and `down` hold it while they work, so that two of them never meet.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from corral.local.errors import LocalError
from corral.local.paths import cluster_dir
from corral.local.spec import Node, Spec


class Home(msgspec.Struct, frozen=True):
    """The paths of one cluster."""

    path: Path

    @property
    def spec_file(self) -> Path:
        return self.path / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def etcd(self) -> Path:
        return self.path / "etcd"

    @property
    def config(self) -> Path:
        return self.path / "config"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def records(self) -> Path:
        return self.path / "processes"

    @property
    def components(self) -> Path:
        return self.path / "components.json"

    @property
    def volumes(self) -> Path:
        return self.path / "volumes"

    @property
    def namespaces(self) -> Path:
        return self.path / "namespaces"

    @property
    def control_network(self) -> Path:
        return self.namespaces / "control.net"

    def network(self, node: Node) -> Path:
        return self.namespaces / f"{node.name}.net"

    def mounts(self, node: Node) -> Path:
        return self.namespaces / f"{node.name}.mnt"

    def node(self, node: Node) -> Path:
        return self.path / node.name

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def record(self, component: str) -> Path:
        return self.records / f"{component}.json"

    def read_spec(self) -> Spec | None:
        """The cluster's description, or None when there is none yet (or `up` was ended before it wrote one)."""
        try:
            return msgspec.json.decode(self.spec_file.read_bytes(), type=Spec)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise LocalError(
                f"{self.spec_file} is damaged ({error}): run `corral down --name {self.path.name}`"
            ) from error


def home_of(name: str) -> Home:
    return Home(cluster_dir(name))


def clusters_root() -> Path:
    return cluster_dir("any").parent


def existing_names() -> tuple[str, ...]:
    root = clusters_root()
    return tuple(sorted(entry.name for entry in root.iterdir() if entry.is_dir())) if root.is_dir() else ()


def write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace a file in one step, so that a kill at any moment leaves the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(part, mode)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        if isinstance(error, OSError) and error.filename is None:  # a full disk, which does not say of what
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make the directory and hold it. Whoever waited for one that was removed meanwhile makes a new one."""
    descriptor = _held(directory)
    try:
        yield
    finally:
        os.close(descriptor)


def _held(directory: Path) -> int:
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), directory.stat()):
                return descriptor
        os.close(descriptor)
