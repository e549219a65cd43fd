"""Addresses: from a pool, each given to one; written by hand, each told when somebody else has it."""

import asyncio
from ipaddress import ip_address

import pytest

from corral.engine.controller import AnyController
from corral.kinds.addresspool.addresses import IP, Addresses
from corral.kinds.addresspool.controller import controller as pool_controller
from corral.kinds.addresspool.spec import AddressPool, AddressPoolSpec, AddressRange
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.testing.apiserver.faults import ROUGH
from corral.testing.operators import Operator, converged
from tests.unit.kinds.wukong.addressworld import POOLED, STATIC, a_pool, addresses, told
from tests.unit.kinds.wukong.world import NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_network_of_a_pool_is_told_its_address_gateway_and_servers() -> None:
    world = World()
    await world.make(a_pool(), a_wukong(POOLED))
    lan = await told(world)
    address = (await addresses(world))["vm"]
    assert lan["addresses"] == [f"{address}/24"]
    assert lan["routes"] == [{"to": "0.0.0.0/0", "via": "10.1.2.1"}]
    assert lan["nameservers"] == {"addresses": ["10.1.2.2"]}
    assert world.names(ConfigMap) == [f"address-{address.replace('.', '-')}"]
    assert (await world.wukong()).status.phase == "Running"


async def test_a_static_address_is_told_with_its_gateway_and_servers() -> None:
    world = World()
    more = "10.1.2.10/24, gateway: 10.1.2.1, dnsServers: [10.1.2.2, 10.1.2.3]"
    await world.make(a_wukong(STATIC.replace("10.1.2.10/24", more)))
    lan = await told(world)
    assert lan["addresses"] == ["10.1.2.10/24"]
    assert lan["routes"] == [{"to": "0.0.0.0/0", "via": "10.1.2.1"}]
    assert lan["nameservers"] == {"addresses": ["10.1.2.2", "10.1.2.3"]}


async def test_a_pool_that_is_missing_is_waited_for_and_the_machine_is_not_made_before() -> None:
    world = World()
    await world.make(a_wukong(POOLED))
    assert await world.condition("Ready") == ("False", "AddressPoolMissing")
    assert world.names(VirtualMachine) == []
    await world.add(a_pool())
    assert (await world.wukong()).status.phase == "Running"


@pytest.mark.parametrize("seed", range(4))
async def test_many_at_once_get_one_each_however_rough_the_server_is(seed: int) -> None:
    world = World(seed=seed)
    await world.begin(a_pool(last="10.1.2.17"), *(a_wukong(POOLED, f"vm-{number}") for number in range(8)))
    world.server.faults = ROUGH
    await asyncio.sleep(120)
    world.server.stop_faults()
    await converged(world.server, world.build, within_s=1800, quiet_s=90)
    found = await addresses(world)
    assert sorted(found.values()) == [f"10.1.2.{number}" for number in range(10, 18)]


async def test_a_pool_without_addresses_is_told_and_one_that_is_given_back_goes_to_who_waits() -> None:
    world = World()
    await world.make(a_pool(last="10.1.2.10"), a_wukong(POOLED, "first"))
    await world.add(a_wukong(POOLED, "second"))
    assert await world.condition("Ready", "second") == ("False", "AddressPoolExhausted")
    await world.delete(Wukong, "first")
    await world.settled()
    assert await addresses(world) == {"second": "10.1.2.10"}
    assert (await world.wukong("second")).status.phase == "Running"


async def test_an_address_is_kept_until_the_guest_has_let_go_of_its_interface() -> None:
    world = World()
    await world.make(a_pool(), a_wukong(POOLED))
    before = world.names(ConfigMap)
    world.standin_rests()
    await world.patch(Wukong, "vm", {"spec": {"networks": None}})
    await asyncio.sleep(60)
    assert world.names(ConfigMap) == before
    world.standin_goes_on()
    await world.settled()
    assert world.names(ConfigMap) == []


async def test_a_lease_that_someone_deletes_comes_back_and_the_address_is_the_same() -> None:
    world = World()
    await world.make(a_pool(), a_wukong(POOLED))
    before = await addresses(world)
    await world.delete(ConfigMap, world.names(ConfigMap)[0])
    await world.settled()
    assert await addresses(world) == before
    assert len(world.names(ConfigMap)) == 1


async def test_what_is_no_lease_but_has_its_label_disturbs_nobody() -> None:
    world = World()
    labels = {"vm.corral.dev/address-pool": "lan"}
    for name, data in (("a", {}), ("b", {"address": "here"})):
        await world.client.create(
            ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels), data=data), field_manager="x"
        )
    await world.make(a_pool(last="10.1.2.10"), a_wukong(POOLED))
    assert await addresses(world) == {"vm": "10.1.2.10"}


async def test_a_pool_gives_nobody_an_address_that_a_person_wrote_down() -> None:
    world = World()
    await world.make(a_pool(last="10.1.2.10"), a_wukong(STATIC, "fixed"))
    await world.add(a_wukong(POOLED))
    assert await world.condition("Ready") == ("False", "AddressPoolExhausted")


async def test_an_address_that_is_written_twice_belongs_to_the_first_until_that_one_goes() -> None:
    world = World()
    await world.make(a_wukong(STATIC, "first"))
    await asyncio.sleep(2)
    await world.add(a_wukong(STATIC, "second"))
    assert await world.condition("Ready", "first") == ("True", "AsDesired")
    assert await world.condition("Ready", "second") == ("False", "AddressTaken")
    assert world.names(VirtualMachine) == ["first"]
    await world.delete(Wukong, "first")
    await world.settled()
    assert (await world.wukong("second")).status.phase == "Running"


async def test_the_same_address_in_another_network_is_another_address() -> None:
    world = World()
    await world.make(a_wukong(STATIC, "first"), a_wukong(STATIC.replace("br0", "br1"), "second"))
    assert await world.condition("Ready", "second") == ("True", "AsDesired")


async def test_an_address_that_a_pool_has_given_away_cannot_be_written_down() -> None:
    world = World()
    await world.make(a_pool(last="10.1.2.10"), a_wukong(POOLED))
    await world.add(a_wukong(STATIC, "fixed"))
    assert await world.condition("Ready", "fixed") == ("False", "AddressTaken")


async def test_a_pool_counts_what_it_has_and_says_when_nothing_is_left() -> None:
    world = World()
    pools = Operator(world.server, build_pools, seed=2)
    await world.make(a_pool(last="10.1.2.10"), a_wukong(POOLED))
    pools.start()
    await converged(world.server, build_pools, within_s=60, quiet_s=11)
    pool = await world.client.get(AddressPool, "lan", NAMESPACE)
    assert (pool.status.used, pool.status.size) == (1, 1)
    assert next(c.reason for c in pool.status.conditions if c.type == "Ready") == "PoolExhausted"


async def test_a_pool_that_has_only_its_gateway_left_is_exhausted() -> None:
    world = World()
    pools = Operator(world.server, build_pools, seed=2)
    await world.make(a_pool("10.1.2.1", "10.1.2.2"), a_wukong(POOLED))
    pools.start()
    await converged(world.server, build_pools, within_s=60, quiet_s=11)
    pool = await world.client.get(AddressPool, "lan", NAMESPACE)
    assert (pool.status.used, pool.status.size) == (1, 1)
    assert next(c.reason for c in pool.status.conditions if c.type == "Ready") == "PoolExhausted"


async def test_an_address_outside_of_the_ranges_that_were_narrowed_leaves_the_others_to_be_given() -> None:
    world = World()
    pools = Operator(world.server, build_pools, seed=2)
    await world.make(a_pool(last="10.1.2.10"), a_wukong(POOLED))
    await world.patch(AddressPool, "lan", {"spec": {"ranges": [{"first": "10.1.2.20", "last": "10.1.2.20"}]}})
    pools.start()
    await converged(world.server, build_pools, within_s=60, quiet_s=11)
    pool = await world.client.get(AddressPool, "lan", NAMESPACE)
    assert next(c.reason for c in pool.status.conditions if c.type == "Ready") == "AsDesired"


async def test_pools_that_overlap_give_an_address_to_one_only() -> None:
    world = World()
    other = POOLED.replace("pool: lan", "pool: old")
    await world.make(a_pool(last="10.1.2.10"), a_pool(last="10.1.2.11", name="old"), a_wukong(POOLED))
    await world.add(*(a_wukong(other, name) for name in ("second", "third")))
    found = await addresses(world)
    assert sorted(found.values()) == ["", "10.1.2.10", "10.1.2.11"]
    assert found["vm"] == "10.1.2.10"


async def test_an_address_whose_pool_is_gone_is_still_somebodys() -> None:
    world = World()
    await world.make(a_pool(last="10.1.2.10", name="old"), a_wukong(POOLED.replace("pool: lan", "pool: old")))
    await world.delete(AddressPool, "old")
    await world.add(a_pool(last="10.1.2.11"), a_wukong(POOLED, "second"), a_wukong(STATIC, "third"))
    assert await addresses(world) == {"vm": "10.1.2.10", "second": "10.1.2.11", "third": "10.1.2.10"}
    assert await world.condition("Ready", "third") == ("False", "AddressTaken")


async def test_a_wukong_whose_pool_is_gone_says_so_and_goes_on_when_it_is_back() -> None:
    """Without the pool nobody knows prefix and gateway, so what the guest is told cannot be written."""
    world = World()
    await world.make(a_pool(), a_wukong(POOLED))
    before = await told(world)
    await world.delete(AddressPool, "lan")
    await world.delete(Secret, "vm-cloud-init")
    await world.settled()
    assert await world.condition("Ready") == ("False", "AddressPoolMissing")
    assert world.names(VirtualMachine) == ["vm"]
    await world.add(a_pool())
    assert await told(world) == before
    assert await world.condition("Ready") == ("True", "AsDesired")


def build_pools() -> AnyController:
    return pool_controller()


@pytest.mark.parametrize(
    ("subnet", "size", "first"),
    [("10.0.0.0/24", 254, "10.0.0.1"), ("10.0.0.0/31", 2, "10.0.0.0"), ("fd00::/64", 1_000_000, "fd00::1")],
)
def test_a_whole_subnet_has_its_hosts(subnet: str, size: int, first: str) -> None:
    found = Addresses(AddressPool(metadata=ObjectMeta(name="a"), spec=AddressPoolSpec(subnet=subnet)))
    assert (len(found), found[0]) == (size, ip_address(first))


def test_every_address_is_given_once_and_never_the_gateway() -> None:
    spec = AddressPoolSpec(
        subnet="10.0.0.0/24",
        gateway="10.0.0.5",
        ranges=(AddressRange(first="10.0.0.9", last="10.0.0.10"), AddressRange(first="10.0.0.3", last="10.0.0.6")),
    )
    pool, taken = Addresses(AddressPool(metadata=ObjectMeta(name="a"), spec=spec)), set[IP]()
    while (free := pool.free(taken, "me")) is not None:
        taken.add(free)
    assert {str(address) for address in taken} == {f"10.0.0.{n}" for n in (3, 4, 6, 9, 10)}


@pytest.mark.parametrize(
    ("ranges", "gateway", "given"),
    [
        (((3, 6), (5, 8)), None, (3, 4, 5, 6, 7, 8)),
        (((3, 6), (4, 5)), None, (3, 4, 5, 6)),
        (((3, 4), (5, 6)), 5, (3, 4, 6)),
        (((5, 5),), 5, ()),
        (((6, 3), (9, 9)), None, (9,)),
    ],
    ids=["overlapping", "one in another", "touching, with the gateway", "only the gateway", "one that is backwards"],
)
def test_ranges_that_overlap_have_each_address_once(
    ranges: tuple[tuple[int, int], ...], gateway: int | None, given: tuple[int, ...]
) -> None:
    spec = AddressPoolSpec(
        subnet="10.0.0.0/24",
        gateway=f"10.0.0.{gateway}" if gateway else None,
        ranges=tuple(AddressRange(first=f"10.0.0.{first}", last=f"10.0.0.{last}") for first, last in ranges),
    )
    found = Addresses(AddressPool(metadata=ObjectMeta(name="a"), spec=spec))
    assert [str(found[place]) for place in range(len(found))] == [f"10.0.0.{n}" for n in given]
    taken = set[IP]()
    while (free := found.free(taken, "me")) is not None:
        taken.add(free)
    assert len(taken) == len(found)


async def guest_has(world: World, *lan: str) -> None:
    """As its agent tells KubeVirt."""
    seen = [{"name": "default", "ipAddress": "10.0.2.2"}, {"name": "lan"}]
    seen[1] |= {"ipAddress": lan[0], "ipAddresses": list(lan)} if lan else {}  # type: ignore[dict-item]
    await world.patch(VirtualMachineInstance, "vm", {"status": {"interfaces": seen}})
    await world.settled()


async def test_an_address_that_is_changed_after_the_first_start_is_told_as_not_arrived_until_the_guest_has_it() -> None:
    """cloud-init reads network data once; nothing else would say that the new address is nowhere."""
    world = World()
    await world.make(a_wukong(STATIC))
    await guest_has(world, "fe80::1", "10.1.2.10")
    assert await world.condition("AddressesAsTold") == ("True", "AsTold")

    lan = {"name": "lan", "bridgeName": "br0", "ipConfig": {"mode": "static", "address": "10.1.2.77/24"}}
    await world.change({"networks": [lan]})
    assert await world.condition("AddressesAsTold") == ("False", "AddressDiffers")
    message = next(c.message for c in (await world.wukong()).status.conditions if c.type == "AddressesAsTold")
    assert message.startswith(
        "lan has 10.1.2.10, fe80::1, not 10.1.2.77: network data is read at a guest's first start"
    )
    assert await world.condition("RestartRequired") == ("False", "UpToDate"), "a restart would not bring it"

    await guest_has(world, "10.1.2.77")
    assert await world.condition("AddressesAsTold") == ("True", "AsTold")


async def test_the_addresses_of_a_guest_without_an_agent_are_not_known() -> None:
    world = World()
    await world.make(a_wukong(STATIC))
    await guest_has(world)
    assert await world.condition("AddressesAsTold") == ("Unknown", "NotSeen")
    await world.change({"startStrategy": {"runStrategy": "Halted"}})
    assert await world.condition("AddressesAsTold") == ("Unknown", "NotSeen")


async def test_a_guest_that_is_told_no_address_has_no_condition_of_it() -> None:
    world = World()
    await world.make(a_wukong())
    assert "AddressesAsTold" not in {c.type for c in (await world.wukong()).status.conditions}
