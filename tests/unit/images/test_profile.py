"""The short words of a login shell, said to a real shell with a scontrol that only repeats what it was told."""

import os
import subprocess
from pathlib import Path

import pytest

PROFILE = Path(__file__).parents[3] / "images/slurm-etc/profile.d/slurm.sh"


@pytest.fixture(params=["sh", "bash"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 3\n')
    scontrol.chmod(0o755)
    return ["env", f"PATH={tmp_path}:{os.environ['PATH']}", request.param, "-c"]


def said(shell: list[str], line: str) -> tuple[int, str]:
    done = subprocess.run([*shell, f". {PROFILE}; {line}"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_drain_says_who_and_why_and_returns_what_slurm_said(shell: list[str]) -> None:
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert said(shell, "drain gpu-[1-3] bad disk") == (
        3,
        f"update|NodeName=gpu-[1-3]|State=DRAIN|Reason={me}: bad disk|",
    )


def test_an_undrain_lets_jobs_come_back(shell: list[str]) -> None:
    assert said(shell, "undrain gpu-1") == (3, "update|NodeName=gpu-1|State=RESUME|")


@pytest.mark.parametrize("line", ["drain", "drain gpu-1", "undrain", "undrain gpu-1 gpu-2"])
def test_too_little_is_answered_with_how_to_say_it(shell: list[str], line: str) -> None:
    assert said(shell, line) == (2, "")
