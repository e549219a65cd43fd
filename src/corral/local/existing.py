"""A cluster that somebody else runs, named by a context of the user's kubeconfig: is it there, is it new enough?"""

import asyncio
import re

from corral.kube import Client, Credentials, HttpTransport
from corral.kube.errors import KubeError
from corral.local.errors import LocalError

OLDEST = (1, 33)


def checked_version(context: str, credentials: Credentials) -> str:
    """The cluster's version, if it answers and Corral works with it."""
    try:
        version = asyncio.run(_asked(credentials))
    except KubeError as error:
        raise LocalError(f"context {context} does not answer: {error}") from error
    if not is_new_enough(version):
        raise LocalError(f"context {context} runs Kubernetes {version}: expected {OLDEST[0]}.{OLDEST[1]} or later")
    return version


def is_new_enough(version: str) -> bool:
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST


async def _asked(credentials: Credentials) -> str:
    async with Client(HttpTransport(credentials, component="up")) as client:
        return (await client.server_version()).git_version
