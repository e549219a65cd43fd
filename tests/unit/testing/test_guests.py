"""What QEMU is told of an instance: the disks, order, serial numbers, addresses and data that KubeVirt is told of."""

from collections.abc import Mapping
from ipaddress import IPv4Interface
from pathlib import Path

import msgspec
import pytest

from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.cloudinit import cloud_init_secret
from corral.kinds.wukong.disks import disks_of
from corral.kinds.wukong.machine import virtual_machine
from corral.kinds.wukong.names import NETWORK_DATA
from corral.kinds.wukong.networks import machine_interfaces, own_attachments
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Pod
from corral.testing.guests.contents import Contents
from corral.testing.guests.disk import SECTOR, partition_table
from corral.testing.guests.launcher import NotPlayed, launcher, qemu, static_addresses
from corral.testing.guests.processor import Accelerator
from tests.unit.kinds.wukong.world import NAMESPACE, a_wukong

SPEC = """
cpu: 2
memory: 768Mi
disks: [{name: data, size: 1Gi}, {name: root, size: 1Gi, image: 'a:1', boot: true, cache: none}]
networks: [{name: default}, {name: lan, bridgeName: br0, ipConfig: {mode: static, address: 10.1.2.3/24}}]
"""


def instance_of(spec: str) -> VirtualMachineInstance:
    wukong = a_wukong(spec)
    machine = virtual_machine(wukong, disks_of(wukong, {}, {}, ()), None, None)
    metadata = ObjectMeta(
        name="vm", namespace=NAMESPACE, uid="0123456789", labels=machine.spec.template.metadata.labels
    )
    return VirtualMachineInstance(metadata=metadata, spec=machine.spec.template.spec)


def words(spec: str = SPEC, accelerator: Accelerator = "tcg") -> tuple[str, ...]:
    return qemu(instance_of(spec).spec, attachments_of(spec), addresses_of(spec), accelerator)


def pod_of(accelerator: Accelerator) -> Pod:
    return launcher(
        instance_of(SPEC),
        attachments_of(SPEC),
        addresses_of(SPEC),
        tools=Path("/tools"),
        image="box:1",
        accelerator=accelerator,
    )


def attachments_of(spec: str) -> Mapping[str, NetworkAttachmentDefinition]:
    return {attachment.metadata.name: attachment for attachment in own_attachments(a_wukong(spec))}


def addresses_of(spec: str) -> Mapping[str, IPv4Interface]:
    secret = cloud_init_secret(a_wukong(spec), {})
    return static_addresses(secret.data[NETWORK_DATA])


def test_disks_come_in_their_order_with_serial_numbers_and_one_boots_first() -> None:
    devices = [word for word in words() if word.startswith("virtio-blk-pci")]
    assert devices == [
        "virtio-blk-pci,drive=data,serial=data",
        "virtio-blk-pci,drive=root,serial=root,bootindex=1",
        "virtio-blk-pci,drive=cloudinit",
    ]
    drives = {word.split("id=")[1].split(",")[0]: word for word in words() if word.startswith("file=")}
    assert "file=/disks/root/disk.img" in drives["root"]
    assert "cache=none" in drives["root"]
    assert "readonly=on" in drives["cloudinit"]


def test_interfaces_have_their_addresses_and_a_static_one_is_reached_in_the_lan_behind_its_bridge() -> None:
    macs = [interface.mac_address for interface in machine_interfaces(a_wukong(SPEC))]
    assert [word for word in words() if word.startswith("virtio-net-pci")] == [
        f"virtio-net-pci,netdev=net0,mac={macs[0]},romfile=",
        f"virtio-net-pci,netdev=net1,mac={macs[1]},romfile=",
    ]
    assert [word for word in words() if word.startswith("user,")] == [
        "user,id=net0,hostfwd=tcp::22-:22",
        "user,id=net1,restrict=on,net=10.1.2.0/24,hostfwd=tcp:127.0.0.1:2201-10.1.2.3:22",
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("cache: none", "bus: usb", "disk root: only virtio is played"),
        ("bridgeName: br0", "type: sriov, resourceName: a.test/b", "network vm-lan-nad: only bridges are played"),
    ],
)
def test_what_is_not_played_is_named(old: str, new: str, told: str) -> None:
    with pytest.raises(NotPlayed, match=told):
        words(SPEC.replace(old, new))


def test_a_network_of_others_that_is_not_there_is_named() -> None:
    with pytest.raises(NotPlayed, match="network vm-lan-nad: there is no NetworkAttachmentDefinition of that name"):
        qemu(instance_of(SPEC).spec, {}, {}, "tcg")


def test_a_bridge_without_a_static_address_is_a_subnet_that_nobody_reaches() -> None:
    plain = SPEC.replace(", ipConfig: {mode: static, address: 10.1.2.3/24}", "")
    assert [word for word in words(plain) if word.startswith("user,")][1] == "user,id=net1,restrict=on"


def test_the_pod_has_the_claims_secrets_and_labels_that_the_machine_names() -> None:
    pod = pod_of("tcg")
    text = msgspec.json.encode(pod).decode()
    assert pod.metadata.labels["vm.corral.dev/wukong"] == "vm"
    assert '"claimName":"vm-data"' in text
    assert '"claimName":"vm-root"' in text
    assert text.count('"name":"vm-cloud-init"') == 2
    assert '{"key":"networkdata","path":"network-config"}' in text


@pytest.mark.parametrize(("accelerator", "privileged"), [("kvm", True), ("tcg", False)])
def test_the_pod_has_the_devices_of_its_node_only_for_kvm(accelerator: Accelerator, privileged: bool) -> None:
    context = pod_of(accelerator).spec.containers[0].security_context
    assert (context is not None and context.privileged is True) == privileged
    assert words(accelerator=accelerator)[words(accelerator=accelerator).index("-accel") + 1].startswith(accelerator)


def test_a_volume_has_the_content_of_its_source_and_the_size_that_was_asked_for(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"debian")
    contents = Contents(tmp_path, image)
    contents.make("a", 4096, contents.image)
    contents.keep("friday", "a")
    contents.make("b", 8192, contents.kept("friday"))
    disk = (contents.path("b") / "disk.img").read_bytes()
    assert (disk[:6], len(disk)) == (b"debian", 8192)


def test_a_disk_grows_and_never_shrinks(tmp_path: Path) -> None:
    contents = Contents(tmp_path, tmp_path / "none")
    contents.make("a", 4096, None)
    for asked, has in ((8192, 8192), (1024, 8192)):
        contents.grow("a", asked)
        assert (contents.path("a") / "disk.img").stat().st_size == has


def test_the_table_of_partitions_ends_the_first_sector() -> None:
    table = partition_table(2048)
    assert len(table) == SECTOR - 446
    assert (table[0], table[4], table[-2:]) == (0x80, 0x83, b"\x55\xaa")
    assert int.from_bytes(table[8:12], "little") == 2048
