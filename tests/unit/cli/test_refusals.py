"""What cannot work is one sentence and a code, from the very command that people type."""

import base64
import socket
import subprocess
import sys
from pathlib import Path

import yaml

from tests.unit.kube.authority import DAY, NOW, Authority

COMMAND = (sys.executable, "-c", "from corral.cli.main import main; main()")


def kubeconfig(folder: Path, **user: bytes) -> Path:
    """Of a server that is not asked: what is wrong is found before."""
    told = {name.replace("_", "-"): base64.b64encode(value).decode() for name, value in user.items()}
    content = {
        "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "ann", "user": told}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "ann"}}],
        "current-context": "lab",
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(content))
    return file


def refused(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # a log has lines of its own
    return sentence


def test_a_client_certificate_that_has_expired(tmp_path: Path) -> None:
    old = Authority().issue("ann", begins=NOW - 2 * DAY, ends=NOW - DAY)
    file = kubeconfig(tmp_path, client_certificate_data=old.certificate, client_key_data=old.key)

    assert "expired" in refused("status", "--kubeconfig", str(file))


def test_a_port_in_use(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path)
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = refused("run", "--no-leader-election", "--health-port", port, "--kubeconfig", str(file))

    assert f"cannot answer on port {port}" in said
    assert "in use" in said
