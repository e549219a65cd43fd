"""slurmctld was killed before it had saved the registration of a slurmd: it looks for an earlier life of it.

Seen on real Slurm, in chaos: the pod is ready, its record is DOWN for ever, at an address where nobody is.
"""

import pytest

from corral.kinds.nodeset.calls import Forget
from corral.kinds.nodeset.plan import plan
from tests.unit.kinds.nodeset.builders import OURS, AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains

DOWN = "DOWN+NOT_RESPONDING+DYNAMIC_NORM"


def missed(state: str = DOWN, *, reason: str = "", runs_s: float = 600, earlier_s: float = 60) -> AWorker:
    jobs = (7,) if state.startswith("MIXED") else ()
    return a_worker(0, state=state, reason=reason, runs_s=runs_s, earlier_s=earlier_s, jobs=jobs)


def test_a_ready_pod_of_whom_slurm_knows_only_an_earlier_life_is_made_again() -> None:
    first = plan(a_snapshot(missed(), a_worker(1), replicas=2))
    assert (drains(first), deleted(first)) == (["gpu-0"], [])
    then = plan(a_snapshot(missed(f"{DOWN}+DRAIN", reason=OURS), a_worker(1), replicas=2))
    assert (calls(then), deleted(then)) == ([Forget(node="gpu-0")], ["gpu-0"])


@pytest.mark.parametrize(
    "present",
    [
        missed(runs_s=30),
        missed("IDLE+DYNAMIC_NORM"),
        missed(earlier_s=0),
        missed("MIXED+NOT_RESPONDING"),
        missed("DOWN+NOT_RESPONDING", reason="bad DIMM"),
        missed("IDLE+NOT_RESPONDING+POWERED_DOWN"),
    ],
    ids=["may register yet", "answers", "its own record", "holds a job", "is somebody's", "powered down"],
)
def test_others_that_are_down_or_of_an_earlier_life_keep_their_pods(present: AWorker) -> None:
    decided = plan(a_snapshot(present, a_worker(1), replicas=2))
    assert (drains(decided), deleted(decided)) == ([], [])


def test_until_then_it_is_told_as_not_registered_and_looked_at_again() -> None:
    decided = plan(a_snapshot(missed(runs_s=30), a_worker(1), replicas=2))
    assert [wait.reason for wait in decided.waits] == ["WorkersNotRegistered"]
    assert decided.again_after_s is not None
