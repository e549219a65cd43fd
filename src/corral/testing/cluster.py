"""A real cluster for tests: the one that CORRAL_TEST_KUBECONFIG names, or a local one that is started when needed."""

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import msgspec
import yaml

from corral.kube import Client
from corral.kube.definitions import define
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.local import builds, images
from corral.local.home import home_of
from corral.local.kubectl import memory

NAME = "test"
UP_WITHIN_S = 1800.0  # the first time ever, everything is built


class Cluster(msgspec.Struct, frozen=True):
    """A cluster that is up. `name` is empty when it is not a local one of ours."""

    kubeconfig: Path
    name: str = ""

    def kubectl(self, *arguments: str, stdin: str = "", timeout_s: float = 60.0) -> str:
        """Run kubectl to its end; an AssertionError with its own words when it fails."""
        done = self.try_kubectl(*arguments, stdin=stdin, timeout_s=timeout_s)
        if done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str = "", timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        ours = (f"--cache-dir={memory(self.kubeconfig)}",) if self.name else ()
        command = [str(builds.binary("kubectl")), f"--kubeconfig={self.kubeconfig}", *ours, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)

    def define(self, definitions: str) -> None:
        """Make the kinds of a YAML file of definitions known, and return when the server serves them."""
        crds = [msgspec.convert(document, CustomResourceDefinition) for document in yaml.safe_load_all(definitions)]

        async def defined() -> None:
            async with self.client() as client:
                await define(client, crds, field_manager="test")

        asyncio.run(defined())

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        from corral.kube import HttpTransport, load_credentials

        async with Client(HttpTransport(load_credentials(self.kubeconfig), component="test")) as client:
            yield client

    def provide_toolbox(self) -> str:
        """Make the image with shell tools known to every node; returns its name."""
        home = home_of(self.name)
        spec = home.read_spec()
        if not self.name or spec is None:
            raise AssertionError("images can be imported only into a local cluster of ours")
        images.ensure(home, spec, images.toolbox())
        return images.TOOLBOX_IMAGE


def corral(*arguments: str, timeout_s: float = UP_WITHIN_S) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would, to its end."""
    command = [sys.executable, "-c", "from corral.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


@contextlib.contextmanager
def running_cluster(environment: Mapping[str, str] = os.environ) -> Iterator[Cluster]:
    """What this run started goes at its end, unless CORRAL_KEEP is set or another run uses it too.

    What was there before stays. Each worker of pytest-xdist has a cluster of its own.
    """
    worker = environment.get("PYTEST_XDIST_WORKER", "")
    if named := environment.get("CORRAL_TEST_KUBECONFIG"):
        if worker:
            raise AssertionError("CORRAL_TEST_KUBECONFIG names one cluster, which workers cannot share: use -n 0")
        yield Cluster(Path(named), _local_name(Path(named)))
        return
    name = f"{NAME}-{worker}" if worker else NAME
    home = home_of(name)
    was_there = home.spec_file.exists()
    try:
        up = corral("up", "--name", name, "--bare")
        if up.returncode != 0:
            raise AssertionError(f"corral up --name {name} failed:\n{up.stderr}")
        with home.kubeconfig.open() as shared:
            fcntl.flock(shared, fcntl.LOCK_SH)
            yield Cluster(home.kubeconfig, name)
    finally:
        if not was_there and not environment.get("CORRAL_KEEP") and not _is_used(home.kubeconfig):
            corral("down", "--name", name)


def _local_name(kubeconfig: Path) -> str:
    """Of the local cluster that this is of; empty for others."""
    name = kubeconfig.parent.name
    return name if home_of(name).kubeconfig == kubeconfig else ""


def _is_used(kubeconfig: Path) -> bool:
    try:
        with kubeconfig.open() as shared:
            fcntl.flock(shared, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
