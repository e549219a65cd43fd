"""What is still missing, told from objects alone: a roll-out, a kind of ours, a pod that will never start."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from corral.install.manifests import as_object
from corral.install.waiting import cannot_start, keeps_failing, newest, not_ready, not_rolled_out
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import Pod
from corral.kube.unstructured import Unstructured

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def deployment(generation: int = 2, **status: int) -> Deployment:
    document = {
        "metadata": {"name": "corral", "generation": generation},
        "spec": {"replicas": 1, "selector": {}, "template": {"spec": {"containers": []}}},
        "status": {"observedGeneration": 2, **status},
    }
    return msgspec.convert(document, Deployment)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (deployment(3), "has not been processed yet"),
        (deployment(), "0 of 1 pods"),
        (deployment(replicas=1, updatedReplicas=1), "0 of 1 pods"),
        (deployment(replicas=2, updatedReplicas=1, availableReplicas=1), "1 of 1 pods"),
        (deployment(replicas=1, updatedReplicas=1, availableReplicas=1), ""),
    ],
    ids=["a new template", "no pod", "not available", "an old pod is left", "rolled out"],
)
def test_a_roll_out_has_ended_when_only_pods_of_the_new_template_are_left_and_serve(
    seen: Deployment, says: str
) -> None:
    said = not_rolled_out(seen)
    assert says in said
    assert bool(said) == bool(says)


def nodeset(observed: int | None, *conditions: Mapping[str, str]) -> Unstructured:
    status = {"conditions": list(conditions)} | ({} if observed is None else {"observedGeneration": observed})
    document: dict[str, Any] = {
        "apiVersion": "slurm.corral.dev/v1alpha1",
        "kind": "NodeSet",
        "metadata": {"name": "worker", "generation": 4},
        "status": status,
    }
    return as_object(document)


READY = {"type": "Ready", "status": "True", "reason": "AsDesired", "message": ""}
WAITING = {"type": "Ready", "status": "False", "reason": "Waiting", "message": "waiting for Controller lab/demo"}


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (nodeset(None), "NodeSet worker has not been processed yet"),
        (nodeset(3, READY), "NodeSet worker has not been processed yet"),
        (nodeset(4), "NodeSet worker is not ready"),
        (nodeset(4, WAITING), "NodeSet worker: waiting for Controller lab/demo"),
        (nodeset(4, READY), ""),
    ],
    ids=["new", "ready as it was", "no condition", "waiting", "ready"],
)
def test_ready_counts_for_the_object_as_it_is_now_and_waiting_is_told_in_its_own_words(
    seen: Unstructured, says: str
) -> None:
    assert not_ready(seen) == says


def pod(name: str = "corral-1", *, made: datetime = NOON, **status: Any) -> Pod:
    container = {
        "name": "corral",
        "image": "corral/corral:1",
        "imageID": "",
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
    }
    document = {
        "metadata": {"name": name, "namespace": "corral-system", "creationTimestamp": made.isoformat()},
        "spec": {"containers": []},
        "status": {"containerStatuses": [container | status]},
    }
    return msgspec.convert(document, Pod)


def test_an_image_that_cannot_be_pulled_is_told_with_its_name_and_the_runtimes_words() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    said = cannot_start([pod(), pod("corral-2", state=waiting)])
    assert said == "pod corral-system/corral-2 cannot start: ImagePullBackOff, image corral/corral:1: not found"


def test_a_pod_that_is_being_made_may_still_start() -> None:
    assert cannot_start([pod(state={"waiting": {"reason": "ContainerCreating"}})]) == ""


def test_a_program_that_ends_again_and_again_is_told_by_its_last_words() -> None:
    ended = {"terminated": {"exitCode": 2, "message": "{}\ncorral: we may not list pods\n"}}
    assert keeps_failing([pod(restartCount=1, lastState=ended)]) == ""
    said = keeps_failing([pod(restartCount=2, lastState=ended)])
    assert said.endswith("was started 3 times and ended with exit code 2: corral: we may not list pods")


def test_one_that_failed_before_and_works_now_is_no_failure() -> None:
    ended = {"terminated": {"exitCode": 2, "message": "no"}}
    assert keeps_failing([pod(restartCount=9, ready=True, lastState=ended)]) == ""


def test_the_newest_pod_is_the_one_that_was_made_last() -> None:
    older, newer = pod("a", made=NOON), pod("b", made=NOON + timedelta(seconds=1))
    assert [found.metadata.name for found in newest((newer, older))] == ["b"]
    assert newest(()) == ()
