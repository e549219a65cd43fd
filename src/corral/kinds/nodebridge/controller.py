"""NodeBridge's controller: what is watched, how it is observed."""

from collections.abc import Iterable

from corral.engine import Controller, Key, KindController, Outcome, Plan, Reader
from corral.engine.controller import generation_changed
from corral.kinds.nodebridge.plan import FINALIZER, Snapshot, later, plan, report
from corral.kinds.nodebridge.policies import policy_name
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeStatus
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState
from corral.kube.meta import Object
from corral.kube.models.core_v1 import Node


class NodeBridgeReconciler:
    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        bridge = read.get(NodeBridge, key.name)
        if bridge is None:
            return None
        return Snapshot(
            object=bridge,
            now=read.now,
            others=tuple(other for other in _of_same_name(bridge, read) if other.metadata.name != key.name),
            is_served=read.serves(NodeNetworkConfigurationPolicy),
            nodes=read.list(Node),
            states=read.list(NodeNetworkState),
            policies=_policies(bridge, read),
        )

    def plan(self, snapshot: Snapshot, /) -> Plan:
        return plan(snapshot)

    def later(self, snapshot: Snapshot, /) -> Plan:
        return later(snapshot)

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> NodeBridgeStatus:
        return report(snapshot, outcome)


def _policies(bridge: NodeBridge, read: Reader) -> tuple[NodeNetworkConfigurationPolicy, ...]:
    """Ours, and those of others that stand under the names of ours."""
    found = {policy.metadata.name: policy for policy in read.owned(NodeNetworkConfigurationPolicy, bridge)}
    for node in read.list(Node):
        there = read.get(NodeNetworkConfigurationPolicy, policy_name(bridge, node.metadata.name))
        if there is not None:
            found[there.metadata.name] = there
    return tuple(found[name] for name in sorted(found))


def _of_same_name(bridge: NodeBridge, read: Reader) -> tuple[NodeBridge, ...]:
    return tuple(other for other in read.list(NodeBridge) if other.spec.bridge_name == bridge.spec.bridge_name)


def of_same_name(bridge: NodeBridge, read: Reader) -> Iterable[Key]:
    return [Key("", other.metadata.name) for other in _of_same_name(bridge, read)]


def of_node(_obj: Object, read: Reader) -> Iterable[Key]:
    return [Key("", bridge.metadata.name) for bridge in read.list(NodeBridge)]


def is_other_node(old: Node | None, new: Node | None) -> bool:
    """Not its heartbeats."""
    if old is None or new is None:
        return True
    return (old.metadata.labels, old.status.addresses) != (new.metadata.labels, new.status.addresses)


def controller() -> Controller[NodeBridge, Snapshot]:
    return (
        Controller.for_(NodeBridge, NodeBridgeReconciler())
        .owns(NodeNetworkConfigurationPolicy, optional=True)
        .watches(NodeBridge, to=of_same_name, when=generation_changed)
        .watches(NodeNetworkState, to=of_node, optional=True)
        .watches(Node, to=of_node, when=is_other_node)
        .finalizer(FINALIZER)
    )


KINDS = (KindController(NodeBridge, controller),)
