"""AddressPool's controller: it counts. Addresses are taken by those who need one, as leases (`wukong.addresses`)."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from corral.engine import NOTHING, Controller, Key, KindController, Outcome, Plan, Reader, Wait, conditions, verdict
from corral.kinds.addresspool.addresses import Addresses, address_in, is_lease
from corral.kinds.addresspool.spec import AddressPool, AddressPoolStatus
from corral.kinds.wukong import names
from corral.kube.client import Selector
from corral.kube.models.core_v1 import ConfigMap

BY_POOL = "pool"
OF_POOLS = Selector(labels=names.POOL_LABEL)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: AddressPool
    now: datetime
    leases: tuple[ConfigMap, ...] = ()


class AddressPoolReconciler:
    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        pool = read.get(AddressPool, key.name, key.namespace)
        if pool is None:
            return None
        leases = read.by_index(ConfigMap, BY_POOL, (key.namespace, key.name))
        return Snapshot(object=pool, now=read.now, leases=leases)

    def plan(self, snapshot: Snapshot, /) -> Plan:
        every = Addresses(snapshot.object)
        used, size = sum(address_in(lease) in every for lease in snapshot.leases), len(every)
        if used < size or snapshot.object.metadata.deletion_timestamp is not None:
            return NOTHING
        message = f"all {size} addresses are taken: give the pool another range, or make another pool"
        return Plan(waits=(Wait(reason="PoolExhausted", message=message, stalled=True),))

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> AddressPoolStatus:
        pool = snapshot.object
        return AddressPoolStatus(
            observed_generation=pool.metadata.generation,
            size=len(Addresses(pool)),
            used=len(snapshot.leases),
            conditions=conditions(pool, pool.status.conditions, verdict(outcome), snapshot.now),
        )


def pool_of(lease: ConfigMap) -> Iterable[tuple[str, str]]:
    """Of no pool is what anybody else put under the label."""
    pool = lease.metadata.labels.get(names.POOL_LABEL)
    return ((lease.metadata.namespace, pool),) if pool and is_lease(lease) else ()


def of_lease(lease: ConfigMap, _read: Reader) -> Iterable[Key]:
    return [Key(*name) for name in pool_of(lease)]


def controller() -> Controller[AddressPool, Snapshot]:
    return (
        Controller.for_(AddressPool, AddressPoolReconciler())
        .watches(ConfigMap, to=of_lease, where=OF_POOLS)
        .indexes(ConfigMap, BY_POOL, pool_of)
    )


KINDS = (KindController(AddressPool, controller, ("ap",)),)
