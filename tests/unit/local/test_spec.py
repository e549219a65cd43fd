from ipaddress import IPv4Network

import pytest

from corral.local.errors import LocalError
from corral.local.spec import BLOCKS, NODES_MAX, RANGE, Spec, checked_node_count, free_block


def test_the_subnets_of_a_cluster_lie_in_its_block_and_do_not_overlap() -> None:
    spec = Spec("dev", NODES_MAX, 31)
    subnets = (spec.machines, spec.services, *(node.pods for node in spec.nodes))

    assert all(subnet.subnet_of(BLOCKS[31]) for subnet in subnets)
    assert not any(a.overlaps(b) for a in subnets for b in subnets if a is not b)
    assert all(node.pods.subnet_of(spec.pods) and node.address in spec.machines for node in spec.nodes)


def test_two_clusters_share_no_address_and_no_name_on_the_host() -> None:
    one, other = Spec("a", 1, 0), Spec("b", 1, 1)

    assert BLOCKS[one.block].overlaps(BLOCKS[other.block]) is False
    assert one.link != other.link
    assert one.cgroup != other.cgroup


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param((), 0, id="a free host"),
        pytest.param((BLOCKS[0],), 1, id="another cluster"),
        pytest.param((IPv4Network("198.18.5.0/24"), IPv4Network("198.18.16.7/32")), 2, id="routes inside blocks"),
        pytest.param((IPv4Network("198.18.0.0/16"),), 16, id="a route over half of the range"),
        pytest.param((IPv4Network("10.0.0.0/8"),), 0, id="routes elsewhere"),
    ],
)
def test_a_new_cluster_gets_the_first_block_that_is_free(taken: tuple[IPv4Network, ...], expected: int) -> None:
    assert free_block(taken) == expected


def test_a_full_range_is_told_with_what_to_do() -> None:
    with pytest.raises(LocalError, match=r"no free subnet.*take a cluster down"):
        free_block((RANGE,))


@pytest.mark.parametrize(
    ("wanted", "existing", "expected"),
    [(None, None, 1), (3, None, 3), (None, 2, 2), (4, 2, 4), (2, 2, 2)],
)
def test_a_cluster_keeps_its_nodes_or_grows(wanted: int | None, existing: int | None, expected: int) -> None:
    assert checked_node_count(wanted, existing) == expected


@pytest.mark.parametrize(("wanted", "existing", "says"), [(1, 3, "cannot shrink"), (6, None, "expected 1 to 5")])
def test_a_number_of_nodes_is_refused_when(wanted: int, existing: int | None, says: str) -> None:
    with pytest.raises(LocalError, match=says):
        checked_node_count(wanted, existing)
