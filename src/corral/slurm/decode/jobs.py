"""Jobs as slurmctld has them. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from corral.slurm.answers import Envelope
from corral.slurm.decode.fields import Number, Text, Words, count_of, hosts, minutes_of, number_of, time_of, words_of
from corral.slurm.states import job_phase
from corral.slurm.values import Asks, Job


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


class JobsAnswer(Envelope):
    jobs: list[WireJob] | None = None
    last_update: Number = None


class JobStatesAnswer(Envelope):
    jobs: list[WireJobState] | None = None


def job(wire: WireJob) -> Job:
    words = words_of(wire.job_state)
    array_job_id = count_of(wire.array_job_id)
    return Job(
        id=wire.job_id,
        state=words,
        phase=job_phase(words),
        user=wire.user_name or "",
        user_id=count_of(wire.user_id),
        account=wire.account or "",
        name=wire.name or "",
        partition=wire.partition or "",
        qos=wire.qos or "",
        reason="" if wire.state_reason in (None, "None") else wire.state_reason,
        comment=wire.comment or "",
        admin_comment=wire.admin_comment or "",
        nodes=hosts(wire.nodes),
        submitted_at=time_of(wire.submit_time),
        eligible_at=time_of(wire.eligible_time),
        start_at=time_of(wire.start_time),
        end_at=time_of(wire.end_time),
        time_limit_s=minutes_of(wire.time_limit),
        restarts=count_of(wire.restart_cnt),
        array_job_id=array_job_id,
        array_task=_array_task(wire) if array_job_id else "",
        het_job_id=count_of(wire.het_job_id),
        asks=_asks(wire),
    )


def _asks(wire: WireJob) -> Asks:
    return Asks(
        nodes_min=count_of(wire.node_count),
        nodes_max=count_of(wire.max_nodes),
        cpus=count_of(wire.cpus),
        tasks=count_of(wire.tasks),
        cpus_per_task=count_of(wire.cpus_per_task),
        tasks_per_node=count_of(wire.tasks_per_node),
        memory_per_node_mb=count_of(wire.memory_per_node),
        memory_per_cpu_mb=count_of(wire.memory_per_cpu),
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
        exclusive="none" in words_of(wire.shared),
        priority=count_of(wire.priority),
        held=bool(wire.hold),
    )


def _array_task(wire: WireJob) -> str:
    task = number_of(wire.array_task_id)
    return wire.array_task_string or ("" if task is None else str(int(task)))


def job_states(wires: Iterable[WireJobState]) -> Mapping[str, tuple[str, ...]]:
    return {str(wire.job_id): words_of(wire.state) or words_of(wire.job_state) for wire in wires}
