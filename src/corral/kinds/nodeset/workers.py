"""What is known of one worker: its pod, its Slurm node and its jobs, side by side. Pure.

A worker is made of what others told, and everything else about it follows from that and is found once. So the worker of
an earlier pass is as good as a new one while it was told the same, and a pass costs as much as has changed.
"""

from datetime import datetime

import msgspec

from corral.kinds.derived import derived
from corral.kinds.nodeset.arrival import runs
from corral.kinds.nodeset.facts import Facts, facts_of
from corral.kinds.nodeset.fitting import STAYS
from corral.kinds.nodeset.machine import Trouble, trouble_of
from corral.kinds.nodeset.registration import (
    asks_its_machine,
    is_of_another,
    is_otherwise,
    is_registered_wrong,
    lacks_gres,
    said_by,
)
from corral.kinds.nodeset.revision import Make, make_of
from corral.kinds.nodeset.shown import is_shown, missing_since
from corral.kinds.nodeset.whose import has_drain, has_our_drain, is_somebodys
from corral.kube.models.core_v1 import Node as Machine
from corral.kube.models.core_v1 import Pod
from corral.slurm.states import Base, Flag, Standing
from corral.slurm.values import Job, Node

ENDED = ("Failed", "Succeeded")
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

    @derived
    def facts(self) -> Facts:
        """A record of an earlier life proves that it is in use, not that it is free."""
        goes = self.said in (Facts.UNREGISTERED, Facts.DRAINED)
        return Facts.ARRIVING if goes and self.arrives else self.said

    @derived
    def said(self) -> Facts:
        """What Slurm says of its record, whoever's that is."""
        return facts_of(self.node, self.jobs) if self.heard else Facts.UNKNOWN

    @derived
    def trouble(self) -> Trouble | None:
        return trouble_of(self.pod, self.machine) if self.pod is not None else None

    @derived
    def is_live(self) -> bool:
        """Its pod runs, or will: neither on its way out nor at its end."""
        pod = self.pod
        return pod is not None and pod.metadata.deletion_timestamp is None and pod.status.phase not in ENDED

    @derived
    def is_leaving(self) -> bool:
        return self.pod is not None and self.pod.metadata.deletion_timestamp is not None

    @derived
    def has_ended(self) -> bool:
        """Every process of its pod has ended for good: to remove it can kill nothing."""
        return self.pod is not None and self.pod.status.phase in ENDED

    @derived
    def is_ready(self) -> bool:
        for one in self.pod.status.conditions if self.pod is not None else ():
            if one.type == "Ready":
                return one.status == "True"
        return False

    @derived
    def runs(self) -> bool:
        """Whether its slurmd runs, by kubelet's word."""
        return self.pod is not None and runs(self.pod)

    @property
    def has_drain(self) -> bool:
        return self.node is not None and has_drain(self.node)

    @property
    def has_our_drain(self) -> bool:
        return self.node is not None and has_our_drain(self.node)

    @property
    def is_somebodys(self) -> bool:
        """Somebody else has taken its node out of service."""
        return self.node is not None and is_somebodys(self.node)

    @property
    def is_reserved(self) -> bool:
        """By a reservation that has begun, whoever's: slurmctld does not forget it."""
        return self.node is not None and not self.node.state.flags.isdisjoint((Flag.RESERVED, Flag.MAINTENANCE))

    @derived
    def make(self) -> Make | None:
        return make_of(self.pod) if self.pod is not None else None

    @derived
    def counts_as(self) -> str:
        """As sinfo sorts them: a drained node is draining to us, a node that is down is down whatever else it is."""
        if self.node is None:
            return ""
        state = self.node.state
        if state.base is Base.DOWN or state.standing is Standing.DOWN:
            return "down"
        if self.has_drain:
            return "draining"
        if state.base in (Base.ALLOCATED, Base.MIXED):
            return "allocated"
        return "idle" if state.base is Base.IDLE else ""

    @derived
    def is_shown(self) -> bool:
        """Whether its pod's conditions say what Slurm says; what Slurm said last stays while it does not tell."""
        if self.pod is None or not self.heard:
            return True
        is_told = self.node is None or self.node.state.standing is not Standing.UNKNOWN
        return not is_told or is_shown(self.pod, self.node)

    @derived
    def missing_since(self) -> datetime | None:
        """When Slurm was seen to have lost it; None if it never had a record."""
        return missing_since(self.pod) if self.pod is not None else None

    @derived
    def line(self) -> str:
        """What its slurmd registers with."""
        return said_by(self.pod) if self.pod is not None else ""

    @property
    def is_unfilled(self) -> bool:
        """Whether its slurmd waits to be told what its Kubernetes node says."""
        return asks_its_machine(self.line)

    @derived
    def can_be_driven_out(self) -> bool:
        """Whether a taint of its Kubernetes node would end it at once: it was made where some drive pods out."""
        return self.pod is not None and bool(self.pod.spec.node_name) and STAYS not in self.pod.spec.tolerations

    @property
    def is_otherwise(self) -> bool:
        """Whether its Kubernetes node no longer says what it registered with."""
        return self.pod is not None and is_otherwise(self.pod, self.machine)

    @property
    def is_invalid(self) -> bool:
        """It registered with less than is on record: slurmctld has drained it, and lets nobody lift that."""
        return self.node is not None and Flag.INVALID_REG in self.node.state.flags

    @derived
    def is_registered_wrong(self) -> bool:
        if self.pod is None or self.node is None or self.is_unfilled:
            return False
        return self.is_invalid or is_registered_wrong(self.line, self.node)

    @derived
    def lacks_gres(self) -> bool:
        return self.node is not None and lacks_gres(self.line, self.node)

    @property
    def has_record_of_another(self) -> bool:
        """Whether its record was made by a slurmd that said something else, and its own has not started."""
        if self.pod is None or self.node is None or self.runs or self.is_unfilled:
            return False
        return is_of_another(self.line, self.node)

    @derived
    def cost(self) -> int:
        said = self.pod.metadata.annotations.get(COST_ANNOTATION, "") if self.pod else ""
        try:
            return int(said)
        except ValueError:
            return 0
