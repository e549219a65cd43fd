"""The policies of NMState that a NodeBridge becomes: one for each node. Pure.

Each names its node, because NMState carries a policy out on every node that it matches, also on one that joins later
and that nobody has looked at. Which ones are changed at a time is decided here, so NMState has nothing to count.
"""

from collections.abc import Mapping
from typing import Literal

from corral.kinds.names import fitted
from corral.kinds.nodebridge.guard import Interface, interfaces
from corral.kinds.nodebridge.spec import NodeBridge
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import HOSTNAME_LABEL
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState, PolicySpec
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Node
from corral.kube.values import Json

NODE_ANNOTATION = "vm.corral.dev/node"
State = Literal["up", "absent"]


def policy_name(bridge: NodeBridge, node: str) -> str:
    return fitted(f"corral-{bridge.metadata.name}.{node}")  # NMState makes a label's value of it


def node_of(policy: NodeNetworkConfigurationPolicy) -> str:
    return policy.metadata.annotations.get(NODE_ANNOTATION, "")


def policy(bridge: NodeBridge, node: Node, state: State) -> NodeNetworkConfigurationPolicy:
    name = node.metadata.name
    return NodeNetworkConfigurationPolicy(
        metadata=ObjectMeta(
            name=policy_name(bridge, name), labels=names.MANAGED_BY, annotations={NODE_ANNOTATION: name}
        ),
        spec=PolicySpec(
            node_selector={HOSTNAME_LABEL: node.metadata.labels.get(HOSTNAME_LABEL, name)},
            desired_state=_desired(bridge, state),
        ),
    )


def _desired(bridge: NodeBridge, state: State) -> Mapping[str, Json]:
    spec = bridge.spec
    interface: dict[str, Json] = {"name": spec.bridge_name, "type": f"{spec.type}-bridge", "state": state}
    if state == "up":
        ports: dict[str, Json] = {"port": [{"name": spec.port}]}
        options: dict[str, Json] = {"options": {"stp": {"enabled": False}}} if spec.type == "linux" else {}
        interface |= {"bridge": {**options, **ports}}
        # The bridge gives machines a way, and the node no address: the node's own stay where they are.
        interface |= {"ipv4": {"enabled": False}, "ipv6": {"enabled": False}} if spec.type == "linux" else {}
        interface |= {"mtu": spec.mtu} if spec.mtu is not None else {}
    return {"interfaces": [interface]}


def found_on(bridge: NodeBridge, state: NodeNetworkState | None) -> Interface | None:
    """The bridge, by the node's own word: a policy's conditions may be those of what it said before."""
    every = interfaces(state) if state else ()
    return next((interface for interface in every if interface.get("name") == bridge.spec.bridge_name), None)


def is_as_asked(bridge: NodeBridge, found: Interface) -> bool:
    """As far as it can be changed: its port and its packets' size."""
    part = found.get("bridge")
    ports = part.get("port") if isinstance(part, Mapping) else None
    has_port = any(entry.get("name") == bridge.spec.port for entry in ports or ())
    return has_port and bridge.spec.mtu in (None, found.get("mtu"))
