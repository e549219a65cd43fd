"""How a network interface of a Wukong is written. A network named `default` is the pod's own network."""

from typing import Annotated, Literal

from msgspec import Meta

from corral.kube.crd import rule, rules
from corral.kube.meta import Model

POD_NETWORK = "default"
LINK_NAME_MAX = 15  # Linux' limit for names of network links
BRIDGE_PREFIX = "br-"

Dns1123Label = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Address = Annotated[str, Meta(max_length=45)]


@rules(
    rule("self.mode != 'static' || has(self.address)", "a static address is missing: set ipConfig.address, as CIDR"),
    rule("self.mode == 'static' || !has(self.address)", "ipConfig.address is for mode static"),
    rule("(self.mode == 'pool') == has(self.pool)", "mode pool names its pool, an AddressPool of the namespace"),
    rule("!has(self.address) || isCIDR(self.address)", "address is an address with its prefix: 10.0.0.5/24"),
    rule("!has(self.gateway) || isIP(self.gateway)", "gateway is an IP address"),
    rule("!has(self.dnsServers) || self.dnsServers.all(s, isIP(s))", "dnsServers are IP addresses"),
)
class IpConfig(Model, frozen=True, kw_only=True):
    """The address inside the guest, given to it by cloud-init."""

    mode: Literal["dhcp", "static", "pool"] = "dhcp"
    pool: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(description="The AddressPool that gives the address; and gateway and dnsServers, unless set here."),
    ] = None
    address: Annotated[
        Annotated[str, Meta(max_length=49)] | None, Meta(description="With its prefix: 10.0.0.5/24.")
    ] = None
    gateway: Address | None = None
    dns_servers: Annotated[tuple[Address, ...], Meta(max_length=8)] = ()


@rules(
    rule(
        "self.name != 'default' || (!has(self.type) && !has(self.nadName) && !has(self.vlanId) && "
        "!has(self.bridgeName) && !has(self.physicalInterface) && !has(self.resourceName) && !self.primary)",
        "the network `default` is the pod's own: it has no type, nadName, vlanId or device; give another one a name",
    ),
    rule(
        "self.name != 'default' || !has(self.ipConfig) || self.ipConfig.mode == 'dhcp'",
        "the pod network gives every guest its address; a static one needs a network of its own",
    ),
    rule(
        "!has(self.nadName) || (!has(self.vlanId) && !has(self.bridgeName) && !has(self.physicalInterface) && "
        "!has(self.resourceName))",
        "nadName names a NetworkAttachmentDefinition that says vlan, bridge and device itself; choose one way",
    ),
    rule("!has(self.vlanId) || !has(self.type) || self.type != 'macvlan'", "macvlan cannot tag: vlanId is not for it"),
    rule(
        "!has(self.bridgeName) || !has(self.type) || self.type in ['bridge', 'ovs']", "bridgeName is for bridge and ovs"
    ),
    rule(
        "has(self.nadName) || has(self.bridgeName) || self.name == 'default' || (has(self.type) && "
        "!(self.type in ['bridge', 'ovs'])) || self.name.size() <= 12",
        "the bridge would be called br-<name>, and a link's name has at most 15 characters: set bridgeName",
    ),
    rule(
        "!has(self.type) || self.type != 'sriov' || has(self.nadName) || has(self.resourceName)",
        "sriov needs resourceName, the device plugin's resource (vendor.example/pool), or nadName",
    ),
    rule("!has(self.resourceName) || (has(self.type) && self.type == 'sriov')", "resourceName is for sriov"),
    rule(
        "!has(self.type) || self.type != 'macvlan' || has(self.nadName) || has(self.physicalInterface)",
        "macvlan works only as macvtap on a device of the node: set physicalInterface, or nadName",
    ),
    rule(
        "!has(self.physicalInterface) || (has(self.type) && self.type == 'macvlan')",
        "physicalInterface is for macvlan; the ports of a bridge belong to the nodes, not to a virtual machine",
    ),
)
class NetworkConfig(Model, frozen=True, kw_only=True):
    """One network interface."""

    name: Dns1123Label
    type: Annotated[
        Literal["bridge", "macvlan", "sriov", "ovs"] | None, Meta(description="Default: bridge. None for `default`.")
    ] = None
    nad_name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(
            description="A NetworkAttachmentDefinition of this namespace, instead of one of its own. One that people "
            "made is never deleted; one that another Wukong made goes with the last Wukong that names it."
        ),
    ] = None
    vlan_id: Annotated[int, Meta(ge=1, le=4094)] | None = None
    bridge_name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=LINK_NAME_MAX, pattern=r"^[^\s/:]+$")] | None,
        Meta(description="The bridge on the nodes. Default: br-<name>."),
    ] = None
    physical_interface: Annotated[
        Annotated[str, Meta(min_length=1, max_length=LINK_NAME_MAX, pattern=r"^[a-z0-9.-]+$")] | None,
        Meta(description="macvlan: the node's device."),
    ] = None
    resource_name: Annotated[
        Annotated[str, Meta(max_length=253, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")] | None,
        Meta(description="sriov: the resource of the device plugin."),
    ] = None
    mac_address: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$")] | None,
        Meta(description="Default: made from the Wukong's uid and this name, and kept."),
    ] = None
    ip_config: IpConfig | None = None
    primary: Annotated[bool, Meta(description="The guest's default network, instead of the pod's.")] = False
