"""A machine with Python and neither uv nor Go: both are really installed, into the cache of somebody new.

Nothing is built: the first compiler that starts is the end.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.local.toolchain import parse_version

CHECKOUT = Path(__file__).parents[2]
COPIED = ("LICENSE", "README.md", "pyproject.toml", "uv.lock", "scripts", "src")
NOT_THERE = ("go", "gofmt", "uv", "uvx")
# A Go beside the PATH is hidden, for this command alone.
HIDDEN = 'if [ -d /usr/local/go ]; then mount -t tmpfs none /usr/local/go; fi; exec "$@"'
WITHIN_S = 600


class Machine:
    def __init__(self, folder: Path) -> None:
        self.home, self.checkout, programs = folder / "home", folder / "checkout", folder / "bin"
        for directory in (self.home, self.checkout, programs):
            directory.mkdir()
        for name in COPIED:
            source = CHECKOUT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.checkout / name)
        for place in ("/usr/sbin", "/usr/bin"):
            for program in Path(place).iterdir():
                if program.name not in NOT_THERE and not (programs / program.name).exists():
                    (programs / program.name).symlink_to(program)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("CORRAL_", "GO", "UV", "XDG_"))
        }
        self._environment = {**kept, "HOME": str(self.home), "PATH": str(programs)}

    @property
    def cache(self) -> Path:
        return self.home / ".cache/corral"

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._without_go(*command),
            cwd=self.checkout,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._without_go(*command),
            cwd=self.checkout,
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _without_go(self, *command: str) -> list[str]:
        return ["/usr/bin/unshare", "--mount", "sh", "-c", HIDDEN, "sh", *command]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("bare"))
    done = machine.run("scripts/bootstrap")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        f"bootstrap: getting uv into {machine.cache}/uv\nbootstrap: making .venv from uv.lock with Python 3.*\n",
        done.stderr,
    ), done.stderr
    yield machine
    shutil.rmtree(machine.checkout.parent)


def test_bootstrap_gets_uv_and_makes_an_environment_that_works(machine: Machine) -> None:
    assert machine.run(str(machine.cache / "uv/bin/uv"), "--version").stdout.startswith("uv ")
    assert "Usage: corral up" in machine.run(".venv/bin/corral", "up", "--help").stdout


def test_bootstrap_again_has_nothing_to_do_and_says_nothing(machine: Machine) -> None:
    again = machine.run("scripts/bootstrap")

    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_a_go_that_is_new_enough_is_installed_when_there_is_none(machine: Machine) -> None:
    with machine.start(".venv/bin/corral", "local", "prepare") as preparing:
        assert preparing.stderr is not None
        said = []
        for line in preparing.stderr:
            said.append(line)
            if "etcd ..." in line:
                break
        os.killpg(preparing.pid, signal.SIGKILL)
    told = "".join(said)
    step = re.search(r"Go toolchain: done in .* \(Go (\S+) at (\S+)\)", told)
    assert step is not None, told
    assert Path(step[2]).is_relative_to(machine.cache)
    assert parse_version(machine.run(step[2], "version").stdout) == parse_version(step[1])
