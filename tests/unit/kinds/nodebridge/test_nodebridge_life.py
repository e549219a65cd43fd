"""Bridges on nodes, in virtual time: made where they cut nobody off, and taken away from the nodes in the end."""

import asyncio
from typing import Any

import pytest

from corral.install.rbac import people_objects
from corral.kinds.nodebridge.guard import danger
from corral.kinds.nodebridge.spec import NodeBridge
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState, StateStatus
from corral.kinds.wukong.spec import Wukong
from corral.kube.client import Precondition
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Node, NodeAddress, NodeStatus
from corral.kube.models.rbac_v1 import ClusterRole
from tests.unit.kinds.nodebridge.nodes import SUCCESS, Nodes

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_bridge_is_a_policy_for_each_node_that_was_chosen_and_ready_when_nmstate_says_so() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", node_selector={"rack": "1"}, mtu=9000)
    assert nodes.policies() == {"corral-lan.node-1": "up"}
    spec = nodes.policy()
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "node-1.test"}
    (interface,) = spec["desiredState"]["interfaces"]
    assert interface["bridge"] == {"options": {"stp": {"enabled": False}}, "port": [{"name": "eth1"}]}
    assert (interface["type"], interface["state"], interface["mtu"]) == ("linux-bridge", "up", 9000)
    assert interface["ipv4"] == {"enabled": False}
    assert (await nodes.ready())[:2] == ("False", "NodesChanging")
    assert (await nodes.client.get(NodeBridge, "lan")).status.nodes == (), "none has it yet"

    await nodes.nmstate_says(SUCCESS, "node-1")
    await nodes.has_bridge("node-1")
    assert (await nodes.ready())[:2] == ("False", "NodesChanging")  # its packets are smaller than they are to be
    await nodes.has_bridge("node-1", mtu=9000)
    assert (await nodes.ready())[:2] == ("True", "AsDesired")
    assert (await nodes.client.get(NodeBridge, "lan")).status.nodes == ("node-1",)


@pytest.mark.parametrize(
    ("port", "reason", "told"),
    [
        ("eth0", "ManagementInterface", "eth0 of node node-2 carries the node's own address"),
        ("eth2", "ManagementInterface", "eth2 of node node-2 carries the node's default route"),
        ("eth7", "PortMissing", "node node-2 has no interface eth7; it has eth0, eth1, eth2"),
    ],
)
async def test_an_interface_that_a_node_cannot_do_without_is_never_touched(port: str, reason: str, told: str) -> None:
    nodes = Nodes()
    await nodes.begin(port=port)
    assert nodes.policy("node-2") is None
    status, found, message = await nodes.ready()
    assert (status, found) == ("False", reason)
    assert told in message
    await asyncio.sleep(12 * 3600)  # a resync looks at it again
    assert len([event for event in nodes.events(reason) if told in event]) == 1


OWN = {"ipv4": {"address": [{"ip": "192.0.2.1", "prefix-length": 24}]}}
BOND = {"name": "bond0", "link-aggregation": {"mode": "802.3ad", "port": ["eth1", "eth2"]}}


@pytest.mark.parametrize(
    "interfaces",
    [
        ({"name": "eth1"}, {**BOND, **OWN}),
        ({"name": "eth1", "controller": "bond0"}, {"name": "bond0", **OWN}),
        ({"name": "eth1"}, BOND, {"name": "bond0.7", "vlan": {"base-iface": "bond0", "id": 7}, **OWN}),
        ({"name": "eth1"}, {"name": "br-ex", "bridge": {"port": [{"name": "eth1"}]}, **OWN}),
        (
            {"name": "eth1", "controller": "ovs"},
            {"name": "ovs", "type": "ovs-bridge", "bridge": {"port": [{"name": "eth1"}, {"name": "ovs0"}]}},
            {"name": "ovs0", "type": "ovs-interface", "controller": "ovs", **OWN},
        ),
    ],
    ids=["port of a bond", "by its controller", "under a VLAN", "port of a bridge", "port of an Open vSwitch"],
)
def test_what_carries_the_nodes_address_higher_up_is_never_touched(interfaces: tuple[dict[str, Any], ...]) -> None:
    state = NodeNetworkState(
        metadata=ObjectMeta(name="node-1"), status=StateStatus(current_state={"interfaces": list(interfaces)})
    )
    address = NodeAddress(type="InternalIP", address="192.0.2.1")
    node = Node(metadata=ObjectMeta(name="node-1"), status=NodeStatus(addresses=(address,)))
    found = danger(node, state, "eth1")
    assert found is not None
    assert f"carries the node's own address (of {interfaces[-1]['name']})" in found.message
    other = NodeAddress(type="InternalIP", address="192.0.2.9")
    assert danger(Node(metadata=node.metadata, status=NodeStatus(addresses=(other,))), state, "eth1") is None


async def test_a_node_that_nmstate_has_not_told_of_is_waited_for_and_the_others_are_not() -> None:
    nodes = Nodes()
    nodes.tell("node-1", "192.0.2.1")
    nodes.operator.start()
    await nodes.ask(port="eth1", max_unavailable="2")
    assert nodes.policies() == {"corral-lan.node-1": "up"}
    assert "waiting for NodeNetworkState node-2" in (await nodes.ready())[2]

    nodes.tell("node-2", "192.0.2.2")
    await nodes.rest()
    assert nodes.policy("node-2") is not None


async def test_a_node_that_joins_later_is_looked_at_before_a_policy_reaches_it() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", max_unavailable="2")
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2")
    assert (await nodes.ready())[0] == "True"
    nodes.add_node("node-3", "192.0.2.3")
    nodes.tell("node-3", "192.0.2.3", routed_by="eth1")
    await nodes.rest()
    selected = [policy["spec"]["nodeSelector"] for policy in nodes.server.all_of(NodeNetworkConfigurationPolicy)]
    assert selected == [{"kubernetes.io/hostname": f"node-{number}.test"} for number in (1, 2)]
    assert (await nodes.ready())[:2] == ("False", "ManagementInterface")


async def test_as_many_nodes_as_may_be_are_changed_at_a_time_and_none_after_a_refusal() -> None:
    nodes = Nodes()
    nodes.add_node("node-3", "192.0.2.3")
    nodes.tell("node-3", "192.0.2.3")
    await nodes.begin(port="eth1", max_unavailable="33%")
    assert nodes.policies() == {"corral-lan.node-1": "up"}
    await nodes.goes_well("node-1")
    assert nodes.policies() == {"corral-lan.node-1": "up", "corral-lan.node-2": "up"}

    await nodes.nmstate_says({"type": "Degraded", "status": "True", "reason": "", "message": "no carrier"}, "node-2")
    status, reason, message = await nodes.ready()
    assert (status, reason) == ("False", "NodesRefused")
    assert "on node node-2: no carrier" in message
    assert nodes.policy("node-3") is None
    assert len(nodes.events("NodesRefused")) == 1


async def test_of_many_nodes_that_cannot_have_it_as_many_are_told_as_the_condition_names_and_each_once() -> None:
    nodes = Nodes()
    for number in range(3, 10):
        nodes.add_node(f"node-{number}", f"192.0.2.{number}")
        nodes.tell(f"node-{number}", f"192.0.2.{number}")
    await nodes.begin(port="eth0")
    await asyncio.sleep(12 * 3600)  # a resync looks at it again
    told = nodes.events("ManagementInterface")
    assert len(told) == len(set(told)) == 5
    shown = (await nodes.ready())[2]
    assert all(event in shown for event in told)


async def test_a_change_of_the_bridge_goes_from_node_to_node() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1")
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2")
    await nodes.change(mtu=9000)
    sizes = [nodes.policy(f"node-{n}")["desiredState"]["interfaces"][0].get("mtu") for n in (1, 2)]
    assert sizes == [9000, None]


async def test_deletion_takes_the_bridge_away_from_the_nodes_first() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", max_unavailable="2")
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2")
    await nodes.client.delete(NodeBridge, "lan", precondition=Precondition())
    await asyncio.sleep(15)
    assert nodes.policies() == {"corral-lan.node-1": "absent", "corral-lan.node-2": "absent"}
    assert nodes.server.get(NodeBridge, "lan") is not None

    await nodes.has_bridge("node-2")
    assert "away from node-2" in (await nodes.ready())[2]
    await nodes.has_bridge()
    await nodes.rest()
    assert nodes.policies() == {}
    assert nodes.server.get(NodeBridge, "lan") is None


async def test_deletion_does_not_wait_for_a_bridge_of_that_name_on_nodes_of_another() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", node_selector={"rack": "1"})
    await nodes.ask("other", port="eth1", node_selector={"rack": "2"})
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2", "other")
    await nodes.client.delete(NodeBridge, "lan", precondition=Precondition())
    await asyncio.sleep(15)
    await nodes.has_bridge("node-2")
    await nodes.rest()
    assert nodes.server.get(NodeBridge, "lan") is None
    assert nodes.policies() == {"corral-other.node-2": "up"}


async def test_nodes_that_are_no_longer_chosen_lose_the_bridge_and_one_that_is_gone_needs_nothing() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", max_unavailable="2")
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2")
    await nodes.change(nodeSelector={"rack": "2"})
    assert nodes.policies() == {"corral-lan.node-1": "absent", "corral-lan.node-2": "up"}
    assert (await nodes.ready())[:2] == ("False", "NodesLeaving")
    await nodes.has_bridge("node-2")
    assert nodes.policies() == {"corral-lan.node-2": "up"}

    await nodes.client.delete(Node, "node-2", precondition=Precondition())
    await asyncio.sleep(15)
    assert nodes.policies() == {}
    assert (await nodes.ready())[1] == "NoSuchNodes"


async def test_a_policy_of_somebody_else_under_the_name_of_ours_is_told_and_never_touched() -> None:
    nodes = Nodes()
    metadata = ObjectMeta(name="corral-lan.node-1")
    await nodes.client.create(NodeNetworkConfigurationPolicy(metadata=metadata), field_manager="admin")
    await nodes.begin(port="eth1")
    assert (await nodes.ready())[:2] == ("False", "NameTaken")
    await nodes.client.delete(NodeBridge, "lan", precondition=Precondition())
    await asyncio.sleep(15)
    await nodes.has_bridge()
    await nodes.rest()
    assert nodes.server.get(NodeBridge, "lan") is None
    assert nodes.server.get(NodeNetworkConfigurationPolicy, "corral-lan.node-1") is not None


async def test_without_nmstate_it_is_named_and_the_work_goes_on_when_it_comes() -> None:
    nodes = Nodes(lacking=True)
    nodes.operator.start()
    await nodes.ask(port="eth1")
    assert (await nodes.ready())[1] == "NMStateMissing"
    await asyncio.sleep(12 * 3600)  # a resync looks at it again
    (told,) = nodes.events("NMStateMissing")
    assert "does not serve nodenetworkconfigurationpolicies.nmstate.io: install NMState" in told
    nodes.install()
    nodes.tell_all()
    await asyncio.sleep(30)
    await nodes.rest()
    assert nodes.policies() == {"corral-lan.node-1": "up"}


async def test_policies_that_went_with_nmstates_definition_are_made_again_when_it_is_back() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", max_unavailable="2")
    nodes.uninstall()
    await asyncio.sleep(60)
    assert (await nodes.ready())[1] == "NMStateMissing"
    assert len(nodes.events("NMStateMissing")) == 1
    nodes.install()
    nodes.tell_all()
    await asyncio.sleep(60)
    await nodes.rest()
    assert nodes.policies() == {"corral-lan.node-1": "up", "corral-lan.node-2": "up"}
    await nodes.goes_well("node-1")
    await nodes.goes_well("node-2")
    assert (await nodes.ready())[:2] == ("True", "AsDesired")


async def test_a_bridge_can_go_though_nmstate_has_gone() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1")
    nodes.uninstall()
    await asyncio.sleep(60)
    assert (await nodes.ready())[1] == "NMStateMissing"
    await nodes.client.delete(NodeBridge, "lan", precondition=Precondition())
    await asyncio.sleep(30)
    assert nodes.server.get(NodeBridge, "lan") is None


def test_who_may_edit_a_namespace_may_not_touch_the_nodes() -> None:
    roles = {role.metadata.name: role for role in people_objects((Wukong, NodeBridge)) if isinstance(role, ClusterRole)}
    edited = {resource for rule in roles["corral-edit"].rules or () for resource in rule.resources}
    assert edited == {"wukongs"}
