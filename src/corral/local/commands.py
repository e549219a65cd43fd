"""Running the host's own tools (ip, mount, nsenter): what fails says which tool, why, and is a LocalError."""

import os
import shutil
import subprocess
from collections.abc import Mapping, MutableMapping, Sequence
from types import MappingProxyType

from corral.local.errors import LocalError

ADMINISTRATION = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def find_administration(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have the tools of administrators be found too: whoever became root by `su` has a path without them."""
    known = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join((*known, *(folder for folder in ADMINISTRATION if folder not in known)))


def run(
    argv: Sequence[str],
    *,
    stdin: str = "",
    timeout_s: float = 30.0,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run to the end and return what it printed. Ctrl-C is not passed on: a tool is never left half-way."""
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    except FileNotFoundError as error:
        raise LocalError(f"{argv[0]} is not installed: run `corral local prepare`") from error
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"`{' '.join(argv)}` did not end within {timeout_s:g} s") from error
    if done.returncode != 0:
        raise LocalError(f"`{' '.join(argv)}` failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def missing_tools(tools: Sequence[str]) -> tuple[str, ...]:
    return tuple(tool for tool in tools if shutil.which(tool) is None)
