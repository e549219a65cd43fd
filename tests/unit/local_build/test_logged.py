import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from corral.local import logged
from corral.local.progress import Step


def test_all_output_goes_to_the_log(tmp_path: Path, step: Step) -> None:
    log = tmp_path / "logs" / "x.log"

    logged.run([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"], step=step, log=log)

    assert {"out", "err"} <= set(log.read_text().splitlines())


def test_an_earlier_log_is_replaced_and_not_written_as_it_may_be_of_another_user(tmp_path: Path, step: Step) -> None:
    log = tmp_path / "x.log"
    log.write_text("of root\n")

    with log.open() as earlier:
        logged.run(["true"], step=step, log=log)
        assert earlier.read() == "of root\n"

    assert log.read_text() == "$ true\n"


def test_a_failure_ends_in_one_sentence_with_its_last_line_and_the_log(tmp_path: Path, step: Step) -> None:
    log = tmp_path / "x.log"

    with pytest.raises(logged.ProgramError) as failure:
        logged.run([sys.executable, "-c", "print('first'); print('boom'); raise SystemExit(3)"], step=step, log=log)

    assert str(failure.value.sentence("building etcd")) == f"building etcd failed: boom (the full log is {log})"


def test_an_interruption_stays_one_when_the_program_is_roots_and_may_not_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_permitted(process: subprocess.Popen[str]) -> None:
        raise PermissionError(1, "Operation not permitted")

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "terminate", not_permitted)  # as for sudo's process; tests may run as root

    with pytest.raises(KeyboardInterrupt):
        logged.run(["echo", "building"], step=Step(interrupted, nullcontext), log=tmp_path / "x.log")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("write /x: no space left on device", "the disk is full"),
        ("dial tcp: lookup example.org: no such host", "there is no network"),
        ("verifying module: checksum mismatch", "go.sum"),
        ("link: signal: killed", "lack of memory"),
    ],
)
def test_a_known_cause_is_told_instead_of_the_last_line(line: str, says: str) -> None:
    assert says in (logged.cause([line, "exit status 1"]) or "")


def test_an_unknown_cause_is_not_guessed() -> None:
    assert logged.cause(["undefined: foo"]) is None
