"""Bridges on nodes, on a real API server with NMState's real definitions, which go and come back."""

from collections.abc import Mapping
from typing import Any

import pytest

from corral.kinds.nodebridge.policies import policy_name
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeSpec
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState
from corral.kube import Client, Precondition
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import Node
from corral.testing.cluster import Cluster
from tests.integration.wukonglife import (
    define_again,
    is_another,
    is_gone,
    none_is_left,
    operator,
    reason_is,
    undefine,
    until,
    way_to,
)

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("wukong_definitions")]

BRIDGE = "br-test"
SPARE = {"name": "spare"}
MADE = {"name": BRIDGE, "bridge": {"port": [{"name": "spare"}]}}


class Admin:
    """Of a NodeBridge, and in NMState's place: what it tells of each node, and of each policy."""

    def __init__(self, client: Client, name: str, nodes: tuple[str, ...]) -> None:
        self.client, self.nodes = client, nodes
        spec = NodeBridgeSpec(bridge_name=BRIDGE, port="spare", max_unavailable="100%")
        self.bridge = NodeBridge(metadata=ObjectMeta(name=name), spec=spec)
        self.policies = tuple(policy_name(self.bridge, node) for node in nodes)

    async def tell_nodes(self, *interfaces: Mapping[str, Any]) -> None:
        for node in self.nodes:
            if await is_gone(self.client, NodeNetworkState, node, "") is True:
                state = NodeNetworkState(metadata=ObjectMeta(name=node))
                await self.client.create(state, field_manager="nmstate")
            await self._say(NodeNetworkState, node, {"currentState": {"interfaces": list(interfaces)}})

    async def tell_policies(self) -> None:
        done = {"type": "Available", "status": "True", "reason": "SuccessfullyConfigured", "message": ""}
        for name in self.policies:
            await self._say(NodeNetworkConfigurationPolicy, name, {"conditions": [done]})

    async def _say(self, kind: type[Object], name: str, status: Mapping[str, Any]) -> None:
        merge = {"status": status}
        await self.client.patch(
            kind, name, merge=merge, precondition=Precondition(), field_manager="nmstate", subresource="status"
        )

    async def ready_reason(self, reason: str) -> object:
        found = await self.client.get(NodeBridge, self.bridge.metadata.name)
        return reason_is(found.status.conditions, reason)

    async def is_made(self, before: Mapping[str, str]) -> object:
        """Whether each node has a policy, and another one than before."""
        found = [
            await is_another(self.client, NodeNetworkConfigurationPolicy, name, "", before.get(name, ""))
            for name in self.policies
        ]
        return True if all(one is True for one in found) else found

    async def uids(self) -> Mapping[str, str]:
        get = self.client.get
        return {name: (await get(NodeNetworkConfigurationPolicy, name)).metadata.uid for name in self.policies}

    async def nodes_come_to_have_it(self, before: Mapping[str, str]) -> None:
        await until(lambda: self.is_made(before))
        await self.tell_nodes(SPARE, MADE)
        await self.tell_policies()
        await until(lambda: self.ready_reason("AsDesired"))


async def test_a_bridge_is_made_again_when_nmstates_definitions_are_back_and_goes_also_without_them(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    nodes = tuple(sorted(node.metadata.name for node in (await client.list(Node)).items))
    admin = Admin(client, f"bridge-{corral_namespace[-6:]}", nodes)
    name = admin.bridge.metadata.name
    await undefine(client, NodeNetworkConfigurationPolicy)
    async with operator(way_to(corral_cluster)):
        await client.create(admin.bridge, field_manager="admin")
        await until(lambda: admin.ready_reason("NMStateMissing"))
        await define_again(client, NodeNetworkConfigurationPolicy)
        await until(lambda: admin.ready_reason("NodeUnknown"))
        await admin.tell_nodes(SPARE)
        await admin.nodes_come_to_have_it({})

        before = await admin.uids()
        for kind in (NodeNetworkConfigurationPolicy, NodeNetworkState):
            await undefine(client, kind)
        await until(lambda: admin.ready_reason("NMStateMissing"))
        for kind in (NodeNetworkConfigurationPolicy, NodeNetworkState):
            await define_again(client, kind)
        await until(lambda: admin.ready_reason("NodeUnknown"))
        assert await none_is_left(client, "", (NodeNetworkConfigurationPolicy,)) is True, "of a node that is not known"
        await admin.tell_nodes(SPARE, MADE)
        await admin.nodes_come_to_have_it(before)

        await undefine(client, NodeNetworkConfigurationPolicy)
        await client.delete(NodeBridge, name, precondition=Precondition())
        await until(lambda: is_gone(client, NodeBridge, name, ""))
        await define_again(client, NodeNetworkConfigurationPolicy)
        for node in nodes:
            await client.delete(NodeNetworkState, node, precondition=Precondition())
