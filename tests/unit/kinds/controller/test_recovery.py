"""After slurmctld was killed: who is told to register, when, and which records are closed."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from corral.engine import EmitEvent, Outside, Plan
from corral.kinds.accounting.spec import Accounting, AccountingStatus
from corral.kinds.controller import recovery
from corral.kinds.controller.snapshot import Beginning, CloseRecords, Holder, RegisterAnew, Revival, Snapshot
from corral.kube.meta import Condition
from corral.kube.models.core_v1 import Container, Pod, PodCondition, PodSpec, PodStatus
from tests.unit.kinds.controller.builders import NOW, a_snapshot, meta, running


def ago(seconds: float) -> Any:
    return NOW - timedelta(seconds=seconds)


def a_worker(name: str, *, ready: bool = True, ready_s: float = 3600) -> Holder:
    condition = PodCondition(type="Ready", status="True" if ready else "False", last_transition_time=ago(ready_s))
    spec = PodSpec(containers=(Container(name="slurmd"),))
    return Holder(pod=Pod(metadata=meta(name), spec=spec, status=PodStatus(conditions=(condition,))), daemon="slurmd")


def showing(worker: Holder, kind: str, words: str) -> Holder:
    """With what its NodeSet has last seen of its node."""
    shown = PodCondition(type=f"SlurmNodeState{kind}", status="True", message=words)
    status = msgspec.structs.replace(worker.pod.status, conditions=(*worker.pod.status.conditions, shown))
    return msgspec.structs.replace(worker, pod=msgspec.structs.replace(worker.pod, status=status))


def an_accounting(*, ready: bool = True, ready_s: float = 3600) -> Accounting:
    state = "True" if ready else "False"
    said = Condition(type="Ready", status=state, reason="AsDesired", last_transition_time=ago(ready_s))
    status = AccountingStatus(observed_generation=1, conditions=(said,))
    return Accounting(metadata=meta("acct", generation=1), status=status)


def revived(came_back_s: float, *, loaded_s: float | None = None, **more: Any) -> Snapshot:
    """slurmctld came back so long ago; three workers are up."""
    given = {"lost": (), **more}
    revival = Revival(at=ago(came_back_s), loaded=ago(came_back_s if loaded_s is None else loaded_s), **given)
    workers = tuple(a_worker(f"worker-{number}") for number in range(3))
    said = msgspec.structs.replace(running("d"), revival=revival)
    return a_snapshot(running=said, holders=workers, accounting=an_accounting())


def begun(began_s: float, **more: Any) -> Snapshot:
    """slurmctld began with an empty state so long ago, and knows worker-0; three workers were ready for an hour."""
    beginning = Beginning(at=ago(began_s), **{"known": frozenset({"worker-0"}), "lost": (), **more})
    return msgspec.structs.replace(revived(began_s), running=msgspec.structs.replace(running("d"), beginning=beginning))


def calls(plan: Plan) -> list[object]:
    return [action.call for action in plan.actions if isinstance(action, Outside)]


def test_a_slurmctld_that_never_ran_before_has_forgotten_nothing() -> None:
    assert recovery.plan(a_snapshot(running=running("d"))) == Plan()
    assert recovery.plan(a_snapshot()) == Plan()


def test_workers_are_told_to_register_only_once_slurmctld_believes_them() -> None:
    early = recovery.plan(revived(10, holding={"worker-1": ago(500)}))
    assert (early.actions, early.again_after_s) == ((), 15.0)
    assert calls(recovery.plan(revived(26, holding={"worker-1": ago(500)}))) == [RegisterAnew(pods=("worker-1",))]


def test_a_registration_just_after_the_start_does_not_count_and_a_later_one_does() -> None:
    soon, later = {"worker-0": ago(38)}, {"worker-0": ago(10)}
    assert calls(recovery.plan(revived(40, holding=soon))) == [RegisterAnew(pods=("worker-0",))]
    assert calls(recovery.plan(revived(40, holding=later))) == []


def test_a_reconfigure_makes_slurmctld_forget_since_when_it_knows_its_jobs() -> None:
    later = recovery.plan(revived(40, loaded_s=5, holding={"worker-0": ago(500)}))
    assert (later.actions, later.again_after_s) == ((), 20.0)


def test_a_worker_that_registers_by_itself_by_now_is_left_in_peace() -> None:
    assert recovery.plan(revived(601, holding={"worker-0": ago(5000)})) == Plan()


def test_who_is_no_ready_worker_of_ours_is_not_told() -> None:
    seen = revived(60, holding={"elsewhere-0": ago(500), "worker-9": ago(500)})
    seen = msgspec.structs.replace(seen, holders=(*seen.holders, a_worker("worker-9", ready=False)))
    assert calls(recovery.plan(seen)) == []


def test_records_of_lost_jobs_are_closed_and_people_are_told_which() -> None:
    plan = recovery.plan(revived(60, lost=("17", "18")))
    assert calls(plan) == [CloseRecords(pod="demo-controller-0")]
    told = [action for action in plan.actions if isinstance(action, EmitEvent)]
    assert [one.reason for one in told] == ["RecordsClosed"]
    assert "jobs 17, 18" in told[0].message


def test_records_count_only_when_slurmctld_has_told_slurmdbd_what_it_kept_for_it() -> None:
    early = revived(40, lost=("17",))
    assert recovery.plan(early) == Plan(again_after_s=20.0)
    back = msgspec.structs.replace(revived(300, lost=("17",)), accounting=an_accounting(ready_s=50))
    assert recovery.plan(back) == Plan(again_after_s=10.0)


def test_while_slurmdbd_does_not_say_it_is_asked_again_if_it_is_up() -> None:
    unsaid = revived(60, lost=None)
    assert recovery.plan(unsaid) == Plan(again_after_s=recovery.ASK_AGAIN_S)
    for accounting in (None, an_accounting(ready=False)):
        assert recovery.plan(msgspec.structs.replace(unsaid, accounting=accounting)) == Plan()


@pytest.mark.parametrize(
    ("came_back_s", "said", "as_of_s", "unfinished"),
    [
        (24, {"lost": None}, 20, False),  # there is nothing to look at yet
        (30, {"lost": ()}, 1, False),
        (30, {"lost": ()}, 10, True),  # asked before slurmctld would believe a slurmd
        (30, {"lost": None}, 1, False),  # slurmdbd's turn comes later
        (61, {"lost": ()}, 5, True),
        (61, {"lost": ()}, 0, False),
        (61, {"lost": ("17",)}, 0, True),
        (61, {"lost": None}, 0, True),
        (30, {"lost": (), "holding": {"worker-0": ago(500)}}, 1, True),
        (30, {"lost": (), "holding": {"worker-0": ago(3)}}, 1, False),
    ],
)
def test_an_answer_counts_until_something_is_left_to_mend(
    came_back_s: float, said: dict[str, Any], as_of_s: float, unfinished: bool
) -> None:
    seen = revived(came_back_s, **said)
    assert seen.running is not None
    running_then = msgspec.structs.replace(seen.running, as_of=ago(as_of_s))
    assert recovery.is_unfinished(seen, running_then) is unfinished


def test_a_slurmctld_that_lost_its_state_hears_all_workers_of_before_at_once() -> None:
    plan = recovery.plan(begun(3))
    assert calls(plan) == [RegisterAnew(pods=("worker-1", "worker-2"))]
    assert "with an empty state at 23:59:57: Corral makes worker-1, worker-2 register again" in str(plan.actions[-1])


def test_a_worker_that_came_with_or_after_an_empty_slurmctld_registers_by_itself() -> None:
    seen = msgspec.structs.replace(begun(60), holders=(a_worker("worker-1", ready_s=59), a_worker("w", ready=False)))
    assert recovery.plan(seen) == Plan()


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        ("Drain", "bad DIMM [root@2026-11-01T10:00:00Z]", False),
        ("Drain", "Low on coolant [root@2026-11-01T10:00:00Z] [slurm@2026-11-02T10:00:00Z]", False),
        ("Missing", "bad DIMM [root@2026-11-01T10:00:00Z]", True),
        ("Drain", "corral: scale-in of NodeSet lab/gpu [slurm@2026-11-01T10:00:00Z]", True),
        ("Drain", "Low CPUs [slurm@2026-11-01T10:00:00Z]", True),
        ("Idle", "was drained once", True),
    ],
)
def test_whom_somebody_has_drained_registers_when_its_nodeset_knows_of_the_loss(
    kind: str, words: str, told: bool
) -> None:
    drained = showing(a_worker("worker-1"), kind, words)
    seen = msgspec.structs.replace(begun(3), holders=(drained, a_worker("worker-2")))
    found = recovery.plan(seen)
    assert calls(found) == [RegisterAnew(pods=("worker-1", "worker-2") if told else ("worker-2",))]
    assert found.again_after_s == (None if told else recovery.SHOWN_WITHIN_S)
    alone = msgspec.structs.replace(seen, holders=(drained,))
    assert alone.running is not None
    assert recovery.is_unfinished(alone, alone.running) is told, "slurmctld has nothing new to say of it"


def test_records_of_a_lost_state_are_closed_without_waiting_since_slurmctld_has_kept_nothing() -> None:
    known = frozenset({"worker-0", "worker-1", "worker-2"})
    assert calls(recovery.plan(begun(3, known=known, lost=("17",)))) == [CloseRecords(pod="demo-controller-0")]
    unsaid = begun(3, known=known, lost=None)
    assert recovery.plan(unsaid) == Plan(again_after_s=recovery.ASK_AGAIN_S)
    for accounting in (None, an_accounting(ready=False)):
        assert recovery.plan(msgspec.structs.replace(unsaid, accounting=accounting)) == Plan()


@pytest.mark.parametrize(
    ("said", "as_of_s", "unfinished"),
    [
        ({"known": frozenset({"worker-0", "worker-1", "worker-2"})}, 1, False),
        ({}, 1, True),  # two workers are strangers
        ({"known": frozenset({"worker-0", "worker-1", "worker-2"}), "lost": ("17",)}, 1, True),
        ({"known": frozenset({"worker-0", "worker-1", "worker-2"}), "lost": None}, 1, True),
        ({"known": frozenset({"worker-0", "worker-1", "worker-2"})}, 60, True),  # asked before slurmdbd was there
    ],
)
def test_an_answer_of_an_empty_slurmctld_counts_until_something_is_left_to_mend(
    said: dict[str, Any], as_of_s: float, unfinished: bool
) -> None:
    seen = msgspec.structs.replace(begun(90, **said), accounting=an_accounting(ready_s=30))
    assert seen.running is not None
    running_then = msgspec.structs.replace(seen.running, as_of=ago(as_of_s))
    assert recovery.is_unfinished(seen, running_then) is unfinished
