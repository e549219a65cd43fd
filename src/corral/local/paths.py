"""Where Corral keeps its files on this machine. It only names places; it never creates or removes them.

The cache (built programs, the Go toolchain, uv) belongs to a user and may be deleted at any time. The state belongs to
a cluster and goes with `corral down`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from corral.local.errors import LocalError

# The name becomes part of network links (at most 15 characters in Linux), namespaces, cgroups and file names.
CLUSTER_NAME = re.compile(r"[a-z]([-a-z0-9]{0,14}[a-z0-9])?")


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's cache: `$CORRAL_CACHE`, else `$XDG_CACHE_HOME/corral`, else `~/.cache/corral`."""
    chosen = environment.get("CORRAL_CACHE", "")
    if chosen:
        return _absolute("CORRAL_CACHE", chosen)
    return _base(environment, "XDG_CACHE_HOME", ".cache") / "corral"


def cluster_dir(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """All files of one cluster: `$XDG_STATE_HOME/corral/NAME`, else `~/.local/state/corral/NAME`."""
    return _base(environment, "XDG_STATE_HOME", ".local/state") / "corral" / _checked(name)


def _checked(name: str) -> str:
    if not CLUSTER_NAME.fullmatch(name):
        raise LocalError(
            f"cluster name {name!r}: expected at most 16 lower-case letters, digits and dashes, beginning with a letter"
        )
    return name


def _base(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    chosen = Path(environment.get(variable, ""))
    # The XDG specification says that a relative path there is to be ignored.
    return chosen if chosen.is_absolute() else _home(environment) / below_home


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME", "")
    return _absolute("HOME", home) if home else Path.home()


def _absolute(variable: str, value: str) -> Path:
    path = Path(value)
    if not path.is_absolute():
        raise LocalError(f"${variable} is {value!r}: expected an absolute path")
    return path
