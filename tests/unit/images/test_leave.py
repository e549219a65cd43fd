"""slurmd-leave, run by a real shell beside programs that say what they are told to, a word at each call."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "images/slurm"
# Says the next of its lines, and the last one for ever; `-` says nothing and fails. Notes that it was asked.
PROGRAM = """#!/bin/sh
here={folder}/{name}
echo {name} "$*" >>{folder}/asked
said=$(head -n 1 $here.lines)
[ "$(wc -l <$here.lines)" -le 1 ] || sed -i 1d $here.lines
case $said in
-) exit 1 ;;
"- "*) echo "${{said#- }}"; exit 1 ;;
*) printf '%s' "$said" ;;
esac
"""
IDLE, BUSY, LINE = '{"steps":[]}', '{"steps":["7.batch"]}', "NodeName=gpu-0 State=IDLE+DRAIN"
NOT_FOUND = "- Node gpu-0 not found"
SERVICE, GONE, MISSES = "slurm.lab", ("-", "10.0.0.1"), 7  # the Service is not found, and that of Kubernetes is
BACK = (*[IDLE] * (MISSES - 1), BUSY, IDLE)
ANSWERS = {"scontrol": (LINE,), "squeue": ("",), "slurmd-steps": (IDLE,), "pgrep": ("7",), "getent": ("10.0.0.7",)}


def script(folder: Path, *, has_conf: bool = True, **said: tuple[str, ...]) -> str:
    """slurmd-leave beside such programs; what each says is by its name."""
    programs = {**ANSWERS, **{name.replace("_", "-"): lines for name, lines in said.items()}}
    programs |= {"sleep": ("",), "hostname": ("gpu-0",)}
    for name, lines in programs.items():
        (folder / f"{name}.lines").write_text("".join(f"{line}\n" for line in lines))
        (folder / name).write_text(PROGRAM.format(folder=folder, name=name))
        (folder / name).chmod(0o755)
    (folder / "timeout").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (folder / "timeout").chmod(0o755)
    conf = folder / "conf-cache/slurm.conf"
    conf.parent.mkdir()
    if has_conf:
        conf.touch()
    text = (SCRIPTS / "slurmd-leave").read_text()
    return text.replace("/usr/libexec/corral/", f"{folder}/").replace("/var/spool/slurmd/", f"{folder}/")


def around(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SLURM_CONF_SERVER": "slurm.lab:6817"}


class Left:
    """How it ended, and whom it asked before."""

    def __init__(self, folder: Path, *words: str, **said: Any) -> None:
        self._folder = folder
        command = ["sh", "-c", script(folder, **said), "slurmd-leave", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=around(folder), timeout=60)
        assert done.returncode == 0, done.stderr

    def asked(self, program: str) -> int:
        return sum(line.split()[0] == program for line in (self._folder / "asked").read_text().splitlines())


def test_an_idle_worker_goes_at_once(tmp_path: Path) -> None:
    left = Left(tmp_path)
    assert (left.asked("scontrol"), left.asked("squeue"), left.asked("sleep")) == (1, 1, 0)


def test_while_steps_run_slurmctld_is_not_asked(tmp_path: Path) -> None:
    left = Left(tmp_path, slurmd_steps=(BUSY, BUSY, "-", IDLE))
    assert (left.asked("scontrol"), left.asked("sleep")) == (1, 3)


def test_between_two_steps_of_a_job_of_several_nodes_it_waits_for_the_job(tmp_path: Path) -> None:
    left = Left(tmp_path, squeue=("7", "7", "7", ""), slurmd_steps=(IDLE, BUSY, IDLE))
    assert (left.asked("squeue"), left.asked("sleep")) == (4, 4)


def test_one_that_slurmctld_has_forgotten_goes_and_no_list_of_jobs_is_asked_for(tmp_path: Path) -> None:
    left = Left(tmp_path, scontrol=(NOT_FOUND,), squeue=("7",))
    assert (left.asked("squeue"), left.asked("sleep")) == (0, 0)


@pytest.mark.parametrize("silent", ["scontrol", "squeue"])
def test_a_slurmctld_that_does_not_answer_is_waited_for(tmp_path: Path, silent: str) -> None:
    answer = ANSWERS[silent][0]
    left = Left(tmp_path, **{silent: ("-", "- unable to contact slurm controller", "-", answer)})
    assert (left.asked(silent), left.asked("sleep")) == (4, 3)


def test_one_whose_service_is_no_more_is_not(tmp_path: Path) -> None:
    """That name is unknown, and the one of Kubernetes is known: for half a minute, a Controller may be made again."""
    left = Left(tmp_path, SERVICE, scontrol=("-",), getent=(*GONE * MISSES,))
    assert (left.asked("getent"), left.asked("sleep")) == (2 * MISSES, MISSES - 1)


@pytest.mark.parametrize(
    "back", [{"getent": (*GONE * (MISSES - 1), "10.0.0.7", *GONE * MISSES)}, {"slurmd_steps": BACK}]
)
def test_one_that_comes_back_in_between_is_waited_for_anew(tmp_path: Path, back: dict[str, Any]) -> None:
    """Or whose job goes on here."""
    left = Left(tmp_path, SERVICE, **{"scontrol": ("-",), "getent": (*GONE * 2 * MISSES,), **back})
    assert left.asked("sleep") == 2 * MISSES - 1


def test_names_that_nobody_knows_say_nothing(tmp_path: Path) -> None:
    """The cluster's DNS is away, with or without slurmctld."""
    left = Left(tmp_path, SERVICE, scontrol=(*["-"] * 2 * MISSES, LINE), getent=("-",))
    assert left.asked("scontrol") == 2 * MISSES + 1


def test_a_slurmctld_elsewhere_is_not_taken_for_gone_by_a_name_that_is_not_found(tmp_path: Path) -> None:
    """Kubernetes answers for its own names while the servers of that one are out, or for ever."""
    left = Left(tmp_path, scontrol=(*["-"] * 2 * MISSES, LINE), getent=("-", "10.0.0.1"))
    assert (left.asked("scontrol"), left.asked("getent")) == (2 * MISSES + 1, 0)


def test_a_wait_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """By `slurmd-leave now`, run here in the place of the first sleep; it leaves itself alone, and other containers."""
    (tmp_path / "leave").write_text(script(tmp_path, slurmd_steps=(BUSY,)))
    both = f'printf "%s\\n" $PPID $$ >{tmp_path}/running'
    (tmp_path / "sleep").write_text(f"#!/bin/sh\n{both}\nexec sh {tmp_path}/leave now\n")
    here = f'case "$*" in "--ns "*" -x slurmd-leave") exec cat {tmp_path}/running ;; esac\nexit 2\n'
    (tmp_path / "pgrep").write_text(f"#!/bin/sh\n{here}")
    done = subprocess.run(["sh", tmp_path / "leave"], env=around(tmp_path), timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize("never", [{"has_conf": False}, {"pgrep": ("-",)}], ids=["no configuration", "no slurmd"])
def test_one_that_never_had_a_slurmctld_goes_without_asking_for_it(tmp_path: Path, never: dict[str, Any]) -> None:
    left = Left(tmp_path, scontrol=("-",), **never)
    assert (left.asked("scontrol"), left.asked("sleep")) == (0, 0)
