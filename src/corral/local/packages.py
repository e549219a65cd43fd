"""Install the Debian or Ubuntu packages that a local cluster needs. The host's services stay as they were.

Installing containerd would start it, enable it at boot and, where Docker's own containerd.io is installed, replace
that. So: a package that another one provides counts as present; apt may not remove anything; services are kept from
starting while it works (policy-rc.d) and the ones that came with it are disabled afterwards.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from corral.local import logged
from corral.local.errors import LocalError
from corral.local.paths import cache_dir
from corral.local.progress import Progress, Step

# Each with what it is for. Debian and Ubuntu use the same names and both put the CNI plugins into /usr/lib/cni.
# "a|b": either will do, and the first is installed if there is neither.
PACKAGES = (
    "busybox-static|busybox",  # the shell of the test image; the two exclude each other
    "ca-certificates",  # Go downloads modules
    "catatonit",  # what holds a pod's namespaces open
    "containerd",
    "containernetworking-plugins",
    "debian-archive-keyring",  # whom mmdebstrap trusts; Ubuntu does not have it by itself
    "iproute2",
    "iptables",  # the CNI plugin portmap
    "mmdebstrap",  # images, and the root folders of the tests with real Slurm
    "mount",
    "nftables",  # kube-proxy
    "runc",
    "util-linux",  # nsenter, unshare
)
SERVICES = {"containerd": "containerd.service"}
DPKG_TIMEOUT_S = 60

# Run by root with the packages as arguments. If the policy file should outlive us (kill -9), it has no effect: it
# asks whether this very shell still runs. An existing policy is left alone.
INSTALL_SCRIPT = r"""
set -u
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\n# Corral installs and starts nothing.\n[ -d /proc/%s ] && exit 101\nexit 0\n' $$ >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
install() {
    apt-get -y -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install --no-install-recommends --no-remove "$@"
}
install "$@" && exit 0
echo "Renewing the package lists and trying again."
apt-get -q -o DPkg::Lock::Timeout=300 update
install "$@"
"""

QUERY = ("dpkg-query", "--show", "--showformat", "${db:Status-Status}\t${Package}\t${Provides}\n")


def ensure(progress: Progress, title: str, packages: Sequence[str] = PACKAGES) -> None:
    """Install what is missing, as a step of this title."""
    wanted = missing(packages, _installed())
    if not wanted:
        progress.cached(title, f"{len(packages)} present")
        return
    with progress.step(title) as step:
        step.note(" ".join(wanted))
        _install(wanted, step)


def missing(packages: Sequence[str], transcript: str) -> tuple[str, ...]:
    """What to install so that each of `packages` is installed or provided; `transcript` is the output of QUERY."""
    present: set[str] = set()
    for line in transcript.splitlines():
        status, package, provides = line.split("\t")
        if status == "installed":
            present.add(package)
            present.update(name.split()[0] for name in provides.split(",") if name.strip())
    choices = [package.split("|") for package in packages]
    return tuple(choice[0] for choice in choices if present.isdisjoint(choice))


def _installed() -> str:
    if shutil.which("dpkg-query") is None:
        raise LocalError(
            "this machine has no dpkg: the local cluster needs Debian or Ubuntu with the packages "
            f"{', '.join(PACKAGES)}; `--context NAME` uses an existing cluster instead"
        )
    return subprocess.run(QUERY, capture_output=True, text=True, check=True, timeout=DPKG_TIMEOUT_S).stdout


def _install(wanted: Sequence[str], step: Step) -> None:
    root = as_root(wanted, step)
    log = cache_dir() / "logs" / "apt.log"
    try:
        logged.run([*root, "sh", "-c", INSTALL_SCRIPT, "corral-install", *wanted], step=step, log=log)
    except logged.ProgramError as error:
        raise error.sentence(f"installing {' '.join(wanted)}") from error
    services = [SERVICES[package] for package in wanted if package in SERVICES]
    if services and Path("/run/systemd/system").is_dir():
        subprocess.run([*root, "systemctl", "disable", "--now", *services], capture_output=True, check=False)
    still = missing(wanted, _installed())
    if still:
        raise LocalError(f"apt ended well, but {' '.join(still)} are not installed (the full log is {log})")


def as_root(wanted: Sequence[str], step: Step) -> list[str]:
    """The words to put before a command so that root runs it; the person may be asked for a password here."""
    if os.geteuid() == 0:
        return []
    advice = f"ask an administrator to install {' '.join(wanted)}"
    if shutil.which("sudo") is None:
        raise LocalError(f"packages are missing, and there is neither root nor sudo here: {advice}")
    if _succeeds("sudo", "-n", "true"):
        return ["sudo", "-n"]
    if not sys.stdin.isatty():
        raise LocalError(f"packages are missing, and sudo wants a password that nobody is here to type: {advice}")
    with step.screen_released():
        allowed = subprocess.run(["sudo", "-v", "-p", "Corral installs packages; password for %u: "], check=False)
    if allowed.returncode != 0:
        raise LocalError(f"packages are missing, and sudo did not let us install them: {advice}")
    return ["sudo", "-n"]


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False, timeout=DPKG_TIMEOUT_S).returncode == 0
