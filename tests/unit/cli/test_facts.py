"""The facts behind a decision, in words: what is wrong comes first, and no content of an object is ever told."""

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cli.explain import EventBelow, recent
from corral.cli.facts import Fact, fact_of, facts_of, operator_fact, ordered, pods_below
from corral.engine.questions import SeenEvent
from corral.kube.meta import Object, ObjectMeta, ObjectRef
from corral.kube.models.apps_v1 import Deployment, ReplicaSet
from corral.kube.models.coordination_v1 import Lease, LeaseSpec
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret
from corral.kube.values import micro_time
from corral.slurm.facts import Unknown

NOW = datetime(2026, 1, 8, tzinfo=UTC)


def a_pod(status: dict[str, Any], **meta: Any) -> Pod:
    content = {"metadata": {"name": "w-0", "namespace": "lab", **meta}, "spec": {"containers": []}, "status": status}
    return msgspec.convert(content, Pod)


def a_container(**state: Any) -> dict[str, Any]:
    return {"name": "slurmd", "image": "i", "imageID": "", "ready": False, "restartCount": 0, **state}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        pytest.param(
            {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-07T23:59:00Z"}]},
            "ready for 60s",
            id="ready",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]},
            "has no node: 0/1 nodes are available",
            id="not scheduled",
        ),
        pytest.param(
            {"containerStatuses": [a_container(state={"waiting": {"reason": "ErrImagePull", "message": "no such"}})]},
            "not ready: slurmd waits: ErrImagePull, no such",
            id="no image",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    a_container(
                        state={"waiting": {"reason": "CrashLoopBackOff"}},
                        lastState={"terminated": {"exitCode": 1, "message": "a\nfatal: no key\n"}},
                        restartCount=4,
                    )
                ]
            },
            "not ready: slurmd ended with exit code 1: fatal: no key, 4 restarts",
            id="crashing: its own last words",
        ),
        pytest.param(
            {"containerStatuses": [a_container(state={"running": {}})]},
            "not ready: slurmd runs, but is not ready",
            id="running",
        ),
        pytest.param({}, "not ready: not seen by kubelet yet", id="new"),
    ],
)
def test_a_pod_tells_why_it_is_not_ready(status: dict[str, Any], says: str) -> None:
    assert fact_of(a_pod(status), NOW).state == says


def test_what_is_wrong_comes_first_and_what_is_merely_there_last() -> None:
    facts = ordered(
        [Fact("Secret lab/b"), Fact("Slurm", "answers", True), Fact("Secret lab/a"), Fact("Pod x", "n", False)]
    )

    assert [str(fact) for fact in facts] == ["Pod x: n", "Slurm: answers", "Secret a, b"]


def test_many_ready_pods_are_counted() -> None:
    facts = ordered(Fact(f"Pod lab/w-{number}", "ready for 1m", True) for number in range(1000))

    assert [str(fact) for fact in facts] == ["Pods: 1000 are ready"]


T = TypeVar("T", bound=Object)


def owned(kind: type[T], name: str, by: str) -> T:
    meta = {"name": name, "uid": name, "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": by}]}
    spec = {"selector": {}, "template": {"spec": {"containers": []}}, "containers": []}
    return msgspec.convert({"metadata": meta, "spec": spec}, kind)


def test_pods_are_found_below_the_workloads_that_an_object_made() -> None:
    owner = ConfigMap(metadata=ObjectMeta(name="api", uid="api"))
    deployment, replica_set = owned(Deployment, "deployment", "api"), owned(ReplicaSet, "set", "deployment")
    pods = (owned(Pod, "mine", "set"), owned(Pod, "direct", "api"), owned(Pod, "no", "other"))

    found = pods_below(owner, (replica_set,), (deployment,), pods)

    assert [pod.metadata.name for pod in found] == ["mine", "direct"]


class ASnapshot(msgspec.Struct, frozen=True):
    object: ConfigMap
    now: datetime
    key: bytes
    token: str
    secrets: tuple[Secret, ...]
    maps: dict[str, ConfigMap]
    nested: msgspec.Struct | None
    slurm: Unknown


class ASigned(msgspec.Struct, frozen=True):
    token: str


@given(st.text(min_size=8, alphabet="abcdefXYZ0123456789"))
def test_no_content_of_anything_is_among_the_facts(secret: str) -> None:
    value = f"<{secret}>"
    meta = ObjectMeta(name="s", namespace="lab")
    snapshot = ASnapshot(
        object=ConfigMap(),
        now=NOW,
        key=value.encode(),
        token=value,
        secrets=(Secret(metadata=meta, data={"k": value.encode()}),),
        maps={"a": ConfigMap(metadata=meta, data={"k": value})},
        nested=ASigned(value),
        slurm=Unknown(since_s=0.0, since=NOW, why="no answer"),
    )

    told = [str(fact) for fact in facts_of(snapshot, NOW)]

    assert told == ["Secret lab/s", "ConfigMap lab/s", "Slurm: has not answered for 0s: no answer"]
    assert value not in "".join(told)


def a_lease(seconds_ago: float, holder: str = "op") -> Lease:
    renewed = micro_time(NOW - timedelta(seconds=seconds_ago))
    spec = LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=15)
    return Lease(metadata=ObjectMeta(name="corral", namespace="sys"), spec=spec)


@pytest.mark.parametrize(
    ("leases", "well", "says"),
    [
        (None, None, "unknown: you may not read Leases"),
        ((), False, "no operator is running"),
        ((a_lease(5, holder=""),), False, "no operator is running"),
        ((a_lease(600),), False, "has been silent for 10m"),
        ((a_lease(600), a_lease(2, "other")), True, "other (Lease sys/corral) leads"),
    ],
)
def test_whether_an_operator_runs_is_read_from_its_lease(
    leases: tuple[Lease, ...] | None, well: bool | None, says: str
) -> None:
    fact = operator_fact(leases, NOW)

    assert fact.well is well
    assert says in fact.state


def test_warnings_that_were_over_before_the_trouble_began_are_left_out() -> None:
    def warning(minutes_ago: float) -> EventBelow:
        seen = SeenEvent(type="Warning", reason="R", note="", count=1, last_seen=NOW - timedelta(minutes=minutes_ago))
        return EventBelow(ObjectRef("Pod", "lab", "w-0"), seen)

    old, cause, new = warning(30), warning(6), warning(1)

    assert recent((new, old, cause), NOW - timedelta(minutes=5)) == (cause, new)
    assert recent((new, old, cause), None) == (old, cause, new)
