"""What a host has that a cluster could leave behind, as a set of lines. Two sets are compared before and after."""

import os
import time
from pathlib import Path

from corral.local.cgroups import mounted
from corral.local.home import existing_names, home_of
from corral.local.paths import cache_dir
from corral.local.processes import command_line, identity
from corral.local.spec import Spec
from corral.testing.localcluster import output

PROGRAMS = frozenset(
    {
        "catatonit",
        "containerd",
        "containerd-shim-runc-v2",
        "coredns",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubelet",
        "pause",
        "runc",
    }
)
LOOKS, LOOKED_EVERY_S = 5, 1.0
DIRECTORIES = ("/etc", "/opt", "/run", "/run/netns", "/usr/libexec", "/var/lib", "/var/log")


def traces(spec: Spec) -> frozenset[str]:
    """Everything on the host, except what carries the name of another cluster of ours."""
    home = home_of(spec.name)
    lines = (
        *(f"process {line}" for line in _processes(spec)),
        *(f"link {line.split()[0]}" for line in output("ip", "-brief", "link").splitlines()),
        *(f"route {line}" for line in output("ip", "route", "show", "table", "all").splitlines()),
        *(f"rule {line}" for line in output("nft", "list", "ruleset").splitlines()),
        *(f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        *(f"cgroup {path}" for root in mounted().all for path, _, _ in os.walk(root)),
        *(f"file {directory}/{name}" for directory in DIRECTORIES for name in _listed(directory)),
        *(f"file {path}" for path, _, _ in os.walk(home.path)),
    )
    return frozenset(lines)


def left_behind(before: frozenset[str], after: frozenset[str], others: tuple[Spec, ...]) -> list[str]:
    """Lines that appeared and belong to no other cluster, and to no root folder that somebody is making meanwhile."""
    foreign = (*(sign for other in others for sign in _signs(other)), str(cache_dir() / "roots"))
    return sorted(line for line in after - before if not any(sign in line for sign in foreign))


def stays_behind(before: frozenset[str], spec: Spec) -> list[str]:
    """What is left at every look: other tests on this machine have programs in namespaces too, each for a moment."""
    left = _left_now(before, spec)
    for _ in range(LOOKS - 1):
        if left:
            time.sleep(LOOKED_EVERY_S)
            left &= _left_now(before, spec)
    return sorted(left)


def _left_now(before: frozenset[str], spec: Spec) -> set[str]:
    others = tuple(other for name in existing_names() if (other := home_of(name).read_spec()))
    return set(left_behind(before, traces(spec), others))


def _signs(spec: Spec) -> tuple[str, ...]:
    block = (str(spec.machines.network_address).rsplit(".", 1)[0], spec.link, spec.cgroup)
    return (*block, str(home_of(spec.name).path))


def _processes(spec: Spec) -> list[str]:
    """What runs a cluster's program, in its cgroup, or in a network other than the host's; with where it lives.

    A namespace lives by a process or by a mount, so with these and the mounts none is missed. A process that has
    ended and waits for its parent to notice is not counted: it holds nothing.
    """
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        argv, cgroup = command_line(pid), _read(f"/proc/{pid}/cgroup")
        suspects = (
            spec.cgroup in cgroup,
            "corral.local." in " ".join(argv[:3]),
            _program(argv) in PROGRAMS,
            _network(pid) not in ("", _network(os.getpid())),
        )
        if any(suspects) and identity(pid):
            found.append(f"{' '.join(argv)} {cgroup.splitlines()[-1] if cgroup else ''}")
    return found


def _network(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _program(argv: tuple[str, ...]) -> str:
    return os.path.basename(argv[0]) if argv else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _listed(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []
