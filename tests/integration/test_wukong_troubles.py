"""Wukongs on a real API server when things go wrong: operators die, definitions vanish, people meddle."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from corral.engine.differences import wire
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import VirtualMachineRestore, VirtualMachineSnapshot, VolumeSnapshot
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube import Client, Precondition, Selector
from corral.kube.meta import Object
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Secret, Service
from corral.kube.models.networking_v1 import NetworkPolicy
from corral.testing.cluster import Cluster
from tests.integration.wukongdeaths import deaths_until
from tests.integration.wukonglife import (
    WHOLE,
    apply,
    are_gone,
    define_again,
    is_another,
    is_gone,
    is_restored,
    is_taken,
    make_pool,
    operating,
    phase_is,
    playing,
    ready_reason,
    snapshot_reason,
    take_snapshot,
    undefine,
    until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("wukong_definitions")]


async def test_definitions_that_disappear_before_or_under_a_machine_are_told_and_it_runs_when_they_are_back(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    ns = corral_namespace
    missing: tuple[type[Object], ...] = (NetworkAttachmentDefinition, DataVolume, VirtualMachine)
    for kind in missing:
        await undefine(client, kind)
    async with operating(corral_cluster, client, ns):
        await make_pool(client, ns, "san")
        await apply(client, ns, WHOLE)
        await until(lambda: stuck_reasons(client, ns, {"MultusMissing", "CDIMissing", "KubeVirtMissing"}))
        for kind in missing:
            await define_again(client, kind)
        await until(lambda: phase_is(client, ns, "Running"))

        await definition_goes_and_comes(client, ns, NetworkAttachmentDefinition, "vm-lan-nad", "MultusMissing")
        await definition_goes_and_comes(client, ns, VirtualMachine, "vm", "KubeVirtMissing")
        await cdi_goes_and_comes(client, ns)

        await client.delete(Wukong, "vm", ns, precondition=Precondition())
        await until(lambda: is_gone(client, Wukong, "vm", ns))


async def stuck_reasons(client: Client, ns: str, reasons: set[str]) -> object:
    found = {stuck.reason for stuck in (await client.get(Wukong, "vm", ns)).status.stuck}
    return True if found == reasons else found


async def definition_goes_and_comes(client: Client, ns: str, kind: type[Object], child: str, reason: str) -> None:
    before = (await client.get(kind, child, ns)).metadata.uid
    await undefine(client, kind)
    await until(lambda: ready_reason(client, ns, reason))
    await define_again(client, kind)
    await until(lambda: phase_is(client, ns, "Running"))
    assert (await client.get(kind, child, ns)).metadata.uid != before


async def cdi_goes_and_comes(client: Client, ns: str) -> None:
    """The disk's claim stays, as one does that a pod uses.

    When Kubernetes' collector deletes the claim of a DataVolume that went with its definition follows from whether it
    knew of DataVolumes by then: at once, or not before the definition is back. So the test does it.
    """
    before = (await client.get(DataVolume, "vm-root", ns)).metadata.uid
    await mark_finalizers(client, ns, ["test.corral.dev/used"])
    await undefine(client, DataVolume)
    await until(lambda: ready_reason(client, ns, "CDIMissing"))
    await define_again(client, DataVolume)
    await client.delete(PersistentVolumeClaim, "vm-root", ns, precondition=Precondition())
    await mark_finalizers(client, ns, None)
    await until(lambda: is_another(client, DataVolume, "vm-root", ns, before))
    await until(lambda: phase_is(client, ns, "Running"))


async def mark_finalizers(client: Client, ns: str, finalizers: list[str] | None) -> None:
    merge = {"metadata": {"finalizers": finalizers}}
    await client.patch(
        PersistentVolumeClaim, "vm-root", ns, merge=merge, precondition=Precondition(), field_manager="somebody"
    )


@pytest.mark.parametrize(("kind", "disks"), [(VirtualMachineSnapshot, ()), (VolumeSnapshot, ("data",))])
async def test_snapshots_whose_definition_is_missing_are_told_and_taken_when_it_is_there(
    corral_cluster: Cluster, client: Client, corral_namespace: str, kind: type[Object], disks: tuple[str, ...]
) -> None:
    ns = corral_namespace
    async with operating(corral_cluster, client, ns):
        await make_pool(client, ns, "san")
        await apply(client, ns, WHOLE)
        await until(lambda: phase_is(client, ns, "Running"))
        await undefine(client, kind)
        await take_snapshot(client, ns, "friday", disks)
        await until(lambda: snapshot_reason(client, ns, "friday", "SnapshotsMissing"))
        await define_again(client, kind)
        await until(lambda: is_taken(client, ns, "friday", disks or ("root", "data")))

        async with unserved(client, kind):
            await until(lambda: snapshot_reason(client, ns, "friday", "SnapshotsMissing"))
            status = (await client.get(WukongSnapshot, "friday", ns)).status
            assert status.phase == "Succeeded", "it is only out of sight"
        await until(lambda: snapshot_reason(client, ns, "friday", "AsDesired"))
        await undefine(client, kind)
        await until(lambda: snapshot_reason(client, ns, "friday", "SnapshotsMissing"))
        await define_again(client, kind)
        await until(lambda: snapshot_reason(client, ns, "friday", "SnapshotLost"))
        await client.delete(Wukong, "vm", ns, precondition=Precondition())
        await until(lambda: is_gone(client, Wukong, "vm", ns))


@asynccontextmanager
async def unserved(client: Client, kind: type[Object]) -> AsyncIterator[None]:
    """The definition stays, and so does what is of the kind."""
    await serve(client, kind, is_served=False)
    try:
        yield
    finally:
        await serve(client, kind, is_served=True)


async def serve(client: Client, kind: type[Object], *, is_served: bool) -> None:
    name = kind.resource.plural_and_group
    found = await client.get(CustomResourceDefinition, name)
    versions = [{**msgspec.to_builtins(version), "served": is_served} for version in found.spec.versions]
    merge = {"spec": {"versions": versions}}
    await client.patch(
        CustomResourceDefinition, name, merge=merge, precondition=Precondition(), field_manager="somebody"
    )


CHILDREN: tuple[tuple[type[Object], str], ...] = (
    (NetworkAttachmentDefinition, "vm-lan-nad"),
    (Secret, "vm-cloud-init"),
    (Service, "vm"),
    (NetworkPolicy, "vm"),
    (PersistentVolumeClaim, "vm-data"),
    (DataVolume, "vm-root"),
    (VirtualMachine, "vm"),
)


async def test_whatever_a_person_deletes_comes_back_and_what_somebody_changes_is_put_back(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    ns = corral_namespace
    async with operating(corral_cluster, client, ns) as standin:
        await make_pool(client, ns, "san")
        await apply(client, ns, WHOLE)
        await until(lambda: phase_is(client, ns, "Running"))
        for kind, name in CHILDREN:
            await deleted(client, ns, kind, name)
        await deleted(client, ns, ConfigMap, await leased(client, ns))

        await meddled(client, ns, VirtualMachine, "vm", {"spec": {"runStrategy": "Halted"}})
        await meddled(client, ns, NetworkAttachmentDefinition, "vm-lan-nad", {"spec": {"config": "{}"}})
        await until(lambda: phase_is(client, ns, "Running"))
        await client.delete(Wukong, "vm", ns, precondition=Precondition())
        await until(lambda: is_gone(client, Wukong, "vm", ns))
        assert standin.refused == set()


async def deleted(client: Client, ns: str, kind: type[Object], name: str) -> None:
    """By hand, and it comes back."""
    before = (await client.get(kind, name, ns)).metadata.uid
    await client.delete(kind, name, ns, precondition=Precondition())
    await until(lambda: is_another(client, kind, name, ns, before))
    await until(lambda: phase_is(client, ns, "Running"))


async def leased(client: Client, namespace: str) -> str:
    where = Selector(namespace=namespace, labels="vm.corral.dev/address-pool=san")
    (lease,) = (await client.list(ConfigMap, where)).items
    return lease.metadata.name


async def meddled(client: Client, ns: str, kind: type[Object], name: str, merge: Mapping[str, Any]) -> None:
    """Somebody else writes a field of ours, and it is put back."""
    before = await client.get(kind, name, ns)
    await client.patch(kind, name, ns, merge=merge, precondition=Precondition(), field_manager="somebody")
    await until(lambda: is_put_back(client, before))


async def is_put_back(client: Client, before: Object) -> object:
    now = await client.get(type(before), before.metadata.name, before.metadata.namespace)
    spec = wire(now)["spec"]
    changed = now.metadata.generation > before.metadata.generation + 1
    return True if changed and spec == wire(before)["spec"] else spec


async def test_an_operator_that_dies_after_each_write_brings_a_wukong_up_sets_it_back_changes_it_and_takes_it_away(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    ns, where = corral_namespace, Selector(namespace=corral_namespace)
    async with playing(client, ns) as standin:
        await make_pool(client, ns, "san")
        await apply(client, ns, WHOLE)
        made = await deaths_until(corral_cluster, standin, lambda: phase_is(client, ns, "Running"))

        await take_snapshot(client, ns, "friday")
        taken = await deaths_until(corral_cluster, standin, lambda: is_taken(client, ns))
        await apply(client, ns, WHOLE + "restoreFromSnapshot: friday\n")
        restored = await deaths_until(corral_cluster, standin, lambda: is_restored(client, ns, "friday"))
        assert [s.metadata.name for s in (await client.list(VirtualMachineSnapshot, where)).items] == ["friday"]
        assert [r.metadata.name for r in (await client.list(VirtualMachineRestore, where)).items] == ["vm-from-friday"]
        names = [(await client.get(kind, name, ns)).metadata.uid for kind, name in CHILDREN]

        await apply(client, ns, WHOLE.replace("size: 2Gi", "size: 3Gi") + "startStrategy: {runStrategy: Halted}\n")
        changed = await deaths_until(corral_cluster, standin, lambda: phase_is(client, ns, "Stopped"))
        assert [(await client.get(kind, name, ns)).metadata.uid for kind, name in CHILDREN] == names

        await client.delete(Wukong, "vm", ns, precondition=Precondition())
        gone = await deaths_until(corral_cluster, standin, lambda: is_gone(client, Wukong, "vm", ns))
        await until(lambda: are_gone(client, ns, CHILDREN))
        # How often it died in each chapter follows from the machine too.
        assert min(made, taken, restored, changed, gone) > 0, (made, taken, restored, changed, gone)
        assert standin.refused == set()
