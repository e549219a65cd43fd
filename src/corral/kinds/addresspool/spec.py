"""AddressPool: addresses of a network that Wukongs of its namespace get theirs from."""

from typing import Annotated

from msgspec import Meta

from corral.kinds.parts import BasicStatus
from corral.kinds.wukong.spec import CATEGORIES, GROUP, VERSION
from corral.kinds.wukong.spec_networks import Address
from corral.kube.crd import Column, kind, rule, rules
from corral.kube.meta import Model, Object

NAME_MAX = 20  # fits beside an address in what people read; leases have it as the value of a label, too


class AddressRange(Model, frozen=True, kw_only=True):
    """From the first to the last, both included."""

    first: Address
    last: Address


@rules(
    rule("isCIDR(self.subnet) && cidr(self.subnet) == cidr(self.subnet).masked()", "subnet is like 10.1.2.0/24"),
    rule("!has(self.gateway) || isIP(self.gateway)", "gateway is an IP address"),
    rule("!has(self.dnsServers) || self.dnsServers.all(s, isIP(s))", "dnsServers are IP addresses"),
    rule(
        "!has(self.ranges) || !isCIDR(self.subnet) || self.ranges.all(r, isIP(r.first) && isIP(r.last) && "
        "cidr(self.subnet).containsIP(r.first) && cidr(self.subnet).containsIP(r.last))",
        "ranges lie in the subnet: {first: 10.1.2.10, last: 10.1.2.99}",
    ),
)
class AddressPoolSpec(Model, frozen=True, kw_only=True):
    subnet: Annotated[
        Annotated[str, Meta(min_length=1, max_length=49)],
        rule("self == oldSelf", "the subnet of a pool stays; make another pool"),
        Meta(description="With its prefix: 10.1.2.0/24."),
    ]
    ranges: Annotated[
        tuple[AddressRange, ...],
        Meta(max_length=16, description="What may be given out of it. Default: everything but the gateway."),
    ] = ()
    gateway: Address | None = None
    dns_servers: Annotated[tuple[Address, ...], Meta(max_length=8)] = ()


class AddressPoolStatus(BasicStatus, frozen=True, kw_only=True):
    """`size` is how many addresses it can give away, up to a million; `used` how many have somebody."""

    size: int = 0
    used: int = 0


@kind(
    group=GROUP,
    version=VERSION,
    plural="addresspools",
    categories=CATEGORIES,
    columns=(
        Column("Subnet", "string", ".spec.subnet"),
        Column("Used", "integer", ".status.used"),
        Column("Size", "integer", ".status.size"),
    ),
    rules=(rule(f"self.metadata.name.size() <= {NAME_MAX}", f"a pool's name has at most {NAME_MAX} characters"),),
)
class AddressPool(Object, frozen=True, kw_only=True):
    """Addresses of a network that Wukongs of its namespace get theirs from."""

    spec: AddressPoolSpec
    status: AddressPoolStatus = AddressPoolStatus()
