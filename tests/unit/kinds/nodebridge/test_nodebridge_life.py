"""Bridges on nodes, in virtual time: made where they cut nobody off, and taken away from the nodes in the end."""

import asyncio
from typing import Any

import pytest

from corral.install.rbac import people_objects
from corral.kinds.nodebridge.controller import controller
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeSpec
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState
from corral.kinds.wukong.spec import Wukong
from corral.kube.client import Client, Precondition
from corral.kube.meta import Object, ObjectMeta
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

    def add_node(self, name: str, address: str) -> None:
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        metadata = {"name": name, "labels": {"rack": name[-1]}}
        self.server.add({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})

    def tell(self, name: str, address: str, *, routed_by: str = "eth0") -> None:
        """What NMState says of a node: eth0 has its address, eth1 and eth2 have none."""
        own = {"name": "eth0", "ipv4": {"enabled": True, "address": [{"ip": address, "prefix-length": 24}]}}
        routes = {"running": [{"destination": "0.0.0.0/0", "next-hop-interface": routed_by}]}
        state = {"interfaces": [own, {"name": "eth1"}, {"name": "eth2"}], "routes": routes}
        api_version = NodeNetworkState.resource.api_version
        document = {"apiVersion": api_version, "kind": "NodeNetworkState", "metadata": {"name": name}}
        self.server.add({**document, "status": {"currentState": state}})

    async def has_bridge(self, *names: str) -> None:
        """NMState tells anew: only these nodes have br0."""
        for name in ("node-1", "node-2"):
            before = self.server.get(NodeNetworkState, name)
            assert before is not None
            others = [i for i in before["status"]["currentState"]["interfaces"] if i["name"] != "br0"]
            now = [*others, {"name": "br0"}] if name in names else others
            await self.client.patch(
                NodeNetworkState,
                name,
                merge={"status": {"currentState": {"interfaces": now}}},
                precondition=Precondition(),
                field_manager="nmstate",
                subresource="status",
            )
        await asyncio.sleep(15)

    async def ask(self, **spec: Any) -> None:
        bridge = NodeBridge(metadata=ObjectMeta(name="lan"), spec=NodeBridgeSpec(bridge_name="br0", **spec))
        await self.client.create(bridge, field_manager="admin")
        await self.rest()

    async def begin(self, **spec: Any) -> None:
        self.tell("node-1", "192.0.2.1")
        self.tell("node-2", "192.0.2.2", routed_by="eth2")
        self.operator.start()
        await self.ask(**spec)

    async def rest(self) -> None:
        await converged(self.server, controller, within_s=300, quiet_s=11.0)

    async def nmstate_says(self, condition: dict[str, str]) -> None:
        await self.client.patch(
            NodeNetworkConfigurationPolicy,
            "corral-lan",
            merge={"status": {"conditions": [condition]}},
            precondition=Precondition(),
            field_manager="nmstate",
            subresource="status",
        )
        await asyncio.sleep(15)

    async def ready(self) -> tuple[str, str, str]:
        found = (await self.client.get(NodeBridge, "lan")).status.conditions[0]
        return found.status, found.reason, found.message

    def policy(self) -> Any:
        found = self.server.get(NodeNetworkConfigurationPolicy, "corral-lan")
        return found["spec"] if found else None


async def test_a_bridge_is_one_policy_for_the_nodes_that_were_chosen_and_ready_when_nmstate_says_so() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1", node_selector={"rack": "1"}, mtu=9000)
    spec = nodes.policy()
    assert (spec["nodeSelector"], spec["maxUnavailable"]) == ({"rack": "1"}, 1)
    (interface,) = spec["desiredState"]["interfaces"]
    assert interface["bridge"] == {"options": {"stp": {"enabled": False}}, "port": [{"name": "eth1"}]}
    assert (interface["type"], interface["state"], interface["mtu"]) == ("linux-bridge", "up", 9000)
    assert interface["ipv4"] == {"enabled": False}
    assert (await nodes.ready())[:2] == ("False", "NodesChanging")

    await nodes.nmstate_says(SUCCESS)
    assert (await nodes.ready())[:2] == ("False", "NodesChanging")
    await nodes.has_bridge("node-1")
    assert (await nodes.ready())[:2] == ("True", "AsDesired")
    assert (await nodes.client.get(NodeBridge, "lan")).status.nodes == ("node-1",)


@pytest.mark.parametrize(
    ("port", "reason", "told"),
    [
        ("eth0", "ManagementInterface", "eth0 of node node-1 carries the node's own address"),
        ("eth2", "ManagementInterface", "eth2 of node node-2 carries the node's default route"),
        ("eth7", "PortMissing", "node node-1 has no interface eth7; it has eth0, eth1, eth2"),
    ],
)
async def test_an_interface_that_a_node_cannot_do_without_is_never_touched(port: str, reason: str, told: str) -> None:
    nodes = Nodes()
    await nodes.begin(port=port)
    assert nodes.policy() is None
    status, found, message = await nodes.ready()
    assert (status, found) == ("False", reason)
    assert told in message


async def test_a_node_that_nmstate_has_not_told_of_is_waited_for() -> None:
    nodes = Nodes()
    nodes.tell("node-1", "192.0.2.1")
    nodes.operator.start()
    await nodes.ask(port="eth1")
    assert nodes.policy() is None
    assert (await nodes.ready())[1] == "NodeUnknown"

    nodes.tell("node-2", "192.0.2.2")
    await nodes.rest()
    assert nodes.policy() is not None


async def test_what_nmstate_took_back_is_told_in_its_words() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1")
    await nodes.nmstate_says({"type": "Degraded", "status": "True", "reason": "", "message": "node-2: no carrier"})
    status, reason, message = await nodes.ready()
    assert (status, reason) == ("False", "NodesRefused")
    assert "node-2: no carrier" in message


async def test_deletion_takes_the_bridge_away_from_the_nodes_first() -> None:
    nodes = Nodes()
    await nodes.begin(port="eth1")
    await nodes.nmstate_says(SUCCESS)
    await nodes.has_bridge("node-1", "node-2")
    await nodes.client.delete(NodeBridge, "lan", precondition=Precondition())
    await asyncio.sleep(15)
    assert [i["state"] for i in nodes.policy()["desiredState"]["interfaces"]] == ["absent"]
    assert nodes.server.get(NodeBridge, "lan") is not None

    await nodes.has_bridge("node-2")
    assert "away from node-2" in (await nodes.ready())[2]
    await nodes.has_bridge()
    await nodes.rest()
    assert nodes.policy() is None
    assert nodes.server.get(NodeBridge, "lan") is None


async def test_without_nmstate_it_is_named_and_the_work_goes_on_when_it_comes() -> None:
    nodes = Nodes(lacking=True)
    nodes.operator.start()
    await nodes.ask(port="eth1")
    assert (await nodes.ready())[1] == "NMStateMissing"
    nodes.install()
    for number in (1, 2):
        nodes.tell(f"node-{number}", f"192.0.2.{number}")
    await asyncio.sleep(30)
    await nodes.rest()
    assert nodes.policy() is not None


def test_who_may_edit_a_namespace_may_not_touch_the_nodes() -> None:
    roles = {role.metadata.name: role for role in people_objects((Wukong, NodeBridge)) if isinstance(role, ClusterRole)}
    edited = {resource for rule in roles["corral-edit"].rules or () for resource in rule.resources}
    assert edited == {"wukongs"}
