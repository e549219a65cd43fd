"""`corral run` in a process of its own, kept running as its Deployment would.

An operator that could not renew its lease in time ends: that is right, and on a machine that stands still for ten
seconds it happens. It is started again. Whatever else ends an operator that nobody stopped fails the test.
"""

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

COMMAND = (sys.executable, "-c", "from corral.cli.main import main; main()")
LEASE_LOST = "was not renewed within"
TOLD = 4000


class KeptOperator:
    def __init__(self, *options: str, environment: Mapping[str, str], log: Path) -> None:
        self._command = [*COMMAND, "run", *options]
        self._environment = environment
        self._log = log
        self._log.write_bytes(b"")
        self._turn = threading.Lock()
        self._is_stopping = self._is_killed = False
        self._process = self._started()
        self._keeper = threading.Thread(target=self._keep, name="kept-operator", daemon=True)
        self._keeper.start()

    def kill(self) -> None:
        """As by kill -9: nothing is released. The next one starts at once."""
        with self._turn:
            self._is_killed = True
            self._process.kill()

    def stop(self) -> None:
        with self._turn:
            self._is_stopping = True
            self._process.send_signal(signal.SIGTERM)
        self._keeper.join(timeout=60)
        self._process.kill()  # does nothing to one that has ended
        code = self._process.wait()
        assert code == 0 or self._lost_its_lease(), f"exit code {code}; its log ends:\n{self.told()}"

    def told(self) -> str:
        return self._log.read_text(errors="replace")[-TOLD:]

    def _keep(self) -> None:
        while True:
            self._process.wait()
            with self._turn:
                if self._is_stopping or not (self._is_killed or self._lost_its_lease()):
                    return
                self._is_killed = False
                self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, env=dict(self._environment), stderr=log)

    def _lost_its_lease(self) -> bool:
        last = self.told().strip().splitlines()[-1:]
        return any(LEASE_LOST in line for line in last)
