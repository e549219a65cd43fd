"""What of a host a cluster could change or leave behind, as a set of lines. Two sets are compared before and after.

    more than before   something is left behind: a process, link, route, mount, cgroup, file, ...
    less than before   something of the host's own was taken away, or changed, which is its old line gone and a new one

What the host itself takes away now and then (a program that ends, its cgroup, its files in /run) counts only as more.
A setting of the kernel that was not there before does not count: it came with a module, which the first cluster after a
boot loads, as a firewall or a bridge of the host's own would, and which stays.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from corral.local.cgroups import mounted
from corral.local.home import existing_names, home_of
from corral.local.namespaces import KERNEL_SETTINGS
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
TEXTS = (
    "environment",
    "fstab",
    "group",
    "hosts",
    "ld.so.conf",
    "nsswitch.conf",
    "passwd",
    "resolv.conf",
    "sysctl.conf",
)
SETTINGS = ("net/bridge", "net/ipv4/conf/all", "net/ipv4/conf/default", "net/ipv6/conf/all", "net/ipv6/conf/default")
ONE_BY_ONE = (*KERNEL_SETTINGS, "net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max")
COUNTS = re.compile(r" expires \S+|\[\d+:\d+\]")
COMES_AND_GOES = ("process ", "cgroup ", "file /run/", "file /var/log/", "mount /run/", "mount /tmp/")


def traces(spec: Spec) -> frozenset[str]:
    """Everything on the host, except what carries the name of another cluster of ours."""
    lines = (
        *_processes(spec),
        *_network_lines(),
        *_firewall_lines(),
        *(f"setting {name}" for name in _settings()),
        *(f"text {name}" for name in _texts()),
        *(f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        *(f"cgroup {path}" for root in mounted().all for path, _, _ in os.walk(root)),
        *(f"file {directory}/{name}" for directory in DIRECTORIES for name in _listed(directory)),
        *(f"file {path}" for path, _, _ in os.walk(home_of(spec.name).path)),
    )
    foreign = _signs_of_others(spec)
    return frozenset(line for line in lines if not any(sign in line for sign in foreign))


def differences(before: frozenset[str], after: frozenset[str]) -> set[str]:
    gone = {f"- {line}" for line in before - after if not line.startswith(COMES_AND_GOES)}
    return gone | {f"+ {line}" for line in after - before if not _is_new_setting(line, before)}


def _is_new_setting(line: str, before: frozenset[str]) -> bool:
    name, equals, _ = line.partition(" = ")
    return line.startswith("setting ") and not any(known.startswith(name + equals) for known in before)


def stays_different(before: frozenset[str], spec: Spec) -> list[str]:
    """What differs at every look: other tests on this machine have programs in namespaces too, each for a moment."""
    found = differences(before, traces(spec))
    for _ in range(LOOKS - 1):
        if found:
            time.sleep(LOOKED_EVERY_S)
            found &= differences(before, traces(spec))
    return sorted(found)


def _signs_of_others(spec: Spec) -> tuple[str, ...]:
    """And of root folders that somebody is making meanwhile."""
    others = (home_of(name).read_spec() for name in existing_names() if name != spec.name)
    return (*(sign for other in others if other for sign in _signs(other)), str(cache_dir() / "roots"))


def _signs(spec: Spec) -> tuple[str, ...]:
    block = (str(spec.machines.network_address).rsplit(".", 1)[0], spec.link, spec.cgroup)
    return (*block, str(home_of(spec.name).path))


def _network_lines() -> Iterable[str]:
    for line in output("ip", "-brief", "address").splitlines():
        yield f"link {' '.join(line.split())}"
    for line in output("ip", "route", "show", "table", "all").splitlines():
        yield f"route {COUNTS.sub('', line)}"
    for family in ("-4", "-6"):
        for line in output("ip", family, "rule").splitlines():
            yield f"policy {family} {line}"


def _firewall_lines() -> Iterable[str]:
    """Without counters. The older kind is asked only where the kernel has it: asking would load it."""
    for line in output("nft", "--stateless", "list", "ruleset").splitlines():
        yield f"rule {line}"
    for version in ("", "6"):
        if _read(f"/proc/net/ip{version}_tables_names"):
            for line in output(f"ip{version}tables-legacy-save").splitlines():
                if not line.startswith("#"):
                    yield f"rule {version} {COUNTS.sub('', line)}"


def _settings() -> Iterable[str]:
    root = Path("/proc/sys")
    names = (f"{folder}/{name}" for folder in SETTINGS for name in _listed(str(root / folder)))
    for name in (*names, *ONE_BY_ONE):
        if (root / name).exists():
            yield f"{name} = {_read(str(root / name)).strip()}"


def _texts() -> Iterable[str]:
    for name in TEXTS:
        yield f"/etc/{name} {hashlib.sha256(_read(f'/etc/{name}').encode()).hexdigest()[:12]}"


def _processes(spec: Spec) -> Iterable[str]:
    """What runs a cluster's program, in its cgroup, or in a network other than the host's; with where it lives.

    A namespace lives by a process or by a mount, so with these and the mounts none is missed. A process that has
    ended and waits for its parent to notice is not counted: it holds nothing.
    A service of the host's own may run such a program too (`program`): it is to be there afterwards, and the same one.
    """
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        argv, cgroup = command_line(pid), _read(f"/proc/{pid}/cgroup")
        suspects = (
            spec.cgroup in cgroup,
            "corral.local." in " ".join(argv[:3]),
            _network(pid) not in ("", _network(os.getpid())),
        )
        where = f"{' '.join(argv)} {cgroup.splitlines()[-1] if cgroup else ''}"
        if _program(argv) in PROGRAMS and identity(pid):
            yield f"program {pid} {where}"
        elif any(suspects) and identity(pid):
            yield f"process {where}"


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
