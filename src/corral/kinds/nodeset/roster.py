"""What all pods of a NodeSet together say, and whether a worker is to go. Pure."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from corral.kinds.controller.spec import Controller
from corral.kinds.derived import derived
from corral.kinds.nodeset.machine import is_to_be_emptied
from corral.kinds.nodeset.places import is_of_other_mode, loses_some
from corral.kinds.nodeset.registration import asks_its_machine, is_otherwise
from corral.kinds.nodeset.revision import Make, is_outdated, make_of, revision_of, version_step
from corral.kinds.nodeset.rollout import moves
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Node, Pod


class Roster(msgspec.Struct, frozen=True, dict=True):
    """Found once, and good until a pod changes."""

    pods: tuple[Pod, ...]

    @derived
    def on(self) -> frozenset[str]:
        """The Kubernetes nodes that they are on."""
        return frozenset({pod.spec.node_name for pod in self.pods} - {""})

    @derived
    def makes(self) -> frozenset[Make]:
        return frozenset({make_of(pod) for pod in self.pods})


def some_leave(
    nodeset: NodeSet, controller: Controller | None, roster: Roster, machines: Mapping[str, Node], now: datetime
) -> bool:
    """Whether a worker is to go, for which the last look is not good enough."""
    if nodeset.metadata.deletion_timestamp is not None:
        return True
    if any(is_to_be_emptied(machine) for name, machine in machines.items() if name in roster.on):
        return True
    if any(is_of_other_mode(nodeset, make) for make in roster.makes):
        return True
    if controller is not None and loses_some(nodeset, controller, roster.pods, machines):
        return True
    if asks_its_machine(nodeset.spec.extra_conf) and any(
        is_otherwise(pod, machines.get(pod.spec.node_name)) for pod in roster.pods
    ):
        return True
    if controller is None or not moves(nodeset.spec.update, now):
        return False
    revision, version = revision_of(nodeset, controller), version_step(nodeset, controller).version
    return any(is_outdated(make, revision, version) for make in roster.makes)
