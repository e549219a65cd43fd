"""What a NodeSet's status says."""

import msgspec

from corral.engine import Outcome
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.report import decided_by, report
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSetStatus
from tests.unit.kinds.nodeset.builders import OURS, UNKNOWN, a_snapshot, a_worker


def said(snapshot: Snapshot) -> NodeSetStatus:
    return report(snapshot, Outcome(plan=plan(snapshot)))


def condition(status: NodeSetStatus, kind: str) -> tuple[str, str]:
    found = next(c for c in status.conditions if c.type == kind)
    return found.status, found.message


def test_workers_are_counted_as_slurm_sees_them() -> None:
    status = said(
        a_snapshot(
            a_worker(0),
            a_worker(1, state="MIXED", jobs=(1,)),
            a_worker(2, state="ALLOCATED+DRAIN", reason=OURS, jobs=(2,)),
            a_worker(3, state="DOWN+NOT_RESPONDING", phase="Pending"),
            replicas=4,
        )
    )
    assert (status.idle, status.allocated, status.draining, status.down) == (1, 1, 1, 1)
    assert (status.replicas, status.ready_replicas, status.selector) == (4, 3, "slurm.corral.dev/nodeset=gpu")


def test_while_slurm_does_not_answer_the_last_counts_stay_and_the_condition_says_since_when_and_why() -> None:
    snapshot = a_snapshot(a_worker(0, jobs=UNKNOWN), replicas=1)
    before = msgspec.structs.replace(snapshot.object, status=NodeSetStatus(idle=7))
    status = said(msgspec.structs.replace(snapshot, object=before))
    assert status.idle == 7
    reachable, message = condition(status, "SlurmReachable")
    assert reachable == "False"
    assert "since 2026-11-16T01:59:59Z: connection refused" in message


def test_a_nodeset_with_all_its_workers_is_ready() -> None:
    status = said(a_snapshot(a_worker(0), replicas=1))
    assert condition(status, "Ready")[0] == "True"
    assert condition(status, "SlurmReachable")[0] == "True"


def test_a_suspended_nodeset_says_so() -> None:
    assert "suspend" in condition(said(a_snapshot(a_worker(0), replicas=9, suspend=True)), "Ready")[1]


def test_that_slurm_has_nodes_of_it_is_noted_at_once_and_how_many_is_not() -> None:
    none, one, two = NodeSetStatus(), NodeSetStatus(idle=1), NodeSetStatus(idle=1, draining=1)
    assert decided_by(none) != decided_by(one)
    assert decided_by(one) == decided_by(two)
