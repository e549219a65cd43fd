"""Build the programs of a Kubernetes from pinned Go modules, once per user, and say where they are.

A module is a folder below `go/` with a go.mod and a go.sum and no Go of ours. Its programs live in the cache under a
key made of both files, the flags and the processor, so a change of any of them builds anew and nothing else does. The
version of Go is not part of the key: the sources are fixed without it, and an upgrade of Go on the machine should not
cost a quarter of an hour; who wants a rebuild removes the directory.

One program is built at a time, on this machine and not only in this process (linking two needs twice the memory and
gains nothing); a file lock sees to that. A program appears under its name complete or not at all. Nothing is built by
`binary`: it only answers.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from corral.local import logged, packages, toolchain
from corral.local.errors import LocalError
from corral.local.paths import cache_dir
from corral.local.progress import Progress, Step

GIB = 1024**3


class Module(msgspec.Struct, frozen=True):
    """A folder with a go.mod.

    `path` is the Go module whose version is that of its programs. `stamped` are packages with the variables gitVersion,
    gitMajor and gitMinor: unset, a Kubernetes server calls itself v0.0.0 and its clients complain.
    """

    folder: Path
    path: str
    disk_bytes: int
    stamped: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name


class Binary(msgspec.Struct, frozen=True):
    name: str
    module: Module
    package: str


GO_FOLDER = Path(__file__).parent / "go"
KUBERNETES = Module(
    folder=GO_FOLDER / "kubernetes",
    path="k8s.io/kubernetes",
    disk_bytes=5 * GIB,
    stamped=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
)
ETCD = Module(folder=GO_FOLDER / "etcd", path="go.etcd.io/etcd/server/v3", disk_bytes=GIB)
COREDNS = Module(folder=GO_FOLDER / "coredns", path="github.com/coredns/coredns", disk_bytes=3 * GIB)

# In the order of building: what a control plane needs comes first.
BINARIES: tuple[Binary, ...] = (
    Binary("etcd", ETCD, ETCD.path),
    *(
        Binary(name, KUBERNETES, f"{KUBERNETES.path}/cmd/{name}")
        for name in ("kube-apiserver", "kubectl", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    ),
    Binary("coredns", COREDNS, COREDNS.path),
)

PACKAGES_STEP = "Debian packages"
GO_STEP = "Go toolchain"
PREPARE_STEPS: tuple[str, ...] = (PACKAGES_STEP, GO_STEP, *(binary.name for binary in BINARIES))


def binary(name: str) -> Path:
    """Where a program of the table is; a LocalError if it has not been built."""
    found = next(candidate for candidate in BINARIES if candidate.name == name)
    path = place(found)
    if not is_built(found):
        raise LocalError(f"{name} has not been built yet (expected at {path}): run `corral local prepare`")
    return path


def prepare(progress: Progress, binaries: Sequence[Binary] = BINARIES) -> None:
    """Install and build all that a local cluster needs. `progress` must plan PREPARE_STEPS."""
    try:
        packages.ensure(progress, PACKAGES_STEP)
        build(progress, binaries)
    except OSError as error:  # a full disk, a cache of another user
        raise LocalError(f"cannot prepare the local cluster: {error}") from error


def build(progress: Progress, binaries: Sequence[Binary] = BINARIES) -> None:
    """Build what is missing, one after another. `progress` must plan GO_STEP and the name of each."""
    wanted = [candidate for candidate in binaries if not is_built(candidate)]
    if not wanted:
        progress.cached(GO_STEP, "nothing to build")
    for candidate in binaries:
        if candidate not in wanted:
            with suppress(PermissionError):  # a cache of another user serves as well
                os.utime(place(candidate).parent)  # used now: see corral.local.pruning
            progress.cached(candidate.name, version(candidate.module))
    if wanted:
        _build_all(progress, wanted)


def version(module: Module) -> str:
    """The version of the module that go.mod asks for, e.g. v1.36.3."""
    found = re.search(rf"^\s*(?:require )?{re.escape(module.path)} (v\S+)", _go_mod(module), re.MULTILINE)
    if found is None:
        raise ValueError(f"{module.folder}/go.mod does not require {module.path}")
    return found.group(1)


def flags(module: Module) -> tuple[str, ...]:
    """The flags of `go build`: small programs without our paths in them, that know their version."""
    whole = version(module)
    major, minor, *_ = whole.removeprefix("v").split(".")
    stamps = {"gitVersion": whole, "gitMajor": major, "gitMinor": minor}
    assignments = [f"-X={package}.{name}={value}" for package in module.stamped for name, value in stamps.items()]
    return ("-trimpath", "-ldflags=" + " ".join(("-s", "-w", *assignments)))


def key(module: Module) -> str:
    parts = (
        (module.folder / "go.mod").read_bytes(),
        (module.folder / "go.sum").read_bytes(),
        "\0".join((platform.machine(), *flags(module))).encode(),
    )
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts))
    return f"{module.name}-{digest.hexdigest()[:16]}"


def place(binary: Binary) -> Path:
    return cache_dir() / "bin" / key(binary.module) / binary.name


def is_built(binary: Binary) -> bool:
    return os.access(place(binary), os.X_OK)


def check_disk(wanted: Sequence[Binary], free: Mapping[Path, int]) -> None:
    """Refuse to begin what the disk cannot hold; `free` is what is free where Go and we write."""
    needed = sum({candidate.module.name: candidate.module.disk_bytes for candidate in wanted}.values())
    for directory, available in free.items():
        if available < needed:
            raise LocalError(
                f"building Kubernetes needs about {needed / GIB:.0f} GiB on the disk of {directory}, "
                f"and {available / GIB:.1f} GiB are free: free some space, or choose another disk by "
                "CORRAL_CACHE, GOCACHE and GOMODCACHE"
            )


def free_bytes(go: toolchain.Go) -> dict[Path, int]:
    """Free space where sources, compiled packages and programs go. Three places, mostly on one disk."""
    said = subprocess.run(
        [go.program, "env", "GOMODCACHE", "GOCACHE"], capture_output=True, text=True, check=True, timeout=30
    )
    places = [*(Path(line) for line in said.stdout.splitlines()), cache_dir()]
    return {place: shutil.disk_usage(_existing(place)).free for place in places}


@contextmanager
def build_lock(step: Step) -> Iterator[int]:
    """Only one program is built at a time on this machine and user.

    Gives the lock's file descriptor. The lock ends with the last process that has it open: a compiler that inherits it
    and outlives us (kill -9) still writes, and the next builder waits for it.
    """
    path = cache_dir() / "build.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            step.say(f"waiting for process {file.read().strip() or 'unknown'}, which builds now")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()


def _build_all(progress: Progress, wanted: Sequence[Binary]) -> None:
    go = _toolchain(progress, wanted)
    check_disk(wanted, free_bytes(go))
    for candidate in wanted:
        with progress.step(candidate.name) as step:
            build_one(candidate, go, step)


def _toolchain(progress: Progress, wanted: Sequence[Binary]) -> toolchain.Go:
    minimum = toolchain.required_version(_go_mod(candidate.module) for candidate in wanted)
    go = toolchain.find(minimum)
    if go is not None:
        progress.cached(GO_STEP, str(go))
        return go
    with progress.step(GO_STEP) as step, build_lock(step):
        go = toolchain.find(minimum) or toolchain.install(minimum, step)
        step.note(str(go))
        return go


def build_one(candidate: Binary, go: toolchain.Go, step: Step) -> None:
    """Build one program under the lock; if another process has built it meanwhile, that is as good."""
    step.note(version(candidate.module))
    target = place(candidate)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.part")
    with build_lock(step) as lock:
        if is_built(candidate):  # by the process we waited for
            return
        try:
            _compile(candidate, go, partial, step, lock)
            _settle(partial, target)
        finally:
            partial.unlink(missing_ok=True)


def _compile(candidate: Binary, go: toolchain.Go, output: Path, step: Step, lock: int) -> None:
    step.say("looking at its modules")
    try:
        logged.run(
            [str(go.program), "build", "-v", *flags(candidate.module), "-o", str(output), candidate.package],
            step=step,
            log=cache_dir() / "logs" / f"{candidate.name}.log",
            cwd=candidate.module.folder,
            environment=toolchain.BUILD_ENVIRONMENT,
            inherited=(lock,),
        )
    except logged.ProgramError as error:
        raise error.sentence(f"building {candidate.name} {version(candidate.module)}") from error


def _settle(partial: Path, target: Path) -> None:
    """Give a complete file its name. After a power cut there is the whole file under it, or none."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.rename(target)


def _go_mod(module: Module) -> str:
    return (module.folder / "go.mod").read_text(encoding="utf-8")


def _existing(path: Path) -> Path:
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())
