"""What to do for a NodeBridge: a policy of NMState, once it is certain that no node loses its own address. Pure.

    guard       on every node the port must be there, and must neither carry the node's address nor its default route
    deletion    NMState leaves behind what a deleted policy made: first a policy that says `absent`, then the deletion

NMState itself takes a change back when a node cannot be reached afterwards; the guard is for never getting there.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from corral.engine import (
    NOTHING,
    Apply,
    Outcome,
    Plan,
    RemoveFinalizer,
    Wait,
    children,
    conditions,
    target,
    verdict,
)
from corral.engine.actions import Delete
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeStatus
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import condition_of
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState, PolicySpec
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Node
from corral.kube.values import Json

FINALIZER = "vm.corral.dev/node-bridge"
EVERYWHERE = frozenset({"0.0.0.0/0", "::/0"})


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: NodeBridge
    now: datetime
    is_served: bool = True  # whether this cluster has NMState
    nodes: tuple[Node, ...] = ()  # all of them
    states: tuple[NodeNetworkState, ...] = ()
    policy: NodeNetworkConfigurationPolicy | None = None


def plan(snapshot: Snapshot) -> Plan:
    bridge = snapshot.object
    if bridge.metadata.deletion_timestamp is not None:
        return _farewell(snapshot)
    if not snapshot.is_served:
        missing = NodeNetworkConfigurationPolicy.resource.plural_and_group
        message = f"this cluster does not have {missing}: install NMState; the work goes on by itself then"
        return _wait("NMStateMissing", message, stalled=True)
    dangers = tuple(_dangers(snapshot))
    if dangers:
        return Plan(waits=dangers)
    there = [snapshot.policy] if snapshot.policy else []
    return children(bridge, [policy(bridge, "up")], there) + _progress(snapshot)


def chosen(snapshot: Snapshot) -> tuple[Node, ...]:
    selector = snapshot.object.spec.node_selector
    return tuple(n for n in snapshot.nodes if all(n.metadata.labels.get(k) == v for k, v in selector.items()))


def _dangers(snapshot: Snapshot) -> Iterator[Wait]:
    """Why the bridge must not be made now; a policy that is there already is then left as it is."""
    port, states = snapshot.object.spec.port, {state.metadata.name: state for state in snapshot.states}
    nodes = chosen(snapshot)
    if not nodes:
        yield Wait(reason="NoSuchNodes", message="no node has the labels of nodeSelector", stalled=True)
    for node in nodes:
        name = node.metadata.name
        state = states.get(name)
        if state is None:
            yield Wait(reason="NodeUnknown", message=f"waiting for NodeNetworkState {name}: NMState has not told yet")
            continue
        interfaces = {str(entry.get("name")): entry for entry in _entries(state, "interfaces")}
        if port not in interfaces:
            message = f"node {name} has no interface {port}; it has {', '.join(sorted(interfaces)) or 'none'}"
            yield Wait(reason="PortMissing", message=message, stalled=True)
        elif why := _is_needed(node, state, port):
            message = f"{port} of node {name} {why}: as a bridge's port it would cut the node off; choose another port"
            yield Wait(reason="ManagementInterface", message=message, stalled=True)


def _is_needed(node: Node, state: NodeNetworkState, port: str) -> str:
    """Why the node cannot do without this interface; empty if it can."""
    own = {address.address for address in node.status.addresses if address.type != "Hostname"}
    for entry in _entries(state, "interfaces"):
        if entry.get("name") == port and own & set(_addresses(entry)):
            return "carries the node's own address"
    routes = state.status.current_state.get("routes")
    running = routes.get("running") if isinstance(routes, Mapping) else None
    for route in running or ():
        if route.get("next-hop-interface") == port and route.get("destination") in EVERYWHERE:
            return "carries the node's default route"
    return ""


def _addresses(interface: Mapping[str, Any]) -> Iterator[str]:
    for family in ("ipv4", "ipv6"):
        for entry in (interface.get(family) or {}).get("address") or ():
            yield str(entry.get("ip"))


def _entries(state: NodeNetworkState, name: str) -> Iterable[Mapping[str, Any]]:
    found = state.status.current_state.get(name)
    return found if isinstance(found, list | tuple) else ()


def policy(bridge: NodeBridge, state: str) -> NodeNetworkConfigurationPolicy:
    spec = bridge.spec
    interface: dict[str, Json] = {"name": spec.bridge_name, "type": f"{spec.type}-bridge", "state": state}
    if state == "up":
        ports: dict[str, Json] = {"port": [{"name": spec.port}]}
        options: dict[str, Json] = {"options": {"stp": {"enabled": False}}} if spec.type == "linux" else {}
        interface |= {"bridge": {**options, **ports}}
        # The bridge gives machines a way, and the node no address: the node's own stay where they are.
        interface |= {"ipv4": {"enabled": False}, "ipv6": {"enabled": False}} if spec.type == "linux" else {}
        interface |= {"mtu": spec.mtu} if spec.mtu is not None else {}
    count = spec.max_unavailable
    return NodeNetworkConfigurationPolicy(
        metadata=ObjectMeta(name=policy_name(bridge), labels=names.MANAGED_BY),
        spec=PolicySpec(
            node_selector=spec.node_selector,
            desired_state={"interfaces": [interface]},
            max_unavailable=count if count.endswith("%") else int(count),
        ),
    )


def policy_name(bridge: NodeBridge) -> str:
    return f"corral-{bridge.metadata.name}"


def _progress(snapshot: Snapshot) -> Plan:
    found = snapshot.policy.status.conditions if snapshot.policy else ()
    degraded, available = condition_of(found, "Degraded"), condition_of(found, "Available")
    if degraded is not None and degraded.status == "True":
        return _wait("NodesRefused", f"NMState could not do it, and took it back: {degraded.message}", stalled=True)
    without = sorted({node.metadata.name for node in chosen(snapshot)} - with_bridge(snapshot))
    if available is not None and available.status == "True" and not without:
        return NOTHING
    return _wait("NodesChanging", f"NMState changes the nodes; without the bridge yet: {', '.join(without) or 'none'}")


def with_bridge(snapshot: Snapshot) -> set[str]:
    """Nodes that have the bridge, by their own word: a policy's conditions may be those of what it said before."""
    name = snapshot.object.spec.bridge_name
    there = {node.metadata.name for node in snapshot.nodes}
    found = {s.metadata.name for s in snapshot.states if any(i.get("name") == name for i in _entries(s, "interfaces"))}
    return there & found


def _farewell(snapshot: Snapshot) -> Plan:
    bridge, there = snapshot.object, snapshot.policy
    if FINALIZER not in bridge.metadata.finalizers:
        return NOTHING
    if there is None:
        gone = "the bridge is gone from the nodes"
        leave = RemoveFinalizer(
            target=target(bridge), present=bridge.metadata.finalizers, finalizer=FINALIZER, message=gone
        )
        return Plan(actions=(leave,))
    absent = policy(bridge, "absent")
    if there.spec.desired_state != absent.spec.desired_state:
        taken = children(bridge, [absent], [there]).actions
        return Plan(actions=tuple(a for a in taken if isinstance(a, Apply))) + _waits_for_nodes(())
    left = sorted(with_bridge(snapshot))
    if not left:
        message = "no node has the bridge any more"
        return Plan(actions=(Delete(target=target(there), reason="BridgeGone", message=message),))
    degraded = condition_of(there.status.conditions, "Degraded")
    if degraded is not None and degraded.status == "True":
        return _wait("NodesRefused", f"NMState could not take the bridge away: {degraded.message}", stalled=True)
    return _waits_for_nodes(left)


def _waits_for_nodes(nodes: Iterable[str]) -> Plan:
    return _wait("Deleting", f"waiting until NMState has taken the bridge away from {', '.join(nodes) or 'the nodes'}")


def _wait(reason: str, message: str, *, stalled: bool = False) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message, stalled=stalled),))


def report(snapshot: Snapshot, outcome: Outcome) -> NodeBridgeStatus:
    bridge = snapshot.object
    said = verdict(outcome, ready_message="every node has the bridge")
    return NodeBridgeStatus(
        observed_generation=bridge.metadata.generation,
        nodes=tuple(sorted(node.metadata.name for node in chosen(snapshot))),
        conditions=conditions(bridge, bridge.status.conditions, said, snapshot.now),
    )
