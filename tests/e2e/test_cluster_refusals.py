"""What cannot be done is told in one sentence with a way out, and changes nothing."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.testing.cluster import corral

pytestmark = pytest.mark.cluster


def refusal(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", "from corral.cli.main import main; main()", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_name_that_is_none() -> None:
    assert "expected at most 16" in refusal("up", "--name", "No Name")


def test_a_cluster_that_is_not_there() -> None:
    assert "run `corral up --name nowhere`" in refusal("local", "status", "--name", "nowhere")
    assert "run `corral up --name nowhere`" in refusal("kubectl", "--name", "nowhere", "--", "get", "pods")


def test_a_component_that_is_not_there() -> None:
    assert "no log of component 'apiserver'" in refusal("local", "logs", "apiserver", "--name", "nowhere")


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    assert "no such file" in refusal("up", "--context", "nowhere", KUBECONFIG=str(kubeconfig))
    kubeconfig.write_text("apiVersion: v1\nkind: Config\ncontexts: []\n")
    assert "nowhere" in refusal("up", "--context", "nowhere", KUBECONFIG=str(kubeconfig))


def test_a_prefix_of_images_for_a_cluster_that_gets_them_from_this_machine() -> None:
    assert "--image-prefix is for --context" in refusal("up", "--image-prefix", "mirror.example")


def run_as_nobody(*arguments: str, home: Path, path: str) -> subprocess.CompletedProcess[str]:
    # Imported while still root: the interpreter itself may live where only root can read.
    script = (
        "import os; from corral.cli import commands, errors; from corral.cli.main import main;"
        "from corral.local import builds, cluster, home, progress;"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); main()"
    )
    command = [sys.executable, "-c", script, *arguments]
    environment = {**os.environ, "HOME": str(home), "PATH": path}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_no_root_and_no_way_to_become_root(tmp_path: Path) -> None:
    done = run_as_nobody("up", home=tmp_path, path="")

    assert done.returncode == 2
    assert done.stderr.startswith("corral: a local cluster needs root (namespaces, mounts), and there is no sudo here")


@pytest.fixture
def readable() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:  # unlike tmp_path, below directories that others may enter
        os.chmod(directory, 0o755)
        yield Path(directory)


def test_who_is_not_root_starts_over_through_sudo_with_the_same_directories(readable: Path) -> None:
    sudo = readable / "sudo"
    sudo.write_text('#!/bin/sh\necho "$@"\n')
    sudo.chmod(0o755)
    (readable / ".local/state/corral/dev").mkdir(parents=True)

    done = run_as_nobody("down", "--name", "dev", home=readable, path=f"{readable}:{os.environ['PATH']}")

    assert f"env HOME={readable}" in done.stdout
    assert done.stdout.endswith("main() down --name dev\n")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_full_disk(full_disk: Path) -> None:
    said = refusal("up", "--name", "e2e-full", "--bare", XDG_STATE_HOME=str(full_disk))

    assert f"the disk of {full_disk} is full" in said
    assert corral("down", "--name", "e2e-full").returncode == 0
