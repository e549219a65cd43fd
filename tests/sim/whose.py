"""Who has taken a node of Slurm out of service: Corral, slurmctld itself, or somebody else."""

from typing import Final

from corral.kinds.nodeset.calls import REASON_PREFIX
from tests.sim.records import Record
from tests.sim.slurmctld import LOST, LOW

# What is invalid may be lost as well: slurmctld adds that to what it has said before, as it does to everybody's words.
INVALID: Final = (LOW, *(f"{LOW} : {why}" for why in LOST))


def is_foreign(record: Record) -> bool:
    """Whether somebody else keeps it out of service; slurmctld itself sets down what it has lost, and drains what
    registered with less than is on record."""
    is_lost = record.down and record.reason.startswith(LOST) and not record.drain and not record.fail
    is_invalid = record.invalid and record.reason in INVALID and not record.fail
    is_out = record.drain or record.down or record.fail
    return is_out and not record.reason.startswith(REASON_PREFIX) and not is_lost and not is_invalid
