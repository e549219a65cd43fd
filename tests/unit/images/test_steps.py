"""slurmd-steps and slurmd-leave, run by a real shell with a pgrep that was told what runs."""

import json
import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "images/slurm"
PGREP = """#!/bin/sh
case "$*" in
"-a -x slurmstepd") set -- {stepds} ;;
"-d , -x slurmd") set -- {slurmd} ;;
"-l -P {pid}") set -- {children} ;;
*) exit 99 ;;
esac
[ $# -gt 0 ] || exit 1
printf '%s\\n' "$@"
"""


def looked(
    folder: Path, *, stepds: tuple[str, ...] = (), slurmd: str = "7", children: tuple[str, ...] = (), broken: int = 0
) -> subprocess.CompletedProcess[str]:
    words = {"stepds": stepds, "slurmd": (slurmd,) if slurmd else (), "children": children}
    quoted = {name: " ".join(f"'{word}'" for word in found) for name, found in words.items()}
    text = PGREP.format(pid=slurmd, **quoted) if not broken else f"#!/bin/sh\nexit {broken}\n"
    program = folder / "pgrep"
    program.write_text(text)
    program.chmod(0o755)
    path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(["sh", SCRIPTS / "slurmd-steps"], capture_output=True, text=True, env=path)


@pytest.mark.parametrize(
    ("seen", "steps"),
    [
        ({}, []),
        ({"slurmd": ""}, []),
        ({"stepds": ("12 slurmstepd: [5.extern]", "13 slurmstepd: [5.batch]")}, ["5.extern", "5.batch"]),
        ({"stepds": ("12 slurmstepd: [5_7.0]",), "slurmd": ""}, ["5_7.0"]),
        ({"stepds": ("12 /usr/sbin/slurmstepd",)}, ["starting"]),
        ({"stepds": ("12 /usr/sbin/slurmstepd infinity",)}, []),
        ({"children": ("20 prolog.sh",)}, ["starting"]),
        ({"slurmd": "7,8", "children": ("8 slurmd",)}, []),
    ],
    ids=[
        "idle",
        "slurmd is away",
        "a batch job",
        "its slurmd has ended",
        "a step that begins",
        "who keeps a cgroup",
        "a prolog",
        "a slurmd that takes over",
    ],
)
def test_what_runs_is_told_by_processes(tmp_path: Path, seen: dict[str, object], steps: list[str]) -> None:
    done = looked(tmp_path, **seen)  # type: ignore[arg-type]
    assert (done.returncode, json.loads(done.stdout)) == (0, {"steps": steps}), done.stderr


@pytest.mark.parametrize("code", [2, 3, 127])
def test_who_cannot_look_does_not_say_that_it_is_idle(tmp_path: Path, code: int) -> None:
    done = looked(tmp_path, broken=code)
    assert (done.returncode != 0, done.stdout) == (True, "")


def test_what_ends_the_wait_of_a_pod_is_the_very_word_for_an_idle_worker(tmp_path: Path) -> None:
    assert f"'{looked(tmp_path).stdout.strip()}'" in (SCRIPTS / "slurmd-leave").read_text()
