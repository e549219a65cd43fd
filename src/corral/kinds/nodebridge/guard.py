"""Whether a node can do without an interface, by what NMState tells of the node. Pure.

An interface carries whatever stands on it: the bond or bridge that it is a port of, the VLANs and their like that have
it as their base, and so on up. None of them may have the node's own address, or its default route.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from corral.engine import Wait
from corral.kinds.wukong.api.nmstate import NodeNetworkState
from corral.kube.models.core_v1 import Node

EVERYWHERE = frozenset({"0.0.0.0/0", "::/0"})
OVS_INTERFACE = "ovs-interface"  # where an Open vSwitch has the addresses of its node

Interface = Mapping[str, Any]


def interfaces(state: NodeNetworkState) -> tuple[Interface, ...]:
    found = state.status.current_state.get("interfaces")
    return tuple(found) if isinstance(found, list | tuple) else ()


def danger(node: Node, state: NodeNetworkState | None, port: str) -> Wait | None:
    """Why the port of this node must not become a bridge's; None if it may."""
    name = node.metadata.name
    if state is None:
        return Wait(reason="NodeUnknown", message=f"waiting for NodeNetworkState {name}: NMState has not told yet")
    there = sorted(str(interface.get("name")) for interface in interfaces(state))
    if port not in there:
        message = f"node {name} has no interface {port}; it has {', '.join(there) or 'none'}"
        return Wait(reason="PortMissing", message=message, stalled=True)
    why = _need(node, state, port)
    if not why:
        return None
    message = f"{port} of node {name} {why}: as a bridge's port it would cut the node off; choose another port"
    return Wait(reason="ManagementInterface", message=message, stalled=True)


def _need(node: Node, state: NodeNetworkState, port: str) -> str:
    """Why the node cannot do without this interface; empty if it can."""
    carried, every = carried_by(port, interfaces(state)), interfaces(state)
    own = {address.address for address in node.status.addresses if address.type != "Hostname"}
    for interface in every:
        if interface.get("name") in carried and own & set(_addresses(interface)):
            return f"carries the node's own address{_by(interface.get('name'), port)}"
    for route in _routes(state):
        if route.get("next-hop-interface") in carried and route.get("destination") in EVERYWHERE:
            return f"carries the node's default route{_by(route.get('next-hop-interface'), port)}"
    return ""


def _by(name: object, port: str) -> str:
    return f" (of {name})" if name != port else ""


def carried_by(port: str, every: Iterable[Interface]) -> frozenset[str]:
    """The names of the interface itself and of everything that stands on it."""
    every = tuple(every)
    found = {port}
    while more := {name for interface in every for name in _next(interface, found)} - found:
        found |= more
    return frozenset(found)


def _next(interface: Interface, found: set[str]) -> Iterator[str]:
    """What an interface adds to those that are found: itself if it stands on one of them, or what it is a port of."""
    name, controller = str(interface.get("name")), str(interface.get("controller") or "")
    if name in found and controller:
        yield controller
    if controller in found and interface.get("type") == OVS_INTERFACE:
        yield name
    if found & set(_below(interface)):
        yield name


def _below(interface: Interface) -> Iterator[str]:
    """What an interface stands on: its base, and its ports."""
    for part in interface.values():
        if isinstance(part, Mapping):
            yield from (str(part["base-iface"]),) if "base-iface" in part else ()
            ports = part.get("port")
            entries = ports if isinstance(ports, list | tuple) else ()
            yield from (str(entry.get("name")) if isinstance(entry, Mapping) else str(entry) for entry in entries)


def _addresses(interface: Interface) -> Iterator[str]:
    for family in ("ipv4", "ipv6"):
        for entry in (interface.get(family) or {}).get("address") or ():
            yield str(entry.get("ip"))


def _routes(state: NodeNetworkState) -> Iterable[Mapping[str, Any]]:
    routes = state.status.current_state.get("routes")
    running = routes.get("running") if isinstance(routes, Mapping) else None
    return running if isinstance(running, list | tuple) else ()
