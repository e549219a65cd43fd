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
from tests.unit.kinds.wukong.foreign import BARE, GROWING, KUBEVIRT, NETWORKS, NOVASPHERE, SIZED, SNAPSHOT, TWISTED

NETWORK_DATA_LOST = "cloud-init's network data is left out: a Wukong writes it from its networks;"
ELSEWHERE = "networks[default]: NetworkAttachmentDefinition shared is in namespace elsewhere;"


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
    (found,) = imported(documents(SNAPSHOT))
    assert (found.manifest["kind"], found.manifest["spec"]) == ("WukongSnapshot", {"wukongName": "web"})


def test_a_machine_of_kubevirt_becomes_a_wukong_whose_disks_are_clones() -> None:
    spec = spec_of(KUBEVIRT)
    assert spec["disks"] == [
        {"name": "scratch-copy", "size": "5Gi", "source": {"pvc": {"name": "db-scratch"}}, "bus": "virtio"},
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
    paths = (
        "template.metadata.labels",
        "template.spec.terminationGracePeriodSeconds",
        "domain.firmware.serial",
        "domain.features.hyperv",
    )
    for path in paths:
        assert f"{path} has no counterpart and is left out" in told
    assert told.count("left out") == len(paths)


def test_nothing_that_is_said_otherwise_here_is_lost_without_a_word() -> None:
    told = notes_of(TWISTED).splitlines()
    inner, lost = "spec.template.spec", "has no counterpart and is left out"
    assert sorted(told) == sorted(
        [
            "user data stood in the machine; it is in Secret odd-user-data now",
            "the machine odd stays as it is; a Wukong of that name needs it gone: delete it, but keep its claims",
            "cloud-init's data was a config drive and is a NoCloud disk here",
            f"{NETWORK_DATA_LOST} an address that stood there belongs into their ipConfig",
            "one disk boots: the next ones in the boot order are not tried",
            "disks[iso] was a cdrom and is a disk here",
            "disks[raw] was a lun and is a disk here",
            "disks[root] is called root-copy here: its copy would stand where its claim stands",
            "disks[cloudinit] is called cloudinit-copy here: that is the name of the disk with cloud-init's data",
            "networks[pod]: the guest was bound to the pod network by bridge and is by masquerade here",
            "networks[default] is called default-net here: `default` is the pod's own network",
            f"{ELSEWHERE} a Wukong names those of its own namespace: make one called shared there",
            "networks[user]: the guest was bound by passt and is by a bridge here",
            "networks[gone] is left out: it was being unplugged",
            "the watchdog resets a guest that hangs; this one was to poweroff it",
            f"spec.template.metadata.labels {lost}",
            f"{inner}.domain.resources.requests.memory {lost}",
            f"{inner}.domain.clock.utc.offsetSeconds {lost}",
            f"{inner}.domain.firmware.bootloader.bios.useSerial {lost}",
            f"{inner}.domain.devices.disks[root].disk.readonly {lost}",
            f"{inner}.networks[pod].pod.vmNetworkCIDR {lost}",
            f"{inner}.livenessProbe.httpGet.scheme {lost}",
            f"{inner}.volumes[iso].containerDisk.imagePullPolicy {lost}",
        ]
    )


def test_what_needs_another_word_here_is_said_by_it() -> None:
    spec = spec_of(TWISTED)
    assert (spec["cpu"], spec["memory"]) == (1, "4Gi")  # half a processor is one, and a limit is what the guest sees
    assert [(disk["name"], disk["size"], disk.get("boot")) for disk in spec["disks"]] == [
        ("root-copy", "5Gi", None),  # as its own namespace says, not another one's
        ("iso", "1Gi", True),
        ("raw", "1Gi", None),
        ("cloudinit-copy", "2Gi", None),
    ]
    assert spec["networks"] == [
        {"name": "default", "macAddress": "02:ab:00:00:00:01"},
        {"name": "default-net", "nadName": "shared", "macAddress": "02:ab:00:00:00:02"},
        {"name": "tap", "nadName": "tap", "type": "macvlan"},
        {"name": "user", "nadName": "user"},
    ]
    assert (spec["watchdog"], spec["clock"]) == (True, {"timezone": ""})
    assert spec["startStrategy"] == {"autoStart": False}


def test_what_a_guest_can_grow_to_and_its_watchdog_are_taken_over() -> None:
    spec = spec_of(GROWING)
    assert (spec["cpu"], spec["memory"]) == (8, "2Gi")
    assert (spec["cpuOptions"], spec["liveResize"]) == ({"threads": 2}, {"maxCpu": 16, "maxMemory": "8Gi"})
    assert spec["watchdog"] is True
    told = notes_of(GROWING)
    assert "processors are plugged as sockets of one core here; a socket of this machine has 2" in told
    for path in ("requests.cpu", "limits.cpu"):
        assert f"resources.{path} has no counterpart and is left out" in told
    assert "requests.memory" not in told  # it says the same as memory.guest


def test_a_machine_that_names_no_processor_has_one_and_memory_that_cannot_grow_is_told() -> None:
    spec = spec_of(BARE)
    assert (spec["cpu"], spec["memory"], "liveResize" in spec) == (1, "512Mi", False)
    assert "maxGuest is left out: 8Gi cannot be plugged into a guest of 512Mi" in notes_of(BARE)


def test_an_instance_type_says_size_and_the_rest_of_its_reference_is_told() -> None:
    spec = spec_of(SIZED)
    assert spec["instancetype"] == {"name": "u1.small", "clusterWide": True}
    assert spec["preference"] == {"name": "debian", "clusterWide": False}
    assert {"cpu", "memory"}.isdisjoint(spec)
    assert "spec.instancetype.revisionName has no counterpart and is left out" in notes_of(SIZED)


def test_networks_that_the_server_would_refuse_become_such_as_it_takes() -> None:
    assert spec_of(NETWORKS)["networks"] == [
        {"name": "default"},
        {"name": "shared", "nadName": "shared"},
        {"name": "tap", "type": "macvlan", "physicalInterface": "ens5"},
        {"name": "a-name-of-some-length", "bridgeName": "br7", "vlanId": 7},
    ]
    told = notes_of(NETWORKS)
    for field in ("vlanId", "bridgeName", "physicalInterface"):
        assert f"networks[shared].{field} is left out: NetworkAttachmentDefinition shared says that itself" in told
    for words in (
        "networks[default].ipConfig is left out",
        "networks[tap].vlanId is left out",
        "networks[fast] is left out: sriov gave the machine no interface before, and needs resourceName",
        "networks[lost] is left out: macvlan gave the machine no interface before, and needs physicalInterface",
    ):
        assert words in told


def test_what_did_nothing_before_and_acts_now_is_told() -> None:
    told = notes_of(NETWORKS)
    assert "highAvailability.restartPolicy did nothing before" in told
    assert "restoreFromSnapshot is left out: it did nothing before" in told
    assert "restoreFromSnapshot" not in spec_of(NETWORKS)
    assert "startStrategy.runStrategy did nothing before" in notes_of(NOVASPHERE)


def test_both_kinds_of_disks_that_can_be_taken_over_are_named() -> None:
    told = notes_of(NOVASPHERE)
    assert "label its claims, and the DataVolumes of disks that have an image, with vm.corral.dev/wukong=web" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (KUBEVIRT.partition("---")[0], "claim db-scratch: give that manifest too"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "v1 Pod is not known here"),
        (NOVASPHERE.replace("cpu: 2", "cpu: two"), "Wukong web: Expected `int"),
        (NOVASPHERE.replace("name: web", "name: web.lab"), "no dots; rename it first"),
        (NETWORKS.replace("bridgeName: br7, ", ""), "br-a-name-of-some-length has more than the 15 characters"),
        (BARE.replace("memory: {guest: 512Mi, maxGuest: 8Gi}", "memory: {}"), "bare does not say how much memory"),
        (TWISTED.replace("I2Nsb3VkLWNvbmZpZwo=", "////"), "its userDataBase64 is no text"),
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
