"""A real Slurm cluster for tests: slurmctld, slurmrestd and workers of one version in namespaces of their own.

All daemons share one set of namespaces (mounts, network, processes, host name), on an overlay in memory over the root
folder of `corral.testing.slurmroots`. slurmrestd also listens on a Unix socket in a folder that the host sees; `serve`
carries a port of 127.0.0.1 to it, so that a test speaks TCP and the host's network is left alone. Nothing outlives
`running`: the first process takes all others with it.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from corral.testing.slurmroots import slurm_root

STARTED_WITHIN_S = 30.0
SLURM_UID: Final = 64030
NOBODY_UID: Final = 65534
CONF: Final = """
ClusterName=test
SlurmctldHost=ctld
SlurmUser=slurm
SlurmdUser=root
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
SlurmctldParameters=enable_configless
MaxNodeCount=64
ReturnToService=2
SlurmdTimeout=60
MinJobAge=60
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SchedulerParameters=sched_interval=2
NodeSet=debug Feature=debug
PartitionName=debug Nodes=debug Default=YES MaxTime=UNLIMITED State=UP
PartitionName=all Nodes=ALL MaxTime=60 State=UP
"""

# A slurmd wants /run/slurm to be root's, slurmctld wants it to be slurm's, and each has a socket there.
_SLURMD: Final = """
mount -t tmpfs tmpfs /run && mkdir /run/slurm && exec /usr/sbin/slurmd -D -v -N $NODE -Z \
  --conf-server 192.0.2.1:6817 --conf "Feature=debug CPUs=2 RealMemory=900 Port=$PORT"
"""
# Runs as the first process: $1 root folder, $2 /etc/slurm, $3 the folder with the socket, $4 workers, $5 a worker.
# 24.11's slurmrestd wants a slurmdbd unless it is told to serve slurmctld's part only. sh is pid 1 and reaps.
_ENTER: Final = """
set -eu
root=$1 files=$2 shared=$3 workers=$4 slurmd=$5
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/up /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$root,upperdir=/mnt/up,workdir=/mnt/work" /mnt/root
cd /mnt/root
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p etc/slurm run/slurm run/slurmctld var/spool/slurmctld var/log/slurm rest shared
cp -R "$files/." etc/slurm/
mount --bind "$shared" shared
chown -R 64030:64030 etc/slurm run/slurm run/slurmctld var/spool/slurmctld var/log/slurm
hostname ctld
ip link set lo up
ip address add 192.0.2.1/32 dev lo
printf '127.0.0.1 localhost\\n192.0.2.1 ctld\\n' > etc/hosts
: > etc/resolv.conf
exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \\
  WORKERS="$workers" SLURMD="$slurmd" sh -c '
setpriv --reuid=slurm --regid=slurm --init-groups /usr/sbin/slurmctld -D -v > /shared/slurmctld.log 2>&1 &
n=0
while [ $n -lt $WORKERS ]; do
  NODE=w-$n PORT=$((7000 + n)) unshare --mount sh -c "$SLURMD" > /shared/w-$n.log 2>&1 &
  n=$((n + 1))
done
SLURM_JWT=daemon setpriv --reuid=65534 --regid=65534 --clear-groups \
  /usr/sbin/slurmrestd -v -a rest_auth/jwt $(cat /etc/slurm/rest-options) unix:/shared/rest.sock \
  > /shared/slurmrestd.log 2>&1 &
while :; do wait; sleep 1; done'
"""
_UNSHARE: Final = ("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child")
_REST_OPTIONS: Final = {"24.11": b"-s openapi/slurmctld", "26.05": b""}


class SlurmPodError(Exception):
    """The cluster did not start; has the ends of its logs."""


@dataclass(frozen=True, slots=True)
class RunningSlurm:
    version: str
    jwt_key: bytes = field(repr=False)
    shared: Path
    _first_pid: int

    @property
    def socket(self) -> Path:
        return self.shared / "rest.sock"

    def run(self, *command: str, within_s: float = 20.0) -> subprocess.CompletedProcess[str]:
        """Run a program beside slurmctld, as root; stdout and stderr are one text."""
        return subprocess.run(
            ["nsenter", "-t", str(self._first_pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """slurmrestd's address on this host, while the context lasts."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _carry(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        try:
            far, far_out = await asyncio.open_unix_connection(str(self.socket))
        except OSError:
            near_out.transport.abort()
            return
        with contextlib.suppress(asyncio.CancelledError):  # the test has ended
            await asyncio.gather(_copy(near, far_out), _copy(far, near_out))
        far_out.close()
        near_out.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()


@contextlib.contextmanager
def running(version: str, *, workers: int = 2) -> Iterator[RunningSlurm]:
    """A cluster whose workers are idle. It is gone when the context ends."""
    root = slurm_root(version)
    with tempfile.TemporaryDirectory(prefix="corral-slurmpod-") as folder:
        files, shared = Path(folder) / "etc", Path(folder) / "shared"
        files.mkdir()
        shared.mkdir()
        os.chown(shared, NOBODY_UID, NOBODY_UID)
        key = os.urandom(32)
        _write(files, version, key)
        enter = ("sh", "-c", _ENTER, "enter", root, files, shared, str(workers), _SLURMD)
        with subprocess.Popen([*_UNSHARE, *enter]) as process:
            try:
                cluster = RunningSlurm(version, key, shared, _child(process.pid))
                _await_idle(cluster, workers)
                yield cluster
            finally:
                process.kill()


def _write(files: Path, version: str, key: bytes) -> None:
    for name, content in {
        "slurm.conf": CONF.encode(),
        "cgroup.conf": b"CgroupPlugin=disabled\n",
        "slurm.key": os.urandom(1024),
        "jwt_hs256.key": key,
        "rest-options": _REST_OPTIONS[version],
    }.items():
        (files / name).write_bytes(content)
        # slurmrestd runs as nobody and needs the file, which has no secret.
        (files / name).chmod(0o644 if name == "slurm.conf" else 0o600)


def _child(pid: int) -> int:
    """The first process of the new namespaces, as the host numbers it."""
    deadline_s = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < deadline_s:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.02)
    raise SlurmPodError("unshare started nothing")


def _await_idle(cluster: RunningSlurm, workers: int) -> None:
    deadline_s = time.monotonic() + STARTED_WITHIN_S
    said = ""
    while time.monotonic() < deadline_s:
        said = cluster.run("sinfo", "-h", "-p", "debug", "-t", "idle", "-o", "%D").stdout
        if said.strip() == str(workers) and cluster.socket.exists():
            return
        time.sleep(0.1)
    logs = [f"{log.name}: {log.read_text(errors='replace')[-600:]}" for log in sorted(cluster.shared.glob("*.log"))]
    raise SlurmPodError("\n".join((f"Slurm {cluster.version} has not {workers} idle workers: {said}", *logs)))
