"""A cluster that somebody else runs, named by a context of the user's kubeconfig: is it there, is it new enough?"""

import re
import subprocess

import msgspec

from corral.local import builds
from corral.local.errors import LocalError

OLDEST = (1, 33)


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(name="gitVersion")


class _Answer(msgspec.Struct):
    server: _Version = msgspec.field(name="serverVersion")


def checked_version(context: str) -> str:
    """The cluster's version, if it answers and Corral works with it."""
    command = [str(builds.binary("kubectl")), "--context", context, "--request-timeout=10s", "version", "--output=json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise LocalError(f"context {context} does not answer: {reason[0]}")
    version = msgspec.json.decode(done.stdout, type=_Answer).server.git_version
    if not is_new_enough(version):
        raise LocalError(f"context {context} runs Kubernetes {version}: expected {OLDEST[0]}.{OLDEST[1]} or later")
    return version


def is_new_enough(version: str) -> bool:
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST
