"""What a local cluster is: its name, its nodes and the addresses it uses. Pure values; nothing here looks at the host.

Addresses come from 198.18.0.0/15, which is reserved for tests of network devices and routed nowhere. It is cut into
32 blocks of a /20, one a cluster:

    +0   /24  machines: .1 the host, .2 the control plane, .11 and on the nodes
    +4   /22  services
    +8   /21  pods, a /24 a node
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

import msgspec

from corral.local.errors import LocalError

NODES_MAX = 5
RANGE = IPv4Network("198.18.0.0/15")
BLOCKS: tuple[IPv4Network, ...] = tuple(RANGE.subnets(new_prefix=20))
DOMAIN = "cluster.local"


class Node(msgspec.Struct, frozen=True):
    """A machine of the cluster: a network and a mount namespace with a kubelet and a containerd."""

    name: str
    address: IPv4Address
    pods: IPv4Network


class Spec(msgspec.Struct, frozen=True):
    """One cluster. Everything about it that is not a secret follows from these values."""

    name: str
    node_count: int
    block: int
    audit: bool = False

    @property
    def machines(self) -> IPv4Network:
        return _slice(self.block, 0, 24)

    @property
    def services(self) -> IPv4Network:
        return _slice(self.block, 4, 22)

    @property
    def pods(self) -> IPv4Network:
        return _slice(self.block, 8, 21)

    @property
    def host_address(self) -> IPv4Address:
        return self.machines[1]

    @property
    def control_address(self) -> IPv4Address:
        return self.machines[2]

    @property
    def nodes(self) -> tuple[Node, ...]:
        pods = tuple(self.pods.subnets(new_prefix=24))
        return tuple(Node(f"node-{n}", self.machines[10 + n], pods[n - 1]) for n in range(1, self.node_count + 1))

    @property
    def link(self) -> str:
        """The one link the host gets."""
        return f"corral{self.block}"

    @property
    def context(self) -> str:
        return f"corral-{self.name}"

    @property
    def server(self) -> str:
        return f"https://{self.control_address}:6443"

    @property
    def cgroup(self) -> str:
        return f"corral{self.block}-{self.name}"


def checked_node_count(wanted: int | None, existing: int | None) -> int:
    """How many nodes the cluster is to have. A cluster grows in place and never shrinks: pods may run there."""
    count = wanted or existing or 1
    if not 1 <= count <= NODES_MAX:
        raise LocalError(f"number of nodes: expected 1 to {NODES_MAX}, got {count}")
    if existing and count < existing:
        raise LocalError(f"the cluster has {existing} nodes and cannot shrink to {count}: take it down first")
    return count


def free_block(taken: Iterable[IPv4Network]) -> int:
    """The first block that overlaps nothing in use on the host or by another cluster."""
    in_use = tuple(taken)
    for number, block in enumerate(BLOCKS):
        if not any(block.overlaps(network) for network in in_use):
            return number
    raise LocalError(
        f"no free subnet: all {len(BLOCKS)} blocks of {RANGE} are in use by other clusters or by routes of this host; "
        "take a cluster down, or remove the routes (`ip route`)"
    )


def _slice(block: int, offset: int, prefix: int) -> IPv4Network:
    return IPv4Network((int(BLOCKS[block].network_address) + offset * 256, prefix))
