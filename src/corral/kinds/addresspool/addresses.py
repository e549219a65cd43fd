"""The addresses of a pool, and which one somebody gets. Pure."""

import hashlib
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from corral.kinds.addresspool.spec import AddressPool
from corral.kube.models.core_v1 import ConfigMap

ADDRESS, HOLDER = "address", "holder"  # what a lease says
IP = IPv4Address | IPv6Address
SIZE_SHOWN_MAX = 1_000_000


class Addresses:
    """Those that may be given out, in order, without writing them down: a subnet of IPv6 has very many."""

    def __init__(self, pool: AddressPool) -> None:
        spec, subnet = pool.spec, ip_network(pool.spec.subnet)
        self._gateway = ip_address(spec.gateway) if spec.gateway else None
        edges = int(subnet.num_addresses > 2)  # the subnet's own address, and the one that means all of it
        whole = (int(subnet[0]) + edges, int(subnet[-1]) - edges)
        ranges = [(int(ip_address(r.first)), int(ip_address(r.last))) for r in spec.ranges] or [whole]
        self._ranges = sorted((first, last) for first, last in ranges if first <= last)
        self._make = type(subnet[0])
        self.prefix = subnet.prefixlen

    def __len__(self) -> int:
        return min(self._size, SIZE_SHOWN_MAX)

    def __contains__(self, address: object) -> bool:
        return isinstance(address, IP) and any(first <= int(address) <= last for first, last in self._ranges)

    @property
    def _size(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    def __getitem__(self, place: int) -> IP:
        for first, last in self._ranges:
            if place <= last - first:
                return self._make(first + place)
            place -= last - first + 1
        raise IndexError(place)

    def free(self, taken: Collection[IP], who: str) -> IP | None:
        """One that nobody has; each starts elsewhere, so that those who choose at once seldom choose the same."""
        if not self._size:
            return None
        start = int.from_bytes(hashlib.sha256(who.encode()).digest()[:8], "big")
        for step in range(min(self._size, len(taken) + 2)):  # of so many one is free, and not the gateway
            address = self[(start + step) % self._size]
            if address not in taken and address != self._gateway:
                return address
        return None


def is_lease(found: ConfigMap) -> bool:
    try:
        address_in(found)
    except (KeyError, ValueError):
        return False
    return True


def address_in(lease: ConfigMap) -> IP:
    return ip_address(lease.data[ADDRESS])
