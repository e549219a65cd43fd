"""What is asked for of a snapshot or a restore arrives in KubeVirt's words, or the storage's."""

import msgspec

from corral.kinds.wukong.restore import machine_restore
from corral.kinds.wukongsnapshot.plan import wanted
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec
from corral.kube.meta import ObjectMeta
from tests.unit.kinds.wukong.world import NAMESPACE, a_wukong


def snapshot_of(**spec: object) -> object:
    asked = msgspec.convert({"wukongName": "vm", **spec}, WukongSnapshotSpec)
    (made,) = wanted(WukongSnapshot(metadata=ObjectMeta(name="friday", namespace=NAMESPACE), spec=asked))
    return msgspec.to_builtins(made)["spec"]


def test_a_single_disk_is_kept_by_the_class_that_was_asked_for_else_by_the_clusters() -> None:
    of_data = {"source": {"persistentVolumeClaimName": "vm-data"}}
    assert snapshot_of(disks=["data"]) == of_data
    assert snapshot_of(disks=["data"], volumeSnapshotClassName="fast") == {
        **of_data,
        "volumeSnapshotClassName": "fast",
    }


def test_kubevirt_is_told_how_long_it_may_try() -> None:
    machine = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "vm"}
    assert snapshot_of(failureDeadline="1m") == {"source": machine, "failureDeadline": "1m"}


def test_disks_that_are_set_back_keep_their_names_and_belong_to_nobody() -> None:
    """Were they the machine's, they would go with it, also those that are to be kept."""
    assert msgspec.to_builtins(machine_restore(a_wukong(), "friday").spec) == {
        "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "vm"},
        "virtualMachineSnapshotName": "friday",
        "targetReadinessPolicy": "WaitEventually",
        "volumeRestorePolicy": "InPlace",
        "volumeOwnershipPolicy": "None",
    }
