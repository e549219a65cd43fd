"""What a Wukong becomes: attachments, DataVolumes, cloud-init's data and the machine."""

from pathlib import Path

import msgspec
import pytest
import yaml

from corral.install.manifests import read_deploy
from corral.kinds.wukong import names
from corral.kinds.wukong.cloudinit import Unfit, cloud_init_secret, secrets_needed, user_data_of
from corral.kinds.wukong.controller import controller
from corral.kinds.wukong.disks import disks_of, image_source, new_object
from corral.kinds.wukong.machine import BadSpec, run_strategy, virtual_machine
from corral.kinds.wukong.networks import machine_interfaces, network_data, own_attachments
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Secret
from tests.unit.kinds.golden import as_yaml, assert_golden
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, a_wukong

GOLDEN = Path(__file__).parent / "golden"
UID = "6e5b0ab4-5a0c-4a35-9f0b-3f8a6a0e2c11"

FULL = """
cpu: 8
cpuOptions: {sockets: 2, threads: 2, model: host-passthrough, dedicated: true}
memory: 16Gi
hugepages: 1Gi
firmware: {bootloader: uefi, secureBoot: true, tpm: true, persistent: true}
clock: {timezone: Europe/Zurich}
watchdog: true
readinessProbe: {guestAgent: true}
livenessProbe: {tcpPort: 22}
gpus: [{name: gpu0, deviceName: nvidia.com/TU104GL_Tesla_T4}]
disks:
- {name: root, size: 20Gi, source: {dataSource: {name: debian, namespace: golden}}, cache: none}
- {name: live, size: 1Gi, source: {containerDisk: {image: 'images.test/live:1'}}, bus: sata}
- {name: data, size: 50Gi, storageClassName: fast, accessModes: [ReadWriteMany], volumeMode: Block}
networks:
- {name: lan, type: ovs, bridgeName: ovs0, vlanId: 7, primary: true}
- {name: fast, type: sriov, resourceName: vendor.test/pool}
- {name: tap, type: macvlan, physicalInterface: eth1}
highAvailability:
  antiAffinity: true
  group: web
  nodeSelector: {disk: ssd}
  tolerations: [{key: vm, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
  spread: {topologyKey: topology.kubernetes.io/zone}
  priorityClassName: high
  evictionStrategy: LiveMigrate
cloudInit:
  packages: [qemu-guest-agent]
  mounts: [{path: /srv, disk: data}, {path: /home, device: 'nas:/home', type: nfs4}]
"""


def given(spec: str, name: str = "vm") -> Wukong:
    wukong = a_wukong(spec, name)
    return msgspec.structs.replace(wukong, metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid=UID))


def a_secret(name: str, **data: str) -> Secret:
    metadata = ObjectMeta(name=name, namespace=NAMESPACE)
    return Secret(metadata=metadata, data={key: value.encode() for key, value in data.items()})


@pytest.mark.parametrize(("name", "spec"), [("large", LARGE), ("full", FULL)])
def test_everything_that_is_made_is_as_people_have_read_it(name: str, spec: str) -> None:
    wukong = given(spec)
    disks = disks_of(wukong, {}, {}, ())
    made = [new_object(wukong, disk) for disk in disks if disk.container is None]
    objects = [*own_attachments(wukong), *made, virtual_machine(wukong, disks, None, None)]
    secret = cloud_init_secret(wukong, {})
    told = (f"---\n# {secret.metadata.name}, {key}\n{text.decode()}" for key, text in secret.data.items())
    assert_golden(GOLDEN / f"{name}.yaml", "".join((as_yaml(objects), *told)))


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ("docker://images.test/debian:13", "docker://images.test/debian:13"),
        ("images.test/debian:13", "docker://images.test/debian:13"),
        ("oci-archive://images.test/a.tar", "oci-archive://images.test/a.tar"),
    ],
)
def test_a_registry_image_keeps_the_scheme_that_cdi_asks_for(image: str, url: str) -> None:
    """Defect 5: the scheme was cut off, and CDI refuses what has none."""
    registry = image_source(image).registry
    assert registry is not None
    assert registry.url == url


@pytest.mark.parametrize(
    ("source", "made"),
    [
        (
            "{http: {url: 'https://images.test/a', secretName: s, caConfigMap: ca, checksum: 'sha256:00'}}",
            {
                "http": {
                    "url": "https://images.test/a",
                    "secretRef": "s",
                    "certConfigMap": "ca",
                    "checksum": "sha256:00",
                }
            },
        ),
        (
            "{registry: {url: 'docker://images.test/a', secretName: s, caConfigMap: ca}}",
            {"registry": {"url": "docker://images.test/a", "secretRef": "s", "certConfigMap": "ca"}},
        ),
        (
            "{s3: {url: 'https://s3.test/bucket/a', secretName: s}}",
            {"s3": {"url": "https://s3.test/bucket/a", "secretRef": "s"}},
        ),
        ("{gcs: {url: 'gs://bucket/a', secretName: s}}", {"gcs": {"url": "gs://bucket/a", "secretRef": "s"}}),
        ("{pvc: {name: other}}", {"pvc": {"name": "other", "namespace": NAMESPACE}}),
        ("{snapshot: {name: snap, namespace: golden}}", {"snapshot": {"name": "snap", "namespace": "golden"}}),
        ("{blank: true}", {"blank": {}}),
        ("{upload: true}", {"upload": {}}),
    ],
)
def test_every_source_of_a_disk_is_said_to_cdi_in_its_words(source: str, made: dict[str, object]) -> None:
    wukong = given(f"{{cpu: 1, memory: 1Gi, disks: [{{name: root, size: 1Gi, source: {source}}}]}}")
    (disk,) = disks_of(wukong, {}, {}, ())
    assert disk.filling is not None
    assert msgspec.to_builtins(disk.filling.source) == made


MACHINE = "cpu: 2, memory: 1Gi, disks: [{name: root, size: 1Gi}]"


@pytest.mark.parametrize(
    ("asked", "where", "made"),
    [
        ("machineType: q35", ("domain", "machine"), {"type": "q35"}),
        ("clock: {}", ("domain", "clock"), {"utc": {}}),
        ("clock: {timezone: Asia/Shanghai}", ("domain", "clock"), {"timezone": "Asia/Shanghai"}),
        (
            "hugepages: 2Mi, cpuOptions: {dedicated: true, isolateEmulatorThread: true, numa: true}",
            ("domain", "cpu"),
            {
                "cores": 2,
                "sockets": 1,
                "threads": 1,
                "dedicatedCpuPlacement": True,
                "isolateEmulatorThread": True,
                "numa": {"guestMappingPassthrough": {}},
            },
        ),
        (
            "livenessProbe: {httpPort: 8080, httpPath: /health, periodSeconds: 5}",
            ("livenessProbe",),
            {
                "httpGet": {"port": 8080, "path": "/health"},
                "initialDelaySeconds": 30,
                "periodSeconds": 5,
                "failureThreshold": 3,
            },
        ),
    ],
    ids=["machineType", "clock of UTC", "clock of a zone", "numa", "httpPort"],
)
def test_a_field_of_the_machine_is_said_to_kubevirt_in_its_words(
    asked: str, where: tuple[str, ...], made: dict[str, object]
) -> None:
    machine = virtual_machine(given(f"{{{MACHINE}, {asked}}}"), (), None, None)
    found = msgspec.to_builtins(machine.spec.template.spec)
    for name in where:
        found = found[name]
    assert found == made


@pytest.mark.parametrize(
    ("device", "check"),
    [("/dev/vdb1", "2"), ("LABEL=data", "2"), ("nas:/home", "0"), ("//nas/home", "0"), ("tmpfs", "0")],
)
def test_only_what_is_on_a_disk_of_the_guest_is_checked_before_it_is_mounted(device: str, check: str) -> None:
    mount = f"cloudInit: {{mounts: [{{path: /home, device: '{device}', type: any}}]}}"
    data = user_data_of(given(f"{{{MACHINE}, {mount}}}"), {})
    assert data["mounts"] == [[device, "/home", "any", "defaults,nofail", "0", check]]


def test_an_instance_type_takes_the_place_of_processor_and_memory() -> None:
    wukong = given(
        "{instancetype: {name: u1.small}, preference: {name: debian, clusterWide: false}, "
        "disks: [{name: root, size: 1Gi}]}"
    )
    spec = virtual_machine(wukong, (), None, None).spec
    assert (spec.template.spec.domain.cpu, spec.template.spec.domain.memory) == (None, None)
    assert msgspec.to_builtins(spec.instancetype) == {
        "name": "u1.small",
        "kind": "VirtualMachineClusterInstancetype",
    }
    assert msgspec.to_builtins(spec.preference) == {"name": "debian", "kind": "VirtualMachinePreference"}


def test_devices_of_the_node_and_an_affinity_of_ones_own_reach_the_machine() -> None:
    wukong = given(
        "{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}], "
        "hostDevices: [{name: nic0, deviceName: vendor.test/nic}], highAvailability: {affinity: "
        "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: rack, operator: In, values: [a]}]}]}}}}}"
    )
    spec = virtual_machine(wukong, (), None, None).spec.template.spec
    assert msgspec.to_builtins(spec.domain.devices.host_devices) == ({"name": "nic0", "deviceName": "vendor.test/nic"},)
    assert msgspec.json.decode(msgspec.json.encode(spec.affinity)) == wukong.spec.high_availability.affinity


def test_an_affinity_that_is_none_is_told() -> None:
    wukong = given(
        "{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}], highAvailability: {affinity: {nodeAffinity: never}}}"
    )
    with pytest.raises(BadSpec, match="is no affinity of a pod"):
        virtual_machine(wukong, (), None, None)


def test_nothing_of_ours_stands_in_the_way_of_writes() -> None:
    """Defect 7: a webhook that nobody answered blocked every write. Our rules are in the definitions."""
    kinds = {document["kind"] for document in read_deploy()}
    assert "CustomResourceDefinition" in kinds
    assert not {kind for kind in kinds if kind.endswith("WebhookConfiguration")}


def test_the_boot_disk_is_filled_with_the_os_image_and_starts_first() -> None:
    spec = (
        "{osImage: 'images.test/debian:13', cpu: 1, memory: 1Gi, "
        "disks: [{name: a, size: 1Gi}, {name: b, size: 1Gi, boot: true}]}"
    )
    wukong = given(spec)
    disks = disks_of(wukong, {}, {}, ())
    assert [disk.filling is not None for disk in disks] == [False, True]
    devices = virtual_machine(wukong, disks, None, None).spec.template.spec.domain.devices.disks
    assert {device.name: device.boot_order for device in devices} == {"a": None, "b": 1, "cloudinit": None}


@pytest.mark.parametrize(
    ("spec", "strategy"),
    [
        ("{}", "Always"),
        ("{startStrategy: {autoStart: false}}", "Halted"),
        ("{startStrategy: {runStrategy: Manual, autoStart: false}}", "Manual"),
        ("{highAvailability: {restartPolicy: OnFailure}}", "RerunOnFailure"),
        ("{highAvailability: {restartPolicy: Never}}", "Once"),
        ("{highAvailability: {restartPolicy: Never}, startStrategy: {autoStart: false}}", "Halted"),
    ],
)
def test_the_run_strategy_follows_from_the_spec(spec: str, strategy: str) -> None:
    base = yaml.safe_load("{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]}")
    assert run_strategy(given(yaml.safe_dump(base | yaml.safe_load(spec)))) == strategy


def test_processors_that_can_be_plugged_are_sockets_of_one_core() -> None:
    spec = "{cpu: 4, cpuOptions: {threads: 2}, memory: 2Gi, liveResize: {maxCpu: 8}, disks: [{name: root, size: 1Gi}]}"
    domain = virtual_machine(given(spec), (), None, None).spec.template.spec.domain
    assert domain.cpu is not None
    assert (domain.cpu.sockets, domain.cpu.max_sockets, domain.cpu.cores, domain.cpu.threads) == (2, 4, 1, 2)
    with pytest.raises(BadSpec, match="cpu is 7"):
        virtual_machine(given(spec.replace("maxCpu: 8", "maxCpu: 7")), (), None, None)


def test_cores_that_cannot_be_divided_are_told() -> None:
    wukong = given("{cpu: 3, cpuOptions: {sockets: 2}, memory: 1Gi, disks: [{name: root, size: 1Gi}]}")
    with pytest.raises(BadSpec, match="cpu is 3, which cannot be divided into 2 sockets of 1 threads"):
        virtual_machine(wukong, (), None, None)


def test_addresses_are_stable_local_and_different_for_each_network_and_machine() -> None:
    macs = [names.mac_address(uid, network) for uid in ("a", "b") for network in ("lan", "san")]
    assert len(set(macs)) == 4
    assert all(mac.startswith("02:") for mac in macs)
    assert macs == [names.mac_address(uid, network) for uid in ("a", "b") for network in ("lan", "san")]


def test_a_static_address_is_network_data_matched_by_the_mac_that_the_interface_has() -> None:
    wukong = given(LARGE)
    lan = network_data(wukong)["ethernets"]["lan"]
    interface = next(i for i in machine_interfaces(wukong) if i.name == "lan")
    assert lan == {
        "match": {"macaddress": interface.mac_address},
        "addresses": ["10.1.2.3/24"],
        "routes": [{"to": "0.0.0.0/0", "via": "10.1.2.1"}],
    }


USERS = """
cpu: 1
memory: 1Gi
disks: [{name: root, size: 1Gi}]
sshKeySecret: keys
cloudInitUser: {name: admin, passwordHashSecret: {name: hashes, key: admin}}
cloudInit:
  users: [{name: eve, lockPasswd: true, sudo: '', groups: [], sshAuthorizedKeys: ["ssh-rsa AAAA 'eve: [x'"]}]
  runCommands: ["echo \\"a: b\\" > /etc/motd; users:\\n- name: root"]
"""
SECRETS = {
    "keys": a_secret("keys", authorized_keys="ssh-ed25519 AAAA one\n# comment\nssh-rsa BBBB two\n"),
    "hashes": a_secret("hashes", admin="$6$salt$hash\n"),
}


def test_user_data_survives_a_yaml_reader_whatever_is_in_it() -> None:
    """Defect 12: texts were joined, so a colon or a quote became syntax."""
    wukong = given(USERS)
    text = cloud_init_secret(wukong, SECRETS).data["userdata"].decode()
    assert text.startswith("#cloud-config\n")
    assert yaml.safe_load(text) == user_data_of(wukong, SECRETS)
    assert yaml.safe_load(text)["manage_etc_hosts"] == "localhost", "its own name needs no DNS"
    admin, eve = yaml.safe_load(text)["users"]
    assert admin["passwd"] == "$6$salt$hash"
    assert admin["ssh_authorized_keys"] == ["ssh-ed25519 AAAA one", "ssh-rsa BBBB two"]
    assert eve["ssh_authorized_keys"][0] == "ssh-rsa AAAA 'eve: [x'"
    assert yaml.safe_load(text)["runcmd"] == ['echo "a: b" > /etc/motd; users:\n- name: root']
    assert yaml.safe_load(text)["ssh_pwauth"] is True


@pytest.mark.parametrize(
    ("user", "locked"),
    [("{}", True), ("{passwordHash: $6$salt$hash}", False), ("{passwordHash: $6$salt$hash, lockPasswd: true}", True)],
)
def test_a_user_without_a_password_is_not_to_be_unlocked(user: str, locked: bool) -> None:
    """A real guest told it: cloud-init ended as degraded."""
    user_and_name = {"name": "ada", **yaml.safe_load(user)}
    spec = {"cpu": 1, "memory": "1Gi", "disks": [{"name": "root", "size": "1Gi"}], "cloudInitUser": user_and_name}
    (made,) = user_data_of(given(yaml.safe_dump(spec)), {})["users"]
    assert made["lock_passwd"] is locked


def test_nothing_secret_is_in_the_machine() -> None:
    """Defect 11: hashes stood inline in the machine, which also allows only 2,048 bytes."""
    wukong = given(USERS)
    machine = virtual_machine(wukong, disks_of(wukong, {}, {}, ()), None, None)
    text = as_yaml([machine])
    assert "$6$" not in text
    assert "ssh-" not in text
    assert "secretRef" in text


@pytest.mark.parametrize(
    ("secrets", "reason", "told"),
    [
        ({}, "SecretMissing", "waiting for Secret keys"),
        ({**SECRETS, "hashes": a_secret("hashes", other="x")}, "SecretUnfit", "Secret hashes has no key admin"),
        ({**SECRETS, "hashes": a_secret("hashes", admin="hunter2")}, "SecretUnfit", "expected a crypt hash"),
        ({**SECRETS, "hashes": a_secret("hashes", admin="$hunter2")}, "SecretUnfit", "expected a crypt hash"),
        ({**SECRETS, "keys": a_secret("keys", note="nothing")}, "SecretUnfit", "holds no public key"),
    ],
)
def test_a_secret_that_does_not_fit_is_told_without_what_it_holds(
    secrets: dict[str, Secret], reason: str, told: str
) -> None:
    with pytest.raises(Unfit, match=told) as caught:
        cloud_init_secret(given(USERS), secrets)
    assert caught.value.reason == reason
    assert "hunter2" not in caught.value.message


def test_user_data_of_ones_own_is_named_and_not_copied() -> None:
    wukong = given("{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}], cloudInit: {userDataSecret: mine}}")
    assert secrets_needed(wukong) == {"mine"}
    secret = cloud_init_secret(wukong, {"mine": a_secret("mine", userdata="#cloud-config")})
    assert set(secret.data) == {"networkdata"}
    volume = virtual_machine(wukong, (), None, None).spec.template.spec.volumes[-1]
    assert volume.cloud_init_no_cloud is not None
    assert volume.cloud_init_no_cloud.secret_ref is not None
    assert volume.cloud_init_no_cloud.secret_ref.name == "mine"


def test_no_wukong_makes_anything_outside_its_namespace() -> None:
    """Defect 10: a machine could change the network of every node."""
    written = {watch.kind.resource for watch in controller().watched if watch.owned}
    assert len(written) > 5
    assert {resource.kind for resource in written if not resource.namespaced} == set()
