"""The addresses of a pool, and which one somebody gets. Pure."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
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
        edges = int(subnet.num_addresses > 2)  # the subnet's own address, and the one that means all of it
        whole = (int(subnet[0]) + edges, int(subnet[-1]) - edges)
        ranges = [(int(ip_address(r.first)), int(ip_address(r.last))) for r in spec.ranges] or [whole]
        self._ranges = tuple(_without(_merged(ranges), int(ip_address(spec.gateway)) if spec.gateway else None))
        self._size = sum(last - first + 1 for first, last in self._ranges)
        self._make = type(subnet[0])
        self.prefix = subnet.prefixlen

    def __len__(self) -> int:
        return min(self._size, SIZE_SHOWN_MAX)

    def __contains__(self, address: object) -> bool:
        return isinstance(address, IP) and any(first <= int(address) <= last for first, last in self._ranges)

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
        for step in range(min(self._size, len(taken) + 1)):  # of so many one is free
            address = self[(start + step) % self._size]
            if address not in taken:
                return address
        return None


Range = tuple[int, int]


def _merged(ranges: Iterable[Range]) -> Iterator[Range]:
    """Those that overlap or touch as one, so that each address counts once."""
    before: Range | None = None
    for first, last in sorted(ranges):
        if last < first:
            continue
        if before is not None and first <= before[1] + 1:
            before = (before[0], max(before[1], last))
            continue
        yield from (before,) if before else ()
        before = (first, last)
    yield from (before,) if before else ()


def _without(ranges: Iterable[Range], gateway: int | None) -> Iterator[Range]:
    for first, last in ranges:
        parts = (
            ((first, gateway - 1), (gateway + 1, last)) if gateway and first <= gateway <= last else ((first, last),)
        )
        yield from (part for part in parts if part[0] <= part[1])


def is_lease(found: ConfigMap) -> bool:
    try:
        address_in(found)
    except (KeyError, ValueError):
        return False
    return True


def address_in(lease: ConfigMap) -> IP:
    return ip_address(lease.data[ADDRESS])
