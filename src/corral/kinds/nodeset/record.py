"""What follows from a worker's record in Slurm and its jobs alone. Pure."""

from functools import lru_cache

import msgspec

from corral.kinds.nodeset.facts import Facts, facts_of
from corral.kinds.nodeset.whose import has_drain, has_our_drain, is_somebodys
from corral.slurm.states import Base, Flag, NodeState, Standing
from corral.slurm.values import Job, Node


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The defaults are those of a worker that Slurm does not know."""

    says: Facts
    has_drain: bool = False
    has_our_drain: bool = False
    is_somebodys: bool = False  # somebody else has taken the node out of service
    is_reserved: bool = False  # by a reservation that has begun, whoever's: slurmctld does not forget it
    is_invalid: bool = False  # registered with less than is on record; slurmctld drained it, and nobody can lift that
    is_down: bool = False
    is_unclear: bool = False  # Slurm used words that we cannot read
    counts_as: str = ""


def record_of(node: Node | None, jobs: tuple[Job, ...]) -> Record:
    if node is None:
        return Record(says=facts_of(None, bool(jobs)))
    return _record(node.state, node.reason, bool(jobs))


@lru_cache(maxsize=1024)  # thousands of nodes are in a handful of states
def _record(state: NodeState, reason: str, has_jobs: bool) -> Record:
    return Record(
        says=facts_of(state, has_jobs),
        has_drain=has_drain(state),
        has_our_drain=has_our_drain(state, reason),
        is_somebodys=is_somebodys(state, reason),
        is_reserved=not state.flags.isdisjoint((Flag.RESERVED, Flag.MAINTENANCE)),
        is_invalid=Flag.INVALID_REG in state.flags,
        is_down=state.standing is Standing.DOWN,
        is_unclear=state.standing is Standing.UNKNOWN,
        counts_as=_counts_as(state),
    )


def _counts_as(state: NodeState) -> str:
    """As sinfo sorts them: a drained node is draining to us, a node that is down is down whatever else it is."""
    if state.base is Base.DOWN or state.standing is Standing.DOWN:
        return "down"
    if has_drain(state):
        return "draining"
    if state.base in (Base.ALLOCATED, Base.MIXED):
        return "allocated"
    return "idle" if state.base is Base.IDLE else ""
