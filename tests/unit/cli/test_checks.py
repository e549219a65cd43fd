"""`corral check`: what each fact means, and what a person should do about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from corral.cli.check import lines
from corral.cli.checks import Answer, Check, Facts, Probe, checks, has_failed
from corral.cli.facts import Fact
from corral.cli.probe import SCRIPT, has_ended, manifest, seen
from corral.kinds.controller.spec import Controller
from corral.kube.crd import crd_of
from corral.kube.discovery import ServerVersion
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Node, PersistentVolume, Pod
from corral.kube.models.storage_v1 import StorageClass

NOW = datetime(2026, 1, 8, tzinfo=UTC)
WANTED = (crd_of(Controller),)
SAID = {"uid": "0", "time": str(NOW.timestamp()), "cgroup": "cgroup2fs", "cgroup_writable": "yes", "dns": "10.0.0.1"}


def a_class(name: str = "fast", provisioner: str = "disk.csi", default: str = "true") -> StorageClass:
    mark = {"storageclass.kubernetes.io/is-default-class": default}
    return StorageClass(metadata=ObjectMeta(name=name, annotations=mark), provisioner=provisioner)


def a_node(ready: str = "True", **spec: Any) -> Node:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.convert({"metadata": {"name": "n"}, "spec": spec, "status": status}, Node)


def a_probe(**changes: Any) -> Probe:
    good: dict[str, Any] = {"node": "n", "images": {"slurm": ""}, "said": SAID, "began": NOW, "ended": NOW}
    return Probe(**{**good, **changes})


def good_facts(**changes: Any) -> Facts:
    good: dict[str, Any] = {
        "server": ServerVersion("1", "36", "v1.36.3"),
        "denied": (),
        "nodes": (a_node(),),
        "classes": (a_class(), a_class("home", "nfs.csi", "false")),
        "volumes": (),
        "definitions": {one.metadata.name: one for one in WANTED},
        "operator": Fact("Operator", "x leads", True),
        "probe": a_probe(),
        "skew_s": 0.0,
    }
    return Facts(**{**good, **changes})


def answer(name: str, *, before: bool = False, **changes: Any) -> Check:
    found = checks(good_facts(**changes), WANTED, before=before)
    return next(check for check in found if check.name.startswith(name))


def test_a_good_cluster_has_only_yes() -> None:
    found = checks(good_facts(), WANTED, before=False)

    assert {check.answer for check in found} == {Answer.YES}
    assert not has_failed(found)
    assert lines(found)[-1] == "Corral can run here."


@pytest.mark.parametrize(
    ("name", "changes", "expected", "says"),
    [
        ("Kubernetes", {"server": ServerVersion("1", "32+", "v1.32.1")}, Answer.NO, "it is v1.32.1"),
        ("you may", {"denied": ("create a", "list b")}, Answer.NO, "you may not create a, list b"),
        ("you may", {"denied": None}, Answer.UNKNOWN, "does not say"),
        ("nodes", {"nodes": (a_node("False"), a_node(unschedulable=True))}, Answer.NO, "0 of 2"),
        ("nodes", {"nodes": None}, Answer.UNKNOWN, "may not list"),
        ("there is a default", {"classes": (a_class(default="false"),)}, Answer.NO, "0 are marked as default"),
        ("there is a default", {"classes": (a_class("a"), a_class("b"))}, Answer.NO, "2 are marked"),
        ("volumes", {"classes": (a_class(),)}, Answer.NO, "disk.csi: volumes for one node at a time"),
        ("volumes", {"classes": (a_class(), a_class("b", "x.io"))}, Answer.UNKNOWN, "x.io: not known to support"),
        ("Corral's kinds", {"definitions": {}}, Answer.NO, "1 missing"),
        ("an operator", {"operator": Fact("Operator", "none", False)}, Answer.NO, "none"),
        ("images", {"probe": a_probe(images={"slurm": "ErrImagePull: no"})}, Answer.NO, "slurm: ErrImagePull: no"),
        ("images", {"probe": a_probe(late="pod x: Pending")}, Answer.UNKNOWN, "pod x: Pending"),
        ("images", {"probe": None}, Answer.UNKNOWN, "no pod was started"),
        ("pods may", {"probe": Probe(refused="violates PodSecurity")}, Answer.NO, "violates PodSecurity"),
        ("jobs can", {"probe": a_probe(said={**SAID, "cgroup": "tmpfs"})}, Answer.NO, "n has tmpfs"),
        ("jobs can", {"probe": a_probe(said={**SAID, "cgroup_writable": "no"})}, Answer.NO, "read-only"),
        ("names", {"probe": a_probe(said={**SAID, "dns": "no"})}, Answer.NO, "default does not resolve on n"),
        ("clocks", {"skew_s": 30.0}, Answer.NO, "your clock is off by 30 s"),
        ("clocks", {"skew_s": None, "probe": None}, Answer.UNKNOWN, "no pod"),
    ],
)
def test_a_check_answers(name: str, changes: dict[str, Any], expected: Answer, says: str) -> None:
    check = answer(name, **changes)

    assert check.answer is expected
    assert says in check.found
    assert check.todo or expected is not Answer.NO


@pytest.mark.parametrize(("seconds", "expected"), [(-10, Answer.NO), (0, Answer.YES), (3, Answer.YES), (60, Answer.NO)])
def test_a_nodes_clock_must_be_within_the_time_of_the_pods_life(seconds: int, expected: Answer) -> None:
    told = {**SAID, "time": str(NOW.timestamp() + seconds)}

    assert answer("clocks", probe=a_probe(said=told)).answer is expected


def test_definitions_of_another_version_are_named() -> None:
    (mine,) = WANTED
    old = msgspec.structs.replace(mine, spec=msgspec.structs.replace(mine.spec, scope="Cluster"))

    assert answer("Corral's kinds", definitions={mine.metadata.name: old}).found == (
        "of another version: controllers.slurm.corral.dev"
    )


def test_before_the_installation_definitions_and_operator_are_not_needed() -> None:
    found = checks(good_facts(definitions={}, operator=Fact("Operator", "none", False)), WANTED, before=True)

    assert not has_failed(found)
    assert not [check for check in found if check.name == "an operator runs"]


def test_a_volume_that_many_may_write_is_enough() -> None:
    spec = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}}
    volume = msgspec.convert({"metadata": {"name": "home"}, "spec": spec}, PersistentVolume)

    assert answer("volumes", classes=(), volumes=(volume,)).found == "PersistentVolume home"


def statused(pod: Pod, *states: dict[str, Any]) -> Pod:
    names = [container.name for container in pod.spec.containers]
    statuses = [
        {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        for name, state in zip(names, states, strict=False)
    ]
    status = msgspec.convert({"status": {"containerStatuses": statuses}, "spec": {"containers": []}}, Pod).status
    return msgspec.structs.replace(pod, status=status)


ENDED = {"terminated": {"exitCode": 0}}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}


def test_the_pod_has_told_all_when_each_image_came_or_will_not_come() -> None:
    pod = manifest("lab", ("slurm", "mariadb"))

    assert not has_ended(statused(pod, ENDED))
    assert not has_ended(statused(pod, ENDED, {"waiting": {"reason": "ContainerCreating"}}))
    assert has_ended(statused(pod, ENDED, NO_IMAGE))


def test_what_the_pod_saw_is_read_from_its_log_and_its_containers() -> None:
    pod = statused(manifest("lab", ("slurm", "mariadb")), ENDED, NO_IMAGE)
    found = seen(pod, ["uid=0", "cgroup=cgroup2fs", "noise"], NOW)

    assert found.images == {"slurm": "", "mariadb": "ImagePullBackOff: no such image"}
    assert found.said == {"uid": "0", "cgroup": "cgroup2fs"}
    assert found.ended == NOW + timedelta(seconds=1)
    assert "mkdir /sys/fs/cgroup" in SCRIPT
