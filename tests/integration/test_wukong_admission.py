"""What a Wukong's own definition refuses, on a real API server, beyond what `test_wukong` shows."""

import uuid
from typing import Any

import pytest

from corral.kinds.addresspool.spec import AddressPool
from corral.kinds.nodebridge.spec import NodeBridge
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube import Client
from corral.kube.client import Precondition
from corral.kube.crd import crd_of, to_yaml
from corral.kube.errors import Invalid, KubeError
from corral.kube.meta import Object
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster

DISKS: dict[str, Any] = {"disks": [{"name": "root", "size": "1Gi"}]}
BASE: dict[str, Any] = DISKS | {"cpu": 1, "memory": "1Gi"}
HTTP = {"url": "https://images.test/a", "checksum": "sha256:00"}
BRIDGE = {"bridgeName": "br9", "port": "p", "nodeSelector": {"corral.test/nowhere": "true"}}
HASHES = {"name": "hashes", "key": "ada"}


@pytest.fixture(scope="module", autouse=True)
def _definition(corral_cluster: Cluster) -> None:
    corral_cluster.define(to_yaml(*(crd_of(kind) for kind in (Wukong, WukongSnapshot, AddressPool, NodeBridge))))


def a_manifest(spec: dict[str, Any], kind: type[Object] = Wukong, name: str = "it") -> Object:
    resource = kind.resource
    metadata = {"name": name, **({"namespace": "default"} if resource.namespaced else {})}
    content = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    return resource.untyped()(content=content)


def filled(source: dict[str, Any]) -> dict[str, Any]:
    return BASE | {"disks": [{"name": "root", "size": "1Gi", "source": source}]}


def on_network(**fields: Any) -> dict[str, Any]:
    return BASE | {"networks": [{"name": "lan"} | fields]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (BASE | {"cpuOptions": {"numa": True}}, "numa needs hugepages"),
        (BASE | {"cpuOptions": {"isolateEmulatorThread": True}}, "isolateEmulatorThread needs dedicated"),
        (
            BASE | {"cloudInitUser": {"name": "ada"}, "cloudInit": {"userDataSecret": "mine"}},
            "user data of your own has its users in it",
        ),
        (BASE | {"firmware": {"persistent": True}}, "persistent is for uefi variables and the TPM"),
        (filled({"gcs": {"url": "s3://bucket/a"}}), "url begins with gs:// or https://"),
        (
            DISKS | {"instancetype": {"name": "u1.small"}, "liveResize": {"maxCpu": 4}},
            "an instancetype says both itself",
        ),
        (
            BASE | {"hugepages": "2Mi", "cpuOptions": {"numa": True}, "liveResize": {"maxMemory": "2Gi"}},
            "leave maxMemory or numa out",
        ),
        (
            BASE | {"cloudInitUser": {"name": "ada", "passwordHash": "$6$a$b", "passwordHashSecret": HASHES}},
            "set passwordHash or passwordHashSecret",
        ),
        (on_network(ipConfig={"mode": "dhcp", "address": "10.0.0.5/24"}), "ipConfig.address is for mode static"),
        (on_network(ipConfig={"mode": "dhcp", "dnsServers": ["dns.test"]}), "dnsServers are IP addresses"),
        (on_network(ipConfig={"mode": "dhcp", "gateway": "here"}), "gateway is an IP address"),
        (
            on_network(type="macvlan", physicalInterface="eth0", bridgeName="br0"),
            "bridgeName is for bridge and ovs",
        ),
        (on_network(type="bridge", resourceName="vendor.test/pool"), "resourceName is for sriov"),
    ],
    ids=[
        "numa without hugepages",
        "isolated emulator without dedicated",
        "user beside user data",
        "persistent without uefi and TPM",
        "gcs",
        "liveResize of an instancetype",
        "plugged memory with numa",
        "two password hashes",
        "address of dhcp",
        "name of a DNS server",
        "name of a gateway",
        "bridge of macvlan",
        "resource of a bridge",
    ],
)
async def test_what_would_fail_later_or_do_nothing_is_refused_with_the_reason(
    client: Client, spec: dict[str, Any], told: str
) -> None:
    with pytest.raises(KubeError) as caught:
        await client.create(a_manifest(spec), field_manager="person", dry_run=True)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        DISKS | {"instancetype": {"name": "u1.small"}},
        BASE | {"osImage": "images.test/debian:13"},
        BASE | {"osImage": "https://images.test/debian.qcow2"},
        filled({"http": HTTP}),
        filled({"gcs": {"url": "gs://bucket/a"}}),
        BASE | {"hugepages": "2Mi", "cpuOptions": {"numa": True, "dedicated": True, "isolateEmulatorThread": True}},
        BASE | {"firmware": {"persistent": True, "tpm": True}},
        BASE | {"cloudInit": {"userDataSecret": "mine"}},
        BASE | {"cloudInit": {"hostname": "web-1"}},
        BASE | {"cloudInit": {}},
    ],
)
async def test_what_works_is_taken(client: Client, spec: dict[str, Any]) -> None:
    await client.create(a_manifest(spec), field_manager="person", dry_run=True)


async def test_a_pool_with_the_name_of_a_dns_server_is_refused(client: Client) -> None:
    pool = a_manifest({"subnet": "10.0.0.0/24", "dnsServers": ["dns.test"]}, AddressPool)
    with pytest.raises(Invalid, match="dnsServers are IP addresses"):
        await client.create(pool, field_manager="person", dry_run=True)


@pytest.mark.parametrize(
    ("kind", "spec", "change", "told"),
    [
        (WukongSnapshot, {"wukongName": "a"}, {"wukongName": "b"}, "a snapshot is of one Wukong"),
        (WukongSnapshot, {"wukongName": "a", "disks": ["root"]}, {"disks": ["data"]}, "is decided once"),
        (WukongSnapshot, {"wukongName": "a"}, {"disks": ["data"]}, "is decided once"),
        (WukongSnapshot, {"wukongName": "a", "disks": ["root"]}, {"disks": None}, "is decided once"),
        (AddressPool, {"subnet": "10.0.0.0/24"}, {"subnet": "10.0.1.0/24"}, "the subnet of a pool stays"),
        (NodeBridge, BRIDGE, {"bridgeName": "br8"}, "a bridge keeps its name"),
        (NodeBridge, BRIDGE, {"type": "ovs"}, "a bridge stays what it is"),
    ],
    ids=[
        "wukong of a snapshot",
        "disks of a snapshot",
        "a whole machine becomes disks",
        "disks become a whole machine",
        "subnet of a pool",
        "name of a bridge",
        "type of a bridge",
    ],
)
async def test_what_is_decided_once_stays(
    client: Client, kind: type[Object], spec: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    name, namespace = f"once-{uuid.uuid4().hex[:6]}", "default" if kind.resource.namespaced else ""
    await client.create(a_manifest(spec, kind, name), field_manager="person")
    try:
        with pytest.raises(Invalid, match=told):
            await client.patch(
                kind, name, namespace, merge={"spec": change}, precondition=Precondition(), field_manager="person"
            )
    finally:
        await client.delete(kind, name, namespace, precondition=Precondition())
