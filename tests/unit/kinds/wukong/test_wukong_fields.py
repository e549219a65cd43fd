"""Each field that is passed on arrives in the words of who reads it: cloud-init, KubeVirt, CDI, and the status."""

from typing import Any

import msgspec
import pytest
import yaml

from corral.kinds.wukong.cloudinit import user_data_of
from corral.kinds.wukong.disks import disks_of, new_object
from corral.kinds.wukong.machine import virtual_machine
from corral.kinds.wukong.networks import network_data, own_attachments
from corral.kinds.wukong.spec import Wukong
from tests.unit.kinds.wukong.addressworld import a_pool, told
from tests.unit.kinds.wukong.test_wukong_render import a_secret, given
from tests.unit.kinds.wukong.world import LARGE, World, a_wukong

USUAL_KEYS = ("ssh-publickey", "id_rsa.pub", "authorized_keys", "publickey")  # older manifests rely on their order
LEAST = {"cpu": 1, "memory": "1Gi", "disks": [{"name": "root", "size": "1Gi"}]}
USUAL_GROUPS = ["sudo", "adm", "dialout", "cdrom", "floppy", "audio", "dip", "video", "plugdev", "netdev"]


def asking(more: str) -> Wukong:
    """The least that a Wukong says, and this."""
    return given(yaml.safe_dump(LEAST | yaml.safe_load(more)))


def at(found: Any, *where: str | int) -> Any:
    for step in where:
        found = found[step]
    return found


@pytest.mark.parametrize("name", USUAL_KEYS)
def test_of_the_usual_keys_of_a_secret_with_public_keys_the_first_one_is_taken(name: str) -> None:
    rest = USUAL_KEYS[USUAL_KEYS.index(name) :]
    keys = a_secret("keys", another="ssh-rsa another", **{key: f"ssh-rsa {key}" for key in rest})
    assert user_data_of(asking("{sshKeySecret: keys}"), {"keys": keys})["ssh_authorized_keys"] == [f"ssh-rsa {name}"]


def test_of_a_secret_without_a_usual_key_every_value_that_is_a_public_key_is_taken() -> None:
    keys = a_secret("keys", eve="ecdsa-sha2-nistp256 eve", ada="ssh-ed25519 ada", note="of the people of lab 3")
    found = user_data_of(asking("{sshKeySecret: keys}"), {"keys": keys})["ssh_authorized_keys"]
    assert found == ["ssh-ed25519 ada", "ecdsa-sha2-nistp256 eve"]


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ({}, {"sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "groups": USUAL_GROUPS}),
        (
            {"sudo": "ALL=(ALL) ALL", "shell": "/bin/zsh", "groups": ["wheel"]},
            {"sudo": "ALL=(ALL) ALL", "shell": "/bin/zsh", "groups": ["wheel"]},
        ),
        ({"sudo": "", "groups": []}, {"shell": "/bin/bash"}),
    ],
    ids=["as usual", "as asked", "without any rights"],
)
def test_a_user_has_the_rights_shell_and_groups_that_it_is_given(
    asked: dict[str, object], made: dict[str, object]
) -> None:
    wukong = asking(yaml.safe_dump({"cloudInitUser": {"name": "ada", **asked}}))
    (user,) = user_data_of(wukong, {})["users"]
    assert user == {"name": "ada", "lock_passwd": True, **made}


HASH = "passwordHash: $6$salt$hash"


@pytest.mark.parametrize(
    ("users", "allowed"),
    [
        (f"[{{name: ada, {HASH}}}]", True),
        (f"[{{name: ada, {HASH}, lockPasswd: true}}]", False),
        ("[{name: ada}]", False),
        (f"[{{name: ada, {HASH}, lockPasswd: true}}, {{name: eve, {HASH}}}]", True),
    ],
    ids=["a password", "a locked one", "none", "one of two is locked"],
)
def test_ssh_takes_passwords_only_if_somebody_has_one_that_is_not_locked(users: str, allowed: bool) -> None:
    assert user_data_of(asking(f"{{cloudInit: {{users: {users}}}}}"), {})["ssh_pwauth"] is allowed


@pytest.mark.parametrize(("asked", "called"), [("{}", "vm"), ("{cloudInit: {hostname: box}}", "box")])
def test_the_guest_and_its_instance_are_called_as_asked_else_as_the_wukong(asked: str, called: str) -> None:
    wukong = asking(asked)
    machine = virtual_machine(wukong, (), None, None)
    assert (user_data_of(wukong, {})["hostname"], machine.spec.template.spec.hostname) == (called, called)


@pytest.mark.parametrize(
    ("network", "made"),
    [
        ("type: sriov, resourceName: vendor.test/pool, vlanId: 7", {"type": "sriov", "vlan": 7}),
        ("type: ovs, bridgeName: ovs0, vlanId: 7", {"type": "ovs", "bridge": "ovs0", "vlan": 7}),
        ("type: macvlan, physicalInterface: eth1", {"type": "macvtap"}),
    ],
    ids=["sriov", "ovs", "macvlan"],
)
def test_an_attachment_tells_the_plugin_what_the_network_says(network: str, made: dict[str, object]) -> None:
    (attachment,) = own_attachments(asking(f"{{networks: [{{name: lan, {network}}}]}}"))
    config = msgspec.json.decode(attachment.spec.config)
    assert config == {"cniVersion": "0.3.1", "name": "vm-lan-nad", **made}


@pytest.mark.parametrize(
    ("config", "made"),
    [
        (
            "mode: static, address: '2001:db8::5/64', gateway: '2001:db8::1'",
            {"addresses": ["2001:db8::5/64"], "routes": [{"to": "::/0", "via": "2001:db8::1"}]},
        ),
        (
            "mode: dhcp, dnsServers: [10.1.2.2]",
            {"dhcp4": True, "optional": True, "nameservers": {"addresses": ["10.1.2.2"]}},
        ),
        ("mode: dhcp", {"dhcp4": True, "optional": True}),
    ],
    ids=["a route of IPv6", "servers beside dhcp", "dhcp alone"],
)
def test_the_guest_is_told_what_the_network_says(config: str, made: dict[str, object]) -> None:
    wukong = asking(f"{{networks: [{{name: lan, macAddress: '02:00:00:00:00:01', ipConfig: {{{config}}}}}]}}")
    assert network_data(wukong)["ethernets"]["lan"] == {"match": {"macaddress": "02:00:00:00:00:01"}, **made}


def test_a_disk_that_is_filled_has_the_access_and_the_mode_that_were_asked_for() -> None:
    disk = "name: root, size: 1Gi, image: 'a:1', accessModes: [ReadWriteMany], volumeMode: Block"
    wukong = asking(f"{{disks: [{{{disk}}}]}}")
    (made,) = (new_object(wukong, disk) for disk in disks_of(wukong, {}, {}, ()))
    storage = msgspec.to_builtins(made.spec)["storage"]
    assert storage == {
        "resources": {"requests": {"storage": "1Gi"}},
        "accessModes": ("ReadWriteMany",),
        "volumeMode": "Block",
    }


CONTAINER_DISK = "{containerDisk: {image: 'a:1', pullSecret: registry}}"


@pytest.mark.parametrize(
    ("asked", "where", "made"),
    [
        (
            f"disks: [{{name: live, size: 1Gi, source: {CONTAINER_DISK}}}]",
            ("volumes", 0, "containerDisk"),
            {"image": "a:1", "imagePullSecret": "registry"},
        ),
        (
            "highAvailability: {group: web, spread: {topologyKey: zone, maxSkew: 3, required: true}}",
            ("topologySpreadConstraints", 0),
            {
                "topologyKey": "zone",
                "maxSkew": 3,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"vm.corral.dev/group": "web"}},
            },
        ),
        (
            "highAvailability: {spread: {}}",
            ("topologySpreadConstraints", 0),
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"vm.corral.dev/group": ""}},
            },
        ),
        (
            "readinessProbe: {guestAgent: true, initialDelaySeconds: 5, periodSeconds: 7, failureThreshold: 9}",
            ("readinessProbe",),
            {"guestAgentPing": {}, "initialDelaySeconds": 5, "periodSeconds": 7, "failureThreshold": 9},
        ),
        (
            "livenessProbe: {tcpPort: 22, initialDelaySeconds: 5, periodSeconds: 7, failureThreshold: 9}",
            ("livenessProbe",),
            {"tcpSocket": {"port": 22}, "initialDelaySeconds": 5, "periodSeconds": 7, "failureThreshold": 9},
        ),
    ],
    ids=["pullSecret", "spread as asked", "spread as usual", "readinessProbe", "livenessProbe"],
)
def test_a_field_reaches_the_machine(asked: str, where: tuple[str | int, ...], made: dict[str, object]) -> None:
    wukong = asking(f"{{{asked}}}")
    machine = virtual_machine(wukong, disks_of(wukong, {}, {}, ()), None, None)
    assert at(msgspec.to_builtins(machine.spec.template.spec), *where) == made


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize(
    ("more", "gateway", "servers"),
    [
        ("", "10.1.2.1", ["10.1.2.2"]),
        (", gateway: 10.1.2.254", "10.1.2.254", ["10.1.2.2"]),
        (", dnsServers: [10.1.2.53]", "10.1.2.1", ["10.1.2.53"]),
    ],
    ids=["the pool's", "its own gateway", "its own servers"],
)
async def test_what_a_network_says_of_gateway_and_servers_goes_before_what_its_pool_says(
    more: str, gateway: str, servers: list[str]
) -> None:
    world = World()
    pooled = f"networks: [{{name: lan, bridgeName: br0, ipConfig: {{mode: pool, pool: lan{more}}}}}]"
    await world.make(a_pool(), a_wukong(yaml.safe_dump(LEAST | yaml.safe_load(pooled))))
    lan = await told(world)
    assert lan["routes"] == [{"to": "0.0.0.0/0", "via": gateway}]
    assert lan["nameservers"] == {"addresses": servers}


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize("primary", [False, True])
async def test_the_status_says_what_the_guest_calls_an_interface_and_which_network_is_the_primary_one(
    primary: bool,
) -> None:
    world = World()
    lan = "networks:\n- {name: san, bridgeName: br1}\n- {name: lan, primary: true, "
    await world.make(a_wukong(LARGE.replace("networks:\n- {name: default}\n- {name: lan, ", lan) if primary else LARGE))
    found = [(n.name, n.interface, n.primary) for n in (await world.wukong()).status.networks]
    first = "san" if primary else "default"
    assert found == [(first, "enp1s0", False), ("lan", "enp2s0", primary)]
