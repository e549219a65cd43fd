"""What we know of a cluster, since when, and what we do not know. Pure values; `corral.slurm.poller` makes them.

A View is either Observed (somebody asked, Slurm answered, all of it) or Unknown. There is no third: an empty list of
jobs in an Observed means that there are none. A decision that needs recent knowledge asks for the age; one that needs
knowledge newer than an act of its own asks `Observed.began_after`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from corral.slurm.values import Job, Node, Partition, Reservation, Server

T = TypeVar("T")


class Fact(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A value with the moment before the question was sent: what it tells was true then, or later."""

    value: T
    at_s: float  # of the monotonic clock: for decisions
    at: datetime  # of the wall clock: for people

    def age_s(self, now_s: float) -> float:
        return now_s - self.at_s


class Extra(Enum):
    """What a look has beside nodes and jobs while somebody asks for it."""

    PARTITIONS = "partitions"
    RESERVATIONS = "reservations"


class Observed(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All nodes and jobs of a cluster in one look.

    `since`: from then on every look was answered; None: nobody knows. `extras`: what else this look asked for. An extra
    is None when it was not asked for, or not answered. Partitions were asked for before the jobs: a job that came to a
    partition which takes none since is among them.
    """

    nodes: Mapping[str, Node]
    jobs: Mapping[int, Job]
    jobs_by_node: Mapping[str, tuple[Job, ...]]  # only jobs that hold the node: running, completing, or unreadable
    at_s: float  # monotonic, before the first question of the look was sent: all of it is at least as new
    at: datetime
    server: Server
    since: datetime | None = None
    extras: frozenset[Extra] = frozenset()
    partitions: Mapping[str, Partition] | None = None
    reservations: Mapping[str, Reservation] | None = None

    def age_s(self, now_s: float) -> float:
        return now_s - self.at_s

    def began_after(self, moment_s: float) -> bool:
        """Whether this look was taken wholly after a moment: what was done before it is in it."""
        return self.at_s > moment_s

    def jobs_on(self, node: str) -> tuple[Job, ...]:
        return self.jobs_by_node.get(node, ())

    def nodes_with(self, feature: str) -> tuple[Node, ...]:
        return self._nodes_by_feature.get(feature, ())

    @cached_property
    def _nodes_by_feature(self) -> Mapping[str, tuple[Node, ...]]:
        """However many ask for theirs, the nodes are gone through once."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            for feature in node.features:
                found.setdefault(feature, []).append(node)
        return {feature: tuple(nodes) for feature, nodes in found.items()}


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Slurm does not tell. `last` is for people to look at; a decision must not use it."""

    since_s: float
    since: datetime
    why: str
    last: Observed | None = None


View = Observed | Unknown


class Reachable(msgspec.Struct, frozen=True, kw_only=True):
    since: datetime
    server: Server


class NotReachable(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is CamelCase and stable: it becomes the reason of condition SlurmReachable."""

    since: datetime
    reason: str
    why: str


class NotAsked(msgspec.Struct, frozen=True, kw_only=True):
    """There is no client yet, or it has not looked yet."""

    since: datetime
    why: str


Reachability = Reachable | NotReachable | NotAsked
