"""What slurmctld says of itself: that it answers, its counters, its running configuration. Pure."""

import msgspec

from corral.slurm.answers import Envelope
from corral.slurm.decode.fields import Number, Text, WireNumber, count_of, number_of, time_of
from corral.slurm.values import ConfValue, Diag, Ping, RpcCount, RunningConf


class WirePing(msgspec.Struct):
    hostname: Text = ""
    responding: bool | None = None
    pinged: Text = ""
    primary: bool | None = None
    mode: Text = ""
    latency: Number = 0


class PingAnswer(Envelope):
    pings: list[WirePing] | None = None


def ping(wire: WirePing) -> Ping:
    return Ping(
        hostname=wire.hostname or "",
        responding=wire.pinged == "UP" if wire.responding is None else wire.responding,
        primary=wire.mode == "primary" if wire.primary is None else wire.primary,
        latency_us=count_of(wire.latency),
    )


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


class DiagAnswer(Envelope):
    statistics: WireDiag


def diag(wire: WireDiag) -> Diag:
    return Diag(
        since=time_of(wire.req_time_start),
        server_threads=count_of(wire.server_thread_count),
        agent_queue=count_of(wire.agent_queue_size),
        dbd_queue=count_of(wire.dbd_agent_queue_size),
        jobs_submitted=count_of(wire.jobs_submitted),
        jobs_started=count_of(wire.jobs_started),
        jobs_completed=count_of(wire.jobs_completed),
        jobs_canceled=count_of(wire.jobs_canceled),
        jobs_failed=count_of(wire.jobs_failed),
        jobs_pending=count_of(wire.jobs_pending),
        jobs_running=count_of(wire.jobs_running),
        cycle_last_us=count_of(wire.schedule_cycle_last),
        cycle_mean_us=count_of(wire.schedule_cycle_mean),
        cycle_max_us=count_of(wire.schedule_cycle_max),
        backfill_cycle_last_us=count_of(wire.bf_cycle_last),
        backfill_cycle_mean_us=count_of(wire.bf_cycle_mean),
        backfill_depth_mean=count_of(wire.bf_depth_mean),
        backfilled_jobs=count_of(wire.bf_backfilled_jobs),
        rpcs=tuple(
            RpcCount(kind=rpc.message_type or "", count=count_of(rpc.count), total_us=count_of(rpc.total_time))
            for rpc in wire.rpcs_by_message_type or ()
        ),
    )


class WireConfMeta(msgspec.Struct):
    last_update: Number = msgspec.field(default=None, name="LastUpdate")
    boot_time: Number = msgspec.field(default=None, name="BOOT_TIME")
    hash_value: Number = msgspec.field(default=None, name="HashValue")
    version: Text = msgspec.field(default="", name="SLURM_VERSION")


class ConfAnswer(Envelope):
    slurm_conf: dict[str, object]
    slurm_conf_meta: WireConfMeta = msgspec.field(default_factory=WireConfMeta)


def running_conf(answer: ConfAnswer) -> RunningConf:
    meta = answer.slurm_conf_meta
    hash_value = number_of(meta.hash_value)
    return RunningConf(
        values={name: _conf_value(value) for name, value in answer.slurm_conf.items()},
        hash_value=None if hash_value is None else int(hash_value),
        updated_at=time_of(meta.last_update),
        booted_at=time_of(meta.boot_time),
        version=meta.version or "",
    )


def _conf_value(value: object) -> ConfValue:
    match value:
        case None | str() | bool() | int() | float():
            return value
        case {"set": _, "infinite": _, "number": _}:
            return number_of(msgspec.convert(value, WireNumber))
        case list() if all(isinstance(item, str) for item in value):
            return tuple(value)
    return msgspec.json.encode(value).decode()
