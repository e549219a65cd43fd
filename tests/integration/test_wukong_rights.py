"""Wukongs under exactly the rights of deploy/, or of one namespace.

In a cluster that has the kinds of KubeVirt, CDI, Multus and NMState.
"""

import asyncio
from collections.abc import Iterator

import pytest
import yaml

from corral.kinds.nodebridge.spec import NodeBridge
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.spec import Wukong
from corral.kube import Client, Precondition
from corral.kube.models.core_v1 import Node
from corral.testing.cluster import Cluster, corral
from tests.integration.test_rights import Restricted, restricted, rights
from tests.integration.wukonglife import (
    CLASS,
    apply,
    definitions,
    is_gone,
    is_restored,
    is_taken,
    left_of,
    make_pool,
    phase_is,
    playing,
    take_snapshot,
    until,
)

__all__ = ["restricted"]  # the fixture
pytestmark = pytest.mark.cluster

SPEC = f"""
cpu: 1
memory: 1Gi
disks:
- {{name: root, size: 1Gi, image: 'docker://images.test/debian:13', boot: true, storageClassName: {CLASS}}}
- {{name: data, size: 1Gi, storageClassName: {CLASS}}}
networks: [{{name: default}}, {{name: lan, bridgeName: br0, ipConfig: {{mode: pool, pool: san}}}}]
service: {{ports: [{{name: ssh, port: 22}}]}}
networkPolicy: Service
"""
MORE = SPEC.replace("name: data, size: 1Gi", "name: data, size: 2Gi").replace(
    "networks:", f"- {{name: more, size: 1Gi, storageClassName: {CLASS}, keepOnDelete: true}}\nnetworks:"
)
HALTED = MORE + "startStrategy: {runStrategy: Halted}\n"


@pytest.fixture
def _definitions(corral_cluster: Cluster) -> Iterator[None]:
    with definitions(corral_cluster):
        yield


@pytest.mark.usefixtures("_definitions")
async def test_with_the_rights_of_deploy_a_wukong_lives_its_whole_life_and_nothing_is_forbidden(
    corral_cluster: Cluster,
    restricted: Restricted,
    corral_namespace: str,
) -> None:
    ns = corral_namespace
    restricted.grant(rights())
    async with corral_cluster.client() as client, playing(client, ns):
        with restricted.operator():
            await lives(client, ns)
            await a_bridge_comes_and_goes(client, restricted)
            await goes(client, ns)
            nothing_was_forbidden(restricted)


@pytest.fixture
def elsewhere(corral_cluster: Cluster, corral_namespace: str) -> Iterator[str]:
    name = f"elsewhere-{corral_namespace[-6:]}"
    corral_cluster.kubectl("create", "namespace", name)
    yield name
    corral_cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def _rights_of_one_namespace(corral_cluster: Cluster, restricted: Restricted) -> Iterator[None]:
    """As docs/deploy.md says."""
    printed = corral("rights", "--only-namespace", restricted.namespace).stdout
    restricted.make_account()
    restricted.kubectl("apply", "-f", "-", stdin=printed)
    yield
    corral_cluster.kubectl("delete", "clusterrole,clusterrolebinding", f"corral-{restricted.namespace}")


@pytest.mark.usefixtures("_definitions", "_rights_of_one_namespace")
async def test_an_operator_of_one_namespace_takes_a_wukong_through_its_whole_life_and_sees_no_other(
    corral_cluster: Cluster, restricted: Restricted, corral_namespace: str, elsewhere: str
) -> None:
    ns = corral_namespace
    async with corral_cluster.client() as client, playing(client, ns):
        await apply(client, elsewhere, SPEC)
        with restricted.operator("--only-namespace", ns):
            await lives(client, ns)
            await goes(client, ns)
            nothing_was_forbidden(restricted)
        stranger = await client.get(Wukong, "vm", elsewhere)
        assert (stranger.metadata.finalizers, stranger.status.conditions) == ((), ())
        for kind in (VirtualMachine, DataVolume, NetworkAttachmentDefinition):
            assert await left_of(client, elsewhere, (kind,)) == []


async def lives(client: Client, ns: str) -> None:
    """Everything that a Wukong does, but for its end."""
    await make_pool(client, ns, "san")
    await apply(client, ns, SPEC)
    await until(lambda: phase_is(client, ns, "Running"))
    await take_snapshot(client, ns, "friday")
    await until(lambda: is_taken(client, ns))
    # Nobody answers the freezing here; who may not ask for it is forbidden to.
    await take_snapshot(client, ns, "part", ("data",), failure_deadline="5s")
    await until(lambda: is_taken(client, ns, "part", ("data",)))

    await apply(client, ns, MORE)
    await until(lambda: phase_is(client, ns, "Running"))
    await apply(client, ns, HALTED)
    await until(lambda: phase_is(client, ns, "Stopped"))
    await set_back(client, ns, "friday")
    await set_back(client, ns, "part")


async def goes(client: Client, ns: str) -> None:
    await client.delete(Wukong, "vm", ns, precondition=Precondition())
    await until(lambda: is_gone(client, Wukong, "vm", ns))


def nothing_was_forbidden(restricted: Restricted) -> None:
    # A snapshot by a schedule would take a minute to be due.
    account = f"system:serviceaccount:{restricted.namespace}:corral"
    assert restricted.kubectl("auth", "can-i", "create", "wukongsnapshots", f"--as={account}").strip() == "yes"
    assert restricted.refused() == 0, restricted.log.read_text()[-4000:]


async def set_back(client: Client, namespace: str, snapshot: str) -> None:
    await apply(client, namespace, MORE + f"restoreFromSnapshot: {snapshot}\n")
    await until(lambda: is_restored(client, namespace, snapshot))


async def a_bridge_comes_and_goes(client: Client, restricted: Restricted) -> None:
    name = f"bridge-{restricted.namespace[-6:]}"
    nodes = [node.metadata.name for node in (await client.list(Node)).items]
    for node in nodes:
        tell_state(restricted, node, {"name": "spare"})
    bridge = {
        "apiVersion": NodeBridge.resource.api_version,
        "kind": "NodeBridge",
        "metadata": {"name": name},
        "spec": {"bridgeName": "br-test", "port": "spare"},
    }
    restricted.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(bridge))
    policy = f"nodenetworkconfigurationpolicy/corral-{name}.{sorted(nodes)[0]}"
    await asyncio.to_thread(restricted.kubectl, "wait", "--for=create", policy, "--timeout=60s")
    restricted.kubectl("delete", "nodebridge", name, "--wait=false")
    await until(lambda: is_gone(client, NodeBridge, name, ""))
    restricted.kubectl("delete", "nodenetworkstates", *nodes)


def tell_state(restricted: Restricted, node: str, *interfaces: dict[str, str]) -> None:
    """As NMState tells what a node has."""
    state = {"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState", "metadata": {"name": node}}
    restricted.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(state))
    status = yaml.safe_dump({"status": {"currentState": {"interfaces": list(interfaces)}}})
    restricted.kubectl("patch", "nodenetworkstate", node, "--subresource=status", "--type=merge", "-p", status)
