"""How far a disk is with its growth, measured at its claim: what that asks for, what it has, what it says. Pure."""

import enum

from corral.kinds.wukong.disks import Disk
from corral.kube.values import parse_quantity

# Conditions of a claim, and its word for what will not come to be.
RESIZES = frozenset({"Resizing", "FileSystemResizePending"})
RESIZE_ERRORS = frozenset({"ControllerResizeError", "NodeResizeError"})
INFEASIBLE = frozenset({"ControllerResizeInfeasible", "NodeResizeInfeasible"})


class Growth(enum.Enum):
    NONE = "none"
    TO_ASK = "to ask"  # the claim asks for less than the spec
    REFUSED = "refused"  # its class does not let claims grow
    UNDER_WAY = "under way"
    FAILED = "failed"  # the storage does not do it


def growth(disk: Disk) -> Growth:
    claim = disk.claim
    if claim is None or claim.status.phase != "Bound":
        return Growth.NONE
    wanted = parse_quantity(disk.config.size)
    if wanted > parse_quantity(claim.spec.resources.requests.get("storage", "0")):
        may_grow = disk.storage_class is not None and disk.storage_class.allow_volume_expansion
        return Growth.TO_ASK if may_grow else Growth.REFUSED
    if wanted <= parse_quantity(claim.status.capacity.get("storage", "0")):
        return Growth.NONE
    is_infeasible = claim.status.allocated_resource_statuses.get("storage") in INFEASIBLE
    told = {condition.type for condition in claim.status.conditions if condition.status == "True"}
    return Growth.FAILED if is_infeasible or told & RESIZE_ERRORS else Growth.UNDER_WAY


def growth_text(disk: Disk) -> str:
    """What Kubernetes and the storage say of it, in their words; empty if they say nothing."""
    conditions = disk.claim.status.conditions if disk.claim else ()
    said = [c for c in conditions if c.status == "True" and c.type in RESIZE_ERRORS | RESIZES]
    return "; ".join(f"{c.type}: {c.message}" if c.message else c.type for c in said)
