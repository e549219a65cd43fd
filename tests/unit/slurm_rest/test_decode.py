"""Answers that no test cluster gives: accounting, the running configuration, shares."""

import math
from datetime import UTC, datetime

import msgspec
import pytest

from corral.slurm import decode
from corral.slurm.decode.daemon import WirePing
from corral.slurm.states import Phase
from tests.unit.slurm_rest.builders import number


def test_a_job_of_the_accounting_is_read() -> None:
    wire = {
        "job_id": 5,
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "user": "alice",
        "nodes": "w-[1-2]",
        "time": {"elapsed": 3, "submission": 1_700_000_000, "start": 1_700_000_001, "end": 1_700_000_004},
        "exit_code": {"return_code": number(0)},
    }

    job = decode.accounting_job(msgspec.convert(wire, decode.WireDbJob))

    assert (job.id, job.user, job.phase, job.nodes) == (5, "alice", Phase.ENDED, ("w-1", "w-2"))
    assert (job.elapsed_s, job.exit_code) == (3, 0)
    assert job.end_at == datetime.fromtimestamp(1_700_000_004, UTC)


def test_a_job_that_never_had_nodes_has_none() -> None:
    wire = {"job_id": 5, "state": {"current": ["CANCELLED"]}, "nodes": "None assigned", "time": {"end": 0}}

    job = decode.accounting_job(msgspec.convert(wire, decode.WireDbJob))

    assert (job.nodes, job.end_at) == ((), None)


def test_the_running_configuration_keeps_its_types() -> None:
    answer = msgspec.convert(
        {
            "slurm_conf": {
                "ClusterName": "lab",
                "MaxNodeCount": 64,
                "TaskPlugin": ["task/cgroup", "task/affinity"],
                "JobRequeue": True,
                "SuspendTime": number(0, infinite=True),
                "DefMemPerCPU": number(100),
                "controllers": [{"hostname": "c"}],
            },
            "slurm_conf_meta": {"HashValue": 77, "LastUpdate": 1_700_000_000, "SLURM_VERSION": "26.05.5"},
        },
        decode.ConfAnswer,
    )

    conf = decode.running_conf(answer)

    assert conf.values == {
        "ClusterName": "lab",
        "MaxNodeCount": 64,
        "TaskPlugin": ("task/cgroup", "task/affinity"),
        "JobRequeue": True,
        "SuspendTime": math.inf,
        "DefMemPerCPU": 100.0,
        "controllers": '[{"hostname":"c"}]',
    }
    assert (conf.hash_value, conf.version) == (77, "26.05.5")


@pytest.mark.parametrize("factor", [0.5, number(0.5)], ids=["v0.0.41", "since v0.0.42"])
def test_shares_are_read_in_both_shapes(factor: object) -> None:
    wire = {
        "name": "alice",
        "parent": "physics",
        "type": ["USER"],
        "shares": number(1),
        "fairshare": {"factor": factor},
    }

    share = decode.share(msgspec.convert(wire, decode.WireShare))

    assert (share.name, share.is_user, share.shares, share.factor) == ("alice", True, 1, 0.5)


@pytest.mark.parametrize(
    "wire",
    [
        {"hostname": "c", "pinged": "UP", "mode": "primary"},
        {"hostname": "c", "responding": True, "primary": True, "pinged": "UP"},
        {"hostname": "c", "responding": True, "primary": True, "status": "No error"},
    ],
    ids=["v0.0.41", "v0.0.42", "v0.0.45"],
)
def test_a_ping_is_read_in_every_shape(wire: dict[str, object]) -> None:
    ping = decode.ping(msgspec.convert(wire, WirePing))

    assert (ping.responding, ping.primary) == (True, True)
