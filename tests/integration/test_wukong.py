"""Wukongs on a real API server with the real definitions: every object that we send passes its real schema."""

from typing import Any

import pytest

from corral.engine import Key, plan_object
from corral.kinds.addresspool.spec import AddressPool
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
)
from corral.kinds.wukong.controller import controller
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube import Client, Precondition
from corral.kube.errors import Invalid, KubeError
from corral.kube.meta import Object
from corral.kube.models.core_v1 import PersistentVolumeClaim, Service
from corral.kube.models.networking_v1 import NetworkPolicy
from corral.testing.cluster import Cluster
from tests.integration.wukonglife import (
    WHOLE,
    apply,
    are_gone,
    is_gone,
    is_restored,
    is_taken,
    make_pool,
    none_is_left,
    operating,
    phase_is,
    take_snapshot,
    until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("wukong_definitions")]


async def test_a_wukong_runs_stops_grows_and_goes_and_every_object_passes_its_real_schema(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    ns = corral_namespace
    async with operating(corral_cluster, client, ns) as standin:
        await make_pool(client, ns, "san")
        await apply(client, ns, WHOLE)
        await until(lambda: phase_is(client, ns, "Running"))
        assert (await plan_object(client, controller(), Key(ns, "vm"))).plan.is_empty
        await take_snapshot(client, ns, "friday")
        await until(lambda: is_taken(client, ns))
        await take_snapshot(client, ns, "part", ("data",))
        await until(lambda: is_taken(client, ns, "part", ("data",)))

        before = (await client.get(PersistentVolumeClaim, "vm-data", ns)).metadata.uid
        await apply(client, ns, WHOLE + "restoreFromSnapshot: friday\n")
        await until(lambda: is_restored(client, ns, "friday"))
        assert (await client.get(PersistentVolumeClaim, "vm-data", ns)).metadata.uid != before
        await apply(client, ns, WHOLE)
        await until(lambda: is_restored(client, ns, ""))

        settled = (await client.get(VirtualMachine, "vm", ns)).metadata.generation
        await apply(client, ns, WHOLE.replace("size: 2Gi", "size: 3Gi"))
        await until(lambda: has_size(client, ns, "vm-data", "3Gi"))
        with pytest.raises(Invalid, match="never shrinks"):
            await apply(client, ns, WHOLE.replace("size: 2Gi", "size: 2500Mi"))
        assert (await client.get(VirtualMachine, "vm", ns)).metadata.generation == settled

        await apply(client, ns, WHOLE.replace("size: 2Gi", "size: 3Gi") + "startStrategy: {runStrategy: Halted}\n")
        await until(lambda: phase_is(client, ns, "Stopped"))

        await client.delete(Wukong, "vm", ns, precondition=Precondition())
        await until(lambda: is_gone(client, Wukong, "vm", ns))
        assert standin.refused == set()
        assert await are_gone(client, ns, DELETED_IN_ORDER) is True
        await until(lambda: are_gone(client, ns, COLLECTED))

        for name in ("friday", "part"):
            await client.delete(WukongSnapshot, name, ns, precondition=Precondition())
        await until(lambda: none_is_left(client, ns, SNAPSHOTS))


DELETED_IN_ORDER: tuple[tuple[type[Object], str], ...] = (
    (VirtualMachine, "vm"),
    (DataVolume, "vm-root"),
    (PersistentVolumeClaim, "vm-data"),
    (NetworkAttachmentDefinition, "vm-lan-nad"),
)
COLLECTED = ((VirtualMachineRestore, "vm-from-friday"), (Service, "vm"), (NetworkPolicy, "vm"))


SNAPSHOTS: tuple[type[Object], ...] = (VirtualMachineSnapshot, VirtualMachineSnapshotContent, VolumeSnapshot)


async def has_size(client: Client, namespace: str, claim: str, size: str) -> object:
    status = (await client.get(Wukong, "vm", namespace)).status
    found = {volume.pvc_name: volume.size for volume in status.volumes}
    return True if found.get(claim) == size else found


BASE: dict[str, Any] = {"cpu": 1, "memory": "1Gi", "disks": [{"name": "root", "size": "1Gi"}]}


def with_disk(**fields: Any) -> dict[str, Any]:
    return BASE | {"disks": [{"name": "root", "size": "1Gi"} | fields]}


def with_network(**fields: Any) -> dict[str, Any]:
    return BASE | {"networks": [{"name": "lan"} | fields]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (BASE | {"disks": []}, "spec.disks"),
        (BASE | {"cpu": 65}, "spec.cpu"),
        (BASE | {"memory": "lots"}, "spec.memory"),
        ({"disks": BASE["disks"]}, "a machine needs cpu and memory"),
        (BASE | {"instancetype": {"name": "u1.small"}}, "the instancetype says cpu and memory"),
        (
            {"disks": BASE["disks"], "instancetype": {"name": "u1.small"}, "hugepages": "2Mi"},
            "the instancetype says cpu and memory",
        ),
        (BASE | {"osImage": "ftp://images.test/a"}, "for others there is source"),
        (BASE | {"cloudInit": {"hostname": "My_Host"}}, "spec.cloudInit.hostname"),
        (with_disk(source={"s3": {"url": "https://s3.test/a", "checksum": "md5:ab"}}), "no checksum of s3"),
        (BASE | {"disks": [{"name": n, "size": "1Gi", "boot": True} for n in "ab"]}, "one disk boots"),
        (BASE | {"disks": [{"name": "a", "size": "1Gi"}] * 2}, "Duplicate value"),
        (with_disk(size="0"), "size is more than nothing"),
        (with_disk(name="cloudinit"), "the disk that carries cloud-init"),
        (with_disk(image="ftp://images.test/a"), "for others there is source"),
        (with_disk(image="a:1", source={"blank": True}), "set one of them"),
        (with_disk(source={}), "a source is one of"),
        (with_disk(source={"blank": True, "upload": True}), "a source is one of"),
        (with_disk(source={"registry": {"url": "images.test/a"}}), "docker:// or oci-archive://"),
        (with_disk(source={"s3": {"url": "s3://bucket/a"}}), "begins with http"),
        (BASE | {"networks": [{"name": n, "primary": True} for n in "ab"]}, "one network is primary"),
        (BASE | {"networks": [{"name": "a", "primary": True}, {"name": "default"}]}, "leave the network `default` out"),
        (with_network(name="default", type="bridge"), "the network `default` is the pod's own"),
        (with_network(vlanId=4095), "spec.networks[0].vlanId"),
        (with_network(name="a-very-long-name"), "at most 15 characters"),
        (with_network(type="sriov"), "sriov needs resourceName"),
        (with_network(type="macvlan"), "macvlan works only as macvtap"),
        (with_network(type="macvlan", physicalInterface="eth0", vlanId=3), "macvlan cannot tag"),
        (with_network(physicalInterface="eth0"), "the ports of a bridge belong to the nodes"),
        (with_network(nadName="shared", vlanId=3), "choose one way"),
        (with_network(ipConfig={"mode": "static"}), "a static address is missing"),
        (with_network(ipConfig={"mode": "static", "address": "10.0.0.5"}), "with its prefix"),
        (with_network(name="default", ipConfig={"mode": "static", "address": "10.0.0.5/24"}), "the pod network gives"),
        (with_network(ipConfig={"mode": "pool"}), "mode pool names its pool"),
        (with_network(macAddress="01:00:00:00:00:01"), "macAddress"),
        (BASE | {"firmware": {"secureBoot": True}}, "secureBoot needs bootloader uefi"),
        (BASE | {"cloudInitUser": {"name": "a", "passwordHash": "hunter2"}}, "passwordHash"),
        (BASE | {"cloudInit": {"mounts": [{"path": "/srv", "disk": "data"}]}}, "names a disk that is not in disks"),
        (BASE | {"cloudInit": {"mounts": [{"path": "/srv"}]}}, "a mount is of a disk or of a device"),
        (BASE | {"readinessProbe": {}}, "a probe is one of"),
        (BASE | {"liveResize": {}}, "maxCpu, maxMemory or both"),
        (BASE | {"liveResize": {"maxCpu": 4}, "cpu": 5}, "at least cpu"),
        (BASE | {"liveResize": {"maxCpu": 4}, "cpuOptions": {"sockets": 2}, "cpu": 2}, "plugged as sockets"),
        (BASE | {"liveResize": {"maxMemory": "2Gi"}, "memory": "512Mi"}, "at least 1Gi"),
        (BASE | {"liveResize": {"maxMemory": "1025Mi"}}, "a multiple of 2Mi"),
        (BASE | {"networkPolicy": "Open"}, "spec.networkPolicy"),
        (
            BASE | {"highAvailability": {"restartPolicy": "Never"}, "startStrategy": {"runStrategy": "Always"}},
            "set one of them",
        ),
    ],
)
async def test_the_server_refuses_what_cannot_work_with_the_reason(
    client: Client, corral_cluster: Cluster, spec: dict[str, Any], told: str
) -> None:
    with pytest.raises(KubeError) as caught:
        await client.create(a_manifest(spec), field_manager="person", dry_run=True)
    assert told in str(caught.value)


def a_manifest(spec: dict[str, Any], name: str = "it") -> Object:
    content = {
        "apiVersion": Wukong.resource.api_version,
        "kind": "Wukong",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    return Wukong.resource.untyped()(content=content)


@pytest.mark.parametrize(
    ("name", "spec", "told"),
    [
        ("a" * 21, {"subnet": "10.0.0.0/24"}, "at most 20 characters"),
        ("a", {"subnet": "10.0.0.5/24"}, "subnet is like 10.1.2.0/24"),
        ("a", {"subnet": "10.0.0.0/24", "ranges": [{"first": "10.0.1.1", "last": "10.0.1.9"}]}, "lie in the subnet"),
        ("a", {"subnet": "10.0.0.0/24", "gateway": "here"}, "gateway is an IP address"),
    ],
)
async def test_a_pool_that_cannot_work_is_refused(client: Client, name: str, spec: dict[str, Any], told: str) -> None:
    resource = AddressPool.resource
    metadata = {"name": name, "namespace": "default"}
    content = {"apiVersion": resource.api_version, "kind": "AddressPool", "metadata": metadata, "spec": spec}
    with pytest.raises(Invalid, match=told):
        await client.create(resource.untyped()(content=content), field_manager="person", dry_run=True)


async def test_a_name_that_no_machine_can_have_is_refused(client: Client) -> None:
    for name, told in (("a" * 51, "at most 50 characters"), ("a.b", "has no dots")):
        with pytest.raises(Invalid, match=told):
            await client.create(a_manifest(BASE, name), field_manager="person", dry_run=True)


async def test_what_a_disk_is_filled_with_is_decided_once(client: Client, corral_namespace: str) -> None:
    spec = "{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi, image: 'a:1'}]}"
    await apply(client, corral_namespace, spec)
    with pytest.raises(Invalid, match="decided once"):
        await apply(client, corral_namespace, spec.replace("a:1", "a:2"))
    with pytest.raises(Invalid, match="stays in its storage class"):
        await apply(client, corral_namespace, spec.replace("size: 1Gi", "size: 1Gi, storageClassName: other"))
    await apply(client, corral_namespace, spec.replace("size: 1Gi", "size: 2Gi"))
