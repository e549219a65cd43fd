"""What Slurm says of a worker, in the few words that decide whether it may go. Pure.

Facts have three values. `UNKNOWN` is not "no": whoever does not answer, answers too late, or uses a word that we cannot
read leaves a worker unknown, and an unknown worker is never removed.
"""

from enum import Enum

from corral.slurm.states import Flag, NodeState, Standing


class Facts(Enum):
    """What Slurm says of a worker, as far as it matters to whoever wants to remove it."""

    UNKNOWN = "unknown"
    UNREGISTERED = "unregistered"  # Slurm answered, has no such node, and gets none by itself
    ARRIVING = "arriving"  # no record of its slurmd, which runs or is about to: it may get a job at any moment
    FREE = "free"  # no job, but one may come at any moment
    BUSY = "busy"  # holds a job, or is promised to one
    DRAINING = "draining"  # takes no new job; what it has is still there
    DRAINED = "drained"  # no job, and none comes


def facts_of(state: NodeState | None, has_jobs: bool) -> Facts:
    """Of a record, if there is one, and of whether jobs are said to be on the node."""
    if state is None:
        return Facts.BUSY if has_jobs else Facts.UNREGISTERED
    drains = Flag.DRAIN in state.flags
    match state.standing:
        case Standing.UNKNOWN:
            return Facts.UNKNOWN
        case Standing.DRAINED:
            return Facts.DRAINING if has_jobs else Facts.DRAINED
        case Standing.BUSY | Standing.DRAINING:
            return Facts.DRAINING if drains else Facts.BUSY
        case Standing.REMOVABLE | Standing.DOWN if drains:
            return Facts.DRAINING  # it has its drain, which proves nothing in such a state
        case Standing.REMOVABLE | Standing.DOWN:
            return Facts.BUSY if has_jobs else Facts.FREE
