"""Several NodeBridges with a bridge of one name: on each node it belongs to one of them, and goes with the last."""

import asyncio

import pytest

from corral.kinds.nodebridge.spec import NodeBridge
from tests.unit.kinds.nodebridge.nodes import Nodes

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def with_two() -> Nodes:
    """The older has the bridge on both nodes."""
    nodes = Nodes()
    await nodes.begin(port="eth1", max_unavailable="2")
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2")
    await nodes.ask("san", port="eth2")
    return nodes


BOTH = {"corral-lan.node-1": "up", "corral-lan.node-2": "up"}


async def test_a_bridge_belongs_to_the_older_one_and_the_younger_is_told_whose_it_is() -> None:
    nodes = await with_two()
    assert nodes.policies() == BOTH
    status, reason, message = await nodes.ready("san")
    assert (status, reason) == ("False", "BridgeTaken")
    assert "bridge br0 of node node-1 belongs to NodeBridge lan; choose another bridgeName, or other nodes" in message
    assert (await nodes.ready())[:2] == ("True", "AsDesired")
    await asyncio.sleep(12 * 3600)  # a resync looks at it again
    assert len(nodes.events("BridgeTaken")) == 2, "once for each node"


async def test_two_that_are_made_in_one_moment_agree_whose_it_is() -> None:
    nodes = Nodes()
    nodes.tell_all()
    for name in ("san", "lan"):
        await nodes.make(name, port="eth1", max_unavailable="2")
    made = {b["metadata"]["name"]: b["metadata"]["creationTimestamp"] for b in nodes.server.all_of(NodeBridge)}
    assert len(set(made.values())) == 1
    nodes.operator.start()
    await nodes.rest()
    assert nodes.policies() == BOTH


async def test_the_younger_has_the_bridge_where_the_older_does_not_want_it() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", node_selector={"rack": "1"})
    await nodes.goes_well("node-1")
    await nodes.ask("san", port="eth1")
    assert nodes.policies() == {"corral-lan.node-1": "up", "corral-san.node-2": "up"}
    assert (await nodes.ready("san"))[1] == "BridgeTaken"

    await nodes.goes_well("node-2", "san")
    await nodes.change(nodeSelector=None)
    assert nodes.policies() == {"corral-lan.node-1": "up", "corral-lan.node-2": "up"}, "the older wants it now"


async def test_a_bridge_that_another_wants_stays_on_its_nodes_and_deletion_ends_though_it_never_goes() -> None:
    nodes = await with_two()
    await nodes.change("san", nodeSelector={"rack": "1"})
    await nodes.delete("lan")
    assert nodes.policies() == {"corral-lan.node-2": "absent", "corral-san.node-1": "up"}
    assert nodes.policy("node-1", "san")["desiredState"]["interfaces"][0]["bridge"]["port"] == [{"name": "eth2"}]
    await nodes.has_bridge("node-1")
    await nodes.rest()
    assert nodes.server.get(NodeBridge, "lan") is None
    assert nodes.policies() == {"corral-san.node-1": "up"}


async def test_a_bridge_that_is_being_taken_away_stays_when_another_comes_to_want_it() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", max_unavailable="2")
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2")
    await nodes.delete("lan")
    assert set(nodes.policies().values()) == {"absent"}
    await nodes.ask("san", port="eth1", max_unavailable="2")
    await nodes.rest()
    assert nodes.server.get(NodeBridge, "lan") is None
    assert nodes.policies() == {"corral-san.node-1": "up", "corral-san.node-2": "up"}


async def test_the_younger_can_go_without_taking_the_bridge_along() -> None:
    nodes = await with_two()
    await nodes.delete("san")
    await nodes.rest()
    assert nodes.server.get(NodeBridge, "san") is None
    assert nodes.policies() == BOTH


async def test_of_three_the_next_one_has_it_when_the_oldest_goes_and_the_last_takes_it_away() -> None:
    nodes = await with_two()
    await asyncio.sleep(2)
    await nodes.ask("tan", port="eth1")
    await nodes.delete("lan")
    assert "belongs to NodeBridge san" in (await nodes.ready("tan"))[2]
    await nodes.delete("tan")
    assert set(nodes.policies().values()) == {"up"}
    await nodes.delete("san")
    assert set(nodes.policies().values()) == {"absent"}
    await nodes.has_bridge()
    await nodes.rest()
    assert nodes.policies() == {}
    assert nodes.server.all_of(NodeBridge) == []
