"""`corral import`: what manifests of others become, and that nothing is lost without a word."""

from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from corral.cli.commands import cli
from corral.kinds.wukong.importing import CannotImport, imported
from corral.kinds.wukong.machine import run_strategy
from corral.kinds.wukong.spec import Wukong

NOVASPHERE = """
apiVersion: vm.novasphere.dev/v1alpha1
kind: Wukong
metadata: {name: web, namespace: lab, labels: {tier: front}, resourceVersion: '5', uid: abc}
spec:
  cpu: 2
  memory: 4Gi
  osImage: ubuntu-noble
  sshKeySecret: keys
  cloudInitUser: {name: admin, password: hunter2, shell: /bin/bash}
  networks:
  - {name: default}
  - name: lan
    type: bridge
    bridgeName: br0
    physicalInterface: ens4
    primary: true
    ipConfig: {mode: dhcp, gateway: 10.0.0.1}
  disks:
  - {name: root, size: 20Gi, storageClassName: longhorn, boot: true, image: 'docker://images.test/ubuntu:24'}
  highAvailability: {restartPolicy: Always, antiAffinity: true, nodeSelector: {zone: a}}
  startStrategy: {autoStart: true, runStrategy: RerunOnFailure}
  gpus: [{name: gpu0, deviceName: nvidia.com/T4}]
status: {phase: Running}
"""
KUBEVIRT = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db, namespace: lab, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}', team: data}}
spec:
  runStrategy: RerunOnFailure
  dataVolumeTemplates:
  - metadata: {name: db-root}
    spec: {storage: {resources: {requests: {storage: 30Gi}}}, source: {http: {url: 'https://images.test/a'}}}
  template:
    metadata: {labels: {app: db}}
    spec:
      hostname: db
      evictionStrategy: LiveMigrate
      nodeSelector: {disk: ssd}
      terminationGracePeriodSeconds: 180
      domain:
        cpu: {cores: 2, sockets: 2, threads: 1, model: host-passthrough}
        memory: {guest: 8Gi}
        firmware: {bootloader: {efi: {secureBoot: true}}, serial: abc}
        features: {smm: {enabled: true}, hyperv: {relaxed: {}}}
        devices:
          disks:
          - {name: scratch, disk: {bus: virtio}}
          - {name: rootdisk, disk: {bus: virtio}, bootOrder: 1}
          - {name: live, cdrom: {bus: sata}}
          - {name: init, disk: {bus: virtio}}
          interfaces:
          - {name: pod, masquerade: {}, macAddress: '02:00:00:00:00:01'}
          - {name: lan, bridge: {}}
          tpm: {}
          rng: {}
      networks: [{name: pod, pod: {}}, {name: lan, multus: {networkName: lab/shared}}]
      readinessProbe: {tcpSocket: {port: 5432}, periodSeconds: 7}
      volumes:
      - {name: rootdisk, dataVolume: {name: db-root}}
      - {name: scratch, persistentVolumeClaim: {claimName: db-scratch}}
      - {name: live, containerDisk: {image: 'images.test/live:1'}}
      - {name: init, cloudInitNoCloud: {userData: "#cloud-config\\nhostname: db\\n"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: db-scratch}
spec: {resources: {requests: {storage: 5Gi}}}
"""


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def spec_of(text: str) -> dict[str, Any]:
    (found,) = [each for each in imported(documents(text)) if each.manifest["kind"] == "Wukong"]
    msgspec.convert(dict(found.manifest), Wukong)
    spec: dict[str, Any] = found.manifest["spec"]
    return spec


def notes_of(text: str) -> str:
    return "\n".join(note for each in imported(documents(text)) for note in each.notes)


def test_a_wukong_of_novasphere_keeps_its_fields_and_loses_what_only_a_server_knows() -> None:
    (found,) = imported(documents(NOVASPHERE))
    assert found.manifest["apiVersion"] == "vm.corral.dev/v1alpha1"
    assert found.manifest["metadata"] == {"name": "web", "namespace": "lab", "labels": {"tier": "front"}}
    assert "status" not in found.manifest
    spec = found.manifest["spec"]
    assert spec["disks"] == documents(NOVASPHERE)[0]["spec"]["disks"]
    assert spec["gpus"] == [{"name": "gpu0", "deviceName": "nvidia.com/T4"}]
    assert spec["networks"] == [
        {"name": "lan", "type": "bridge", "bridgeName": "br0", "primary": True, "ipConfig": {"mode": "dhcp"}}
    ]


def test_no_password_is_taken_over_and_it_is_said_what_to_do() -> None:
    (found,) = imported(documents(NOVASPHERE))
    assert "hunter2" not in str(found)
    assert found.manifest["spec"]["cloudInitUser"] == {"name": "admin", "shell": "/bin/bash"}
    for told in ("passwordHashSecret", "physicalInterface is left out", "networks[default] is left out", "web-vm"):
        assert told in notes_of(NOVASPHERE)


@pytest.mark.parametrize(
    ("block", "strategy"),
    [
        ("{autoStart: true, runStrategy: RerunOnFailure}", "RerunOnFailure"),
        ("{autoStart: true}", "Always"),
        ("{runStrategy: Always}", "Halted"),  # a block without autoStart meant: do not start
        ("{autoStart: false, runStrategy: Always}", "Halted"),
        ("null", "Always"),
    ],
)
def test_a_machine_runs_after_the_import_exactly_if_it_ran_before(block: str, strategy: str) -> None:
    text = NOVASPHERE.replace("{autoStart: true, runStrategy: RerunOnFailure}", block)
    (found,) = imported(documents(text))
    assert run_strategy(msgspec.convert(dict(found.manifest), Wukong)) == strategy


def test_a_snapshot_of_novasphere_is_one_of_ours() -> None:
    text = (
        "{apiVersion: vm.novasphere.dev/v1alpha1, kind: WukongSnapshot, metadata: {name: s}, spec: {wukongName: web}}"
    )
    (found,) = imported(documents(text))
    assert (found.manifest["kind"], found.manifest["spec"]) == ("WukongSnapshot", {"wukongName": "web"})


def test_a_machine_of_kubevirt_becomes_a_wukong_whose_disks_are_clones() -> None:
    spec = spec_of(KUBEVIRT)
    assert spec["disks"] == [
        {"name": "scratch", "size": "5Gi", "source": {"pvc": {"name": "db-scratch"}}, "bus": "virtio"},
        {"name": "rootdisk", "size": "30Gi", "source": {"pvc": {"name": "db-root"}}, "bus": "virtio", "boot": True},
        {"name": "live", "size": "1Gi", "source": {"containerDisk": {"image": "images.test/live:1"}}, "bus": "sata"},
    ]
    assert spec["networks"] == [
        {"name": "default", "macAddress": "02:00:00:00:00:01"},
        {"name": "lan", "nadName": "shared"},
    ]
    assert (spec["cpu"], spec["memory"]) == (4, "8Gi")
    assert spec["cpuOptions"] == {"sockets": 2, "model": "host-passthrough"}
    assert spec["firmware"] == {"bootloader": "uefi", "secureBoot": True, "tpm": True}
    assert spec["startStrategy"] == {"runStrategy": "RerunOnFailure"}
    assert spec["highAvailability"] == {"nodeSelector": {"disk": "ssd"}, "evictionStrategy": "LiveMigrate"}
    assert spec["readinessProbe"] == {"tcpPort": 5432, "periodSeconds": 7}


def test_user_data_that_stood_in_the_machine_becomes_a_secret_that_the_wukong_names() -> None:
    secret, wukong = imported(documents(KUBEVIRT))
    assert secret.manifest["stringData"] == {"userdata": "#cloud-config\nhostname: db\n"}
    assert wukong.manifest["spec"]["cloudInit"] == {"userDataSecret": "db-user-data"}
    assert wukong.manifest["metadata"] == {"name": "db", "namespace": "lab", "annotations": {"team": "data"}}


def test_every_field_that_a_wukong_cannot_say_is_named() -> None:
    told = notes_of(KUBEVIRT)
    for path in ("template.spec.terminationGracePeriodSeconds", "domain.firmware.serial", "domain.features.hyperv"):
        assert f"{path} has no counterpart and is left out" in told
    assert told.count("left out") == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (KUBEVIRT.partition("---")[0], "claim db-scratch: give that manifest too"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "v1 Pod is not known here"),
        (NOVASPHERE.replace("cpu: 2", "cpu: two"), "Wukong web: Expected `int"),
        (NOVASPHERE.replace("name: web", "name: web.lab"), "no dots; rename it first"),
    ],
)
def test_what_cannot_be_imported_says_what_is_missing(text: str, told: str) -> None:
    with pytest.raises(CannotImport) as caught:
        imported(documents(text))
    assert told in str(caught.value)


def test_the_command_prints_manifests_and_tells_the_rest_aside() -> None:
    done = CliRunner().invoke(cli, ["import", "-f", "-"], input=NOVASPHERE)
    assert done.exit_code == 0, done.output
    (printed,) = [d for d in yaml.safe_load_all(done.stdout) if d]
    assert printed["kind"] == "Wukong"
    assert "Wukong web: cloudInitUser.password is left out" in done.stderr
