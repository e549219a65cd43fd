"""Real Slurm for tests: a root folder a version, made once from Debian packages, and programs run inside it.

`slurm_root("24.11")` makes the folder in the user's cache (about a minute and 150 MB; later calls find it), with the
manual pages that `scripts/slurm_keys.py` reads. `Sandbox` runs programs in it with their own mounts, network, processes
and host name: nothing that runs there touches the host, sees the network, or outlives the call.
"""

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.local.progress import Progress
from corral.local.roots import Root, ensure

SUITES: Final[Mapping[str, str]] = {"24.11": "trixie", "26.05": "forky"}
PACKAGES: Final = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "slurm-client",
    "slurm-wlm-jwt-plugin",  # only recommended by slurmctld, which cannot read AuthAltTypes=auth/jwt without it
    "systemd-standalone-sysusers",  # else all of systemd comes
    "mount",  # each slurmd of `slurmpods` has a /run of its own
)
HOST = "ctld"  # what a sandbox is called; a slurm.conf needs SlurmctldHost=ctld


def slurm_root(version: str) -> Path:
    """The root folder of this version, made now if there is none."""
    root = Root(name=f"slurm-{version}", suite=SUITES[version], packages=PACKAGES, manuals=True)
    if root.folder.is_dir():
        return root.folder
    step = f"Slurm {version}"
    with Progress((step,)) as progress, progress.step(step) as made:
        return ensure(root, made)


# Runs as the first process of new namespaces: $1 root folder, $2 folder whose files become /etc/slurm, then a command.
# The shell stays the first process, and root: when unshare ends, the kernel kills it, and with it all others. (It does
# not do that for a process that has become another user.) An overlay in memory keeps the root folder as it is. Slurm
# finds no address when there is only 127.0.0.1.
_ENTER: Final = f"""
set -eu
root=$1 files=$2; shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/up /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$root,upperdir=/mnt/up,workdir=/mnt/work" /mnt/root
cd /mnt/root
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p etc/slurm run/slurm run/slurmctld run/slurmdbd var/spool/slurmctld var/log/slurm
cp -R "$files/." etc/slurm/
chown -R 64030:64030 etc/slurm run/slurm run/slurmctld run/slurmdbd var/spool/slurmctld var/log/slurm
hostname {HOST}
ip link set lo up
ip address add 192.0.2.1/32 dev lo
printf '127.0.0.1 localhost\\n192.0.2.1 {HOST} n1 n2 n3 n4\\n' > etc/hosts
: > etc/resolv.conf
status=0
chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@" || status=$?
exit $status
"""
_UNSHARE: Final = ("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The root folder of one version, with `files` as its /etc/slurm: names and their contents."""

    root: Path
    files: Mapping[str, bytes]

    def run(self, *command: str, within_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; stdout and stderr are one text."""
        with self._entered(command) as argv:
            return subprocess.run(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=within_s,
                check=False,
            )

    def run_until(self, line: str, *command: str, within_s: float = 60.0) -> tuple[bool, str]:
        """Run a daemon until it says `line`, or ends; whether it did, and all that it said. It is gone afterwards."""
        said: list[str] = []
        with (
            self._entered(command) as argv,
            subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            ) as process,
        ):
            assert process.stdout is not None
            deadline = threading.Timer(within_s, process.kill)
            deadline.start()
            try:
                for text in process.stdout:
                    said.append(text)
                    if line in text:
                        return True, "".join(said)
            finally:
                deadline.cancel()
                process.kill()
                process.stdout.read()  # ends when the last one that could write is gone
        return False, "".join(said)

    @contextlib.contextmanager
    def _entered(self, command: Sequence[str]) -> Iterator[list[str]]:
        with tempfile.TemporaryDirectory(prefix="corral-slurm-") as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
                (Path(folder) / name).chmod(0o600)
            yield [*_UNSHARE, "sh", "-c", _ENTER, "enter", str(self.root), folder, *command]
