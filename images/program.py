"""The packages of uv.lock, and Corral's own wheel, put into a copy of a root folder with Debian's Python.

Bytecode is compiled here, with hashes in place of times: the container's file system is read-only, and the layer gives
every file the same time, which would make all that Debian's packages compiled stale.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from corral.local import logged
from corral.local.errors import LocalError
from corral.local.paths import cache_dir
from corral.local.progress import Step
from corral.local.roots import EPOCH
from corral.local.toolchain import MACHINE_CERTIFICATES

CHECKOUT = Path(__file__).parents[1]
LOCK = "uv.lock"
MADE_FROM = ("LICENSE", "README.md", "pyproject.toml")
SOURCES = "src/corral"
BYTECODE = "__pycache__"
INSTALLERS_NOTES = ("RECORD", "direct_url.json", "uv_cache.json")  # paths and times of this machine are in them

# uv brings certificates of its own; it is to trust what the machine trusts. It builds with the Python that runs us.
ENVIRONMENT = {
    "SOURCE_DATE_EPOCH": str(EPOCH),
    "UV_PYTHON": sys.executable,
    "UV_PYTHON_DOWNLOADS": "never",
    **({"SSL_CERT_FILE": str(MACHINE_CERTIFICATES)} if MACHINE_CERTIFICATES.exists() else {}),
}


def sources_digest(checkout: Path = CHECKOUT) -> str:
    """Tells apart all that would make another wheel."""
    digest = hashlib.sha256()
    for path in (*(checkout / name for name in MADE_FROM), *_sources(checkout / SOURCES)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(checkout)} {content}\n".encode())
    return digest.hexdigest()


def lock_digest(checkout: Path = CHECKOUT) -> str:
    """Tells apart all that would install other packages: a lock that does not fit pyproject.toml is refused."""
    return hashlib.sha256((checkout / LOCK).read_bytes()).hexdigest()


@contextmanager
def with_packages(root: Path, python: str, folder: Path, step: Step) -> Iterator[Path]:
    """A copy of the root folder, below `folder` on the same disk, that has the locked packages; gone afterwards."""
    uv, requirements = find_uv(), folder / "requirements.txt"
    export = ("export", "--locked", "--no-dev", "--no-emit-project", "--no-header", "--no-annotate")
    with _copied(root, folder) as copy:
        _run((uv, *export, "--output-file", str(requirements)), "reading uv.lock", step)
        chosen = ("--require-hashes", f"--requirement={requirements}")
        _install(copy, python, chosen, "installing the locked packages", step)
        _compile(copy, python, (copy / f"usr/lib/python{python}", site(copy, python)), step)
        yield copy


@contextmanager
def program_alone(root: Path, python: str, folder: Path, step: Step) -> Iterator[Path]:
    """A folder, below `folder`, with Corral at its place in the image and nothing else; gone afterwards."""
    alone = folder / "program"
    with _copied(root, folder) as copy:
        _run((find_uv(), "build", "--wheel", "--out-dir", str(folder), str(CHECKOUT)), "building Corral's wheel", step)
        (wheel,) = folder.glob("*.whl")
        _install(copy, python, (str(wheel),), "installing Corral", step)
        _compile(copy, python, (site(copy, python),), step)
        site(alone, python).parent.mkdir(parents=True)
        site(copy, python).rename(site(alone, python))
        yield alone


@contextmanager
def _copied(root: Path, folder: Path) -> Iterator[Path]:
    copy = folder / "root"
    try:
        # Links instead of copies: nothing below is written in place, so the root folder stays as it is.
        subprocess.run(["cp", "--archive", "--link", root, copy], check=True)
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _install(root: Path, python: str, chosen: Sequence[str], task: str, step: Step) -> None:
    install = (
        find_uv(), "pip", "install", "--link-mode=copy", "--no-deps", "--only-binary=:all:",
        f"--python-version={python}", f"--python-platform={platform.machine()}-unknown-linux-gnu",
        f"--target={site(root, python)}",
    )  # fmt: skip
    _run((*install, *chosen), task, step)
    shutil.rmtree(site(root, python) / "bin", ignore_errors=True)  # they would start this machine's Python
    for note in INSTALLERS_NOTES:
        for file in site(root, python).glob(f"*.dist-info/{note}"):
            file.unlink()


def _compile(root: Path, python: str, folders: Sequence[Path], step: Step) -> None:
    step.say("compiling")
    for folder in folders:
        for stale in sorted(folder.rglob(BYTECODE)):
            shutil.rmtree(stale)
    inside = [f"/{folder.relative_to(root)}" for folder in folders]
    compileall = [f"python{python}", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", *inside]
    _run(("chroot", str(root), *compileall), "compiling", step, {"PYTHONHASHSEED": "0"})


def site(root: Path, python: str) -> Path:
    return root / f"usr/local/lib/python{python}/dist-packages"


def find_uv(environment: Mapping[str, str] = os.environ) -> str:
    """As scripts/bootstrap finds it; $UV for those whom sudo gave another PATH."""
    for candidate in (environment.get("UV"), shutil.which("uv"), str(cache_dir(environment) / "uv/bin/uv")):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise LocalError("uv is not here, and Corral's image is made with it: run `scripts/bootstrap`, which gets it")


def _run(command: Sequence[str], task: str, step: Step, environment: Mapping[str, str] | None = None) -> None:
    log = cache_dir() / "logs" / f"image-{task.replace(' ', '-').replace(chr(39), '')}.log"
    step.say(task)
    # uv is root here and HOME a person's: in their own cache of uv it would leave folders that they cannot write.
    downloads = {"UV_CACHE_DIR": str(cache_dir() / "uv-downloads")}
    try:
        made = {**ENVIRONMENT, **downloads, **(environment or {})}
        logged.run(["nice", *command], step=step, log=log, cwd=CHECKOUT, environment=made)
    except logged.ProgramError as error:
        raise error.sentence(task) from error


def _sources(folder: Path) -> Iterator[Path]:
    """Links are followed: the wheel holds what they lead to."""
    files = (Path(place) / name for place, _, names in os.walk(folder, followlinks=True) for name in names)
    return iter(sorted(path for path in files if BYTECODE not in path.parts))
