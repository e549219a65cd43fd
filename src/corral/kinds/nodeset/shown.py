"""What Slurm says of a worker, as conditions of its pod: `SlurmNodeStateIdle`, `SlurmNodeStateDrain`, ... Pure.

There is one for the node's base state and one for each flag that people act on, all True, with Slurm's reason as the
message, and who gave it and when, as scontrol writes it; those that no longer hold are taken away. Flags that come and
go with each job (COMPLETING) are not shown. Who showed something and has no record any more is `SlurmNodeStateMissing`;
who has never registered shows nothing. Somebody's reason for a drain stays when the record has vanished, or when
slurmctld has put its own in place of it: `restoring` drains with it again.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from corral.kinds.nodeset.whose import are_somebodys_words, is_drained_for_its_registration
from corral.kube.meta import Model
from corral.kube.models.core_v1 import Pod, PodCondition
from corral.slurm.states import Base, Flag
from corral.slurm.values import Node

PREFIX = "SlurmNodeState"
MISSING = f"{PREFIX}Missing"
DRAINED = f"{PREFIX}Drain"
FOR_EVER = datetime.max.replace(tzinfo=UTC)
SHOWN = (Flag.DRAIN, Flag.FAIL, Flag.INVALID_REG, Flag.MAINTENANCE, Flag.NOT_RESPONDING, Flag.POWERED_DOWN)
MESSAGE_MAX = 1024


class Shown(Model, frozen=True, kw_only=True):
    """Ours of a pod's status, and nothing else of it: kubelet's stays kubelet's."""

    conditions: tuple[PodCondition, ...] = ()


def is_shown(there: Sequence[PodCondition], node: Node | None) -> bool:
    """`there`: what its pod shows, one condition of a type."""
    kinds, message = _kinds(there, node), _message(there, node)
    wrong = [one for one in there if one.type not in kinds or one.status != "True" or one.message != message]
    return not wrong and len(there) == len(kinds)


def shown(pod: Pod, node: Node | None, now: datetime) -> Shown:
    there = [one for one in pod.status.conditions if one.type.startswith(PREFIX)]
    since = {one.type: one.last_transition_time for one in there if one.status == "True"}
    return Shown(
        conditions=tuple(
            PodCondition(
                type=kind,
                status="True",
                reason="SlurmSays",
                message=_message(there, node),
                last_transition_time=since.get(kind) or now,
            )
            for kind in _kinds(there, node)
        )
    )


def missing_since(there: Sequence[PodCondition]) -> datetime | None:
    """When it was seen to have no record any more; the end of time if only now; None if it never had one."""
    if not there:
        return None
    missing = [one.last_transition_time for one in there if one.type == MISSING]
    return missing[0] if len(missing) == len(there) and missing[0] is not None else FOR_EVER


def said_of_drain(there: Sequence[PodCondition]) -> str:
    """With what it was drained when Slurm told last; empty if it was not. It stays when the record has vanished."""
    found = [one.message for one in there if one.type in (DRAINED, MISSING)]
    return found[0] if found else ""


def shows_somebodys_drain(there: Sequence[PodCondition]) -> bool:
    """And a record of it, as far as is known."""
    return any(one.type == DRAINED and one.status == "True" and are_somebodys_words(one.message) for one in there)


def _kinds(there: Sequence[PodCondition], node: Node | None) -> tuple[str, ...]:
    if node is not None:
        return _kinds_of(node.state.base, node.state.flags)
    return (MISSING,) if there else ()


@lru_cache(maxsize=1024)  # thousands of nodes are in a handful of states
def _kinds_of(base: Base, flags: frozenset[Flag]) -> tuple[str, ...]:
    shown = [flag.value for flag in SHOWN if flag in flags]
    return tuple(f"{PREFIX}{_word(one)}" for one in (base.value, *shown))


def _word(value: str) -> str:
    """NOT_RESPONDING is NotResponding."""
    return "".join(part.capitalize() for part in value.split("_"))


def _message(there: Sequence[PodCondition], node: Node | None) -> str:
    if node is None or is_drained_for_its_registration(node.state, node.reason):
        said = said_of_drain(there)
        if node is None or are_somebodys_words(said):
            return said
    return _reason(node) if node.reason else ""


def _reason(node: Node) -> str:
    if not node.reason_by and node.reason_at is None:
        return node.reason[:MESSAGE_MAX]
    since = f"{node.reason_at:%Y-%m-%dT%H:%M:%SZ}" if node.reason_at is not None else ""
    who = f" [{node.reason_by}@{since}]"
    return node.reason[: MESSAGE_MAX - len(who)] + who
