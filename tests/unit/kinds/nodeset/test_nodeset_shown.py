"""What Slurm says of a worker is on its pod, and is written when it changes and never otherwise."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from corral.engine import Delete, Plan, SetStatus
from corral.kinds.nodeset.plan import SHOWN_MAX, plan
from corral.kinds.nodeset.shown import MISSING, Shown
from corral.slurm.states import node_state
from tests.unit.kinds.nodeset.builders import NOW, OURS, UNKNOWN, AWorker, a_pod, a_snapshot, a_worker


def unshown(worker: AWorker) -> AWorker:
    pod = worker.pod
    assert pod is not None
    return replace(worker, pod=a_pod(pod.metadata.name))


def written(decided: Plan) -> dict[str, list[tuple[str, str]]]:
    found = {}
    for action in decided.actions:
        if isinstance(action, SetStatus):
            assert isinstance(action.status, Shown)
            assert all(one.status == "True" for one in action.status.conditions)
            found[action.target.name] = [(one.type, one.message) for one in action.status.conditions]
    return found


def test_a_worker_that_registered_gets_one_write_and_no_other() -> None:
    decided = plan(a_snapshot(unshown(a_worker(0)), a_worker(1), replicas=2))
    assert written(decided) == {"gpu-0": [("SlurmNodeStateIdle", "")]}
    assert len(decided.actions) == 1


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        ("ALLOCATED", ["SlurmNodeStateAllocated"]),
        ("MIXED+COMPLETING", ["SlurmNodeStateMixed"]),
        ("DOWN+NOT_RESPONDING", ["SlurmNodeStateDown", "SlurmNodeStateNotResponding"]),
        ("IDLE+INVALID_REG+DRAIN", ["SlurmNodeStateIdle", "SlurmNodeStateDrain", "SlurmNodeStateInvalidReg"]),
    ],
)
def test_base_state_and_flags_that_matter_are_told(state: str, kinds: list[str]) -> None:
    decided = plan(a_snapshot(unshown(a_worker(0, state=state, reason="bad DIMM"))))
    assert written(decided) == {"gpu-0": [(kind, "bad DIMM") for kind in kinds]}


def test_what_no_longer_holds_is_taken_away_and_what_goes_on_keeps_its_time() -> None:
    drained = a_worker(0, state="IDLE+DRAIN", reason="bad DIMM")
    assert drained.node is not None
    later = replace(a_snapshot(drained), now=NOW + timedelta(seconds=5))
    assert written(plan(later)) == {}
    back = replace(drained, node=replace(drained.node, state=node_state(["IDLE"]), reason=""))
    now = replace(a_snapshot(back), now=NOW + timedelta(seconds=5))
    (action,) = (one for one in plan(now).actions if isinstance(one, SetStatus))
    assert isinstance(action.status, Shown)
    assert [(one.type, one.last_transition_time) for one in action.status.conditions] == [("SlurmNodeStateIdle", NOW)]


def test_a_worker_that_has_never_registered_shows_nothing_and_one_that_slurm_has_lost_since_when() -> None:
    assert written(plan(a_snapshot(a_worker(0, registered=False)))) == {}
    lost = replace(a_worker(0), node=None)
    (action,) = plan(a_snapshot(lost)).actions
    assert isinstance(action, SetStatus)
    assert isinstance(action.status, Shown)
    assert [(one.type, one.last_transition_time) for one in action.status.conditions] == [(MISSING, NOW)]
    assert lost.pod is not None
    kubelets = tuple(one for one in lost.pod.status.conditions if one.type == "Ready")
    shown = replace(lost.pod.status, conditions=(*kubelets, *action.status.conditions))
    later = replace(a_snapshot(replace(lost, pod=replace(lost.pod, status=shown))), now=NOW + timedelta(seconds=5))
    assert written(plan(later)) == {}


def test_what_was_said_last_stays_while_slurm_does_not_tell() -> None:
    assert written(plan(a_snapshot(unshown(a_worker(0, jobs=UNKNOWN))))) == {}


def test_a_pod_that_the_plan_deletes_or_that_is_ending_is_not_written_to() -> None:
    going = unshown(a_worker(1, state="IDLE+DRAIN", reason=OURS))
    ending = replace(unshown(a_worker(2)), pod=a_pod("gpu-2", leaving=True))
    decided = plan(a_snapshot(a_worker(0), going, ending, replicas=1))
    assert [one.target.name for one in decided.actions if isinstance(one, Delete)] == ["gpu-1"]
    assert written(decided) == {}


def test_so_many_are_written_in_one_pass_and_only_ours_of_the_status() -> None:
    many = [unshown(a_worker(number)) for number in range(SHOWN_MAX + 5)]
    decided = plan(a_snapshot(*many, replicas=len(many)))
    assert len(written(decided)) == SHOWN_MAX
    (first, *_) = decided.actions
    assert isinstance(first, SetStatus)
    assert set(msgspec.to_builtins(first.status)) == {"conditions"}
