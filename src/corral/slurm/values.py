"""What Slurm has, as frozen values: the words that the rest of Corral uses for nodes, jobs and the like.

No value here knows which API version it came from. A field is None (or empty) when the server did not say; what an old
version cannot say is listed in `corral.slurm.versions`. Times are UTC. Numbers have their unit in their name.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import msgspec

from corral.slurm.states import NodeState, Phase

T = TypeVar("T")


class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Immutable and free of cycles; compared by content."""


class Listing(Value, Generic[T], frozen=True, kw_only=True):
    """All there are. `mark` goes back to the server to ask whether anything has changed since."""

    items: tuple[T, ...]
    mark: "Mark | None" = None


class Mark(Value, frozen=True, kw_only=True):
    """The server's own time of the last change that an answer has in it, in whole seconds."""

    updated_s: int


class Layout(Value, frozen=True, kw_only=True):
    """Of the processors of a node; `sockets` on all its boards."""

    boards: int = 0
    sockets: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0


class Node(Value, frozen=True, kw_only=True):
    name: str
    state: NodeState
    address: str = ""
    hostname: str = ""
    reason: str = ""
    reason_by: str = ""
    reason_at: datetime | None = None
    comment: str = ""
    extra: str = ""
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    reservation: str = ""
    gres: str = ""
    gres_used: str = ""
    cpus: int = 0
    cpus_allocated: int = 0
    memory_mb: int = 0
    memory_allocated_mb: int = 0
    memory_aside_mb: int | None = None  # MemSpecLimit; None: the server does not say
    cores_aside: int | None = None  # CoreSpecCount, or as many as CpuSpecList names
    layout: "Layout | None" = None
    weight: int = 0
    topology: str | None = None  # None: this API version does not say
    slurmd_version: str = ""  # empty until slurmd has registered
    booted_at: datetime | None = None  # the machine
    registered_at: datetime | None = None  # when its slurmd started: a new value is a new slurmd
    busy_until: datetime | None = None  # when it last ran something


class Job(Value, frozen=True, kw_only=True):
    """One job, one task of an array that has begun, or one part of a heterogeneous job."""

    id: int
    state: tuple[str, ...]
    phase: Phase
    user: str = ""
    user_id: int = 0
    account: str = ""
    name: str = ""
    partition: str = ""  # of a pending job also several, separated by commas
    qos: str = ""
    reason: str = ""  # why it waits
    comment: str = ""
    admin_comment: str = ""
    nodes: tuple[str, ...] = ()  # where it is, or was
    submitted_at: datetime | None = None
    eligible_at: datetime | None = None
    start_at: datetime | None = None  # of a pending job: the scheduler's guess
    end_at: datetime | None = None  # of a running job: when its time limit ends it
    time_limit_s: float | None = None  # math.inf: none; None: not said
    restarts: int = 0
    array_job_id: int = 0  # 0: not of an array
    array_task: str = ""  # one number, or of the waiting rest `3-5%2`
    het_job_id: int = 0
    asks: "Asks" = msgspec.field(default_factory=lambda: Asks())

    @property
    def holds_nodes(self) -> bool:
        """What we cannot read may hold them."""
        return self.phase in (Phase.RUNNING, Phase.COMPLETING, Phase.UNKNOWN)


class Asks(Value, frozen=True, kw_only=True):
    """What a job wants to have. 0 and empty: it did not say."""

    nodes_min: int = 0
    nodes_max: int = 0
    cpus: int = 0
    tasks: int = 0
    cpus_per_task: int = 0
    tasks_per_node: int = 0
    memory_per_node_mb: int = 0
    memory_per_cpu_mb: int = 0
    tres: str = ""  # all together: cpu=4,mem=8G,node=2,gres/gpu=16
    tres_per_node: str = ""  # gres/gpu:8
    tres_per_job: str = ""
    tres_per_task: str = ""
    features: str = ""  # an expression: gpu&(a100|h100)
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    reservation: str = ""
    dependency: str = ""
    exclusive: bool = False
    priority: int = 0
    held: bool = False


class AccountingJob(Value, frozen=True, kw_only=True):
    """A job as slurmdbd remembers it."""

    id: int
    state: tuple[str, ...]
    phase: Phase
    user: str = ""
    account: str = ""
    cluster: str = ""
    name: str = ""
    partition: str = ""
    qos: str = ""
    nodes: tuple[str, ...] = ()
    submitted_at: datetime | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    elapsed_s: int = 0
    exit_code: int | None = None
    restarts: int = 0


class Partition(Value, frozen=True, kw_only=True):
    name: str
    state: tuple[str, ...]
    nodes: str = ""  # as configured: a hostlist, node sets, or ALL
    nodes_total: int = 0
    cpus_total: int = 0
    time_max_s: float | None = None  # math.inf: none
    time_default_s: float | None = None
    nodes_max: int | None = None
    priority_tier: int = 0

    @property
    def up(self) -> bool:
        return "UP" in self.state


class Reservation(Value, frozen=True, kw_only=True):
    name: str
    nodes: tuple[str, ...] = ()
    start_at: datetime | None = None
    end_at: datetime | None = None
    flags: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partition: str = ""
    features: str = ""

    @property
    def maintenance(self) -> bool:
        return "MAINT" in self.flags


class ReservationRequest(Value, frozen=True, kw_only=True):
    """A reservation to be made. Users or accounts must be named; `flags` as in scontrol: MAINT, IGNORE_JOBS, ..."""

    name: str
    start_at: datetime
    duration: timedelta
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    partition: str = ""
    comment: str = ""


class NodeUpdate(Value, frozen=True, kw_only=True):
    """What to change on a node; None leaves it as it is."""

    state: tuple[str, ...] | None = None
    reason: str | None = None
    comment: str | None = None
    extra: str | None = None
    features: tuple[str, ...] | None = None
    active_features: tuple[str, ...] | None = None
    gres: str | None = None
    topology: str | None = None
    weight: int | None = None


class Ping(Value, frozen=True, kw_only=True):
    """Whether slurmctld on one host answers slurmrestd."""

    hostname: str
    responding: bool
    primary: bool
    latency_us: int = 0


class Diag(Value, frozen=True, kw_only=True):
    """slurmctld's statistics, as sdiag shows them."""

    since: datetime | None = None  # when it began to count
    server_threads: int = 0
    agent_queue: int = 0
    dbd_queue: int = 0  # records that wait for slurmdbd
    jobs_submitted: int = 0
    jobs_started: int = 0
    jobs_completed: int = 0
    jobs_canceled: int = 0
    jobs_failed: int = 0
    jobs_pending: int = 0
    jobs_running: int = 0
    cycle_last_us: int = 0
    cycle_mean_us: int = 0
    cycle_max_us: int = 0
    backfill_cycle_last_us: int = 0
    backfill_cycle_mean_us: int = 0
    backfill_depth_mean: int = 0
    backfilled_jobs: int = 0
    rpcs: tuple["RpcCount", ...] = ()


class RpcCount(Value, frozen=True, kw_only=True):
    kind: str
    count: int
    total_us: int


class Share(Value, frozen=True, kw_only=True):
    """One row of sshare: an account, or a user in one."""

    name: str
    parent: str = ""
    cluster: str = ""
    partition: str = ""
    is_user: bool = False
    shares: int | None = None
    shares_normalized: float | None = None
    usage: int = 0
    usage_normalized: float | None = None
    usage_effective: float | None = None
    factor: float | None = None


ConfValue = str | int | float | bool | tuple[str, ...] | None


class RunningConf(Value, frozen=True, kw_only=True):
    """The configuration that slurmctld runs with, read back from it."""

    values: Mapping[str, ConfValue]
    hash_value: int | None = None
    updated_at: datetime | None = None
    booted_at: datetime | None = None
    version: str = ""


class Server(Value, frozen=True, kw_only=True):
    """Whom we speak to, as it said itself."""

    api: str  # v0.0.42
    release: str = ""  # 24.11.5
    cluster: str = ""
