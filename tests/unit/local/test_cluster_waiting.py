"""How `up` waits, with a kubectl that is a script: it says what a real one says of an API server that starts anew."""

import os
from pathlib import Path

import msgspec
import pytest

from corral.local import builds, supervisor
from corral.local.cluster import _nodes_ready, _until
from corral.local.errors import LocalError
from corral.local.home import Home, write
from corral.local.processes import Identity, identity
from corral.local.progress import Step
from corral.local.spec import Spec
from corral.local.supervision import Record

SPEC = Spec("dev", 1, 0)
REFUSED = "The connection to the server 198.18.0.2:6443 was refused"
READY = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-16T10:00:00Z"}
NODES = msgspec.json.encode({"items": [{"metadata": {"name": "node-1"}, "status": {"conditions": [READY]}}]}).decode()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Of a cluster whose supervisor lives, and whose kubelet has run for long."""
    home = Home(tmp_path / "dev")
    write(home.record(supervisor.NAME), msgspec.json.encode(identity(os.getpid())))
    kubelet = Record(process=Identity(7, 70), revision="1", started_at_s=0.0)
    write(home.record("node-1.kubelet"), msgspec.json.encode(kubelet))
    return home


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORRAL_CACHE", str(tmp_path / "cache"))
    return builds.place(next(binary for binary in builds.BINARIES if binary.name == "kubectl"))


def wait_for_nodes(home: Home, step: Step, within_s: float) -> None:
    _until("every node is Ready", lambda: _nodes_ready(SPEC, home), within_s, home, step)


def test_a_kubectl_that_fails_once_is_asked_again(home: Home, step: Step, kubectl: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    write(kubectl, f"#!/bin/sh\n[ -e {asked} ] && echo '{NODES}' && exit\ntouch {asked}; exit 1\n", 0o755)

    wait_for_nodes(home, step, within_s=60.0)

    assert asked.exists()


def test_a_kubectl_that_goes_on_failing_is_quoted_at_the_end(home: Home, step: Step, kubectl: Path) -> None:
    write(kubectl, f"#!/bin/sh\necho 'E1116 memcache.go' >&2; echo '{REFUSED}' >&2; exit 1\n", 0o755)

    with pytest.raises(LocalError, match=rf"^waited 0 s until every node is Ready, and still: {REFUSED} \(see `corral"):
        wait_for_nodes(home, step, within_s=0.0)
