"""Networks of a VirtualMachine and the interfaces that are in them. Pure."""

from collections.abc import Iterator
from typing import Any

from corral.kinds.wukong.importing.parts import Notes, Taken, without_nothing
from corral.kinds.wukong.networks import MACVTAP
from corral.kinds.wukong.spec_networks import POD_NETWORK

TYPES = {"sriov": "sriov", MACVTAP: "macvlan"}  # by binding; a bridge is what a network is without a type
BINDINGS = ("masquerade", "bridge", "sriov", MACVTAP)
PLUGIN = "binding"


def networks(namespace: str, inner: Taken, devices: Taken, notes: Notes) -> list[dict[str, Any]]:
    interfaces = {str(interface.get("name")): interface for interface in devices.each("interfaces")}
    every = inner.each("networks")
    return [
        found
        for network in every
        for found in _network(namespace, network, interfaces.get(str(network.get("name")), Taken({})), notes)
    ]


def _network(namespace: str, network: Taken, interface: Taken, notes: Notes) -> Iterator[dict[str, Any]]:
    called, state = str(network.get("name")), interface.get("state")
    binding = _binding(interface)
    if state == "absent":
        network.get("multus")
        notes.add(f"networks[{called}] is left out: it was being unplugged")
        return
    if state == "down":
        notes.add(f"networks[{called}] was down and is up here")
    mac = str(interface.get("macAddress") or "").lower().replace("-", ":")
    if network.has("pod"):
        network.into("pod")
        if binding not in ("", "masquerade"):
            notes.add(
                f"networks[{called}]: the guest was bound to the pod network by {binding} and is by masquerade here"
            )
        yield without_nothing({"name": POD_NETWORK, "macAddress": mac})
    elif network.has("multus"):
        yield _attached(namespace, called, network.into("multus"), binding, notes) | without_nothing(
            {"macAddress": mac}
        )


def _binding(interface: Taken) -> str:
    plugin = interface.into(PLUGIN).get("name") if interface.has(PLUGIN) else None
    return str(plugin or next((binding for binding in BINDINGS if interface.has(binding)), ""))


def _attached(namespace: str, called: str, multus: Taken, binding: str, notes: Notes) -> dict[str, Any]:
    where, _, attachment = str(multus.get("networkName", "")).rpartition("/")
    name = called if called != POD_NETWORK else f"{called}-net"
    if name != called:
        notes.add(f"networks[{called}] is called {name} here: `{POD_NETWORK}` is the pod's own network")
    if where and where != namespace:
        notes.add(
            f"networks[{called}]: NetworkAttachmentDefinition {attachment} is in namespace {where}; a Wukong names "
            f"those of its own namespace: make one called {attachment} there"
        )
    if binding not in ("", "bridge", *TYPES):
        notes.add(f"networks[{called}]: the guest was bound by {binding} and is by a bridge here")
    found = {"name": name, "nadName": attachment, "type": TYPES.get(binding), "primary": multus.get("default")}
    return without_nothing(found)
