"""Of several reasons of ours, which one people find in `sinfo -R`."""

import pytest
from msgspec.structs import replace

from corral.engine import EmitEvent, Plan
from corral.kinds.nodeset.calls import Drain
from corral.kinds.nodeset.plan import plan
from corral.kube.models.core_v1 import Node, Taint
from tests.unit.kinds.nodeset.builders import NOW, OURS, AWorker, a_snapshot, a_worker, deleted_ago
from tests.unit.kinds.nodeset.test_nodeset_machine import a_machine, on
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted

CORDONED = "corral: Kubernetes node m is cordoned"
NEW_FAN = f"{CORDONED}: new fan (by alice)"
UNREADY = "corral: Kubernetes node m is not ready"
ROLLOUT = "corral: rollout of NodeSet lab/gpu"
LOSS = "corral: loss of its pod of NodeSet lab/gpu"
DELETION = "corral: deletion of NodeSet lab/gpu"

FINE, PLAIN, UNREADY_NODE = a_machine(), a_machine(cordoned=True), a_machine(ready="Unknown")
ALICES = a_machine(cordoned=True, why="new fan", who="alice")
TAINTED = a_machine(taints=(Taint(key="x", effect="NoExecute"),))


def draining(reason: str, *, state: str = "MIXED+DRAIN", jobs: tuple[int, ...] = (7,)) -> AWorker:
    return on(a_worker(0, state=state, reason=reason, jobs=jobs))


def decided(worker: AWorker, machine: Node, *, replicas: int = 1, is_deleted: bool = False) -> Plan:
    return plan(replace(a_snapshot(worker, replicas=replicas, deleted=is_deleted), machines={"m": machine}))


def said(found: Plan) -> list[str]:
    assert all(call.spares_others for call in calls(found) if isinstance(call, Drain))
    return [call.reason for call in calls(found) if isinstance(call, Drain)]


@pytest.mark.parametrize(
    ("before", "machine", "replicas", "after"),
    [
        (CORDONED, ALICES, 1, NEW_FAN),
        (f"{CORDONED}: dust (by bob)", ALICES, 1, NEW_FAN),
        (OURS, ALICES, 0, NEW_FAN),
        (NEW_FAN, FINE, 0, OURS),
        (NEW_FAN, UNREADY_NODE, 1, UNREADY),
        (UNREADY, FINE, 0, OURS),
        (UNREADY, UNREADY_NODE, 0, OURS),
        (ROLLOUT, TAINTED, 1, "corral: Kubernetes node m has taint x:NoExecute"),
    ],
    ids=[
        "a cordon is given a reason",
        "and another one",
        "a person's reason comes before a scale-in",
        "which is still there when that is taken back",
        "so is a node that is not ready",
        "to be removed after all",
        "a scale-in comes before what only keeps it off",
        "a rollout that was taken back",
    ],
)
def test_a_drain_of_ours_says_what_is_true_now(before: str, machine: Node, replicas: int, after: str) -> None:
    assert said(decided(draining(before), machine, replicas=replicas)) == [after]
    assert said(decided(draining(after), machine, replicas=replicas)) == []


@pytest.mark.parametrize(
    ("machine", "replicas", "reason"), [(ALICES, 1, NEW_FAN), (FINE, 0, OURS), (UNREADY_NODE, 1, UNREADY)]
)
def test_what_slurmctld_adds_to_it_is_left_there(machine: Node, replicas: int, reason: str) -> None:
    worker = draining(f"{reason} : Not responding", state="DOWN+DRAIN")
    assert said(decided(worker, machine, replicas=replicas)) == []


def test_words_that_only_begin_alike_are_others() -> None:
    assert said(decided(draining(f"{NEW_FAN} : and a disk"), ALICES)) == [NEW_FAN]


def test_what_is_about_to_be_forgotten_is_told_nothing_more() -> None:
    drained = draining(UNREADY, state="IDLE+DRAIN", jobs=())
    assert said(decided(drained, ALICES)) == said(decided(drained, FINE, replicas=0)) == []


def test_a_worker_that_stays_drained_without_a_job_is_told_as_well() -> None:
    assert said(decided(draining(OURS, state="IDLE+DRAIN", jobs=()), UNREADY_NODE)) == [UNREADY]


@pytest.mark.parametrize("machine", [ALICES, UNREADY_NODE, TAINTED, FINE])
@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_nobody_elses_words_are_ever_replaced(machine: Node, replicas: int, is_deleted: bool) -> None:
    for state in ("MIXED+DRAIN", "IDLE+DRAIN"):
        theirs = draining("bad DIMM", state=state, jobs=(7,))
        assert said(decided(theirs, machine, replicas=replicas, is_deleted=is_deleted)) == []
        assert said(decided(deleted_ago(theirs, 90), machine, replicas=replicas, is_deleted=is_deleted)) == []


def test_in_a_deletion_too() -> None:
    assert said(decided(draining(OURS), FINE, is_deleted=True)) == [DELETION]
    assert said(decided(draining(DELETION), ALICES, is_deleted=True)) == [NEW_FAN]
    assert said(decided(draining(NEW_FAN), ALICES, is_deleted=True)) == []


def test_a_reason_that_is_given_while_a_deleted_pod_waits_for_its_job_is_told() -> None:
    waits = deleted_ago(draining(LOSS), 3600)
    assert said(decided(waits, ALICES)) == [NEW_FAN]
    assert said(decided(deleted_ago(draining(NEW_FAN), 3600), FINE)) == [LOSS]
    assert said(decided(waits, FINE)) == []


def test_a_new_reason_starts_the_time_again_after_which_people_let_jobs_be_killed() -> None:
    worker = draining(OURS)
    assert worker.node is not None
    long_ago = replace(worker, node=replace(worker.node, reason_at=NOW.replace(year=2020)))
    snapshot = replace(a_snapshot(long_ago, replicas=0), machines={"m": ALICES})
    spec = replace(snapshot.object.spec, force_drain_after_seconds=60)
    found = plan(replace(snapshot, object=replace(snapshot.object, spec=spec)))
    assert said(found) == [NEW_FAN]
    warned = [one.message for one in found.actions if isinstance(one, EmitEvent) and one.reason == "JobsToBeKilled"]
    assert (deleted(found), len(warned), "at 2026-11-16T02:01:00Z" in warned[0]) == ([], 1, True)
