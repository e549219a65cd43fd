"""What is known of one worker: its pod, its Slurm node and its jobs, side by side. Pure.

A worker is made of what others told, and everything else about it follows from that and is found once. So the worker of
an earlier pass is as good as a new one while it was told the same, and a pass costs as much as has changed.
"""

from datetime import datetime

import msgspec

from corral.kinds.derived import derived
from corral.kinds.nodeset.arrival import is_missed
from corral.kinds.nodeset.body import Body
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.machine import Trouble, trouble_of
from corral.kinds.nodeset.record import Record
from corral.kinds.nodeset.registration import filled, is_of_another, is_registered_wrong, lacks_gres, line_of
from corral.kinds.nodeset.revision import Make
from corral.kinds.nodeset.shown import is_shown
from corral.kube.models.core_v1 import Node as Machine
from corral.kube.models.core_v1 import Pod
from corral.slurm.values import Job, Node

COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"  # as for every ReplicaSet: the lowest goes first


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker is asked for: at an ordinal, or on a Kubernetes node."""

    name: str
    ordinal: int | None = None
    machine: str = ""
    pinned: str = ""  # the Kubernetes node that one at an ordinal was on before


class Worker(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    name: str
    ordinal: int | None  # None: it is called after a Kubernetes node
    pod: Pod | None
    node: Node | None
    jobs: tuple[Job, ...]
    machine: Machine | None  # the Kubernetes node below it
    heard: bool  # whether Slurm has told lately
    arrives: bool  # its slurmd has begun to run not long ago, or may have, and Slurm has no record of it yet
    body: Body  # what follows from its pod
    record: Record  # what follows from its node and its jobs

    @property
    def facts(self) -> Facts:
        """A record of an earlier life proves that it is in use, not that it is free."""
        said = self.said
        return Facts.ARRIVING if self.arrives and said in (Facts.UNREGISTERED, Facts.DRAINED) else said

    @property
    def said(self) -> Facts:
        """What Slurm says of its record, whoever's that is."""
        return self.record.says if self.heard else Facts.UNKNOWN

    @derived
    def trouble(self) -> Trouble | None:
        return trouble_of(self.pod, self.machine) if self.pod is not None else None

    @property
    def is_live(self) -> bool:
        return self.body.is_live

    @property
    def is_leaving(self) -> bool:
        return self.body.is_leaving

    @property
    def has_ended(self) -> bool:
        return self.body.has_ended

    @property
    def is_ready(self) -> bool:
        return self.body.is_ready

    @property
    def runs(self) -> bool:
        return self.body.runs

    @property
    def has_drain(self) -> bool:
        return self.record.has_drain

    @property
    def has_our_drain(self) -> bool:
        return self.record.has_our_drain

    @property
    def is_somebodys(self) -> bool:
        return self.record.is_somebodys

    @property
    def is_reserved(self) -> bool:
        return self.record.is_reserved

    @property
    def make(self) -> Make | None:
        return self.body.make

    @property
    def counts_as(self) -> str:
        return self.record.counts_as

    @derived
    def is_shown(self) -> bool:
        """Whether its pod's conditions say what Slurm says; what Slurm said last stays while it does not tell."""
        if self.pod is None or not self.heard or self.record.is_unclear:
            return True
        return is_shown(self.body.shown, self.node)

    @property
    def missing_since(self) -> datetime | None:
        return self.body.missing_since

    @property
    def line(self) -> str:
        return self.body.line

    @property
    def is_unfilled(self) -> bool:
        return self.body.is_unfilled

    @property
    def can_be_driven_out(self) -> bool:
        return self.body.can_be_driven_out

    @property
    def is_otherwise(self) -> bool:
        """Whether its Kubernetes node no longer says what it registered with."""
        given = self.body.given
        if given is None or self.pod is None or self.machine is None:
            return False
        return given != filled(line_of(self.pod), self.machine)

    @property
    def is_invalid(self) -> bool:
        return self.record.is_invalid

    @derived
    def is_registered_wrong(self) -> bool:
        if self.pod is None or self.node is None or self.body.is_unfilled:
            return False
        return self.record.is_invalid or is_registered_wrong(self.body.line, self.node)

    @derived
    def is_missed(self) -> bool:
        return self.heard and is_missed(self.body, self.node)

    @derived
    def lacks_gres(self) -> bool:
        return self.node is not None and lacks_gres(self.body.line, self.node)

    @property
    def has_record_of_another(self) -> bool:
        """Whether its record was made by a slurmd that said something else, and its own has not started."""
        body = self.body
        if self.pod is None or self.node is None or body.runs or body.is_unfilled:
            return False
        return is_of_another(body.line, self.node)

    @derived
    def cost(self) -> int:
        said = self.pod.metadata.annotations.get(COST_ANNOTATION, "") if self.pod else ""
        try:
            return int(said)
        except ValueError:
            return 0
