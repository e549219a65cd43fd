"""Which addresses the guest is told, and that nobody else has them. Pure.

An address of a pool is leased by making a ConfigMap that is called after it. The server lets one of a name be made, so
two Wukongs never have the same, whoever was first, whatever either of them knew, and whichever pools have it. It is the
Wukong's child: it goes when the machine has gone, and the address is free. One that an earlier version called after its
pool too is known by its labels, as any other, and kept. (A Lease of Kubernetes' own would ask for the right to change
those that the control plane elects its leaders with.)
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from ipaddress import ip_interface

import msgspec

from corral.engine import Delete, Once, Plan, Wait, children, target
from corral.kinds.addresspool.addresses import ADDRESS, HOLDER, IP, Addresses, address_in
from corral.kinds.addresspool.spec import AddressPool
from corral.kinds.wukong import names
from corral.kinds.wukong.facts import Snapshot
from corral.kinds.wukong.networks import bridge_of, kind_of, networks_of
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_networks import IpConfig, NetworkConfig
from corral.kube.meta import ObjectMeta, ref
from corral.kube.models.core_v1 import ConfigMap

Segment = tuple[str, ...]


class Pending(Exception):
    """An address is not there yet, or is somebody else's; `addresses` tells which."""


def from_pools(wukong: Wukong) -> Iterator[tuple[NetworkConfig, str]]:
    """Each network that gets its address from a pool, with the pool's name."""
    for network in networks_of(wukong):
        if network.ip_config is not None and network.ip_config.mode == "pool" and network.ip_config.pool:
            yield network, network.ip_config.pool


def static_addresses(wukong: Wukong) -> Iterator[tuple[NetworkConfig, IP]]:
    for network in networks_of(wukong):
        if network.ip_config is not None and network.ip_config.mode == "static" and network.ip_config.address:
            yield network, ip_interface(network.ip_config.address).ip


def segment(network: NetworkConfig) -> Segment:
    """Where an address must be the only one: the same attachment, or the same bridge or device of the nodes."""
    if network.nad_name is not None:
        return ("attachment", network.nad_name)
    device = network.physical_interface or network.resource_name or bridge_of(network)
    return (kind_of(network), device, str(network.vlan_id or ""))


def addresses(snapshot: Snapshot) -> Plan:
    """A lease for each network that has none, and the words for those that get none."""
    wukong, taken = snapshot.object, set(_taken(snapshot))
    desired: list[Once] = []
    waits: list[Wait] = []
    for network, name in from_pools(wukong):
        pool, held = snapshot.pools.get(name), _held(snapshot, network, name)
        if held is not None:
            desired.append(Once(held))
        if pool is None:  # also of one that has its address: prefix, gateway and DNS servers stand in the pool
            message = f"network {network.name}: waiting for AddressPool {wukong.metadata.namespace}/{name}"
            waits.append(Wait(reason="AddressPoolMissing", message=message))
        elif held is not None:
            continue
        elif free := Addresses(pool).free(taken, f"{wukong.metadata.uid}/{network.name}"):
            taken.add(free)
            desired.append(Once(_lease(wukong, network, pool, free)))
            waits.append(Wait(reason="AddressPending", message=f"network {network.name}: {free} is being taken"))
        else:
            message = f"network {network.name}: AddressPool {name} has no address left"
            waits.append(Wait(reason="AddressPoolExhausted", message=message, stalled=True))
    given_back = tuple(
        Delete(target=target(lease), reason="AddressFree", message="no network of this Wukong has the address any more")
        for lease in snapshot.leases
        if lease.metadata.name not in {once.object.metadata.name for once in desired}
        and lease.metadata.deletion_timestamp is None
        and lease.metadata.labels.get(names.NETWORK_LABEL) not in _attached(snapshot)
    )
    present = [lease for lease in snapshot.leases if lease.metadata.name in {o.object.metadata.name for o in desired}]
    leased = children(wukong, desired, present)
    return leased + Plan(actions=given_back, waits=(*waits, *_rivals(snapshot), *_leased_twice(snapshot)))


def as_told(snapshot: Snapshot) -> Wukong:
    """The Wukong with each address of a pool as if a person had written it. Raises Pending."""
    wukong = snapshot.object
    if any(_rivals(snapshot)):
        raise Pending
    pooled = {network.name: _told(snapshot, network, pool) for network, pool in from_pools(wukong)}
    networks = tuple(
        msgspec.structs.replace(network, ip_config=pooled[network.name]) if network.name in pooled else network
        for network in wukong.spec.networks
    )
    return msgspec.structs.replace(wukong, spec=msgspec.structs.replace(wukong.spec, networks=networks))


def _told(snapshot: Snapshot, network: NetworkConfig, name: str) -> IpConfig:
    pool, held, asked = snapshot.pools.get(name), _held(snapshot, network, name), network.ip_config
    if pool is None or held is None or asked is None:
        raise Pending
    return IpConfig(
        mode="static",
        address=f"{address_in(held)}/{Addresses(pool).prefix}",
        gateway=asked.gateway or pool.spec.gateway,
        dns_servers=asked.dns_servers or pool.spec.dns_servers,
    )


def told_address(snapshot: Snapshot, network: NetworkConfig) -> str:
    """For the status: the address that network data gives the guest; empty if the network itself gives it one."""
    config = network.ip_config
    if config is None or config.mode != "pool" or config.pool is None:
        return str(ip_interface(config.address).ip) if config is not None and config.address else ""
    held = _held(snapshot, network, config.pool)
    return str(address_in(held)) if held else ""


def _held(snapshot: Snapshot, network: NetworkConfig, pool: str) -> ConfigMap | None:
    wanted = {names.POOL_LABEL: pool, names.NETWORK_LABEL: network.name}
    return next((lease for lease in snapshot.leases if wanted.items() <= lease.metadata.labels.items()), None)


def _taken(snapshot: Snapshot) -> frozenset[IP]:
    """Whichever pool gave them away: pools may overlap, and go before those who have an address of them."""
    leased = (address_in(lease) for lease in snapshot.leased)
    written = (address for wukong in snapshot.neighbours for _, address in static_addresses(wukong))
    return frozenset((*leased, *written))


def _attached(snapshot: Snapshot) -> frozenset[str]:
    """A guest keeps the address of an interface for as long as it has the interface."""
    interfaces = snapshot.instance.spec.domain.devices.interfaces if snapshot.instance else ()
    return frozenset(interface.name for interface in interfaces)


def _lease(wukong: Wukong, network: NetworkConfig, pool: AddressPool, address: IP) -> ConfigMap:
    name = wukong.metadata.name
    return ConfigMap(
        metadata=ObjectMeta(
            name=names.address_lease_name(address.exploded),
            labels={
                **names.MANAGED_BY,
                names.WUKONG_LABEL: name,
                names.NETWORK_LABEL: network.name,
                names.POOL_LABEL: pool.metadata.name,
            },
        ),
        data={ADDRESS: str(address), HOLDER: f"{name}/{network.name}"},
        immutable=True,
    )


def _rivals(snapshot: Snapshot) -> Iterable[Wait]:
    """An address that a person wrote twice: the one that was first has it."""
    wukong = snapshot.object
    leased = {address_in(lease): lease for lease in snapshot.leased}
    for network, address in static_addresses(wukong):
        others = [other for other in snapshot.namesakes.get(network.name, ()) if _is_before(other, wukong)]
        holder = leased.get(address)
        if others:
            message = (
                f"network {network.name}: {address} belongs to Wukong {others[0].metadata.name}; choose another address"
            )
            yield Wait(reason="AddressTaken", message=message, stalled=True)
        elif holder is not None:
            message = f"network {network.name}: {address} was given to {holder.data[HOLDER]} by a pool"
            yield Wait(reason="AddressTaken", message=message, stalled=True)


def _leased_twice(snapshot: Snapshot) -> Iterable[Wait]:
    """An earlier version let that happen where pools overlap. Both have it by now: a person must say whose it is."""
    own = {lease.metadata.name for lease in snapshot.leases}
    others = {address_in(lease): lease for lease in snapshot.leased if lease.metadata.name not in own}
    for lease in snapshot.leases:
        other = others.get(address_in(lease))
        if other is not None:
            network, where = lease.metadata.labels.get(names.NETWORK_LABEL), ref(other)
            message = f"network {network}: {address_in(lease)} was given to {other.data[HOLDER]} as well, by {where}"
            yield Wait(reason="AddressTaken", message=message, stalled=True)


def _is_before(one: Wukong, other: Wukong) -> bool:
    return _age(one) < _age(other)


def _age(wukong: Wukong) -> tuple[datetime, str]:
    return (wukong.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC), wukong.metadata.name)
