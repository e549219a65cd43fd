"""What Slurm says of a node and of a job, as data, and the one table that says what it means for us.

A node has a base state (IDLE, MIXED, ...) and flags (DRAIN, COMPLETING, ...). REST gives both in one list of words,
`scontrol` as `IDLE+DRAIN`, `sinfo` as `drained*`. All three become a NodeState; `standing` reads ROWS from the top and
returns the first that fits. Nobody else may decide from flags whether a node holds a job.

What cannot be read stays visible (`NodeState.unread`) and makes the node UNKNOWN: a word that a newer Slurm invents
must never make a node look removable.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final


class Base(Enum):
    """Exactly one of these at a time. EXTERNAL is new in 25.11; the others are in both 24.11 and 26.05."""

    __hash__ = object.__hash__  # as quick as `is`: these are looked up for thousands of nodes

    UNKNOWN = "UNKNOWN"
    DOWN = "DOWN"
    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    ERROR = "ERROR"
    MIXED = "MIXED"
    FUTURE = "FUTURE"
    EXTERNAL = "EXTERNAL"
    INVALID = "INVALID"


class Flag(Enum):
    """Any number of these beside the base. The last three are new since 25.05."""

    __hash__ = object.__hash__

    RESERVED = "RESERVED"
    UNDRAIN = "UNDRAIN"
    CLOUD = "CLOUD"
    RESUME = "RESUME"
    DRAIN = "DRAIN"
    COMPLETING = "COMPLETING"
    NOT_RESPONDING = "NOT_RESPONDING"
    POWERED_DOWN = "POWERED_DOWN"
    FAIL = "FAIL"
    POWERING_UP = "POWERING_UP"
    MAINTENANCE = "MAINTENANCE"
    REBOOT_REQUESTED = "REBOOT_REQUESTED"
    REBOOT_CANCELED = "REBOOT_CANCELED"
    POWERING_DOWN = "POWERING_DOWN"
    DYNAMIC_FUTURE = "DYNAMIC_FUTURE"
    REBOOT_ISSUED = "REBOOT_ISSUED"
    PLANNED = "PLANNED"
    INVALID_REG = "INVALID_REG"
    POWER_DOWN = "POWER_DOWN"
    POWER_UP = "POWER_UP"
    POWER_DRAIN = "POWER_DRAIN"
    DYNAMIC_NORM = "DYNAMIC_NORM"
    BLOCKED = "BLOCKED"
    POWER_DOWN_ASAP = "POWER_DOWN_ASAP"
    POWER_DOWN_FORCE = "POWER_DOWN_FORCE"


class Standing(Enum):
    """What a node's state means to whoever wants to remove it."""

    BUSY = "busy"  # holds a job, or is promised to one
    REMOVABLE = "removable"  # holds no job, but may be given one at any moment: drain it first
    DRAINING = "draining"  # takes no new job; what it has is still there
    DRAINED = "drained"  # holds no job and takes none: the only standing that proves anything
    DOWN = "down"  # holds no job, takes none, and nobody has asked for that
    UNKNOWN = "unknown"  # no answer is not a no


@dataclass(frozen=True, slots=True)
class NodeState:
    """`row`: the first that fits; its `why` is for people."""

    base: Base
    flags: frozenset[Flag] = frozenset()
    unread: tuple[str, ...] = ()
    row: "Row" = field(init=False, compare=False, repr=False)
    standing: Standing = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        row = next(row for row in ROWS if row.fits(self))
        object.__setattr__(self, "row", row)
        object.__setattr__(self, "standing", row.standing)

    def __str__(self) -> str:
        """As scontrol writes it; flags in the order of their declaration."""
        return "+".join((self.base.value, *(flag.value for flag in Flag if flag in self.flags), *self.unread))


@dataclass(frozen=True, slots=True)
class Row:
    """Fits a state with one of `bases` (none named: any), and one of `flags` (none named: any)."""

    standing: Standing
    why: str
    bases: frozenset[Base] = frozenset()
    flags: frozenset[Flag] = frozenset()
    drain: bool | None = None
    unread: bool = False

    def fits(self, state: NodeState) -> bool:
        return (
            (not self.unread or bool(state.unread))
            and (not self.bases or state.base in self.bases)
            and (not self.flags or not self.flags.isdisjoint(state.flags))
            and (self.drain is None or self.drain == (Flag.DRAIN in state.flags))
        )


_NOT_A_STATE: Final = frozenset({Base.UNKNOWN, Base.ERROR, Base.INVALID, Base.EXTERNAL})
_WITH_JOBS: Final = frozenset({Base.ALLOCATED, Base.MIXED})
_WITHOUT_JOBS: Final = frozenset({Base.IDLE, Base.DOWN})
_REBOOT: Final = frozenset({Flag.REBOOT_REQUESTED, Flag.REBOOT_ISSUED, Flag.REBOOT_CANCELED})
_POWER_DRAIN: Final = frozenset({Flag.POWER_DRAIN, Flag.POWER_DOWN_ASAP})
_PROMISED: Final = frozenset({Flag.RESERVED, Flag.MAINTENANCE, Flag.PLANNED, Flag.BLOCKED})
_COMPLETING: Final = frozenset({Flag.COMPLETING})
# NOT_RESPONDING, CLOUD, DYNAMIC_* and the power flags that are in no row say nothing about jobs: slurmctld alone gives
# a node its jobs, so "idle, not responding" is idle.
ROWS: Final[tuple[Row, ...]] = (
    Row(Standing.UNKNOWN, "Slurm used a word that we do not know", unread=True),
    Row(Standing.UNKNOWN, "Slurm does not say what the node does", _NOT_A_STATE),
    Row(Standing.UNKNOWN, "this is an order, not a state", flags=frozenset({Flag.UNDRAIN, Flag.RESUME})),
    Row(Standing.DRAINING, "jobs run; no new ones come", _WITH_JOBS, drain=True),
    Row(Standing.BUSY, "jobs run", _WITH_JOBS),
    Row(Standing.DRAINING, "a job is being cleaned up; no new ones come", flags=_COMPLETING, drain=True),
    Row(Standing.BUSY, "a job is being cleaned up", flags=_COMPLETING),
    Row(Standing.DRAINING, "a reboot is under way, and its end lifts the drain", flags=_REBOOT, drain=True),
    Row(Standing.BUSY, "a reboot is under way", frozenset({Base.IDLE}), _REBOOT),
    Row(Standing.DRAINED, "no job, and none comes", _WITHOUT_JOBS, drain=True),
    Row(Standing.DRAINING, "waits to be powered down", frozenset({Base.IDLE}), _POWER_DRAIN),
    Row(Standing.DOWN, "down", frozenset({Base.DOWN})),
    Row(Standing.DOWN, "defined, but never registered", frozenset({Base.FUTURE})),
    Row(Standing.DOWN, "marked as failing", frozenset({Base.IDLE}), frozenset({Flag.FAIL})),
    Row(
        Standing.DOWN,
        "registered with less than its configuration says",
        frozenset({Base.IDLE}),
        frozenset({Flag.INVALID_REG}),
    ),
    Row(Standing.BUSY, "promised to a job or held by a reservation", frozenset({Base.IDLE}), _PROMISED),
    Row(Standing.REMOVABLE, "idle", frozenset({Base.IDLE})),
    Row(Standing.UNKNOWN, "no other row fits"),
)


def node_state(words: Iterable[str]) -> NodeState:
    """From REST's list: `["IDLE", "DRAIN", "DYNAMIC_NORM"]`. Two bases, or none, are not a state that we know."""
    return _read(tuple(words))


@lru_cache(maxsize=1024)  # thousands of nodes are in a handful of states
def _read(words: tuple[str, ...]) -> NodeState:
    bases: list[Base] = []
    flags: set[Flag] = set()
    unread: list[str] = []
    for word in (word.strip().upper() for word in words):
        if word in Base.__members__:
            bases.append(Base[word])
        elif word in Flag.__members__:
            flags.add(Flag[word])
        else:
            unread.append(word)
    if len(bases) != 1:
        unread.extend(base.value for base in bases)
    return NodeState(bases[0] if len(bases) == 1 else Base.UNKNOWN, frozenset(flags), tuple(unread))


# What sinfo appends. "*" may come with one of the others.
_MARKS: Final = {
    "*": Flag.NOT_RESPONDING,
    "~": Flag.POWERED_DOWN,
    "#": Flag.POWERING_UP,
    "%": Flag.POWERING_DOWN,
    "!": Flag.POWER_DOWN,
    "$": Flag.MAINTENANCE,
    "@": Flag.REBOOT_REQUESTED,
    "^": Flag.REBOOT_ISSUED,
    "-": Flag.PLANNED,
}
# sinfo's own words, long and short. Where one hides the base state, the state that we give has the same standing
# ("draining" is MIXED here), or the base is UNKNOWN because the word does not tell whether there are jobs.
_SINFO_WORDS: Final = {
    "ALLOC": "ALLOCATED",
    "BLOCK": "IDLE+BLOCKED",
    "BLOCKED": "IDLE+BLOCKED",
    "BOOT": "IDLE+REBOOT_ISSUED",
    "COMP": "IDLE+COMPLETING",
    "COMPLETING": "IDLE+COMPLETING",
    "DRAIN": "IDLE+DRAIN",
    "DRAINED": "IDLE+DRAIN",
    "DRAINING": "MIXED+DRAIN",
    "DRNG": "MIXED+DRAIN",
    "ERR": "ERROR",
    "FAIL": "IDLE+FAIL",
    "FAILG": "MIXED+FAIL",
    "FAILING": "MIXED+FAIL",
    "FUTR": "FUTURE",
    "INVAL": "UNKNOWN+INVALID_REG",
    "MAINT": "IDLE+MAINTENANCE",
    "MIX": "MIXED",
    "NO_RESPOND": "UNKNOWN+NOT_RESPONDING",
    "PLANNED": "IDLE+PLANNED",
    "PLND": "IDLE+PLANNED",
    "POW_DN": "IDLE+POWERED_DOWN",
    "POW_UP": "IDLE+POWERING_UP",
    "REBOOT": "IDLE+REBOOT_ISSUED",
    "RESERVED": "IDLE+RESERVED",
    "RESV": "IDLE+RESERVED",
    "UNK": "UNKNOWN",
}


def node_state_from_text(text: str) -> NodeState:
    """From scontrol's `IDLE+CLOUD+DRAIN` or sinfo's `down*`, in either case."""
    first, *others = text.strip().upper().split("+")
    marks: list[str] = []
    while first and first[-1] in _MARKS:
        marks.append(_MARKS[first[-1]].value)
        first = first[:-1]
    return node_state((*_SINFO_WORDS.get(first, first).split("+"), *others, *marks))


class Phase(Enum):
    """Where a job is. RUNNING and COMPLETING hold nodes."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETING = "completing"
    ENDED = "ended"
    UNKNOWN = "unknown"


_ENDS: Final = frozenset(
    {
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
        "REVOKED",  # another cluster of the federation has it
    }
)
# Said beside a base state; alone they do not tell where the job is.
_JOB_FLAGS: Final = frozenset(
    {
        "REQUEUED",
        "REQUEUE_HOLD",
        "REQUEUE_FED",
        "SPECIAL_EXIT",
        "RESIZING",
        "CONFIGURING",
        "STOPPED",
        "POWER_UP_NODE",
        "RESV_DEL_HOLD",
        "SIGNALING",
        "STAGE_OUT",
        "EXPEDITING",
    }
)
_JOB_BASES: Final = _ENDS | {"PENDING", "RUNNING", "SUSPENDED"}
JOB_WORDS: Final = _JOB_BASES | _JOB_FLAGS | {"COMPLETING"}


def job_phase(words: Iterable[str]) -> Phase:
    """From REST's list, or from one word of squeue or sacct (`CANCELLED by 1000`)."""
    said = {word.strip().upper().split(" ")[0].rstrip("+") for word in words}
    if not said or said - JOB_WORDS or not said & _JOB_BASES:
        # COMPLETING alone is what squeue's short answer gives.
        return Phase.COMPLETING if said == {"COMPLETING"} else Phase.UNKNOWN
    if said & {"COMPLETING", "STAGE_OUT"}:
        return Phase.COMPLETING
    if said & {"RUNNING", "SUSPENDED"}:
        return Phase.RUNNING
    return Phase.ENDED if said & _ENDS else Phase.PENDING
