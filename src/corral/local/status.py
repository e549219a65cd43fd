"""What runs now: one value that `corral local status` prints for people and for programs."""

from datetime import UTC, datetime

import msgspec

from corral.local import kubectl, supervisor
from corral.local.cluster import supervisor_process
from corral.local.errors import LocalError
from corral.local.home import Home
from corral.local.processes import is_alive, memory_bytes
from corral.local.supervision import Record


class ComponentStatus(msgspec.Struct, frozen=True):
    """`detail` is how it ended the last time, if it ever did."""

    name: str
    pid: int
    state: str
    since: datetime | None
    restarts: int
    memory_bytes: int = 0
    detail: str = ""


class NodeStatus(msgspec.Struct, frozen=True):
    name: str
    state: str


class ClusterStatus(msgspec.Struct, frozen=True):
    name: str
    server: str
    kubeconfig: str
    components: tuple[ComponentStatus, ...]
    nodes: tuple[NodeStatus, ...]

    @property
    def is_well(self) -> bool:
        return all(c.state == "running" for c in self.components) and all(n.state == "Ready" for n in self.nodes)


def status(home: Home) -> ClusterStatus:
    spec = home.read_spec()
    if spec is None or not home.components.exists():
        raise LocalError(f"there is no cluster {home.path.name}: run `corral up --name {home.path.name}`")
    records = supervisor.read_records(home)
    components = tuple(_component(c.name, records.get(c.name)) for c in supervisor.read_components(home))
    return ClusterStatus(
        name=spec.name,
        server=spec.server,
        kubeconfig=str(home.kubeconfig),
        components=(_supervisor(home), *components),
        nodes=_nodes(home, tuple(node.name for node in spec.nodes)),
    )


def _supervisor(home: Home) -> ComponentStatus:
    process = supervisor_process(home)
    if process is None:
        return ComponentStatus(supervisor.NAME, 0, "dead", None, 0, detail="nothing is restarted: run `corral up`")
    since = datetime.fromtimestamp(home.record(supervisor.NAME).stat().st_mtime, UTC)
    return ComponentStatus(supervisor.NAME, process.pid, "running", since, 0, memory_bytes(process.pid))


def _component(name: str, record: Record | None) -> ComponentStatus:
    if record is None:
        return ComponentStatus(name, 0, "waiting", None, 0)
    if is_alive(record.process):
        since, pid = datetime.fromtimestamp(record.started_at_s, UTC), record.process.pid
        return ComponentStatus(name, pid, "running", since, record.restarts, memory_bytes(pid), record.last_end)
    ended = datetime.fromtimestamp(record.ended_at_s, UTC) if record.ended_at_s else None
    return ComponentStatus(name, 0, "dead", ended, record.restarts, detail=record.last_end)


def _nodes(home: Home, names: tuple[str, ...]) -> tuple[NodeStatus, ...]:
    try:
        conditions = kubectl.ready_conditions(home.kubeconfig)
    except LocalError:
        return tuple(NodeStatus(name, "unknown: the API server does not answer") for name in names)
    return tuple(NodeStatus(name, _node_state(conditions.get(name))) for name in names)


def _node_state(condition: kubectl.NodeCondition | None) -> str:
    if condition is None:
        return "not registered"
    return {"True": "Ready", "False": "NotReady"}.get(condition.status, "Unknown")
