"""A cluster of two nodes with NMState, and an admin who makes NodeBridges in it."""

import asyncio
from typing import Any

from corral.kinds.nodebridge.controller import controller
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeSpec
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState
from corral.kube.client import Client, Precondition
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from tests.unit.kinds.wukong.world import definition_of

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
        await self.make(name, **spec)
        await self.rest()

    async def make(self, name: str, **spec: Any) -> None:
        bridge = NodeBridge(metadata=ObjectMeta(name=name), spec=NodeBridgeSpec(bridge_name="br0", **spec))
        await self.client.create(bridge, field_manager="admin")

    async def change(self, bridge: str = "lan", **spec: Any) -> None:
        await self.client.patch(
            NodeBridge, bridge, merge={"spec": spec}, precondition=Precondition(), field_manager="admin"
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

    async def ready(self, bridge: str = "lan") -> tuple[str, str, str]:
        found = (await self.client.get(NodeBridge, bridge)).status.conditions[0]
        return found.status, found.reason, found.message

    def events(self, reason: str) -> list[str]:
        resource = Resource("events.k8s.io", "v1", "Event", "events", True)
        return [e["note"] for e in self.server.all_of(resource, "default") if e["reason"] == reason]

    def policy(self, node: str = "node-1", bridge: str = "lan") -> Any:
        found = self.server.get(NodeNetworkConfigurationPolicy, f"corral-{bridge}.{node}")
        return found["spec"] if found else None

    async def delete(self, bridge: str) -> None:
        await self.client.delete(NodeBridge, bridge, precondition=Precondition())
        await asyncio.sleep(15)

    def policies(self) -> dict[str, str]:
        """What each policy says of the bridge."""
        return {
            policy["metadata"]["name"]: policy["spec"]["desiredState"]["interfaces"][0]["state"]
            for policy in self.server.all_of(NodeNetworkConfigurationPolicy)
        }
