"""The shapes of slurmrestd's answers, and the values made of them. Pure.

Only the fields that we use are named; the rest of an answer is skipped unread. A field that is missing, null, or of the
other of its two shapes is no error: see the table in `corral.slurm.versions`. A node or a job without a name is one,
because nobody could tell what it means for the others.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from corral.slurm.answers import Envelope
from corral.slurm.hostlist import HostlistError, expand
from corral.slurm.states import job_phase, node_state
from corral.slurm.values import (
    AccountingJob,
    Asks,
    ConfValue,
    Diag,
    Job,
    Mark,
    Node,
    Partition,
    Ping,
    Reservation,
    RpcCount,
    RunningConf,
    Share,
)


class WireNumber(msgspec.Struct):
    set: bool = False
    infinite: bool = False
    number: int | float = 0


Number = WireNumber | int | float | None
Words = list[str] | str | None
Text = str | None
W = TypeVar("W")


class WireNode(msgspec.Struct):
    name: str
    state: Words
    address: Text = ""
    hostname: Text = ""
    reason: Text = ""
    reason_set_by_user: Text = ""
    reason_changed_at: Number = None
    comment: Text = ""
    extra: Text = ""
    features: Words = None
    active_features: Words = None
    partitions: Words = None
    reservation: Text = ""
    gres: Text = ""
    gres_used: Text = ""
    cpus: Number = 0
    alloc_cpus: Number = 0
    real_memory: Number = 0
    alloc_memory: Number = 0
    weight: Number = 0
    topology: Text = None
    version: Text = ""
    boot_time: Number = None
    slurmd_start_time: Number = None
    last_busy: Number = None


class WireJob(msgspec.Struct):
    job_id: int
    job_state: Words
    user_name: Text = ""
    user_id: Number = 0
    account: Text = ""
    name: Text = ""
    partition: Text = ""
    qos: Text = ""
    state_reason: Text = ""
    comment: Text = ""
    admin_comment: Text = ""
    nodes: Text = ""
    submit_time: Number = None
    eligible_time: Number = None
    start_time: Number = None
    end_time: Number = None
    time_limit: Number = None
    restart_cnt: Number = 0
    array_job_id: Number = 0
    array_task_id: Number = None
    array_task_string: Text = ""
    het_job_id: Number = 0
    node_count: Number = 0
    max_nodes: Number = 0
    cpus: Number = 0
    tasks: Number = 0
    cpus_per_task: Number = 0
    tasks_per_node: Number = 0
    memory_per_node: Number = None
    memory_per_cpu: Number = None
    tres_req_str: Text = ""
    tres_per_node: Text = ""
    tres_per_job: Text = ""
    tres_per_task: Text = ""
    features: Text = ""
    required_nodes: Text = ""
    excluded_nodes: Text = ""
    resv_name: Text = ""
    dependency: Text = ""
    shared: Words = None
    priority: Number = 0
    hold: bool | None = False


class WireJobState(msgspec.Struct):
    job_id: str | int
    state: Words = None
    job_state: Words = None


class WirePing(msgspec.Struct):
    hostname: Text = ""
    responding: bool | None = None
    pinged: Text = ""
    primary: bool | None = None
    mode: Text = ""
    latency: Number = 0


class WirePartitionNodes(msgspec.Struct):
    configured: Text = ""
    total: Number = 0


class WireTotal(msgspec.Struct):
    total: Number = 0


class WirePartitionMaximums(msgspec.Struct):
    time: Number = None
    nodes: Number = None


class WirePartitionDefaults(msgspec.Struct):
    time: Number = None


class WirePriority(msgspec.Struct):
    tier: Number = 0


class WirePartitionState(msgspec.Struct):
    state: Words = None


class WirePartition(msgspec.Struct):
    name: str
    nodes: WirePartitionNodes = msgspec.field(default_factory=WirePartitionNodes)
    node_sets: Text = ""
    cpus: WireTotal = msgspec.field(default_factory=WireTotal)
    maximums: WirePartitionMaximums = msgspec.field(default_factory=WirePartitionMaximums)
    defaults: WirePartitionDefaults = msgspec.field(default_factory=WirePartitionDefaults)
    priority: WirePriority = msgspec.field(default_factory=WirePriority)
    partition: WirePartitionState = msgspec.field(default_factory=WirePartitionState)


class WireReservation(msgspec.Struct):
    name: str
    node_list: Text = ""
    start_time: Number = None
    end_time: Number = None
    flags: Words = None
    users: Words = None
    accounts: Words = None
    partition: Text = ""
    features: Text = ""


class WireRpc(msgspec.Struct):
    message_type: Text = ""
    count: Number = 0
    total_time: Number = 0


class WireDiag(msgspec.Struct):
    req_time_start: Number = None
    server_thread_count: Number = 0
    agent_queue_size: Number = 0
    dbd_agent_queue_size: Number = 0
    jobs_submitted: Number = 0
    jobs_started: Number = 0
    jobs_completed: Number = 0
    jobs_canceled: Number = 0
    jobs_failed: Number = 0
    jobs_pending: Number = 0
    jobs_running: Number = 0
    schedule_cycle_last: Number = 0
    schedule_cycle_mean: Number = 0
    schedule_cycle_max: Number = 0
    bf_cycle_last: Number = 0
    bf_cycle_mean: Number = 0
    bf_depth_mean: Number = 0
    bf_backfilled_jobs: Number = 0
    rpcs_by_message_type: list[WireRpc] | None = None


class WireFairshare(msgspec.Struct):
    factor: Number = None


class WireShare(msgspec.Struct):
    name: Text = ""
    parent: Text = ""
    cluster: Text = ""
    partition: Text = ""
    type: Words = None
    shares: Number = None
    shares_normalized: Number = None
    usage: Number = 0
    usage_normalized: Number = None
    effective_usage: Number = None
    fairshare: WireFairshare = msgspec.field(default_factory=WireFairshare)


class WireShares(msgspec.Struct):
    shares: list[WireShare] | None = None


class WireReturn(msgspec.Struct):
    return_code: Number = None


class WireDbTime(msgspec.Struct):
    elapsed: Number = 0
    submission: Number = None
    start: Number = None
    end: Number = None


class WireDbState(msgspec.Struct):
    current: Words = None


class WireDbJob(msgspec.Struct):
    job_id: int
    state: WireDbState
    user: Text = ""
    account: Text = ""
    cluster: Text = ""
    name: Text = ""
    partition: Text = ""
    qos: Text = ""
    nodes: Text = ""
    time: WireDbTime = msgspec.field(default_factory=WireDbTime)
    exit_code: WireReturn = msgspec.field(default_factory=WireReturn)
    restart_cnt: Number = 0


class WireConfMeta(msgspec.Struct):
    last_update: Number = msgspec.field(default=None, name="LastUpdate")
    boot_time: Number = msgspec.field(default=None, name="BOOT_TIME")
    hash_value: Number = msgspec.field(default=None, name="HashValue")
    version: Text = msgspec.field(default="", name="SLURM_VERSION")


# None: the answer has no list at all, which is not the same as an empty one.
class NodesAnswer(Envelope):
    nodes: list[WireNode] | None = None
    last_update: Number = None


class JobsAnswer(Envelope):
    jobs: list[WireJob] | None = None
    last_update: Number = None


class JobStatesAnswer(Envelope):
    jobs: list[WireJobState] | None = None


class PingAnswer(Envelope):
    pings: list[WirePing] | None = None


class PartitionsAnswer(Envelope):
    partitions: list[WirePartition] | None = None


class ReservationsAnswer(Envelope):
    reservations: list[WireReservation] | None = None


class DiagAnswer(Envelope):
    statistics: WireDiag


class SharesAnswer(Envelope):
    shares: WireShares


class DbJobsAnswer(Envelope):
    jobs: list[WireDbJob] | None = None


class ConfAnswer(Envelope):
    slurm_conf: dict[str, object]
    slurm_conf_meta: WireConfMeta = msgspec.field(default_factory=WireConfMeta)


def mark(last_update: Number) -> Mark | None:
    """None for an answer that is not one: 24.11 and 26.05 say 0 when no job has changed."""
    seconds = _count(last_update)
    return Mark(updated_s=seconds) if seconds > 0 else None


def node(wire: WireNode) -> Node:
    return Node(
        name=wire.name,
        state=node_state(_words(wire.state)),
        address=wire.address or "",
        hostname=wire.hostname or "",
        reason=wire.reason or "",
        reason_by=(wire.reason_set_by_user or "") if wire.reason else "",
        reason_at=_time(wire.reason_changed_at),
        comment=wire.comment or "",
        extra=wire.extra or "",
        features=_words(wire.features),
        active_features=_words(wire.active_features),
        partitions=_words(wire.partitions),
        reservation=wire.reservation or "",
        gres=wire.gres or "",
        gres_used=wire.gres_used or "",
        cpus=_count(wire.cpus),
        cpus_allocated=_count(wire.alloc_cpus),
        memory_mb=_count(wire.real_memory),
        memory_allocated_mb=_count(wire.alloc_memory),
        weight=_count(wire.weight),
        topology=wire.topology,
        slurmd_version=wire.version or "",
        booted_at=_time(wire.boot_time),
        registered_at=_time(wire.slurmd_start_time),
        busy_until=_time(wire.last_busy),
    )


def job(wire: WireJob) -> Job:
    words = _words(wire.job_state)
    array_job_id = _count(wire.array_job_id)
    return Job(
        id=wire.job_id,
        state=words,
        phase=job_phase(words),
        user=wire.user_name or "",
        user_id=_count(wire.user_id),
        account=wire.account or "",
        name=wire.name or "",
        partition=wire.partition or "",
        qos=wire.qos or "",
        reason="" if wire.state_reason in (None, "None") else wire.state_reason,
        comment=wire.comment or "",
        admin_comment=wire.admin_comment or "",
        nodes=hosts(wire.nodes),
        submitted_at=_time(wire.submit_time),
        eligible_at=_time(wire.eligible_time),
        start_at=_time(wire.start_time),
        end_at=_time(wire.end_time),
        time_limit_s=_minutes(wire.time_limit),
        restarts=_count(wire.restart_cnt),
        array_job_id=array_job_id,
        array_task=_array_task(wire) if array_job_id else "",
        het_job_id=_count(wire.het_job_id),
        asks=_asks(wire),
    )


def _asks(wire: WireJob) -> Asks:
    return Asks(
        nodes_min=_count(wire.node_count),
        nodes_max=_count(wire.max_nodes),
        cpus=_count(wire.cpus),
        tasks=_count(wire.tasks),
        cpus_per_task=_count(wire.cpus_per_task),
        tasks_per_node=_count(wire.tasks_per_node),
        memory_per_node_mb=_count(wire.memory_per_node),
        memory_per_cpu_mb=_count(wire.memory_per_cpu),
        tres=wire.tres_req_str or "",
        tres_per_node=wire.tres_per_node or "",
        tres_per_job=wire.tres_per_job or "",
        tres_per_task=wire.tres_per_task or "",
        features=wire.features or "",
        required_nodes=hosts(wire.required_nodes),
        excluded_nodes=hosts(wire.excluded_nodes),
        reservation=wire.resv_name or "",
        dependency=wire.dependency or "",
        # Slurm's word for "shares its nodes with nobody" is an empty `shared` on some jobs and `none` on others.
        exclusive="none" in _words(wire.shared),
        priority=_count(wire.priority),
        held=bool(wire.hold),
    )


def _array_task(wire: WireJob) -> str:
    task = _number(wire.array_task_id)
    return wire.array_task_string or ("" if task is None else str(int(task)))


def job_states(wires: Iterable[WireJobState]) -> Mapping[str, tuple[str, ...]]:
    return {str(wire.job_id): _words(wire.state) or _words(wire.job_state) for wire in wires}


def accounting_job(wire: WireDbJob) -> AccountingJob:
    words = _words(wire.state.current)
    exit_code = _number(wire.exit_code.return_code)
    return AccountingJob(
        id=wire.job_id,
        state=words,
        phase=job_phase(words),
        user=wire.user or "",
        account=wire.account or "",
        cluster=wire.cluster or "",
        name=wire.name or "",
        partition=wire.partition or "",
        qos=wire.qos or "",
        nodes=() if wire.nodes == "None assigned" else hosts(wire.nodes),
        submitted_at=_time(wire.time.submission),
        start_at=_time(wire.time.start),
        end_at=_time(wire.time.end),
        elapsed_s=_count(wire.time.elapsed),
        exit_code=None if exit_code is None else int(exit_code),
        restarts=_count(wire.restart_cnt),
    )


def partition(wire: WirePartition) -> Partition:
    nodes_max = _number(wire.maximums.nodes)
    return Partition(
        name=wire.name,
        state=_words(wire.partition.state),
        nodes=wire.node_sets or wire.nodes.configured or "",
        nodes_total=_count(wire.nodes.total),
        cpus_total=_count(wire.cpus.total),
        time_max_s=_minutes(wire.maximums.time),
        time_default_s=_minutes(wire.defaults.time),
        nodes_max=None if nodes_max is None or math.isinf(nodes_max) else int(nodes_max),
        priority_tier=_count(wire.priority.tier),
    )


def reservation(wire: WireReservation) -> Reservation:
    return Reservation(
        name=wire.name,
        nodes=hosts(wire.node_list),
        start_at=_time(wire.start_time),
        end_at=_time(wire.end_time),
        flags=_words(wire.flags),
        users=_words(wire.users),
        accounts=_words(wire.accounts),
        partition=wire.partition or "",
        features=wire.features or "",
    )


def ping(wire: WirePing) -> Ping:
    return Ping(
        hostname=wire.hostname or "",
        responding=wire.pinged == "UP" if wire.responding is None else wire.responding,
        primary=wire.mode == "primary" if wire.primary is None else wire.primary,
        latency_us=_count(wire.latency),
    )


def diag(wire: WireDiag) -> Diag:
    return Diag(
        since=_time(wire.req_time_start),
        server_threads=_count(wire.server_thread_count),
        agent_queue=_count(wire.agent_queue_size),
        dbd_queue=_count(wire.dbd_agent_queue_size),
        jobs_submitted=_count(wire.jobs_submitted),
        jobs_started=_count(wire.jobs_started),
        jobs_completed=_count(wire.jobs_completed),
        jobs_canceled=_count(wire.jobs_canceled),
        jobs_failed=_count(wire.jobs_failed),
        jobs_pending=_count(wire.jobs_pending),
        jobs_running=_count(wire.jobs_running),
        cycle_last_us=_count(wire.schedule_cycle_last),
        cycle_mean_us=_count(wire.schedule_cycle_mean),
        cycle_max_us=_count(wire.schedule_cycle_max),
        backfill_cycle_last_us=_count(wire.bf_cycle_last),
        backfill_cycle_mean_us=_count(wire.bf_cycle_mean),
        backfill_depth_mean=_count(wire.bf_depth_mean),
        backfilled_jobs=_count(wire.bf_backfilled_jobs),
        rpcs=tuple(
            RpcCount(kind=rpc.message_type or "", count=_count(rpc.count), total_us=_count(rpc.total_time))
            for rpc in wire.rpcs_by_message_type or ()
        ),
    )


def share(wire: WireShare) -> Share:
    shares = _number(wire.shares)
    return Share(
        name=wire.name or "",
        parent=wire.parent or "",
        cluster=wire.cluster or "",
        partition=wire.partition or "",
        is_user="USER" in _words(wire.type),
        shares=None if shares is None or math.isinf(shares) else int(shares),
        shares_normalized=_number(wire.shares_normalized),
        usage=_count(wire.usage),
        usage_normalized=_number(wire.usage_normalized),
        usage_effective=_number(wire.effective_usage),
        factor=_number(wire.fairshare.factor),
    )


def running_conf(answer: ConfAnswer) -> RunningConf:
    meta = answer.slurm_conf_meta
    hash_value = _number(meta.hash_value)
    return RunningConf(
        values={name: _conf_value(value) for name, value in answer.slurm_conf.items()},
        hash_value=None if hash_value is None else int(hash_value),
        updated_at=_time(meta.last_update),
        booted_at=_time(meta.boot_time),
        version=meta.version or "",
    )


def _conf_value(value: object) -> ConfValue:
    match value:
        case None | str() | bool() | int() | float():
            return value
        case {"set": _, "infinite": _, "number": _}:
            return _number(msgspec.convert(value, WireNumber))
        case list() if all(isinstance(item, str) for item in value):
            return tuple(value)
    return msgspec.json.encode(value).decode()


def hosts(hostlist: Text) -> tuple[str, ...]:
    """The names; of a list that cannot be read, the list itself as one name, so that it is not mistaken for none."""
    if not hostlist or hostlist == "(null)":
        return ()
    try:
        return expand(hostlist)
    except HostlistError:
        return (hostlist,)


def _words(words: Words) -> tuple[str, ...]:
    if words is None:
        return ()
    return tuple(words) if isinstance(words, list) else tuple(word for word in words.split(",") if word)


def _number(number: Number) -> float | None:
    """None: not set. math.inf: infinite."""
    if isinstance(number, WireNumber):
        if number.infinite:
            return math.inf
        return float(number.number) if number.set else None
    return None if number is None else float(number)


def _count(number: Number) -> int:
    value = _number(number)
    return 0 if value is None or not math.isfinite(value) else int(value)


def _minutes(number: Number) -> float | None:
    value = _number(number)
    return None if value is None else value * 60


def _time(number: Number) -> datetime | None:
    """0 is Slurm's word for never."""
    seconds = _count(number)
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (OverflowError, ValueError, OSError):
        return None  # further away than a calendar goes
