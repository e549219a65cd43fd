"""Everything that the kinds of virtual machines can come to send, held against its real definition by the real server.

Nothing is made: each object is created as a dry run, in which the server refuses unknown fields as well.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from corral.engine import render
from corral.kinds.nodebridge.controller import controller as bridge_controller
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeSpec
from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import migration_to
from corral.kinds.wukong.controller import controller
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.controller import controller as snapshot_controller
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec
from corral.kube import Client
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Node

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("wukong_definitions")]

NAMESPACE = "default"
UID = "6e5b0ab4-5a0c-4a35-9f0b-3f8a6a0e2c11"  # of the owner: the server asks for one, and not whether it exists
GOLDEN = Path(__file__).parents[1] / "unit" / "kinds" / "wukong" / "golden"
BASE: dict[str, Any] = {"cpu": 4, "memory": "2Gi", "disks": [{"name": "root", "size": "1Gi"}]}


def golden() -> Iterator[Any]:
    """The documents that people have read, without those that are cloud-init's."""
    for file in sorted(GOLDEN.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            if "kind" in document:
                yield pytest.param(document, id=f"{file.stem} {document['kind']} {document['metadata']['name']}")


@pytest.mark.parametrize("document", [*golden()])
async def test_what_people_have_read_passes_its_real_schema(client: Client, document: Mapping[str, Any]) -> None:
    kinds = {watch.kind.resource.kind: watch.kind.resource for watch in controller().watched}
    content = {**document, "metadata": {**document["metadata"], "namespace": NAMESPACE}}
    await client.create(kinds[document["kind"]].untyped()(content=content), field_manager="test", dry_run=True)


def filled(source: str) -> dict[str, Any]:
    return BASE | {"disks": [{"name": "root", "size": "1Gi", "source": yaml.safe_load(source)}]}


def attached(**network: Any) -> dict[str, Any]:
    return BASE | {"networks": [{"name": "lan", **network}]}


FILLED: dict[str, dict[str, Any]] = {  # those with a DataVolume; a DataSource is followed to a claim or a snapshot
    "http": filled("{http: {url: 'https://a.test/a', secretName: s, caConfigMap: ca, checksum: 'sha256:00'}}"),
    "registry": filled("{registry: {url: 'docker://images.test/a', secretName: s, caConfigMap: ca}}"),
    "s3": filled("{s3: {url: 'https://s3.test/bucket/a', secretName: s, caConfigMap: ca}}"),
    "gcs": filled("{gcs: {url: 'gs://bucket/a', secretName: s}}"),
    "pvc": filled("{pvc: {name: other}}"),
    "snapshot": filled("{snapshot: {name: other}}"),
    "blank": filled("{blank: true}"),
    "upload": filled("{upload: true}"),
}
OTHERS: dict[str, dict[str, Any]] = {
    "containerDisk": filled("{containerDisk: {image: 'images.test/live:1', pullSecret: s}}"),
    "bridge": attached(bridgeName="br0", vlanId=7),
    "sriov": attached(type="sriov", resourceName="vendor.test/pool", vlanId=7),
    "ovs": attached(type="ovs", bridgeName="ovs0", vlanId=7),
    "macvtap": attached(type="macvlan", physicalInterface="eth1"),
    "primary": attached(primary=True, macAddress="02:00:00:00:00:01"),
    "hugepages": BASE | {"hugepages": "1Gi"},
    "dedicated processors": BASE
    | {
        "hugepages": "2Mi",
        "cpuOptions": {
            "sockets": 2,
            "threads": 2,
            "model": "host-passthrough",
            "dedicated": True,
            "isolateEmulatorThread": True,
            "numa": True,
        },
    },
    "liveResize": BASE | {"liveResize": {"maxCpu": 8, "maxMemory": "8Gi"}},
    "instancetype": {
        "disks": BASE["disks"],
        "instancetype": {"name": "u1.small"},
        "preference": {"name": "debian", "clusterWide": False},
    },
    "devices": BASE
    | {
        "hostDevices": [{"name": "nic0", "deviceName": "vendor.test/nic"}],
        "gpus": [{"name": "gpu0", "deviceName": "nvidia.com/TU104GL_Tesla_T4"}],
    },
    "probes": BASE
    | {"readinessProbe": {"httpPort": 8080, "httpPath": "/health"}, "livenessProbe": {"guestAgent": True}},
    "persistent EFI": BASE
    | {"firmware": {"bootloader": "uefi", "secureBoot": True, "persistent": True, "tpm": True}, "machineType": "q35"},
    "UTC": BASE | {"clock": {}, "watchdog": True},
    "affinity": BASE
    | {
        "highAvailability": {
            "affinity": {
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
                    ]
                }
            },
            "spread": {"required": True},
            "evictionStrategy": "LiveMigrate",
            "priorityClassName": "high",
        }
    },
    "service": BASE
    | {
        "service": {"type": "LoadBalancer", "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
        "networkPolicy": "Service",
    },
}


@pytest.mark.parametrize("name", [*FILLED, *OTHERS])
async def test_what_a_wukong_becomes_passes_its_real_schema(client: Client, name: str) -> None:
    metadata = {"name": "vm", "namespace": NAMESPACE}
    wukong = msgspec.convert({"metadata": metadata, "spec": (FILLED | OTHERS)[name]}, Wukong)
    await client.create(wukong, field_manager="test", dry_run=True)
    owner = msgspec.structs.replace(wukong, metadata=msgspec.structs.replace(wukong.metadata, uid=UID))
    made = await render(controller(), owner)
    kinds = {obj.resource.kind for obj in made}
    assert "VirtualMachine" in kinds
    assert ("DataVolume" in kinds) == (name in FILLED)
    for obj in made:
        await client.create(obj, field_manager="test", dry_run=True)


@pytest.mark.parametrize("disks", [(), ("root", "data")], ids=["whole", "disks"])
async def test_what_a_snapshot_becomes_passes_its_real_schema(client: Client, disks: tuple[str, ...]) -> None:
    metadata = ObjectMeta(name="friday", namespace=NAMESPACE, uid=UID)
    asked = WukongSnapshotSpec(wukong_name="vm", disks=disks, volume_snapshot_class_name="fast" if disks else "")
    made = await render(snapshot_controller(), WukongSnapshot(metadata=metadata, spec=asked))
    assert len(made) == max(len(disks), 1)
    for obj in made:
        await client.create(obj, field_manager="test", dry_run=True)


async def test_what_a_bridge_and_a_move_become_passes_its_real_schema(client: Client) -> None:
    for kind in ("linux", "ovs"):
        spec = msgspec.convert({"bridgeName": "br0", "port": "eth1", "type": kind, "mtu": 9000}, NodeBridgeSpec)
        bridge = NodeBridge(metadata=ObjectMeta(name="lan", uid=UID), spec=spec)
        (policy,) = await render(bridge_controller(), bridge, beside=(Node(metadata=ObjectMeta(name="node-1")),))
        await client.create(policy, field_manager="test", dry_run=True)
    for node in ("", "node-b"):
        moving = migration_to(node, "vm", NAMESPACE, labels=names.MANAGED_BY)
        await client.create(moving, field_manager="test", dry_run=True)
