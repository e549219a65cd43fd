"""The daemon of one cluster: starts its components in order, and again when they die, and writes down what happened.

    python -m corral.local.supervisor DIRECTORY

It reads `components.json` (written by `up`) whenever that changes and keeps one record a component. Ending it ends no
component: the next supervisor recognises them by their records, and by their command line those that were started in
the moment before it was killed. It keeps nothing in memory that a kill -9 could lose.
"""

import contextlib
import fcntl
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from corral.local import cgroups
from corral.local.errors import LocalError
from corral.local.home import Home, write
from corral.local.namespaces import enter
from corral.local.processes import Identity, command_line, end, identity, is_alive, start, wait
from corral.local.spec import Spec
from corral.local.supervision import (
    Component,
    HttpProbe,
    Record,
    SocketProbe,
    Start,
    died,
    plan,
    started,
    stopped,
    to_probe,
)

NAME = "supervisor"
STOP_GRACE_S = 5.0
TURN_S = 1.0  # a death is noticed at once all the same; this is for a new list of components
EAGER_TURN_S = 0.1  # while something waits for its turn to start
LOG_BYTES_MAX = 64 * 1024 * 1024


class Supervisor:
    """Observe, plan, act, once a turn. The only writer of the records."""

    def __init__(self, home: Home, spec: Spec) -> None:
        self._home = home
        self._spec = spec
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._records = read_records(home)

    def run(self) -> None:
        """Until the cluster's directory is taken away."""
        for file in damaged_records(self._home):
            _say(f"{file} is damaged and left out")
        self._adopt_strays(read_components(self._home))
        while self._home.components.exists():
            try:
                turn_s = self._turn()
            except OSError as error:  # a full disk, most likely: what runs must stay supervised
                _say(f"trouble, trying again: {error}")
                turn_s = TURN_S
            wait(self._running(), turn_s)

    def _turn(self) -> float:
        """Returns how long to wait for the next one if nothing dies."""
        wanted = read_components(self._home)
        self._note_deaths()
        awaited = to_probe(wanted, self._records)
        ready = frozenset(
            component.name for component in wanted if component.name in awaited and self._is_ready(component)
        )
        for step in plan(wanted, self._records, ready, time.time()):
            if isinstance(step, Start):
                self._start(step.component)
            else:
                self._stop(step.name, step.process, step.reason)
        self._bound_logs()
        return TURN_S if len(self._running()) == len(wanted) else EAGER_TURN_S

    def _running(self) -> list[Identity]:
        return [record.process for record in self._records.values() if record.ended_at_s is None]

    def _start(self, component: Component) -> None:
        argv = (*enter(network=component.network, mounts=component.mounts), *component.argv)
        child = start(argv, self._home.log(component.name), ENVIRONMENT)
        process = identity(child.pid) or Identity(child.pid, 0)
        self._children[component.name] = child
        self._remember(
            component.name, started(self._records.get(component.name), process, component.revision, time.time())
        )
        _say(f"started {component.name}, pid {child.pid}")

    def _stop(self, name: str, process: Identity, reason: str) -> None:
        end(process, STOP_GRACE_S)
        self._exit_status(name)
        self._remember(name, stopped(self._records[name], reason, time.time()))
        _say(f"stopped {name}: {reason}")

    def _note_deaths(self) -> None:
        for name, record in list(self._records.items()):
            if record.ended_at_s is None and not is_alive(record.process):
                how = self._exit_status(name)
                self._remember(name, died(record, how, time.time()))
                _say(f"{name} (pid {record.process.pid}) died: {how}; its log is {self._home.log(name)}")

    def _exit_status(self, name: str) -> str:
        child = self._children.pop(name, None)
        if child is None:
            return "how is unknown, the supervisor of that time is gone"
        status = child.wait()
        return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"

    def _adopt_strays(self, wanted: tuple[Component, ...]) -> None:
        known = {record.process for record in self._records.values()}
        commands = {component.argv: component for component in wanted}
        for pid in cgroups.processes(self._spec.cgroup):
            component = commands.get(command_line(pid))
            process = identity(pid)
            if component and process and process not in known:
                previous = self._records.get(component.name)
                if previous and is_alive(previous.process):
                    continue
                self._remember(component.name, started(previous, process, component.revision, time.time()))
                _say(f"adopted {component.name}, pid {pid}")

    def _remember(self, name: str, record: Record) -> None:
        self._records[name] = record
        write(self._home.record(name), msgspec.json.encode(record))

    def _is_ready(self, component: Component) -> bool:
        match component.probe:
            case None:
                return True
            case HttpProbe(url):
                return http_ready(url, self._home.pki, NAME)
            case SocketProbe(path):
                return _socket_ready(Path(path))

    def _bound_logs(self) -> None:
        for name in self._records:
            log = self._home.log(name)
            if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
                # Whoever writes has the file open for appending, so it goes on at the new beginning.
                os.truncate(log, 0)


ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


def read_components(home: Home) -> tuple[Component, ...]:
    try:
        return msgspec.json.decode(home.components.read_bytes(), type=tuple[Component, ...])
    except msgspec.DecodeError as error:
        raise LocalError(f"{home.components} is damaged ({error}): `corral up` writes it anew") from error


def read_records(home: Home) -> dict[str, Record]:
    """Without damaged ones: their processes, if any, are recognised by their command line."""
    return {file.stem: record for file in _record_files(home) if (record := _record_or_none(file))}


def damaged_records(home: Home) -> tuple[Path, ...]:
    """What a power cut has left empty or half."""
    return tuple(file for file in _record_files(home) if _record_or_none(file) is None)


def _record_files(home: Home) -> list[Path]:
    return [file for file in sorted(home.records.glob("[!.]*.json")) if file.stem != NAME]


def _record_or_none(file: Path) -> Record | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Record)
    except msgspec.DecodeError:
        return None


def http_ready(url: str, pki: Path, user: str) -> bool:
    try:
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / f"{user}.crt", pki / f"{user}.key")
        # An empty proxy handler: the host's proxy settings do not lead into the cluster.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (OSError, ssl.SSLError, urllib.error.URLError):
        return False


def is_socket_silent(component: Component) -> bool:
    """Whether it should answer on a socket and does not."""
    return isinstance(component.probe, SocketProbe) and not _socket_ready(Path(component.probe.path))


def _socket_ready(path: Path) -> bool:
    try:
        # By way of the directory: the whole path may be longer than a socket address can be.
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            client.connect(f"/proc/self/fd/{directory}/{path.name}")
            return True
    except OSError:
        return False
    finally:
        os.close(directory)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: what we do matters more than what we tell
        os.write(sys.stderr.fileno(), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n".encode())


def main(directory: str) -> None:
    home = Home(Path(directory))
    spec = home.read_spec()
    if spec is None:
        raise SystemExit(f"{home.spec_file} does not exist: run `corral up`")
    if not _is_the_only_one(home):
        raise SystemExit("another supervisor looks after this cluster")
    write(home.record(NAME), msgspec.json.encode(identity(os.getpid())))
    Supervisor(home, spec).run()


def _is_the_only_one(home: Home) -> bool:
    descriptor = os.open(home.records, os.O_RDONLY | os.O_DIRECTORY)  # open, and so locked, as long as we live
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
