"""A worker whose container was resized in place: Slurm does not know, so people are told."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from corral.engine import Plan
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.worker import worker_pod
from corral.kinds.nodeset.workers import Place
from corral.kube.models.core_v1 import Pod, ResourceRequirements
from tests.unit.kinds.nodeset.builders import SLURM, a_nodeset, a_snapshot, a_worker, known_revisions

MADE = {"cpu": "2", "memory": "1Gi"}


def decided(limits: Mapping[str, str], *, generation: int = 2, extra_conf: str = "", **slurmd: object) -> Plan:
    """Of a worker that was made with MADE, and has these limits now."""
    nodeset = a_nodeset(slurmd={"resources": {"limits": MADE}, **slurmd}, extra_conf=extra_conf)
    made, told = worker_pod(nodeset, SLURM, Place(name="gpu-0", ordinal=0)), a_worker(0)
    assert told.pod is not None
    (container,) = made.spec.containers
    now = replace(container, resources=ResourceRequirements(limits=limits))
    metadata = replace(told.pod.metadata, labels=made.metadata.labels, generation=generation)
    pod = Pod(metadata=metadata, spec=replace(made.spec, containers=(now,)), status=told.pod.status)
    snapshot: Snapshot = a_snapshot(replace(told, pod=pod))
    kept = known_revisions(nodeset, SLURM, ())
    return plan(replace(snapshot, object=replace(snapshot.object, spec=nodeset.spec), revisions=kept))


@pytest.mark.parametrize(
    "limits", [{"cpu": "1", "memory": "1Gi"}, {"cpu": "4", "memory": "1Gi"}, {"cpu": "2", "memory": "512Mi"}], ids=str
)
def test_people_are_told_which_worker_has_other_limits_than_it_was_made_with_and_nothing_is_done(
    limits: dict[str, str],
) -> None:
    found = decided(limits)
    assert (found.actions, [(wait.reason, wait.stalled) for wait in found.waits]) == ((), [("WorkersResized", True)])
    assert all(word in found.waits[0].message for word in ("gpu-0", "CPUs=2 RealMemory=960", "spec.slurmd.resources"))


def test_one_that_was_changed_otherwise_or_by_less_than_slurm_counts_is_not_meant() -> None:
    assert decided(MADE) == Plan()
    assert decided({"cpu": "2500m", "memory": "1073741824"}) == Plan()


def test_what_admission_gave_it_when_it_was_made_is_no_resize() -> None:
    assert decided({"cpu": "1", "memory": "512Mi"}, generation=1) == Plan()


def test_where_people_say_what_it_registers_with_its_limits_say_nothing() -> None:
    less = {"cpu": "1", "memory": "512Mi"}
    assert decided(less, extra_conf="CPUs=8 RealMemory=8000") == Plan()
    own = [{"name": "SLURM_NODE_CONF", "value": "Feature=gpu CPUs=2 RealMemory=960 Weight=3"}]
    assert decided(less, env=own) == Plan()
