"""A person changes her mind at any moment: also while the program is still being loaded."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-c", "from corral.cli.main import main; main()", "lint")
INTERRUPTED = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def as_at_a_terminal() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would whatever they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("loaded", ["click", "msgspec", "yaml"])
def test_ctrl_c_while_the_program_is_loaded_is_one_sentence(tmp_path: Path, loaded: str) -> None:
    (tmp_path / f"{loaded}.py").write_text(INTERRUPTED)

    done = subprocess.run(
        COMMAND,
        env={"PYTHONPATH": str(tmp_path)},
        preexec_fn=as_at_a_terminal,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stderr.strip(), done.returncode) == ("corral: interrupted", 130)
