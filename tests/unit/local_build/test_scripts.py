"""The shell scripts at the top of the checkout."""

import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
STAGES = CHECKOUT / "scripts" / "stages"


@pytest.mark.parametrize("script", ["scripts/bootstrap", "scripts/stages", ".ci/run"])
def test_a_script_is_valid_and_may_be_run(script: str) -> None:
    path = CHECKOUT / script
    checked = subprocess.run(["sh", "-n", path], capture_output=True, text=True)

    assert (checked.returncode, checked.stderr) == (0, "")
    assert path.stat().st_mode & 0o111


def test_make_help_lists_what_a_contributor_runs() -> None:
    said = subprocess.run(["make", "--no-print-directory", "help"], cwd=CHECKOUT, capture_output=True, text=True)

    listed = {line.split()[1] for line in said.stdout.splitlines()}
    assert {"up", "down", "test", "check", "e2e", "bench", "generate"} <= listed


def test_stages_run_in_order_and_end_with_what_ran() -> None:
    ran = subprocess.run([STAGES, "one: echo first", "two words: echo second"], capture_output=True, text=True)

    assert ran.returncode == 0
    assert ran.stdout.index("first") < ran.stdout.index("second")
    assert [line.split()[-3] for line in ran.stdout.splitlines()[-2:]] == ["passed", "passed"]


def test_a_stage_that_fails_stops_the_rest_and_gives_its_status() -> None:
    ran = subprocess.run([STAGES, "one: exit 7", "two: echo second"], capture_output=True, text=True)

    assert ran.returncode == 7
    assert "second" not in ran.stdout
    assert ran.stdout.rstrip().endswith("not run")


def test_bootstrap_names_the_python_it_needs(tmp_path: Path) -> None:
    """With no uv and an old Python on the PATH it ends with one sentence and changes nothing."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dirname").symlink_to("/usr/bin/dirname")
    (tools / "python3").write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit 0\nexit 1\n')
    (tools / "python3").chmod(0o755)
    environment = {"PATH": str(tools), "HOME": str(tmp_path)}

    ran = subprocess.run(["/bin/sh", CHECKOUT / "scripts/bootstrap"], env=environment, capture_output=True, text=True)

    assert ran.returncode == 1
    assert "Python 3.11 to 3.14 is needed, and Python 3.9.2 was found" in ran.stderr
    assert not (tmp_path / ".cache").exists()
