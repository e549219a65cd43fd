"""Whose word keeps a node out of service: ours, slurmctld's own, or somebody else's. Pure.

A drain is ours when its reason begins with our prefix; any other is somebody's: an admin's, a health check's, or
slurmctld's, which drains only what a person should look at; but for a node that registered with less than is on record
(INVALID_REG), which is made anew. A node that is down, or failing, is somebody's when the reason is neither ours nor
one that slurmctld gives by itself to a node that it has lost.

What is somebody's is neither lifted nor overwritten nor forgotten.
"""

from corral.kinds.nodeset.calls import REASON_PREFIX
from corral.slurm.states import Base, Flag, NodeState

# Of CPUs, RealMemory, ... and Gres; in all releases from 24.11 on.
REGISTERED_LESS = ("Low ", "gres/")
# As far as they end in DOWN.
SLURMCTLDS_OWN = (
    *REGISTERED_LESS,
    "Not responding",
    "Node unexpectedly rebooted",
    "NO NETWORK ADDRESS FOUND",
    "ResumeTimeout reached",
    "Powered down after SuspendTimeout",
    "reboot ",
    "Reboot ",
    "Epilog error",
    "Prolog error",
)


def has_drain(state: NodeState) -> bool:
    return Flag.DRAIN in state.flags


def has_our_drain(state: NodeState, reason: str) -> bool:
    return has_drain(state) and reason.startswith(REASON_PREFIX)


def is_somebodys(state: NodeState, reason: str) -> bool:
    """Drained, set down or marked as failing by somebody else."""
    if reason.startswith(REASON_PREFIX):
        return False
    if has_drain(state):
        return not is_drained_for_its_registration(state, reason)
    return is_out(state) and bool(reason) and not reason.startswith(SLURMCTLDS_OWN)


def are_somebodys_words(text: str) -> bool:
    """Of a drain's reason as a pod shows it, followed by who gave it first. Admins have other names than slurm."""
    is_slurmctlds = text.startswith(REGISTERED_LESS) and text.partition(" [")[2].startswith("slurm@")
    return bool(text) and not text.startswith(REASON_PREFIX) and not is_slurmctlds


def is_drained_for_its_registration(state: NodeState, reason: str) -> bool:
    """By slurmctld itself."""
    is_invalid = Flag.INVALID_REG in state.flags and Flag.FAIL not in state.flags
    return is_invalid and reason.startswith(REGISTERED_LESS)


def is_out(state: NodeState) -> bool:
    """Down or failing, with a drain or without."""
    return state.base is Base.DOWN or Flag.FAIL in state.flags
