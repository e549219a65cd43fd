"""`corral local logs` on the files of a cluster: it needs no process of it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

COMMAND = (sys.executable, "-c", "from corral.cli.main import main; main()", "local", "logs")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    logs = tmp_path / "corral" / "dev" / "logs"
    logs.mkdir(parents=True)
    (logs / "etcd.log").write_text("of etcd\n")
    (logs / "node-1.kubelet.log").write_text("of the first kubelet\n")
    (logs / "node-2.kubelet.log").write_text("of the second kubelet\n")
    return logs


def environment(logs: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(logs.parents[2])}


@pytest.mark.parametrize(
    ("component", "said"),
    [
        ("etcd", "of etcd\n"),
        ("node-2.kubelet", "of the second kubelet\n"),
        pytest.param("kubelet", "of the first kubelet\n", id="kubelet alone is the first node's"),
    ],
)
def test_a_component_is_known_by_its_name(logs: Path, component: str, said: str) -> None:
    done = subprocess.run([*COMMAND, component], env=environment(logs), capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.returncode) == (said, 0)


@pytest.fixture
def follower(logs: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "etcd", "--follow"]
    with subprocess.Popen(command, env=environment(logs), stdout=subprocess.PIPE, text=True) as process:
        guard = Timer(60, process.kill)  # whatever it does, its output ends
        guard.start()
        yield process
        guard.cancel()
        process.kill()


def test_a_follower_goes_on_when_the_log_was_emptied_and_ends_with_the_cluster(
    logs: Path, follower: subprocess.Popen[str]
) -> None:
    assert follower.stdout is not None
    assert follower.stdout.readline() == "of etcd\n"

    (logs / "etcd.log").write_text("anew\n")
    assert follower.stdout.readline() == "anew\n"

    shutil.rmtree(logs.parent)
    assert follower.stdout.read() == ""
    assert follower.wait(timeout=60) == 0
