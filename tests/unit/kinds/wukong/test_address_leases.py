"""An address is leased to one: also where pools overlap, and where an earlier version leased it under another name."""

import asyncio

import pytest

from corral.engine.actions import controller_reference
from corral.kinds.addresspool.spec import AddressPool
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap
from tests.unit.kinds.wukong.addressworld import POOLED, a_pool, addresses, told
from tests.unit.kinds.wukong.world import NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


@pytest.mark.parametrize("seed", range(3))
async def test_pools_that_overlap_give_an_address_to_one_only_also_when_both_are_asked_at_once(seed: int) -> None:
    world = World(seed=seed)
    other = POOLED.replace("pool: lan", "pool: old")
    pools = (a_pool(last="10.1.2.10"), a_pool(last="10.1.2.10", name="old"))
    await world.begin(*pools, a_wukong(POOLED), a_wukong(other, "second"))
    await asyncio.sleep(60)
    found = await addresses(world)
    assert sorted(found.values()) == ["", "10.1.2.10"]
    first, second = sorted(found, key=lambda name: not found[name])
    assert await world.condition("Ready", second) == ("False", "AddressPoolExhausted")
    assert world.names(VirtualMachine) == [first]

    await world.delete(Wukong, first)
    await world.settled()
    assert await addresses(world) == {second: "10.1.2.10"}, "it is told that an address of another pool is free"


@pytest.mark.parametrize("pool", ["lan", "old"])
@pytest.mark.parametrize("seed", range(3))
async def test_two_networks_of_one_machine_get_an_address_each_of_one_pool_or_of_two_that_overlap(
    seed: int, pool: str
) -> None:
    world = World(seed=seed)
    lan = "networks: [{name: lan, bridgeName: br0, ipConfig: {mode: pool, pool: lan}}"
    both = POOLED.replace(lan, f"{lan}, {{name: more, bridgeName: br1, ipConfig: {{mode: pool, pool: {pool}}}}}")
    await world.make(a_pool(last="10.1.2.11"), a_pool(last="10.1.2.11", name="old"), a_wukong(both))
    assert await world.condition("Ready") == ("True", "AsDesired")
    networks = (await world.wukong()).status.networks
    assert sorted(network.address for network in networks if network.address) == ["10.1.2.10", "10.1.2.11"]


async def lease_of_an_earlier_version(world: World, wukong: str, pool: str, address: str) -> str:
    """It was called after its pool and the address."""
    held = await world.wukong(wukong)
    name = f"{pool}-{address.replace('.', '-')}"
    labels = {
        "vm.corral.dev/wukong": wukong,
        "vm.corral.dev/network": "lan",
        "vm.corral.dev/address-pool": pool,
        "app.kubernetes.io/managed-by": "corral",
    }
    metadata = ObjectMeta(name=name, namespace=NAMESPACE, labels=labels, owner_references=(controller_reference(held),))
    data = {"address": address, "holder": f"{wukong}/lan"}
    await world.client.create(ConfigMap(metadata=metadata, data=data, immutable=True), field_manager="corral-wukong")
    return name


async def test_a_lease_of_an_earlier_version_is_kept_and_given_back_as_any_other() -> None:
    world = World()
    await world.client.create(a_pool(), field_manager="person")
    await world.client.create(a_wukong(POOLED), field_manager="person")
    before = await lease_of_an_earlier_version(world, "vm", "lan", "10.1.2.50")
    await world.begin()
    await world.settled()
    assert world.names(ConfigMap) == [before]
    assert await addresses(world) == {"vm": "10.1.2.50"}
    assert (await told(world))["addresses"] == ["10.1.2.50/24"]
    await world.patch(AddressPool, "lan", {"spec": {"ranges": [{"first": "10.1.2.50", "last": "10.1.2.50"}]}})
    await world.add(a_wukong(POOLED, "second"))
    assert await world.condition("Ready", "second") == ("False", "AddressPoolExhausted")

    await world.change({"networks": None})
    assert world.names(ConfigMap) == ["address-10-1-2-50"]
    assert (await addresses(world))["second"] == "10.1.2.50"


async def test_an_address_that_an_earlier_version_gave_to_two_is_told_at_both_and_taken_from_none() -> None:
    world = World()
    other = POOLED.replace("pool: lan", "pool: old")
    for obj in (a_pool(), a_pool(name="old"), a_wukong(POOLED), a_wukong(other, "second")):
        await world.client.create(obj, field_manager="person")
    leases = [
        await lease_of_an_earlier_version(world, "vm", "lan", "10.1.2.50"),
        await lease_of_an_earlier_version(world, "second", "old", "10.1.2.50"),
    ]
    await world.begin()
    await world.settled()
    assert world.names(ConfigMap) == leases
    assert await addresses(world) == {"vm": "10.1.2.50", "second": "10.1.2.50"}
    for name in ("vm", "second"):
        assert await world.condition("Stalled", name) == ("True", "AddressTaken")
    message = (await world.wukong()).status.stuck[0].message
    assert message.startswith("network lan: 10.1.2.50 was given to second/lan as well")
    assert (await world.wukong()).status.phase == "Running"

    await world.delete(Wukong, "second")
    await world.settled()
    assert await world.condition("Ready") == ("True", "AsDesired"), "it is told that the other has gone"
