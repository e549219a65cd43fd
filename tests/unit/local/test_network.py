from pathlib import Path

from corral.local.network import CONTROL, HOST, Place, Seen, missing, places
from corral.local.spec import Spec

SPEC = Spec("dev", 2, 0)
FILES = {name: Path(f"/ns/{name}") for name in (CONTROL, "node-1", "node-2")}


def place(name: str) -> Place:
    return next(each for each in places(SPEC) if each.name == name)


def fully_seen(each: Place) -> Seen:
    links = {*(b.name for b in each.bridges), *(c.name for c in each.cables), *each.ports, *each.addresses, "lo"}
    return Seen(
        links=frozenset(links),
        up=frozenset(links),
        plugged=frozenset(each.ports),
        addresses=frozenset((link, str(address)) for link, address in each.addresses.items()),
        routes=frozenset((str(route.to), str(route.via or "")) for route in each.routes),
    )


def test_nothing_is_done_where_everything_is_there() -> None:
    for each in places(SPEC):
        assert missing(each, fully_seen(each), FILES) == ()


def test_the_host_gets_one_link_an_address_and_routes_to_pods_and_services() -> None:
    assert missing(place(HOST), Seen(), FILES) == (
        "link add corral0 type veth peer name host netns /ns/control",
        "addr replace 198.18.0.1/24 dev corral0",
        "link set corral0 up",
        "route replace 198.18.8.0/24 via 198.18.0.11 dev corral0",
        "route replace 198.18.9.0/24 via 198.18.0.12 dev corral0",
        "route replace 198.18.4.0/22 via 198.18.0.11 dev corral0",
    )


def test_no_place_has_a_default_route() -> None:
    assert all(route.to.prefixlen > 0 for each in places(SPEC) for route in each.routes)


def test_a_node_that_joins_is_plugged_in_without_touching_the_others() -> None:
    before = fully_seen(next(each for each in places(Spec("dev", 1, 0)) if each.name == CONTROL))

    lines = missing(place(CONTROL), before, FILES)

    assert lines == (
        "link add node-2 type veth peer name eth0 netns /ns/node-2",
        "link set node-2 master nodes up",
        "route replace 198.18.9.0/24 via 198.18.0.12 dev nodes",
    )


def test_a_link_that_was_set_down_is_set_up_with_its_routes() -> None:
    node = place("node-1")
    seen = fully_seen(node)
    down = Seen(seen.links, seen.up - {"eth0"}, seen.plugged, seen.addresses, seen.routes)

    assert missing(node, down, FILES) == (
        "link set eth0 up",
        "route replace 198.18.9.0/24 via 198.18.0.12 dev eth0",
    )
