"""The shapes of slurmrestd's answers, and the values made of them. Pure.

Only the fields that we use are named; the rest of an answer is skipped unread. A field that is missing, null, or of the
other of its two shapes is no error: see the table in `corral.slurm.versions`. A node or a job without a name is one,
because nobody could tell what it means for the others. An answer without its list is not one with an empty list.
"""

from corral.slurm.decode.accounting import DbJobsAnswer, SharesAnswer, WireDbJob, WireShare, accounting_job, share
from corral.slurm.decode.daemon import ConfAnswer, DiagAnswer, PingAnswer, diag, ping, running_conf
from corral.slurm.decode.fields import hosts, mark
from corral.slurm.decode.jobs import JobsAnswer, JobStatesAnswer, WireJob, job, job_states
from corral.slurm.decode.nodes import (
    NodesAnswer,
    PartitionsAnswer,
    ReservationsAnswer,
    WireNode,
    node,
    partition,
    reservation,
)

__all__ = [
    "ConfAnswer",
    "DbJobsAnswer",
    "DiagAnswer",
    "JobStatesAnswer",
    "JobsAnswer",
    "NodesAnswer",
    "PartitionsAnswer",
    "PingAnswer",
    "ReservationsAnswer",
    "SharesAnswer",
    "WireDbJob",
    "WireJob",
    "WireNode",
    "WireShare",
    "accounting_job",
    "diag",
    "hosts",
    "job",
    "job_states",
    "mark",
    "node",
    "partition",
    "ping",
    "reservation",
    "running_conf",
    "share",
]
