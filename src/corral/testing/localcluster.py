"""Local clusters as a person sees them: through the command line, `kubectl` and the host's own tools."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from corral.local.home import home_of
from corral.local.status import ComponentStatus, status
from corral.testing.cluster import Cluster, corral


def up(name: str, nodes: int = 1, *options: str) -> Cluster:
    done = corral("up", "--name", name, "--nodes", str(nodes), "--bare", *options)
    assert done.returncode == 0, done.stderr
    return Cluster(home_of(name).kubeconfig, name)


def down(name: str) -> None:
    done = corral("down", "--name", name)
    assert done.returncode == 0, done.stderr


def started(*arguments: str) -> subprocess.Popen[str]:
    """The command as a shell starts it: it and its children get what a person types."""
    command = [sys.executable, "-c", "from corral.cli.main import main; main()", *arguments]
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=as_at_a_terminal
    )


def interrupt(process: subprocess.Popen[str], sign: signal.Signals) -> None:
    """SIGINT: Ctrl-C, which reaches its children too. SIGKILL: `kill -9` of it alone."""
    assert process.stderr is not None
    if sign is signal.SIGINT:
        os.killpg(process.pid, sign)
    else:
        process.send_signal(sign)
    said = process.stderr.read()
    assert process.wait(timeout=60) == {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[sign], said
    assert "Traceback" not in said, said


def interrupt_up(name: str, sign: signal.Signals, moment: str, *options: str) -> None:
    """When it says `moment`."""
    with started("up", "--name", name, *options) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if moment in line:
                break
        else:
            raise AssertionError(f"it never said {moment!r}: {''.join(said)}")
        interrupt(process, sign)


def components(name: str) -> dict[str, ComponentStatus]:
    return {component.name: component for component in status(home_of(name)).components}


def is_well(name: str) -> bool:
    return status(home_of(name)).is_well


def until(what: str, condition: Callable[[], bool], within_s: float) -> None:
    """Wait for a condition of the real world; it has a name that appears when it does not come true."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s:g} s until {what}"
        time.sleep(0.2)


def shell(cluster: Cluster, pod: str, namespace: str, script: str) -> str:
    return cluster.kubectl("exec", pod, f"--namespace={namespace}", "--", "timeout", "10", "bash", "-c", script).strip()


def fetch(address: str) -> str:
    """A bash script that prints what an HTTP server says; names are resolved by the C library, as programs do it."""
    return f"exec 3<>/dev/tcp/{address}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def as_at_a_terminal() -> None:
    """For a `preexec_fn`: a shell's background jobs ignore Ctrl-C, and so would whatever they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
