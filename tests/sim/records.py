"""What the model of Slurm keeps: slurmds, records of nodes, jobs, reservations. Values without behaviour."""

from dataclasses import dataclass, field
from typing import Final

ALL: Final = "all"  # the partition of every node
UP, INACTIVE = "UP", "INACTIVE"
COST: Final = "NODE_FAIL"  # how a job ends whose partition is no more


class Refused(Exception):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{text} ({number})")
        self.number, self.text = number, text


@dataclass(eq=False)
class Slurmd:
    """One process of slurmd in a pod, and the processes of jobs below it."""

    node: str
    pod_uid: str
    features: tuple[str, ...]
    started_s: float
    cpus: int = 0
    alive: bool = True
    jobs: dict[int, float] = field(default_factory=dict)  # id -> when it ends by itself


@dataclass
class Record:
    """A node as slurmctld knows it. `revived`: its deletion was forgotten by a restart."""

    name: str
    features: tuple[str, ...]
    slurmd: Slurmd | None
    heard_s: float
    changed_s: float
    drain: bool = False
    reason: str = ""
    reason_by: str = ""
    reason_s: float = 0.0
    down: bool = False
    silent: bool = False
    revived: bool = False
    told: bool = False  # its slurmd is to start anew, and registers then
    registered_s: float = 0.0
    started_s: float | None = None  # when its slurmd was; a slurmctld that starts anew is told by its registration
    cpus: int = 0
    fail: bool = False  # somebody says that it will; it takes no job
    invalid: bool = False  # it registered with less than is on record
    power: str = ""
    power_s: float = 0.0  # since when


@dataclass
class Job:
    id: int
    wants: int
    runs_s: float
    partition: str = ALL
    state: str = "PENDING"
    nodes: tuple[str, ...] = ()
    start_s: float = 0.0
    end_s: float = 0.0  # of COMPLETING
    restarts: int = 0

    @property
    def holds(self) -> bool:
        return self.state in ("RUNNING", "COMPLETING")


@dataclass(frozen=True)
class Reservation:
    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
