"""The shell scripts at the top of the checkout."""

import os
import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
AS_ROOT = "scripts/as-root"
STAGES = CHECKOUT / "scripts" / "stages"


@pytest.mark.parametrize("script", ["scripts/as-root", "scripts/bootstrap", "scripts/stages", ".ci/run"])
def test_a_script_is_valid_and_may_be_run(script: str) -> None:
    path = CHECKOUT / script
    checked = subprocess.run(["sh", "-n", path], capture_output=True, text=True)

    assert (checked.returncode, checked.stderr) == (0, "")
    assert path.stat().st_mode & 0o111


def test_make_help_lists_what_a_contributor_runs() -> None:
    said = subprocess.run(["make", "--no-print-directory", "help"], cwd=CHECKOUT, capture_output=True, text=True)

    listed = {line.split()[1] for line in said.stdout.splitlines()}
    assert {"up", "down", "test", "check", "e2e", "bench", "generate"} <= listed


def dry_run(*targets: str) -> str:
    command = ["make", "--dry-run", *targets]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", ["test", "e2e", "bench", "images"])
def test_root_makes_images_guests_and_clusters_and_nothing_else(target: str) -> None:
    said = dry_run(target)

    programs = re.findall(r"\.venv/bin/\S+.*?(?=\"|$)", said, re.MULTILINE)
    needs = re.compile(r"-m (images|bench|corral\.testing\.guests)|tests/e2e$")
    needing = {program for program in programs if needs.search(program)}
    assert needing
    for program in programs:
        assert (f"{AS_ROOT} {program}" in said) == (program in needing), program


def test_root_writes_no_cache_of_pytest_into_somebodys_checkout() -> None:
    runs = re.findall(rf"{AS_ROOT} \.venv/bin/pytest .*", dry_run("test", "e2e"))

    assert len(runs) == 2
    assert all(" -p no:cacheprovider " in run for run in runs)


def a_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Instead of the machine's programs: nobody is root, and there is only what a test adds."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mkdir").symlink_to("/bin/mkdir")
    a_program(tools, "id", "echo 1000")
    return tools


def as_root(tools: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(tools), "HOME": str(tools.parent)}
    return subprocess.run(
        ["/bin/sh", CHECKOUT / AS_ROOT, *command], env=environment, capture_output=True, text=True, check=False
    )


def test_root_runs_a_command_as_it_is(tools: Path) -> None:
    a_program(tools, "id", "echo 0")
    a_program(tools, "greet", 'echo "hello $1"')

    assert as_root(tools, "greet", "two words").stdout == "hello two words\n"


def test_others_go_through_sudo_with_their_path_and_home_and_their_directories_stay_theirs(tools: Path) -> None:
    a_program(tools, "sudo", 'printf "<%s>" "$@"')

    said = as_root(tools, "greet", "two words").stdout

    assert said == f"<-E><env><PATH={tools}><HOME={tools.parent}><greet><two words>"
    assert (tools.parent / ".cache/corral/logs").is_dir()
    assert (tools.parent / ".local/state").is_dir()


def test_without_root_and_sudo_there_is_one_sentence(tools: Path) -> None:
    refused = as_root(tools, "greet")

    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "there is no sudo here: run the same command as root" in refused.stderr


def test_stages_run_in_order_and_end_with_what_ran() -> None:
    ran = subprocess.run([STAGES, "one: echo first", "two words: echo second"], capture_output=True, text=True)

    assert ran.returncode == 0
    assert ran.stdout.index("first") < ran.stdout.index("second")
    assert [line.split()[-3] for line in ran.stdout.splitlines()[-2:]] == ["passed", "passed"]


def test_a_stage_begins_with_its_number_and_the_time_so_far(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("1000")
    a_program(tmp_path, "date", f"cat {clock}")
    stages = (f"one: echo 1059 > {clock}", f"two words: echo 1080 > {clock}", "three: true")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    ran = subprocess.run([STAGES, *stages], env=environment, capture_output=True, text=True, check=True)

    assert [line for line in ran.stdout.splitlines() if line.startswith("===")] == [
        "=== [1/3] one (0 s so far)",
        "=== [2/3] two words (59 s so far)",
        "=== [3/3] three (1 min 20 s so far)",
        "=== summary, 80 s",
    ]


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
