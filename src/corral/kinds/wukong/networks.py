"""From a Wukong's networks to attachments, interfaces and the guest's own network data. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import Binding, Interface, MultusNetwork, Network, Present
from corral.kinds.wukong.api.multus import AttachmentSpec, NetworkAttachmentDefinition
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_networks import BRIDGE_PREFIX, POD_NETWORK, IpConfig, NetworkConfig
from corral.kube.meta import ObjectMeta

CNI_VERSION = "0.3.1"
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"  # what a pod with this network asks the scheduler for
OVS_RESOURCE = "ovs-cni.network.kubevirt.io"
MACVTAP = "macvtap"
MACVTAP_RESOURCE = "macvtap.network.kubevirt.io"


def networks_of(wukong: Wukong) -> tuple[NetworkConfig, ...]:
    """Every machine is in the pod network, unless another one is primary."""
    asked = wukong.spec.networks
    if any(network.primary or network.name == POD_NETWORK for network in asked):
        return asked
    return (NetworkConfig(name=POD_NETWORK), *asked)


def is_pod_network(network: NetworkConfig) -> bool:
    return network.name == POD_NETWORK


def kind_of(network: NetworkConfig) -> str:
    return network.type or "bridge"


def attachment_of(wukong: Wukong, network: NetworkConfig) -> str:
    """The NetworkAttachmentDefinition that a network uses: the one it names, or its own."""
    return network.nad_name or names.attachment_name(wukong.metadata.name, network.name)


def mac_of(wukong: Wukong, network: NetworkConfig) -> str:
    return network.mac_address or names.mac_address(wukong.metadata.uid, network.name)


def own_attachments(wukong: Wukong) -> Iterable[NetworkAttachmentDefinition]:
    for network in networks_of(wukong):
        if not is_pod_network(network) and network.nad_name is None:
            yield _attachment(wukong, network)


def _attachment(wukong: Wukong, network: NetworkConfig) -> NetworkAttachmentDefinition:
    name = attachment_of(wukong, network)
    resource = _resource(network)
    config = {"cniVersion": CNI_VERSION, "name": name, **_plugin(network)}
    return NetworkAttachmentDefinition(
        metadata=ObjectMeta(
            name=name,
            labels={**names.MANAGED_BY, names.WUKONG_LABEL: wukong.metadata.name},
            annotations={RESOURCE_NAME: resource} if resource else {},
        ),
        spec=AttachmentSpec(config=msgspec.json.encode(config, order="sorted").decode()),
    )


def bridge_of(network: NetworkConfig) -> str:
    return network.bridge_name or f"{BRIDGE_PREFIX}{network.name}"


def _plugin(network: NetworkConfig) -> Mapping[str, Any]:
    vlan = {"vlan": network.vlan_id} if network.vlan_id is not None else {}
    match kind_of(network):
        case "ovs":
            return {"type": "ovs", "bridge": bridge_of(network), **vlan}
        case "sriov":
            return {"type": "sriov", **vlan}
        case "macvlan":
            return {"type": MACVTAP}
        case _:
            # The guest's interface is the only one: a container's own address on the bridge would be a second machine.
            plain = {"disableContainerInterface": True, "preserveDefaultVlan": False}
            return {"type": "bridge", "bridge": bridge_of(network), **plain, **vlan}


def _resource(network: NetworkConfig) -> str:
    match kind_of(network):
        case "ovs":
            return f"{OVS_RESOURCE}/{bridge_of(network)}"
        case "sriov":
            return network.resource_name or ""
        case "macvlan":
            return f"{MACVTAP_RESOURCE}/{network.physical_interface}"
        case _:
            return ""


def machine_networks(wukong: Wukong) -> tuple[Network, ...]:
    return tuple(_machine_network(wukong, network) for network in networks_of(wukong))


def _machine_network(wukong: Wukong, network: NetworkConfig) -> Network:
    if is_pod_network(network):
        return Network(name=network.name, pod=Present())
    multus = MultusNetwork(network_name=attachment_of(wukong, network), default=True if network.primary else None)
    return Network(name=network.name, multus=multus)


def machine_interfaces(wukong: Wukong) -> tuple[Interface, ...]:
    return tuple(_interface(wukong, network) for network in networks_of(wukong))


def _interface(wukong: Wukong, network: NetworkConfig) -> Interface:
    mac = mac_of(wukong, network)
    if is_pod_network(network):
        return Interface(name=network.name, mac_address=mac, masquerade=Present())
    match kind_of(network):
        case "sriov":
            return Interface(name=network.name, mac_address=mac, sriov=Present())
        case "macvlan":
            return Interface(name=network.name, mac_address=mac, binding=Binding(name=MACVTAP))
        case _:
            return Interface(name=network.name, mac_address=mac, bridge=Present())


def network_data(wukong: Wukong) -> Mapping[str, Any]:
    """cloud-init's network configuration, version 2: interfaces are known by their addresses, not by their order."""
    entries = {network.name: _guest_interface(wukong, network) for network in networks_of(wukong)}
    return {"version": 2, "ethernets": entries}


def _guest_interface(wukong: Wukong, network: NetworkConfig) -> Mapping[str, Any]:
    matched = {"match": {"macaddress": mac_of(wukong, network)}}
    config = network.ip_config or IpConfig()
    servers = {"nameservers": {"addresses": list(config.dns_servers)}} if config.dns_servers else {}
    if config.mode == "dhcp":
        # A network without a DHCP server must not hold up the start of a guest that has another one.
        leisure = {} if is_pod_network(network) or network.primary else {"optional": True}
        return {**matched, "dhcp4": True, **leisure, **servers}
    return {**matched, "addresses": [config.address], **_routes(config), **servers}


def _routes(config: IpConfig) -> Mapping[str, Any]:
    if config.gateway is None:
        return {}
    everywhere = "::/0" if ":" in config.gateway else "0.0.0.0/0"
    return {"routes": [{"to": everywhere, "via": config.gateway}]}
