"""Bridges on nodes, in virtual time: made where they cut nobody off, and taken away from the nodes in the end."""

import asyncio
from typing import Any

import pytest

from corral.install.rbac import people_objects
from corral.kinds.nodebridge.controller import controller
from corral.kinds.nodebridge.guard import danger
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeSpec
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState, StateStatus
from corral.kinds.wukong.spec import Wukong
from corral.kube.client import Client, Precondition
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.core_v1 import Node, NodeAddress, NodeStatus
from corral.kube.models.rbac_v1 import ClusterRole
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from tests.unit.kinds.wukong.world import definition_of

pytestmark = pytest.mark.looptime(noop_cycles=0)

NMSTATE: tuple[type[Object], ...] = (NodeNetworkConfigurationPolicy, NodeNetworkState)
SUCCESS = {"type": "Available", "status": "True", "reason": "SuccessfullyConfigured", "message": ""}


class Nodes:
    """A cluster of two nodes with NMState, whose word a test gives by hand."""

    def __init__(self, *, lacking: bool = False) -> None:
        self.server = FakeApiServer(seed=1)
        self.server.register(NodeBridge, status=True)
        if not lacking:
            self.install()
        for number in (1, 2):
            self.add_node(f"node-{number}", f"192.0.2.{number}")
        self.client = Client(self.server.connect("admin"))
        self.operator = Operator(self.server, controller)

    def install(self) -> None:
        for kind in NMSTATE:
            self.server.add(definition_of(kind))

    def uninstall(self) -> None:
        for kind in NMSTATE:
            self.server.unregister(kind)
            self.server.remove(CustomResourceDefinition, kind.resource.plural_and_group)

    def add_node(self, name: str, address: str) -> None:
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        metadata = {"name": name, "labels": {"rack": name[-1], "kubernetes.io/hostname": f"{name}.test"}}
        self.server.add({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})

    def tell(self, name: str, address: str, *, routed_by: str = "eth0") -> None:
        """What NMState says of a node: eth0 has its address, eth1 and eth2 have none."""
        own = {"name": "eth0", "ipv4": {"enabled": True, "address": [{"ip": address, "prefix-length": 24}]}}
        routes = {"running": [{"destination": "0.0.0.0/0", "next-hop-interface": routed_by}]}
        state = {"interfaces": [own, {"name": "eth1"}, {"name": "eth2"}], "routes": routes}
        api_version = NodeNetworkState.resource.api_version
        document = {"apiVersion": api_version, "kind": "NodeNetworkState", "metadata": {"name": name}}
        self.server.add({**document, "status": {"currentState": state}})

    async def has_bridge(self, *names: str, port: str = "eth1", mtu: int = 1500) -> None:
        """NMState tells anew: only these nodes have br0."""
        bridge = {"name": "br0", "bridge": {"port": [{"name": port}]}, "mtu": mtu}
        for state in self.server.all_of(NodeNetworkState):
            others = [i for i in state["status"]["currentState"]["interfaces"] if i["name"] != "br0"]
            await self.has(
                state["metadata"]["name"], *others, *([bridge] if state["metadata"]["name"] in names else [])
            )
        await asyncio.sleep(15)

    async def has(self, node: str, *interfaces: Any) -> None:
        await self.client.patch(
            NodeNetworkState,
            node,
            merge={"status": {"currentState": {"interfaces": list(interfaces)}}},
            precondition=Precondition(),
            field_manager="nmstate",
            subresource="status",
        )

    async def ask(self, name: str = "lan", **spec: Any) -> None:
        bridge = NodeBridge(metadata=ObjectMeta(name=name), spec=NodeBridgeSpec(bridge_name="br0", **spec))
        await self.client.create(bridge, field_manager="admin")
        await self.rest()

    async def change(self, **spec: Any) -> None:
        await self.client.patch(
            NodeBridge, "lan", merge={"spec": spec}, precondition=Precondition(), field_manager="admin"
        )
        await asyncio.sleep(15)

    def tell_all(self) -> None:
        self.tell("node-1", "192.0.2.1")
        self.tell("node-2", "192.0.2.2", routed_by="eth2")

    async def begin(self, **spec: Any) -> None:
        self.tell_all()
        self.operator.start()
        await self.ask(**spec)

    async def rest(self) -> None:
        await converged(self.server, controller, within_s=300, quiet_s=11.0)

    async def nmstate_says(self, condition: dict[str, str], node: str, bridge: str = "lan") -> None:
        await self.client.patch(
            NodeNetworkConfigurationPolicy,
            f"corral-{bridge}.{node}",
            merge={"status": {"conditions": [condition]}},
            precondition=Precondition(),
            field_manager="nmstate",
            subresource="status",
        )
        await asyncio.sleep(15)

    async def goes_well(self, node: str, bridge: str = "lan") -> None:
        """NMState makes the bridge on the node, and says so."""
        await self.has_bridge(*self.with_bridge(), node)
        await self.nmstate_says(SUCCESS, node, bridge)

    def with_bridge(self) -> list[str]:
        states = self.server.all_of(NodeNetworkState)
        return [
            state["metadata"]["name"]
            for state in states
            if any(i["name"] == "br0" for i in state["status"]["currentState"]["interfaces"])
        ]

    async def ready(self) -> tuple[str, str, str]:
        found = (await self.client.get(NodeBridge, "lan")).status.conditions[0]
        return found.status, found.reason, found.message

    def events(self, reason: str) -> list[str]:
        resource = Resource("events.k8s.io", "v1", "Event", "events", True)
        return [e["note"] for e in self.server.all_of(resource, "default") if e["reason"] == reason]

    def policy(self, node: str = "node-1", bridge: str = "lan") -> Any:
        found = self.server.get(NodeNetworkConfigurationPolicy, f"corral-{bridge}.{node}")
        return found["spec"] if found else None

    def policies(self) -> dict[str, str]:
        """What each policy says of the bridge."""
        return {
            policy["metadata"]["name"]: policy["spec"]["desiredState"]["interfaces"][0]["state"]
            for policy in self.server.all_of(NodeNetworkConfigurationPolicy)
        }


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
