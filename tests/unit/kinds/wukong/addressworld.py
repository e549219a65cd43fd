"""Pools, Wukongs that get an address from them or write it down, and what their guests are told."""

import yaml

from corral.kinds.addresspool.spec import AddressPool, AddressPoolSpec, AddressRange
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import ObjectMeta
from tests.unit.kinds.wukong.world import NAMESPACE, World

POOLED = """
cpu: 1
memory: 1Gi
disks: [{name: root, size: 1Gi}]
networks: [{name: lan, bridgeName: br0, ipConfig: {mode: pool, pool: lan}}]
"""
STATIC = POOLED.replace("mode: pool, pool: lan", "mode: static, address: 10.1.2.10/24")


def a_pool(first: str = "10.1.2.10", last: str = "10.1.2.99", name: str = "lan") -> AddressPool:
    return AddressPool(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=AddressPoolSpec(
            subnet="10.1.2.0/24",
            ranges=(AddressRange(first=first, last=last),),
            gateway="10.1.2.1",
            dns_servers=("10.1.2.2",),
        ),
    )


async def addresses(world: World) -> dict[str, str]:
    return {w["metadata"]["name"]: w["status"]["networks"][-1].get("address", "") for w in world.server.all_of(Wukong)}


async def told(world: World, name: str = "vm") -> dict[str, object]:
    data = (await world.secret(f"{name}-cloud-init")).data["networkdata"]
    found: dict[str, object] = yaml.safe_load(data)["ethernets"]["lan"]
    return found
