"""Bring a cluster up and take it down, whatever state it is in.

`observe` looks at what there is, `plan` decides which repairs are needed, `up` carries them out. What each repair
does is idempotent by itself, so a kill at any moment is only another state to observe.

`down` follows no plan: it ends every process, takes away every mount, link and cgroup that carries this cluster's
name, and then its directory. It is safe to run on a whole, a half or an absent cluster.
"""

import contextlib
import enum
import os
import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from corral.local import cgroups, images, kubectl, namespaces, network, objects, supervisor
from corral.local.commands import missing_tools
from corral.local.configuration import configure
from corral.local.errors import LocalError
from corral.local.home import Home, clusters_root, existing_names, home_of, locked, write
from corral.local.node import CNI_PLUGINS, CNI_PROGRAMS
from corral.local.processes import Identity, end, is_alive, start
from corral.local.progress import Progress, Step
from corral.local.spec import BLOCKS, NODES_MAX, Spec, checked_node_count, free_block

TOOLS = ("ip", "mount", "umount", "nsenter", "unshare", "nft", "containerd", "ctr", "runc", "catatonit")
DISK_BYTES_MIN = 512 * 1024 * 1024
DISK_BYTES_FULL = 64 * 1024 * 1024  # etcd takes that much at a time
UP_STEPS = ("Network", "Control plane", "Nodes")

API_READY_WITHIN_S = 180.0  # a machine that is busy otherwise needs minutes for what takes seconds
NODES_READY_WITHIN_S = 180.0
DEAD_WITHIN_S = 20.0
SUPERVISOR_WITHIN_S = 15.0


class Observed(msgspec.Struct, frozen=True):
    """What of the cluster exists now."""

    namespaces: frozenset[str]  # those that are alive
    namespace_files: frozenset[str]  # alive or not
    processes: bool
    link: bool
    supervisor: bool


class Repair(enum.Enum):
    """In the order in which they are made."""

    END_PROCESSES = "end what is left of an earlier run"
    REMOVE_LINK = "remove a link that leads nowhere"
    MAKE_NAMESPACES = "make the namespaces"
    START_SUPERVISOR = "start the supervisor"


def plan(spec: Spec, observed: Observed) -> tuple[Repair, ...]:
    """Configuration and links are compared piece by piece where they are made; this is about what carries them."""
    missing = namespaces.wanted(spec) - observed.namespaces
    # Who lives in a namespace that lost its file (a reboot, an unmount) would never meet the others again.
    lost = bool(missing & observed.namespace_files)
    repairs = {
        Repair.END_PROCESSES: lost and observed.processes,
        Repair.REMOVE_LINK: lost and observed.link,
        Repair.MAKE_NAMESPACES: bool(missing),
        Repair.START_SUPERVISOR: not observed.supervisor or (lost and observed.processes),
    }
    return tuple(repair for repair in Repair if repairs[repair])


def observe(spec: Spec, home: Home) -> Observed:
    return Observed(
        namespaces=namespaces.present(home),
        namespace_files=namespaces.files(home),
        processes=bool(cgroups.processes(spec.cgroup)),
        link=spec.link in network.observe(None).links,
        supervisor=supervisor_process(home) is not None,
    )


def up(name: str, node_count: int | None, progress: Progress, *, audit: bool = False) -> Spec:
    """Make the cluster be there and ready. `progress` must plan UP_STEPS."""
    home = home_of(name)
    _check_machine(home)
    with locked(home.path):
        spec = _settle_spec(home, name, node_count, audit=audit)
        with progress.step("Network") as step:
            _repair(spec, home, step)
            step.note(str(spec.machines.supernet(new_prefix=20)))
        with progress.step("Control plane") as step:
            _until("the API server is ready", lambda: _api_ready(spec, home), API_READY_WITHIN_S, home, step)
            _until("its own objects are there", lambda: _objects_applied(home), API_READY_WITHIN_S, home, step)
        with progress.step("Nodes") as step:
            _until("containerd answers", lambda: _runtimes_ready(home), NODES_READY_WITHIN_S, home, step)
            images.ensure(home, spec, images.sandbox())
            _until("every node is Ready", lambda: _nodes_ready(spec, home), NODES_READY_WITHIN_S, home, step)
            _until("every component runs", lambda: _all_run(home), NODES_READY_WITHIN_S, home, step)
            step.note(f"{spec.node_count} ready")
    return spec


def down(name: str) -> bool:
    """Leave nothing of the cluster; False when there was nothing."""
    home = home_of(name)
    if not home.path.exists():
        return False
    with locked(home.path):
        spec = _spec_or_none(home) or _spec_by_traces(name)
        daemon = supervisor_process(home)
        if daemon:
            end(daemon, grace_s=0.0)
        if spec:
            _end_all(spec)
            network.remove(spec)
        namespaces.remove(home)
        if spec:
            _remove_cgroups(spec)
        _remove_directory(home)
    with contextlib.suppress(OSError):
        clusters_root().rmdir()
    return True


def supervisor_process(home: Home) -> Identity | None:
    try:
        process = msgspec.json.decode(home.record(supervisor.NAME).read_bytes(), type=Identity)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return process if is_alive(process) else None


def _check_machine(home: Home) -> None:
    if os.geteuid() != 0:
        raise LocalError("a local cluster needs root (namespaces, mounts): run it with sudo")
    missing = (*missing_tools(TOOLS), *(name for name in CNI_PROGRAMS if not (CNI_PLUGINS / name).exists()))
    if missing:
        raise LocalError(f"{', '.join(missing)} not found on this machine: run `corral local prepare`")
    existing = next(path for path in (home.path, *home.path.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < DISK_BYTES_MIN:
        raise LocalError(
            f"the disk of {existing} is full: {free // 2**20} MiB are free, "
            f"and a cluster needs {DISK_BYTES_MIN // 2**20} MiB"
        )


def _settle_spec(home: Home, name: str, node_count: int | None, *, audit: bool) -> Spec:
    """The description as it was, with more nodes or an audit log if asked; a new one gets the first free subnet."""
    with locked(clusters_root()):
        known = home.read_spec()
        count = checked_node_count(node_count, known.node_count if known else None)
        if known and network.is_claimed_by_another(known):
            raise LocalError(
                f"cluster {name}: its subnet {BLOCKS[known.block]} is now routed elsewhere on this host (`ip route`): "
                f"remove that route, or run `corral down --name {name}` and `corral up` for another subnet"
            )
        block = known.block if known else free_block((*network.in_use(), *_blocks_of_others(name)))
        spec = Spec(name, count, block, audit or (known is not None and known.audit))
        if spec != known:
            write(home.spec_file, msgspec.json.encode(spec))
        return spec


def _blocks_of_others(name: str) -> list[IPv4Network]:
    others = (_spec_or_none(home_of(other)) for other in existing_names() if other != name)
    return [BLOCKS[spec.block] for spec in others if spec]


def _spec_or_none(home: Home) -> Spec | None:
    try:
        return home.read_spec()
    except LocalError:
        return None


def _spec_by_traces(name: str) -> Spec | None:
    """What a cluster whose description is lost must have been, by the name of its cgroup."""
    for directory in cgroups.mounted().tracking.glob(f"corral*-{name}"):
        block = directory.name.removeprefix("corral").removesuffix(f"-{name}")
        if block.isdigit() and int(block) < len(BLOCKS):
            return Spec(name, NODES_MAX, int(block))
    return None


def _repair(spec: Spec, home: Home, step: Step) -> None:
    repairs = plan(spec, observe(spec, home))
    for repair in repairs:
        step.say(repair.value)
        if repair is Repair.END_PROCESSES:
            _end_all(spec)
        elif repair is Repair.REMOVE_LINK:
            network.remove(spec)
        elif repair is Repair.MAKE_NAMESPACES:
            namespaces.ensure(spec, home)
    step.say("connect")
    network.ensure(spec, home)
    step.say("configure")
    configure(spec, home)
    if Repair.START_SUPERVISOR in repairs:
        _start_supervisor(spec, home)


def _start_supervisor(spec: Spec, home: Home) -> None:
    # The shell joins the cgroup before Python begins, so there is no moment in which `down` would not find it.
    # Without the caller's environment: what a component does must not depend on who typed `up`.
    procs = cgroups.supervised(spec.cgroup) / "cgroup.procs"
    script = 'echo $$ > "$0" && exec "$@"'
    argv = ("sh", "-c", script, str(procs), sys.executable, "-m", "corral.local.supervisor", str(home.path))
    child = start(argv, home.log(supervisor.NAME), supervisor.ENVIRONMENT)
    deadline = time.monotonic() + SUPERVISOR_WITHIN_S
    while supervisor_process(home) is None:
        if child.poll() is not None or time.monotonic() > deadline:
            _raise_if_full(home)  # it could not even write why
            raise LocalError(f"the supervisor did not start: {_last_line(home.log(supervisor.NAME))}")
        time.sleep(0.02)


def _until(what: str, condition: Callable[[], str], within_s: float, home: Home, step: Step) -> None:
    """Wait until the condition says nothing any more. What it says is what is still missing."""
    deadline = time.monotonic() + within_s
    while said := _still_missing(condition):
        step.say(said)
        _raise_if_hopeless(home)
        if time.monotonic() > deadline:
            raise LocalError(f"waited {within_s:g} s until {what}, and still: {said} (see `corral local status`)")
        time.sleep(0.1)


def _still_missing(condition: Callable[[], str]) -> str:
    """A question that failed is one to ask again: the one that is asked may just be starting anew."""
    try:
        return condition()
    except LocalError as error:
        return str(error).splitlines()[-1]


def _raise_if_hopeless(home: Home) -> None:
    _raise_if_full(home)
    if supervisor_process(home) is None:
        raise LocalError(f"the supervisor has died: see {home.log(supervisor.NAME)}, then run `corral up` again")
    for name, record in supervisor.read_records(home).items():
        if record.failures >= 4:
            raise LocalError(
                f"{name} fails again and again ({record.last_end}): {_last_line(home.log(name))} (see {home.log(name)})"
            )


def _raise_if_full(home: Home) -> None:
    if shutil.disk_usage(home.path).free < DISK_BYTES_FULL:
        raise LocalError(f"the disk of {home.path} has become full: make room, then run `corral up` again")


def _api_ready(spec: Spec, home: Home) -> str:
    ready = supervisor.http_ready(f"{spec.server}/readyz", home.pki, supervisor.NAME)
    return "" if ready else f"{spec.server} does not say ready"


def _objects_applied(home: Home) -> str:
    kubectl.apply(home.kubeconfig, objects.manifests())
    return ""


def _runtimes_ready(home: Home) -> str:
    silent = [c.name for c in supervisor.read_components(home) if supervisor.is_socket_silent(c)]
    return f"waiting for {', '.join(silent)}" if silent else ""


def _nodes_ready(spec: Spec, home: Home) -> str:
    conditions = kubectl.ready_conditions(home.kubeconfig)
    records = supervisor.read_records(home)
    waiting = []
    for node in spec.nodes:
        condition, record = conditions.get(node.name), records.get(f"{node.name}.kubelet")
        # What a kubelet of an earlier run said proves nothing.
        if not (condition and record and condition.status == "True" and _said_since(condition, record.started_at_s)):
            waiting.append(node.name)
    return f"waiting for {', '.join(waiting)}" if waiting else ""


def _said_since(condition: kubectl.NodeCondition, since_s: float) -> bool:
    said = datetime.fromisoformat(condition.last_heartbeat).astimezone(UTC)
    return said.timestamp() >= int(since_s)


def _all_run(home: Home) -> str:
    records = supervisor.read_records(home)
    idle = [
        c.name
        for c in supervisor.read_components(home)
        if c.name not in records or not is_alive(records[c.name].process) or records[c.name].revision != c.revision
    ]
    return f"waiting for {', '.join(idle)}" if idle else ""


def _end_all(spec: Spec) -> None:
    """Kill every process of the cluster, until there is none: the dying may still have started another."""
    deadline = time.monotonic() + DEAD_WITHIN_S
    while alive := cgroups.processes(spec.cgroup):
        cgroups.kill(spec.cgroup)
        if time.monotonic() > deadline:
            raise LocalError(f"processes {sorted(alive)} of cluster {spec.name} do not end, not even by SIGKILL")
        time.sleep(0.02)


def _remove_cgroups(spec: Spec) -> None:
    deadline = time.monotonic() + DEAD_WITHIN_S
    while left := cgroups.remove(spec.cgroup):
        if time.monotonic() > deadline:
            raise LocalError(f"cgroup {left[0]} cannot be removed: something is still in it")
        time.sleep(0.05)


def _remove_directory(home: Home) -> None:
    mounted = namespaces.mount_points(home.path)
    if mounted:
        raise LocalError(f"{mounted[0]} is still mounted: nothing below {home.path} was removed")
    # The description last: as long as it is there, another `down` knows what to look for.
    for entry in sorted(home.path.iterdir(), key=lambda entry: entry == home.spec_file):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    home.path.rmdir()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "it wrote nothing"
