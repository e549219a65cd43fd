"""What slurmdbd knows: jobs that were, and fair shares. Pure."""

import math

import msgspec

from corral.slurm.answers import Envelope
from corral.slurm.decode.fields import Number, Text, Words, count_of, hosts, number_of, time_of, words_of
from corral.slurm.states import job_phase
from corral.slurm.values import AccountingJob, Share


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


class DbJobsAnswer(Envelope):
    jobs: list[WireDbJob] | None = None


def accounting_job(wire: WireDbJob) -> AccountingJob:
    words = words_of(wire.state.current)
    exit_code = number_of(wire.exit_code.return_code)
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
        submitted_at=time_of(wire.time.submission),
        start_at=time_of(wire.time.start),
        end_at=time_of(wire.time.end),
        elapsed_s=count_of(wire.time.elapsed),
        exit_code=None if exit_code is None else int(exit_code),
        restarts=count_of(wire.restart_cnt),
    )


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


class SharesAnswer(Envelope):
    shares: WireShares


def share(wire: WireShare) -> Share:
    shares = number_of(wire.shares)
    return Share(
        name=wire.name or "",
        parent=wire.parent or "",
        cluster=wire.cluster or "",
        partition=wire.partition or "",
        is_user="USER" in words_of(wire.type),
        shares=None if shares is None or math.isinf(shares) else int(shares),
        shares_normalized=number_of(wire.shares_normalized),
        usage=count_of(wire.usage),
        usage_normalized=number_of(wire.usage_normalized),
        usage_effective=number_of(wire.effective_usage),
        factor=number_of(wire.fairshare.factor),
    )
