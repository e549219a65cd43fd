"""Wukong's controller: what is watched, how it is observed.

KubeVirt, CDI and Multus are optional: a cluster without one of them is told so by each Wukong that needs it, and by no
other kind of ours. When its definition appears, every Wukong is looked at again.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from corral.engine import Controller, Key, KindController, Outcome, Plan, Reader, is_controlled_by
from corral.engine.controller import generation_changed
from corral.kinds.addresspool.addresses import IP, address_in
from corral.kinds.addresspool.controller import BY_POOL, OF_POOLS, pool_of
from corral.kinds.addresspool.spec import AddressPool
from corral.kinds.wukong import names
from corral.kinds.wukong.addresses import from_pools, segment, static_addresses
from corral.kinds.wukong.api.cdi import DataSource, DataVolume, Elsewhere
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import VirtualMachineRestore
from corral.kinds.wukong.clones import Name, data_sources_named, next_one
from corral.kinds.wukong.cloudinit import secrets_needed
from corral.kinds.wukong.exposure import network_policy_of, service_of
from corral.kinds.wukong.facts import PROJECTS, Snapshot, copies_to_ask_about
from corral.kinds.wukong.farewell import FINALIZER
from corral.kinds.wukong.networks import attachment_of, is_pod_network, networks_of
from corral.kinds.wukong.plan import later, plan
from corral.kinds.wukong.report import decided_by, report
from corral.kinds.wukong.reviews import Reviews
from corral.kinds.wukong.spec import Wukong, WukongStatus
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.client import Client
from corral.kube.meta import Object
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Secret, Service
from corral.kube.models.networking_v1 import NetworkPolicy
from corral.kube.models.storage_v1 import StorageClass

C = TypeVar("C", bound=Object)
D = TypeVar("D", DataVolume, PersistentVolumeClaim)
OPTIONAL: tuple[type[Object], ...] = (*PROJECTS, VirtualMachineRestore)

AT_ONCE = 16  # a pass mostly waits for the server: hundreds of new machines would queue behind the few under way
BY_ADDRESS, BY_DATA_SOURCE, BY_NAMESPACE, BY_STATIC = "address", "data source", "namespace", "static"
BY_DISK, BY_NETWORK, BY_SECRET, BY_SNAPSHOT, BY_WUKONG = "disk", "network", "secret", "snapshot", "wukong"


class MayCopy(Protocol):
    async def why_not(self, source: Elsewhere, namespace: str) -> str: ...


class WukongReconciler:
    def __init__(self, may_copy: MayCopy | None = None) -> None:
        self._may_copy = may_copy

    def use(self, client: Client, /) -> None:
        self._may_copy = self._may_copy or Reviews(client)

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        wukong = read.get(Wukong, key.name, key.namespace)
        if wukong is None:
            return None
        machine, attachments = names.machine_name(key.name), _attachments(wukong, read)
        scheduled = read.by_index(WukongSnapshot, BY_WUKONG, (key.namespace, key.name))
        secrets = (read.get(Secret, name, key.namespace) for name in sorted(secrets_needed(wukong)))
        snapshot = Snapshot(
            object=wukong,
            now=read.now,
            absent=frozenset(kind for kind in OPTIONAL if not read.serves(kind)),
            machine=read.get(VirtualMachine, machine, key.namespace),
            instance=read.get(VirtualMachineInstance, machine, key.namespace),
            attachments=attachments,
            sharers=_sharers(wukong, attachments, read),
            data_volumes=_of_disks(DataVolume, wukong, read),
            claims=_of_disks(PersistentVolumeClaim, wukong, read),
            classes=read.list(StorageClass),
            data_sources=_data_sources(wukong, read),
            secrets=tuple(secret for secret in secrets if secret is not None),
            cloud_init=read.get(Secret, names.cloud_init_name(key.name), key.namespace),
            services=_owned_or_named(Service, wukong, service_of(wukong), read),
            network_policies=_owned_or_named(NetworkPolicy, wukong, network_policy_of(wukong), read),
            pools=_pools(wukong, read),
            leases=_leases(wukong, read),
            leased=_leased(wukong, read),
            neighbours=_neighbours(wukong, read),
            namesakes=_namesakes(wukong, read),
            source=_source(wukong, read),
            restores=read.owned(VirtualMachineRestore, wukong),
            scheduled=scheduled,
            named_snapshots=_named(scheduled, read),
        )
        sources = copies_to_ask_about(snapshot)
        return await self._asked(snapshot, sources) if sources else snapshot

    async def _asked(self, snapshot: Snapshot, sources: Iterable[Elsewhere]) -> Snapshot:
        """`corral render`, which has no cluster, makes nothing and asks nobody."""
        asks, namespace = self._may_copy, snapshot.object.metadata.namespace
        uncopied = {source: await asks.why_not(source, namespace) if asks else "" for source in sources}
        return msgspec.structs.replace(snapshot, uncopied=uncopied)

    def plan(self, snapshot: Snapshot, /) -> Plan:
        return plan(snapshot)

    def later(self, snapshot: Snapshot, /) -> Plan:
        return later(snapshot)

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> WukongStatus:
        return report(snapshot, outcome)


def _attachments(wukong: Wukong, read: Reader) -> tuple[NetworkAttachmentDefinition, ...]:
    """Those it owns, and those it names."""
    namespace = wukong.metadata.namespace
    own = {found.metadata.name: found for found in read.owned(NetworkAttachmentDefinition, wukong)}
    for _, name in _networks_named(wukong):
        found = read.get(NetworkAttachmentDefinition, name, namespace)
        if found is not None:
            own[name] = found
    return tuple(own[name] for name in sorted(own))


def _sharers(
    wukong: Wukong, attachments: Iterable[NetworkAttachmentDefinition], read: Reader
) -> Mapping[str, tuple[Wukong, ...]]:
    found: dict[str, tuple[Wukong, ...]] = {}
    for name in (a.metadata.name for a in attachments if is_controlled_by(a, wukong)):
        named = read.by_index(Wukong, BY_NETWORK, (wukong.metadata.namespace, name))
        others = tuple(
            w for w in named if w.metadata.name != wukong.metadata.name and w.metadata.deletion_timestamp is None
        )
        found |= {name: others} if others else {}
    return found


def _of_disks(kind: type[D], wukong: Wukong, read: Reader) -> tuple[D, ...]:
    """Those with its label, also of disks that the spec no longer has; and those that stand under a disk's name."""
    namespace, name = wukong.metadata.namespace, wukong.metadata.name
    found = {obj.metadata.name: obj for obj in read.by_index(kind, BY_WUKONG, (namespace, name))}
    for _, disk in _disks_named(wukong):
        there = read.get(kind, disk, namespace)
        if there is not None:
            found[disk] = there
    return tuple(found[name] for name in sorted(found))


def _data_sources(wukong: Wukong, read: Reader) -> Mapping[Name, DataSource]:
    named = data_sources_named(wukong)
    found = {where: read.get(DataSource, where[1], where[0]) for where in named}
    further = {where for first in found.values() if first is not None and (where := next_one(first)) is not None}
    found |= {where: read.get(DataSource, where[1], where[0]) for where in further - named}
    return {where: one for where, one in found.items() if one is not None}


def _owned_or_named(kind: type[C], wukong: Wukong, wanted: C | None, read: Reader) -> tuple[C, ...]:
    """Ours, and one of somebody else that stands under the name that ours is to have."""
    own = read.owned(kind, wukong)
    named = read.get(kind, wanted.metadata.name, wukong.metadata.namespace) if wanted else None
    return own if named is None or named in own else (*own, named)


def _pools(wukong: Wukong, read: Reader) -> Mapping[str, AddressPool]:
    found = (read.get(AddressPool, pool, wukong.metadata.namespace) for _, pool in from_pools(wukong))
    return {pool.metadata.name: pool for pool in found if pool is not None}


def _leases(wukong: Wukong, read: Reader) -> tuple[ConfigMap, ...]:
    return tuple(found for found in read.owned(ConfigMap, wukong) if any(pool_of(found)))


def _leased(wukong: Wukong, read: Reader) -> tuple[ConfigMap, ...]:
    if not any(from_pools(wukong)) and not any(static_addresses(wukong)):
        return ()
    return read.by_index(ConfigMap, BY_NAMESPACE, wukong.metadata.namespace)


def _neighbours(wukong: Wukong, read: Reader) -> tuple[Wukong, ...]:
    if not any(from_pools(wukong)):
        return ()
    found = read.by_index(Wukong, BY_STATIC, wukong.metadata.namespace)
    return tuple(other for other in found if other.metadata.name != wukong.metadata.name)


def _namesakes(wukong: Wukong, read: Reader) -> Mapping[str, tuple[Wukong, ...]]:
    found: dict[str, tuple[Wukong, ...]] = {}
    where = wukong.metadata.namespace
    for network, address in static_addresses(wukong):
        place = (segment(network), address)
        others = (
            w for w in read.by_index(Wukong, BY_ADDRESS, (where, address)) if w.metadata.uid != wukong.metadata.uid
        )
        found[network.name] = tuple(w for w in others if place in {(segment(n), a) for n, a in static_addresses(w)})
    return found


def _source(wukong: Wukong, read: Reader) -> WukongSnapshot | None:
    asked = wukong.spec.restore_from_snapshot
    return read.get(WukongSnapshot, asked, wukong.metadata.namespace) if asked else None


def _named(snapshots: Iterable[WukongSnapshot], read: Reader) -> frozenset[str]:
    metas = (snapshot.metadata for snapshot in snapshots)
    return frozenset(m.name for m in metas if read.by_index(Wukong, BY_SNAPSHOT, (m.namespace, m.name)))


def _disks_named(wukong: Wukong) -> Iterable[Name]:
    where = wukong.metadata
    return [(where.namespace, names.disk_name(where.name, disk.name)) for disk in wukong.spec.disks]


def _networks_named(wukong: Wukong) -> Iterable[Name]:
    networks = (network for network in networks_of(wukong) if not is_pod_network(network))
    return [(wukong.metadata.namespace, attachment_of(wukong, network)) for network in networks]


def _names_data_sources(wukong: Wukong) -> Iterable[bool]:
    return (True,) if data_sources_named(wukong) else ()


def _pools_named(wukong: Wukong) -> Iterable[Name]:
    return {(wukong.metadata.namespace, pool) for _, pool in from_pools(wukong)}


def _addresses_written(wukong: Wukong) -> Iterable[tuple[str, IP]]:
    return {(wukong.metadata.namespace, address) for _, address in static_addresses(wukong)}


def _namespace_if_static(wukong: Wukong) -> Iterable[str]:
    return (wukong.metadata.namespace,) if any(static_addresses(wukong)) else ()


def _namespace_if_pooled(wukong: Wukong) -> Iterable[str]:
    return (wukong.metadata.namespace,) if any(from_pools(wukong)) else ()


def _namespace_of_lease(lease: ConfigMap) -> Iterable[str]:
    return (namespace for namespace, _pool in pool_of(lease))


def _secrets_named(wukong: Wukong) -> Iterable[Name]:
    own = names.cloud_init_name(wukong.metadata.name)
    return [(wukong.metadata.namespace, name) for name in (*sorted(secrets_needed(wukong)), own)]


def _snapshots_named(wukong: Wukong) -> Iterable[Name]:
    asked = wukong.spec.restore_from_snapshot
    return ((wukong.metadata.namespace, asked),) if asked else ()


def _scheduled_for(snapshot: WukongSnapshot) -> Iterable[Name]:
    wukong = snapshot.metadata.labels.get(names.SCHEDULED_LABEL)
    return ((snapshot.metadata.namespace, wukong),) if wukong else ()


def _label(obj: Object) -> Iterable[Name]:
    wukong = obj.metadata.labels.get(names.WUKONG_LABEL)
    return ((obj.metadata.namespace, wukong),) if wukong else ()


def of_disk(obj: Object, read: Reader) -> Iterable[Key]:
    named = read.by_index(Wukong, BY_DISK, (obj.metadata.namespace, obj.metadata.name))
    return {*_keys(named), *(Key(*name) for name in _label(obj))}


def of_network(attachment: NetworkAttachmentDefinition, read: Reader) -> Iterable[Key]:
    return _keys(read.by_index(Wukong, BY_NETWORK, (attachment.metadata.namespace, attachment.metadata.name)))


def of_secret(secret: Secret, read: Reader) -> Iterable[Key]:
    return _keys(read.by_index(Wukong, BY_SECRET, (secret.metadata.namespace, secret.metadata.name)))


def of_instance(instance: VirtualMachineInstance, _read: Reader) -> Iterable[Key]:
    """It is called as its machine, which is called as the Wukong."""
    return (Key(instance.metadata.namespace, instance.metadata.name),)


def of_snapshot(snapshot: WukongSnapshot, read: Reader) -> Iterable[Key]:
    named = read.by_index(Wukong, BY_SNAPSHOT, (snapshot.metadata.namespace, snapshot.metadata.name))
    return {*_keys(named), *(Key(*name) for name in _scheduled_for(snapshot))}


def of_pool(pool: AddressPool, read: Reader) -> Iterable[Key]:
    return _keys(read.by_index(Wukong, BY_POOL, (pool.metadata.namespace, pool.metadata.name)))


def of_lease(lease: ConfigMap, read: Reader) -> Iterable[Key]:
    """Who may care that an address was taken or is free again: those that lack one, of any pool, or have this one."""
    found: list[Wukong] = []
    for namespace, _pool in pool_of(lease):
        found += [w for w in read.by_index(Wukong, BY_NAMESPACE, namespace) if _cares(w, address_in(lease), read)]
        found += read.by_index(Wukong, BY_ADDRESS, (namespace, address_in(lease)))
    return set(_keys(found))


def _cares(wukong: Wukong, address: IP, read: Reader) -> bool:
    own = _leases(wukong, read)
    return len(own) < sum(1 for _ in from_pools(wukong)) or any(address_in(lease) == address for lease in own)


def of_same_address(wukong: Wukong, read: Reader) -> Iterable[Key]:
    found = (other for address in _addresses_written(wukong) for other in read.by_index(Wukong, BY_ADDRESS, address))
    return _keys(found)


def of_data_source(_source: DataSource, read: Reader) -> Iterable[Key]:
    """All that name one: it may be the one that theirs refers to."""
    return _keys(read.by_index(Wukong, BY_DATA_SOURCE, True))


def of_class(_class: StorageClass, read: Reader) -> Iterable[Key]:
    return _keys(read.list(Wukong))


def _keys(wukongs: Iterable[Wukong]) -> list[Key]:
    return [Key(wukong.metadata.namespace, wukong.metadata.name) for wukong in wukongs]


def controller(may_copy: MayCopy | None = None) -> Controller[Wukong, Snapshot]:
    return (
        Controller.for_(Wukong, WukongReconciler(may_copy), workers=AT_ONCE)
        .owns(VirtualMachine, optional=True)
        .owns(NetworkAttachmentDefinition, optional=True)
        .owns(Secret)
        .owns(Service)
        .owns(NetworkPolicy)
        # Disks carry no owner reference (see `disks`), but are made and deleted here as what is owned is.
        .owns(DataVolume, optional=True)
        .owns(PersistentVolumeClaim)
        .owns(VirtualMachineRestore, optional=True)
        .owns(ConfigMap, where=OF_POOLS)
        .owns(WukongSnapshot)  # made by a schedule, which they outlive
        .watches(NetworkAttachmentDefinition, to=of_network, optional=True)
        .watches(VirtualMachineInstance, to=of_instance, optional=True)
        .watches(DataVolume, to=of_disk, optional=True)
        .watches(PersistentVolumeClaim, to=of_disk)
        .watches(DataSource, to=of_data_source, optional=True)
        .watches(StorageClass, to=of_class)
        .watches(AddressPool, to=of_pool)
        .watches(ConfigMap, to=of_lease, where=OF_POOLS)
        .watches(Wukong, to=of_same_address, when=generation_changed)
        .watches(Secret, to=of_secret)
        .watches(WukongSnapshot, to=of_snapshot)
        .indexes(Wukong, BY_DISK, _disks_named)
        .indexes(Wukong, BY_DATA_SOURCE, _names_data_sources)
        .indexes(Wukong, BY_NETWORK, _networks_named)
        .indexes(Wukong, BY_SECRET, _secrets_named)
        .indexes(Wukong, BY_POOL, _pools_named)
        .indexes(Wukong, BY_ADDRESS, _addresses_written)
        .indexes(Wukong, BY_STATIC, _namespace_if_static)
        .indexes(Wukong, BY_NAMESPACE, _namespace_if_pooled)
        .indexes(ConfigMap, BY_POOL, pool_of)
        .indexes(ConfigMap, BY_NAMESPACE, _namespace_of_lease)
        .indexes(Wukong, BY_SNAPSHOT, _snapshots_named)
        .indexes(WukongSnapshot, BY_WUKONG, _scheduled_for)
        .indexes(DataVolume, BY_WUKONG, _label)
        .indexes(PersistentVolumeClaim, BY_WUKONG, _label)
        .finalizer(FINALIZER)
        .remembers(decided_by, is_patient=True)
    )


KINDS = (KindController(Wukong, controller, ("wk",)),)
