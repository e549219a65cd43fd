"""What all pods of a NodeSet together say. Pure."""

import msgspec

from corral.kinds.derived import derived
from corral.kube.models.core_v1 import Pod


class Roster(msgspec.Struct, frozen=True, dict=True):
    """Found once, and good until a pod changes."""

    pods: tuple[Pod, ...]

    @derived
    def on(self) -> frozenset[str]:
        """The Kubernetes nodes that they are on."""
        return frozenset({pod.spec.node_name for pod in self.pods} - {""})
