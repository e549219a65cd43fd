"""Real Slurm tells the stories that the simulator's model of it tells (tests/sim/test_model.py)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from corral.slurm.rest import SlurmClient
from corral.testing.slurmpods import RunningSlurm, running
from tests.integration.test_slurm_rest import a_client
from tests.sim.story import CPUS, LIVES, TOLD, Lab, lives, story

pytestmark = pytest.mark.slurm

Tell: TypeAlias = Callable[[Lab], Awaitable[tuple[str, ...]]]

VERSIONS: Final = ("24.11", "26.05")
PORTS: Final = {"w-0": 7000, "w-1": 7001}  # as they were started with
# $1 its node, $2 a signal. Whatever else belongs to it lives on.
SIGNAL: Final = """
for process in /proc/[0-9]*; do
    [ "$(cat $process/comm 2>/dev/null)" = slurmd ] || continue
    tr '\\0' ' ' <$process/cmdline | grep -q -- "-N $1 " && kill -$2 ${process#/proc/}
done
"""
# As `corral.testing.slurmpods` starts them: $1 its node, $2 its port, $3 its CPUs.
SLURMD: Final = """
setsid unshare --mount sh -c 'mount -t tmpfs tmpfs /run && mkdir /run/slurm && exec /usr/sbin/slurmd -D -v -N $1 -Z \\
    --conf-server 192.0.2.1:6817 --conf "Feature=debug CPUs=$3 RealMemory=900 Port=$2"' slurmd "$@" \\
    </dev/null >>/shared/$1.log 2>&1 &
"""
SLURMCTLD: Final = """
kill -$1 $(pidof slurmctld)
while pidof slurmctld; do sleep 0.1; done
setsid setpriv --reuid=slurm --regid=slurm --init-groups /usr/sbin/slurmctld -D -v \\
    </dev/null >>/shared/slurmctld.log 2>&1 &
"""
PARTITION: Final = "PartitionName=debug Nodes=debug Default=YES MaxTime=UNLIMITED State="


class RealLab:
    """`hasty`: its slurmctld misses a slurmd after seconds, not after a minute."""

    def __init__(self, slurm: RunningSlurm, client: SlurmClient, *, hasty: bool) -> None:
        self._slurm, self.client = slurm, client
        if hasty:
            self._reconfigure("s/^SlurmdTimeout=.*/SlurmdTimeout=6/")

    def submit(self, partition: str = "debug") -> str:
        where = ("-p", partition, "-w", "w-0")
        done = self._slurm.run("sbatch", *where, "-t", "5", "-D", "/tmp", "-o", "/dev/null", "--wrap", "sleep 600")
        return done.stdout.strip().rpartition("failed: ")[2] if done.returncode else ""

    def end_jobs(self) -> None:
        self._slurm.run("scancel", "-u", "root")

    def kill_slurmd(self, node: str) -> None:
        self._run(SIGNAL, node, "KILL")

    def start_slurmd(self, node: str, cpus: int = CPUS) -> None:
        self._run(SLURMD, node, str(PORTS[node]), str(cpus))

    def hang_up(self, node: str) -> None:
        self._run(SIGNAL, node, "HUP")

    def set_state(self, node: str, state: str, reason: str = "") -> None:
        self._done("scontrol", "update", f"nodename={node}", f"state={state}", f"reason={reason}")

    def reserve(self, node: str) -> None:
        when = ("StartTime=now", "Duration=10", "Users=slurm", "Flags=MAINT,IGNORE_JOBS")
        self._done("scontrol", "create", "reservation", "ReservationName=story", f"Nodes={node}", *when)

    def unreserve(self) -> None:
        self._done("scontrol", "delete", "ReservationName=story")

    def partition(self, state: str) -> None:
        line = f"s/^PartitionName=debug.*/{PARTITION}{state}/" if state else "/^PartitionName=debug/d"
        self._reconfigure(line)

    def restart_slurmctld(self, *, kill: bool) -> None:
        self._run(SLURMCTLD, "KILL" if kill else "TERM")

    def _reconfigure(self, change: str) -> None:
        self._done("sed", "-i", change, "/etc/slurm/slurm.conf")
        self._done("scontrol", "reconfigure")

    def _run(self, script: str, *arguments: str) -> None:
        self._done("sh", "-c", script, "sh", *arguments)

    def _done(self, *command: str) -> None:
        done = self._slurm.run(*command)
        assert done.returncode == 0, (command, done.stdout)


async def told_by(version: str, tell: Tell) -> tuple[str, ...]:
    with running(version) as slurm:
        async with slurm.serve() as url:
            client = a_client(url, slurm.jwt_key)
            try:
                return await tell(RealLab(slurm, client, hasty=tell is lives))
            finally:
                await client.close()


@pytest.mark.parametrize(("tell", "told"), [(story, TOLD), (lives, LIVES)], ids=["a job and a drain", "lives"])
async def test_real_slurm_tells_the_story(tell: Tell, told: tuple[str, ...]) -> None:
    """Both versions at once: they mostly wait."""
    found = await asyncio.gather(*(told_by(version, tell) for version in VERSIONS))
    assert dict(zip(VERSIONS, found, strict=True)) == dict.fromkeys(VERSIONS, told)
