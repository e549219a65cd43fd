"""slurmctld was killed before it had saved the registration of a slurmd: it looks for an earlier life of it.

Seen on real Slurm, in chaos: the pod is ready, its record is DOWN for ever, at an address where nobody is.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from corral.kinds.nodeset.calls import Forget
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.rollout import is_there
from tests.unit.kinds.nodeset.builders import OURS, AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains

DOWN = "DOWN+NOT_RESPONDING+DYNAMIC_NORM"


def missed(state: str = DOWN, *, knows_start: bool = False, **more: Any) -> AWorker:
    """A slurmctld that was started knows when a slurmd was only after that one has registered."""
    worker = a_worker(0, **{"state": state, "runs_s": 600, "earlier_s": 60, **more})
    assert worker.node is not None
    return worker if knows_start else replace(worker, node=replace(worker.node, registered_at=None))


@pytest.mark.parametrize("knows_start", [True, False])
def test_a_ready_pod_of_whom_slurm_knows_only_an_earlier_life_is_made_again(knows_start: bool) -> None:
    first = plan(a_snapshot(missed(knows_start=knows_start), a_worker(1), replicas=2))
    assert (drains(first), deleted(first)) == (["gpu-0"], [])
    drained = missed(f"{DOWN}+DRAIN", reason=OURS, knows_start=knows_start)
    then = plan(a_snapshot(drained, a_worker(1), replicas=2))
    assert (calls(then), deleted(then)) == ([Forget(node="gpu-0")], ["gpu-0"])


@pytest.mark.parametrize(
    "present",
    [
        missed(runs_s=30),
        missed("IDLE+NOT_RESPONDING+DYNAMIC_NORM"),
        missed(knows_start=True, earlier_s=0),
        missed("MIXED+NOT_RESPONDING", jobs=(7,)),
        missed(reason="bad DIMM"),
        missed("DOWN+NOT_RESPONDING+POWERED_DOWN"),
    ],
    ids=["may register yet", "not given up yet", "its own record", "holds a job", "is somebody's", "powered down"],
)
def test_others_that_are_down_or_of_an_earlier_life_keep_their_pods(present: AWorker) -> None:
    decided = plan(a_snapshot(present, a_worker(1), replicas=2))
    assert (drains(decided), deleted(decided)) == ([], [])


def test_while_slurm_has_only_just_answered_again_nobody_is_made_again() -> None:
    decided = plan(a_snapshot(missed(), a_worker(1), replicas=2, answers_s=30))
    assert (drains(decided), deleted(decided)) == ([], [])


def test_until_then_it_is_told_as_not_registered_and_looked_at_again() -> None:
    decided = plan(a_snapshot(missed(runs_s=30), a_worker(1), replicas=2))
    assert [wait.reason for wait in decided.waits] == ["WorkersNotRegistered"]
    assert decided.again_after_s is not None


def test_one_that_registered_with_too_little_is_missing_though_somebody_lifted_its_drain() -> None:
    def there(state: str) -> bool:
        (worker,) = a_snapshot(a_worker(0, state=state)).workers
        return is_there(worker)

    assert there("IDLE+DYNAMIC_NORM")
    assert not there("IDLE+INVALID_REG+DYNAMIC_NORM")
