"""The cluster's network: namespaces joined by a bridge, one link to the host, and no way out.

    host ── corral<N> ┊ host ─┐                    The bridge lives in the control namespace, not on the host, so the
                      ┊     nodes (bridge) .2      host's firewall and bridge settings never see traffic between nodes.
    node-1: eth0 .11 ─┊─ node-1 ─┤                 Nobody has a default route. The host gets one link and its routes.
    node-2: eth0 .12 ─┊─ node-2 ─┘

Inside a node the CNI plugin makes a point-to-point link for each pod. `services` is a bridge without ports: a packet
to a service needs some route before NAT gives it a real destination.

`places` says what is to be, `observe` what there is, `missing` the `ip` commands in between.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

import msgspec

from corral.local.commands import run
from corral.local.home import Home
from corral.local.spec import BLOCKS, Spec

HOST = "host"
CONTROL = "control"


class Route(msgspec.Struct, frozen=True, order=True):
    to: IPv4Network
    via: IPv4Address | None
    link: str


class Bridge(msgspec.Struct, frozen=True):
    name: str


class Cable(msgspec.Struct, frozen=True):
    """A veth pair. It is made from the place it is listed at; the far end appears in the other place."""

    name: str
    far_place: str
    far_name: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A network namespace, or the host."""

    name: str
    bridges: tuple[Bridge, ...] = ()
    cables: tuple[Cable, ...] = ()
    ports: tuple[str, ...] = ()  # links plugged into the first bridge
    addresses: Mapping[str, IPv4Interface] = {}
    routes: tuple[Route, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    """What one place has now. A link that is down or not plugged in counts as not there yet."""

    links: frozenset[str] = frozenset()
    up: frozenset[str] = frozenset()
    plugged: frozenset[str] = frozenset()
    addresses: frozenset[tuple[str, str]] = frozenset()
    routes: frozenset[tuple[str, str]] = frozenset()  # destination, gateway


def places(spec: Spec) -> tuple[Place, ...]:
    machines = spec.machines.prefixlen
    first = spec.nodes[0]
    pods = {node.name: Route(node.pods, node.address, "") for node in spec.nodes}
    control = Place(
        name=CONTROL,
        bridges=(Bridge("nodes"),),
        ports=("host", *(node.name for node in spec.nodes)),
        cables=tuple(Cable(node.name, node.name, "eth0") for node in spec.nodes),
        addresses={"nodes": IPv4Interface((spec.control_address, machines))},
        routes=(*_through("nodes", pods.values()), Route(spec.services, first.address, "nodes")),
    )
    host = Place(
        name=HOST,
        cables=(Cable(spec.link, CONTROL, "host"),),
        addresses={spec.link: IPv4Interface((spec.host_address, machines))},
        routes=(*_through(spec.link, pods.values()), Route(spec.services, first.address, spec.link)),
    )
    nodes = tuple(
        Place(
            name=node.name,
            bridges=(Bridge("services"),),
            addresses={"eth0": IPv4Interface((node.address, machines))},
            routes=(
                *_through("eth0", (route for name, route in pods.items() if name != node.name)),
                Route(spec.services, None, "services"),
            ),
        )
        for node in spec.nodes
    )
    # In this order each place finds the far ends of the cables it addresses or plugs in.
    return (host, control, *nodes)


def missing(place: Place, seen: Seen, files: Mapping[str, Path]) -> tuple[str, ...]:
    """Lines for `ip -batch`, run inside the place; none when everything is as it should be."""
    loopback = () if place.name == HOST or "lo" in seen.up else ("link set lo up",)
    bridges = [f"link add {bridge.name} type bridge" for bridge in place.bridges if bridge.name not in seen.links]
    cables = [
        f"link add {cable.name} type veth peer name {cable.far_name} netns {files[cable.far_place]}"
        for cable in place.cables
        if cable.name not in seen.links
    ]
    plugs = [f"link set {port} master {place.bridges[0].name} up" for port in place.ports if port not in seen.plugged]
    addresses = [
        f"addr replace {address} dev {link}"
        for link, address in place.addresses.items()
        if (link, str(address)) not in seen.addresses
    ]
    own = {*(bridge.name for bridge in place.bridges), *place.addresses}
    ups = [f"link set {link} up" for link in sorted(own - seen.up)]
    routes = [
        f"route replace {route.to}{f' via {route.via}' if route.via else ''} dev {route.link}"
        for route in place.routes
        if (str(route.to), str(route.via or "")) not in seen.routes or route.link not in seen.up
    ]
    return (*loopback, *bridges, *cables, *plugs, *addresses, *ups, *routes)


def observe(file: Path | None) -> Seen:
    """Look into a namespace, or at the host when there is no file."""
    links = msgspec.json.decode(run([*_inside(file), "ip", "-j", "addr", "show"]), type=list[_Link])
    routes = msgspec.json.decode(run([*_inside(file), "ip", "-j", "-4", "route", "show"]) or "[]", type=list[_Route])
    return Seen(
        links=frozenset(link.ifname for link in links),
        up=frozenset(link.ifname for link in links if "UP" in link.flags),
        plugged=frozenset(link.ifname for link in links if link.master and "UP" in link.flags),
        addresses=frozenset((link.ifname, f"{a.local}/{a.prefixlen}") for link in links for a in link.addr_info),
        routes=frozenset((route.dst, route.gateway) for route in routes),
    )


def ensure(spec: Spec, home: Home) -> int:
    """Make what is missing; returns how many commands that took."""
    files = {CONTROL: home.control_network, **{node.name: home.network(node) for node in spec.nodes}}
    count = 0
    for place in places(spec):
        file = files.get(place.name)
        lines = missing(place, observe(file), files)
        if lines:
            run([*_inside(file), "ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
        count += len(lines)
    return count


def remove(spec: Spec) -> None:
    """Take the host's link away, and with it its routes. The rest goes with the namespaces."""
    if spec.link in observe(None).links:
        run(["ip", "link", "delete", spec.link])


def in_use() -> tuple[IPv4Network, ...]:
    """What this host already routes somewhere; a default route is no claim on our range."""
    return tuple(network for network, _ in _claims())


def is_claimed_by_another(spec: Spec) -> bool:
    """Whether something other than the cluster's own link leads to its subnet."""
    return any(BLOCKS[spec.block].overlaps(network) for network, link in _claims() if link != spec.link)


def _claims() -> tuple[tuple[IPv4Network, str], ...]:
    routes = msgspec.json.decode(run(["ip", "-j", "-4", "route", "show", "table", "all"]) or "[]", type=list[_Route])
    return tuple((IPv4Network(route.dst, strict=False), route.dev) for route in routes if route.dst != "default")


class _Address(msgspec.Struct):
    local: str = ""
    prefixlen: int = 0


class _Link(msgspec.Struct):
    ifname: str = ""
    flags: tuple[str, ...] = ()
    master: str = ""
    addr_info: tuple[_Address, ...] = ()


class _Route(msgspec.Struct):
    dst: str
    gateway: str = ""
    dev: str = ""


def _inside(file: Path | None) -> tuple[str, ...]:
    return () if file is None else ("nsenter", f"--net={file}", "--")


def _through(link: str, routes: Iterable[Route]) -> tuple[Route, ...]:
    return tuple(Route(route.to, route.via, link) for route in routes)
