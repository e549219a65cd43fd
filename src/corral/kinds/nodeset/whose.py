"""Whose word keeps a node out of service: ours, slurmctld's own, or somebody else's. Pure.

A drain is ours when its reason begins with our prefix; any other is somebody's: an admin's, a health check's, or
slurmctld's, which drains only what a person should look at; but for a node that registered with less than is on record
(INVALID_REG), which is made anew. A node that is down, or failing, is somebody's when the reason is neither ours nor
one that slurmctld gives by itself to a node that it has lost.

What is somebody's is neither lifted nor overwritten nor forgotten.
"""

from corral.kinds.nodeset.calls import REASON_PREFIX
from corral.slurm.states import Base, Flag
from corral.slurm.values import Node

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


def has_drain(node: Node) -> bool:
    return Flag.DRAIN in node.state.flags


def has_our_drain(node: Node) -> bool:
    return has_drain(node) and node.reason.startswith(REASON_PREFIX)


def is_somebodys(node: Node) -> bool:
    """Drained, set down or marked as failing by somebody else."""
    if node.reason.startswith(REASON_PREFIX):
        return False
    if has_drain(node):
        return not _is_drained_for_its_registration(node)
    return is_out(node) and bool(node.reason) and not node.reason.startswith(SLURMCTLDS_OWN)


def _is_drained_for_its_registration(node: Node) -> bool:
    """By slurmctld itself."""
    is_invalid = Flag.INVALID_REG in node.state.flags and Flag.FAIL not in node.state.flags
    return is_invalid and node.reason.startswith(REGISTERED_LESS)


def is_out(node: Node) -> bool:
    """Down or failing, with a drain or without."""
    return node.state.base is Base.DOWN or Flag.FAIL in node.state.flags
