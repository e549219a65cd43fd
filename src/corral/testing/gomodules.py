"""Files of other projects, from their Go modules: downloaded by the Go toolchain, checked against a sum that we pin."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from corral.local import toolchain
from corral.local.paths import cache_dir

DOWNLOAD_WITHIN_S = 600.0
GO_MIN = (1, 21, 0)

Definition = Mapping[str, Any]


class GoModule(msgspec.Struct, frozen=True):
    path: str
    version: str
    sum: str


class CannotGet(Exception):
    """A module could not be had, or is not the one that was pinned."""


def downloaded(module: GoModule) -> Path:
    """The folder of a module's sources in Go's own cache."""
    go = toolchain.find(GO_MIN)
    if go is None:
        raise CannotGet(f"{module.path} is downloaded by Go, and there is none: run `corral local prepare`")
    # The sum is pinned here, so the public database of sums is not asked.
    environment = {**toolchain.BUILD_ENVIRONMENT, "GONOSUMDB": "*", "GOFLAGS": ""}
    outside = cache_dir()
    outside.mkdir(parents=True, exist_ok=True)
    command = [str(go.program), "mod", "download", "-json", f"{module.path}@{module.version}"]
    done = subprocess.run(
        command,
        cwd=outside,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_WITHIN_S,
        check=False,
    )
    said = msgspec.json.decode(done.stdout or "{}", type=dict[str, Any])
    if "Error" in said or done.returncode != 0:
        raise CannotGet(f"{module.path} {module.version}: {said.get('Error') or done.stderr.strip()}")
    if said["Sum"] != module.sum:
        raise CannotGet(f"{module.path} {module.version} is not what was pinned: {said['Sum']}, expected {module.sum}")
    return Path(said["Dir"])


def loaded(text: str) -> Definition:
    return next(document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document)


def without_status(crd: Definition) -> Definition:
    """Generated files carry an empty status, which is not ours to apply."""
    return {key: value for key, value in crd.items() if key != "status"}
