"""What cannot be done is told in one sentence with a way out, and changes nothing."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.local import cgroups
from corral.local.cluster import DISK_BYTES_FULL, DISK_BYTES_MIN
from corral.local.home import home_of
from corral.testing.cluster import corral

pytestmark = pytest.mark.cluster
PAGE = 4096


def started(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from corral.cli.main import main; main()", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


def refusal(*arguments: str, **environment: str) -> str:
    with started(*arguments, **environment) as process:
        return last_line(process, code=2)


def last_line(process: subprocess.Popen[str], code: int) -> str:
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(timeout=60) == code, said
    assert "Traceback" not in said
    return said.splitlines()[-1]


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
    assert "--image-prefix needs --context" in refusal("up", "--image-prefix", "mirror.example")


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


def test_a_tool_that_is_missing(tmp_path: Path) -> None:
    for program in Path("/usr/bin").iterdir():
        if program.name != "catatonit":
            (tmp_path / program.name).symlink_to(program)

    said = refusal("up", "--name", "e2e-tool", "--bare", PATH=str(tmp_path))

    assert said == "corral: catatonit not found on this machine: run `corral local prepare`"
    assert not home_of("e2e-tool").path.exists()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_full_disk(full_disk: Path) -> None:
    said = refusal("up", "--name", "e2e-full", "--bare", XDG_STATE_HOME=str(full_disk))

    assert f"the disk of {full_disk} is full" in said
    assert corral("down", "--name", "e2e-full").returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Just large enough to begin. That it can be unmounted shows that nobody has a file or a mount there any more."""
    size = f"size={DISK_BYTES_MIN + DISK_BYTES_FULL}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def fill(disk: Path) -> None:
    """Half of what is free at a time: whoever asks for all of it while others write gets nothing, and for a moment the
    disk is full and then empty again."""
    with (disk / "ballast").open("wb") as file:
        while free := shutil.disk_usage(disk).free:
            with contextlib.suppress(OSError):  # somebody else has taken of it meanwhile
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), max(free // 2, PAGE))


@pytest.mark.parametrize("moment", ["Network ...", "Control plane ..."])
def test_a_disk_that_becomes_full_half_way(small_disk: Path, moment: str) -> None:
    state = small_disk / "jürgen"  # the kernel lists mounts below it as they are, and spells out only blanks
    with started("up", "--name", "e2e-full", "--bare", XDG_STATE_HOME=str(state)) as process:
        assert process.stderr is not None
        assert any(moment in line for line in process.stderr)
        fill(small_disk)
        said = last_line(process, code=2)

    assert re.fullmatch(r"corral: .*(No space left on device|has become full).*", said), said
    with started("down", "--name", "e2e-full", XDG_STATE_HOME=str(state)) as process:
        assert last_line(process, code=0) == "Cluster e2e-full was removed."
    assert not (state / "corral").exists()
    assert not list(cgroups.mounted().tracking.glob("corral*-e2e-full"))
