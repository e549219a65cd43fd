"""Network and mount namespaces that live as files in the cluster's directory, whether or not a process is in them.

A node has a mount namespace of its own, with its own /run, /var/lib and /var/log: there kubelet, containerd and the
CNI plugins write to paths that no option changes. So several nodes and the host do not meet, every path inside a node
is the usual one, and each mount they make ends with the node instead of staying on the host.
The rest of the disk is the host's, and so is the cluster's directory: a path there is the same on every node.

The kernel is the host's as well, and kubelet would set how it treats memory and its own faults (KERNEL_SETTINGS). In a
node, files stand in for those settings that have kubelet's values already: it finds nothing to change. The price: where
something is mounted over a part of /proc, the kernel lets no user namespace mount a new one, so a pod with
`hostUsers: false` does not start.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from corral.local.commands import run
from corral.local.home import Home, write
from corral.local.mountinfo import mounted
from corral.local.spec import Node, Spec

OWN_DIRECTORIES = ("/run", "/var/lib", "/var/log")  # all exist on any Linux, so nothing is made on the host
KERNEL_SETTINGS = {  # as kubelet has them, below /proc/sys
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def present(home: Home) -> frozenset[str]:
    """The files that really are namespaces now, by name. After a reboot they are empty files again."""
    return frozenset(path.name for path in mount_points(home.namespaces) if path != home.namespaces)


def files(home: Home) -> frozenset[str]:
    """The files made for namespaces, alive or not."""
    return frozenset(path.name for path in home.namespaces.iterdir()) if home.namespaces.is_dir() else frozenset()


def wanted(spec: Spec) -> frozenset[str]:
    return frozenset({"control.net"} | {f"{node.name}.{kind}" for node in spec.nodes for kind in ("net", "mnt")})


def ensure(spec: Spec, home: Home) -> None:
    there = present(home)
    _prepare_directory(home.namespaces)
    for file in (home.control_network, *(home.network(node) for node in spec.nodes)):
        if file.name not in there:
            _make_network(file)
    for node in spec.nodes:
        if home.mounts(node).name not in there:
            _make_mounts(home, node)


def remove(home: Home) -> None:
    """Unmount everything below the cluster's directory, deepest first. The namespaces end with their last process."""
    for path in sorted(mount_points(home.path), key=lambda path: len(path.parts), reverse=True):
        run(["umount", "--lazy", str(path)])


def mount_points(below: Path) -> tuple[Path, ...]:
    """Mount points at or below a directory in our own mount namespace. One path is listed as often as it is mounted."""
    points = (mount.point for mount in mounted())
    return tuple(point for point in points if point == below or below in point.parents)


def enter(*, network: Path | str = "", mounts: Path | str = "") -> tuple[str, ...]:
    """The beginning of a command line that runs the rest inside. It replaces itself, so the pid stays the same.

    Not `ip netns exec`: that mounts a new /sys, which hides the cgroups.
    """
    options = [f"--net={network}"] if network else []
    options += [f"--mount={mounts}"] if mounts else []
    return ("nsenter", *options, "--") if options else ()


def _prepare_directory(directory: Path) -> None:
    # A mount namespace can only be kept as a file below a mount that is private.
    directory.mkdir(parents=True, exist_ok=True)
    if directory not in mount_points(directory):
        run(["mount", "--bind", str(directory), str(directory)])
        run(["mount", "--make-private", str(directory)])


def _make_network(file: Path) -> None:
    file.touch()
    run(["unshare", f"--net={file}", "true"])
    settings = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 || true"
    run([*enter(network=file), "sh", "-c", settings])


def _make_mounts(home: Home, node: Node) -> None:
    own = home.node(node) / "root"
    shutil.rmtree(own / "run", ignore_errors=True)  # as after a reboot: nothing in it is true any more
    for directory in OWN_DIRECTORIES:
        _within(own, directory).mkdir(parents=True, exist_ok=True)
    for name, value in KERNEL_SETTINGS.items():
        write(_setting(own, name), f"{value}\n")
    file = home.mounts(node)
    file.touch()
    script = "\n".join(("set -e", *_mount_script(home, own)))
    # Slave: the host's later mounts appear in the node, the node's never on the host.
    run(["unshare", f"--mount={file}", "--propagation", "slave", "sh", "-c", script])


def _mount_script(home: Home, own: Path) -> Iterable[str]:
    yield f"umount --lazy '{home.namespaces}'"  # else namespaces would keep each other alive
    yield "mount --make-rshared /"  # for pods that ask for mount propagation
    for directory in OWN_DIRECTORIES:
        place = _within(own, directory)
        yield f"mount --bind '{place}' '{place}'"
        if Path(directory) in home.path.parents:
            there = place / home.path.relative_to(directory)
            yield f"mkdir -p '{there}' && mount --bind '{home.path}' '{there}'"
        yield f"mount --rbind '{place}' '{directory}'"
    for name in KERNEL_SETTINGS:
        yield f"[ ! -e /proc/sys/{name} ] || mount --bind '{_setting(own, name)}' /proc/sys/{name}"


def _setting(own: Path, name: str) -> Path:
    return own / "proc-sys" / name.replace("/", ".")


def _within(root: Path, absolute: str) -> Path:
    return root / absolute.lstrip("/")
