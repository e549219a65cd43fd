"""NodeBridge's controller: what is watched, how it is observed."""

from collections.abc import Iterable

from corral.engine import Controller, Key, KindController, Outcome, Plan, Reader, children
from corral.kinds.nodebridge.plan import FINALIZER, Snapshot, plan, policy, policy_name, report
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
            is_served=read.serves(NodeNetworkConfigurationPolicy),
            nodes=read.list(Node),
            states=read.list(NodeNetworkState),
            policy=read.get(NodeNetworkConfigurationPolicy, policy_name(bridge)),
        )

    def plan(self, snapshot: Snapshot, /) -> Plan:
        return plan(snapshot)

    def later(self, snapshot: Snapshot, /) -> Plan:
        return children(snapshot.object, [policy(snapshot.object, "up")], [])

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> NodeBridgeStatus:
        return report(snapshot, outcome)


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
        .watches(NodeNetworkState, to=of_node, optional=True)
        .watches(Node, to=of_node, when=is_other_node)
        .finalizer(FINALIZER)
    )


KINDS = (KindController(NodeBridge, controller),)
