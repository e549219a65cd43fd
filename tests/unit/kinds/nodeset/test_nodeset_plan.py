"""What a NodeSet decides: a snapshot in, a plan out."""

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from corral.engine import Create, Delete, EmitEvent, Outcome, Outside, Plan, RemoveFinalizer, summary
from corral.kinds.nodeset.calls import Drain, Forget, Undrain
from corral.kinds.nodeset.making import BURST_MAX
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.report import report
from corral.kinds.nodeset.snapshot import SLURM_REACHABLE, Snapshot
from corral.kinds.parts import External
from corral.kube.meta import Condition
from corral.kube.models.core_v1 import ContainerState, ContainerStateWaiting, Pod, PodCondition
from tests.unit.kinds.nodeset.builders import NOW, OURS, SLURM, UNKNOWN, AWorker, a_snapshot, a_worker

DRAINED = "IDLE+DRAIN"


def made(decided: Plan) -> list[str]:
    return [action.object.metadata.name for action in decided.actions if isinstance(action, Create)]


def deleted(decided: Plan) -> list[str]:
    return [action.target.name for action in decided.actions if isinstance(action, Delete)]


def calls(decided: Plan) -> list[object]:
    return [action.call for action in decided.actions if isinstance(action, Outside)]


def drains(decided: Plan) -> list[str]:
    return [call.node for call in calls(decided) if isinstance(call, Drain)]


def reasons(decided: Plan) -> list[str]:
    return [wait.reason for wait in decided.waits]


# --- more workers


def test_missing_workers_are_made_lowest_ordinal_first() -> None:
    decided = plan(a_snapshot(a_worker(1), replicas=4))
    assert made(decided) == ["gpu-0", "gpu-2", "gpu-3"]


def test_no_more_than_a_burst_is_made_in_one_pass() -> None:
    assert len(made(plan(a_snapshot(replicas=BURST_MAX + 1)))) == BURST_MAX


def test_an_override_that_cannot_be_read_makes_no_pod_and_is_told_with_its_field() -> None:
    snapshot = a_snapshot(replicas=1)
    spec = msgspec.structs.replace(snapshot.object.spec, slurmd={"imagePolicy": "Always"})
    decided = plan(msgspec.structs.replace(snapshot, object=msgspec.structs.replace(snapshot.object, spec=spec)))
    (wait,) = [wait for wait in decided.waits if wait.stalled]
    assert [one for one in decided.actions if isinstance(one, Create) and isinstance(one.object, Pod)] == []
    assert wait.reason == "BadOverride"
    assert "imagePolicy" in wait.message


def test_workers_that_are_all_there_leave_nothing_to_do() -> None:
    assert plan(a_snapshot(a_worker(0), a_worker(1), replicas=2)) == Plan()


def test_a_pod_that_is_ending_is_waited_for_and_not_made_twice() -> None:
    decided = plan(a_snapshot(a_worker(0, leaving=True), replicas=1))
    assert made(decided) == []
    assert reasons(decided) == ["ChildBeingDeleted"]


def test_a_pod_that_has_ended_is_replaced_even_while_slurm_does_not_answer() -> None:
    decided = plan(a_snapshot(a_worker(0, phase="Failed", jobs=UNKNOWN), replicas=1))
    assert deleted(decided) == ["gpu-0"]


def test_workers_are_made_while_slurm_does_not_answer() -> None:
    decided = plan(a_snapshot(a_worker(0, jobs=UNKNOWN), replicas=2))
    assert made(decided) == ["gpu-1"]
    assert reasons(decided) == ["SlurmUnreachable"]


def test_a_ready_pod_that_slurm_does_not_know_is_waited_for() -> None:
    assert reasons(plan(a_snapshot(a_worker(0, registered=False)))) == ["WorkersNotRegistered"]


def test_a_ready_pod_that_slurm_has_lost_is_made_again() -> None:
    lost = a_worker(0, registered=False, runs_s=600)
    decided = plan(a_snapshot(lost, a_worker(1), replicas=2))
    assert (calls(decided), deleted(decided)) == ([Forget(node="gpu-0")], ["gpu-0"])
    just_back = plan(a_snapshot(lost, a_worker(1), replicas=2, answers_s=30))
    assert (just_back.actions, reasons(just_back)) == ((), ["WorkersNotRegistered"])
    assert just_back.again_after_s is not None


def lost_for(ordinal: int, since_s: float) -> AWorker:
    """Slurm had a record of it, which was seen to be gone so long ago."""
    worker = a_worker(ordinal, registered=False, runs_s=9000)
    assert worker.pod is not None
    at = NOW - timedelta(seconds=since_s)
    missing = PodCondition(type="SlurmNodeStateMissing", status="True", last_transition_time=at)
    conditions = (*worker.pod.status.conditions, missing)
    return replace(worker, pod=replace(worker.pod, status=replace(worker.pod.status, conditions=conditions)))


def test_one_that_slurm_has_lost_is_first_left_to_the_controller_which_tells_all_to_register_anew() -> None:
    assert deleted(plan(a_snapshot(lost_for(0, 130)))) == ["gpu-0"]
    just_now = plan(a_snapshot(lost_for(0, 100)))
    assert (just_now.actions, reasons(just_now)) == ((), ["WorkersNotRegistered"])
    many = [lost_for(n, 130) for n in range(1000)]
    being_told = plan(a_snapshot(*many, replicas=1000))
    assert (being_told.actions, reasons(being_told)) == ((), ["WorkersNotRegistered"])
    assert being_told.again_after_s is not None
    assert deleted(plan(a_snapshot(*(lost_for(n, 230) for n in range(1000)), replicas=1000)))


def test_without_its_controller_a_nodeset_waits_and_touches_nothing() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1), replicas=1, controller=None))
    assert (decided.actions, reasons(decided)) == ((), ["ControllerMissing"])


def test_a_suspended_nodeset_changes_nothing() -> None:
    assert plan(a_snapshot(a_worker(0), a_worker(1), replicas=5, suspend=True)) == Plan()


def test_a_suspended_nodeset_that_is_deleted_goes_as_any_other_and_says_what_it_waits_for() -> None:
    held = a_snapshot(a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=(7,)), suspend=True, deleted=True)
    assert reasons(plan(held)) == ["Draining"]
    ready = next(one for one in report(held, Outcome(plan=plan(held))).conditions if one.type == "Ready")
    assert ready.reason == "Draining"
    (leave,) = plan(a_snapshot(suspend=True, deleted=True)).actions
    assert isinstance(leave, RemoveFinalizer)


# --- fewer workers


def test_scale_in_drains_with_a_reason_that_is_ours_before_anything_else() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1), replicas=1))
    assert calls(decided) == [Drain(node="gpu-1", reason=OURS)]
    assert deleted(decided) == []
    assert any(isinstance(action, EmitEvent) for action in decided.actions)


def test_a_draining_worker_is_waited_for_with_its_jobs_and_their_end() -> None:
    until = datetime(2026, 11, 16, 3, 30, tzinfo=UTC)
    busy = a_worker(1, state="MIXED+DRAIN", reason=OURS, jobs=(12, 17), until=until)
    decided = plan(a_snapshot(a_worker(0), busy, replicas=1))
    assert decided.is_empty
    (wait,) = decided.waits
    assert str(wait) == "gpu-1: draining, jobs 12, 17 run until 2026-11-16T03:30Z at the latest (Draining)"


def test_a_job_without_a_time_limit_is_said_to_have_none() -> None:
    busy = a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=(12,), limit_s=math.inf)
    (wait,) = plan(a_snapshot(busy, replicas=0)).waits
    assert wait.message == "gpu-0: draining, job 12 runs without a time limit"


def test_a_drained_worker_is_forgotten_by_slurm_and_then_its_pod_goes() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1, state=DRAINED, reason=OURS), replicas=1))
    forget, delete = decided.actions
    assert isinstance(forget, Outside)
    assert forget.call == Forget(node="gpu-1")
    assert isinstance(delete, Delete)
    assert (delete.target.uid, delete.target.resource_version) == ("uid-gpu-1", "5")


def test_a_drained_node_with_a_job_in_the_list_of_jobs_is_not_removed() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1, state=DRAINED, reason=OURS, jobs=(5,)), replicas=1))
    assert (decided.is_empty, reasons(decided)) == (True, ["Draining"])


def test_an_old_answer_removes_nothing() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1, state=DRAINED, reason=OURS), replicas=1, age_s=60))
    assert (decided.actions, reasons(decided)) == ((), ["SlurmUnreachable"])


def test_nothing_is_removed_or_drained_while_slurm_does_not_answer() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1, jobs=UNKNOWN), replicas=0))
    assert decided.actions == ()
    assert "connection refused" in decided.waits[0].message


def test_a_state_that_we_cannot_read_keeps_the_worker() -> None:
    decided = plan(a_snapshot(a_worker(0, state="QUANTUM"), replicas=0))
    assert (decided.actions, reasons(decided)) == ((), ["WorkerUnknown"])


def test_idle_workers_go_before_busy_ones_whatever_their_ordinal() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1, state="MIXED", jobs=(4,)), replicas=1))
    assert drains(decided) == ["gpu-0"]


def test_a_worker_that_slurm_does_not_know_goes_first_but_slurm_is_told_all_the_same() -> None:
    for absent in (a_worker(0, registered=False, runs_s=600), a_worker(0, registered=False, phase="Pending")):
        decided = plan(a_snapshot(absent, a_worker(1), replicas=1))
        assert (calls(decided), deleted(decided)) == ([Forget(node="gpu-0")], ["gpu-0"])


def test_a_worker_that_may_register_at_any_moment_is_not_removed_before_it_has() -> None:
    decided = plan(a_snapshot(a_worker(0, registered=False, runs_s=3), a_worker(1), replicas=1))
    assert (decided.actions, reasons(decided)) == ((), ["WorkerArriving"])
    assert decided.again_after_s is not None


def starting(said: str, *, made_s: float = 5, node: str = "n1", phase: str = "Pending") -> AWorker:
    """On a Kubernetes node, and kubelet says of its slurmd no more than this: empty is nothing."""
    worker = a_worker(0, registered=False, phase=phase)
    assert worker.pod is not None
    state = ContainerState(waiting=ContainerStateWaiting(reason=said))
    told = tuple(msgspec.structs.replace(one, state=state) for one in worker.pod.status.container_statuses if said)
    pod = msgspec.structs.replace(
        worker.pod,
        metadata=msgspec.structs.replace(worker.pod.metadata, creation_timestamp=NOW - timedelta(seconds=made_s)),
        spec=msgspec.structs.replace(worker.pod.spec, node_name=node),
        status=msgspec.structs.replace(worker.pod.status, container_statuses=told),
    )
    return msgspec.structs.replace(worker, pod=pod)


@pytest.mark.parametrize("said", ["", "ContainerCreating", "PodInitializing"])
def test_kubelet_tells_of_a_start_after_it_so_what_it_is_about_to_start_may_have_registered(said: str) -> None:
    decided = plan(a_snapshot(starting(said), a_worker(1), replicas=1))
    assert (decided.actions, reasons(decided)) == ((), ["WorkerArriving"])


def test_a_record_of_an_earlier_life_is_no_proof_about_the_slurmd_that_has_just_started() -> None:
    old = a_worker(0, state="IDLE+DRAIN", reason=OURS, earlier_s=60)
    decided = plan(a_snapshot(old, a_worker(1), replicas=1))
    assert (decided.actions, reasons(decided)) == ((), ["WorkerArriving"])
    anew = a_worker(0, state="IDLE+DRAIN", reason=OURS)
    assert deleted(plan(a_snapshot(anew, a_worker(1), replicas=1))) == ["gpu-0"]


def test_a_drain_of_ours_on_a_record_of_an_earlier_life_is_lifted_when_its_slurmd_has_registered() -> None:
    assert calls(plan(a_snapshot(a_worker(0, state="IDLE+DRAIN", reason=OURS, earlier_s=60)))) == []
    assert calls(plan(a_snapshot(a_worker(0, state="IDLE+DRAIN", reason=OURS)))) == [Undrain(node="gpu-0")]


def test_so_is_one_on_a_record_that_still_has_the_job_which_that_life_lost() -> None:
    """As after a forced drain: given back too early, it would be given more jobs at an address where nobody is."""
    with_a_ghost = a_worker(0, state="MIXED+DRAIN", reason=OURS, earlier_s=60, jobs=(1,))
    assert calls(plan(a_snapshot(with_a_ghost))) == []
    assert calls(plan(a_snapshot(a_worker(0, state="MIXED+DRAIN", reason=OURS, jobs=(1,))))) == [Undrain(node="gpu-0")]


def test_a_slurmd_that_has_not_registered_in_its_time_is_not_waited_for_because_of_an_old_record() -> None:
    late = a_worker(0, state="IDLE+DRAIN", reason=OURS, runs_s=600, earlier_s=60)
    assert deleted(plan(a_snapshot(late, a_worker(1), replicas=1))) == ["gpu-0"]


@pytest.mark.parametrize(
    "safe",
    [
        starting("ImagePullBackOff"),
        starting("ContainerCreating", made_s=600),
        starting("", node=""),
        starting("", phase="Failed"),
    ],
    ids=["an image that is not there", "given up long ago", "on no node yet", "at its end"],
)
def test_a_worker_that_cannot_have_registered_goes_at_once(safe: AWorker) -> None:
    decided = plan(a_snapshot(safe, a_worker(1), replicas=1))
    assert deleted(decided) == ["gpu-0"]


def test_an_annotation_chooses_who_goes() -> None:
    decided = plan(a_snapshot(a_worker(0, cost="-5"), a_worker(1), a_worker(2), replicas=2))
    assert drains(decided) == ["gpu-0"]


def test_a_worker_that_drains_already_stays_the_chosen_one() -> None:
    draining = a_worker(0, state="ALLOCATED+DRAIN", reason=OURS, jobs=(1,))
    assert drains(plan(a_snapshot(draining, a_worker(1), replicas=1))) == []


def test_a_worker_that_may_stay_after_all_is_given_back() -> None:
    draining = a_worker(1, state="ALLOCATED+DRAIN", reason=OURS, jobs=(1,))
    decided = plan(a_snapshot(a_worker(0), draining, replicas=2))
    assert calls(decided) == [Undrain(node="gpu-1")]


def test_somebody_elses_drain_is_neither_lifted_nor_overwritten() -> None:
    bad_dimm = a_worker(0, state="MIXED+DRAIN", reason="bad DIMM", jobs=(1,))
    stays = plan(a_snapshot(bad_dimm, replicas=1))
    leaves = plan(a_snapshot(bad_dimm, replicas=0))
    assert stays.actions == leaves.actions == ()
    assert "bad DIMM" in leaves.waits[0].message


def test_a_node_that_somebody_else_has_drained_stays_with_its_drain_until_that_is_lifted() -> None:
    bad_dimm = a_worker(0, state=DRAINED, reason="bad DIMM")
    decided = plan(a_snapshot(bad_dimm, a_worker(1, state=DRAINED, reason=OURS), replicas=0))
    assert deleted(decided) == ["gpu-1"]
    assert reasons(decided) == ["DrainedBySomebodyElse"]
    assert "state=undrain" in decided.waits[0].message
    assert deleted(plan(a_snapshot(bad_dimm, deleted=True))) == ["gpu-0"]


def test_a_node_without_a_pod_that_nobody_wants_is_drained_and_forgotten() -> None:
    idle = a_worker(7, pod=False, state="DOWN+DYNAMIC_NORM")
    drained = a_worker(8, pod=False, state="DOWN+DRAIN+DYNAMIC_NORM", reason=OURS)
    decided = plan(a_snapshot(a_worker(0), idle, drained, replicas=1))
    assert calls(decided) == [Drain(node="gpu-7", reason=OURS), Forget(node="gpu-8")]


def test_a_machine_of_slurm_conf_that_is_called_like_a_worker_is_neither_drained_nor_forgotten() -> None:
    """As where slurmctld runs elsewhere, with nodes of its own that have the same feature."""
    static = [a_worker(7, pod=False, state="IDLE"), a_worker(8, pod=False, state="MIXED+CLOUD", jobs=(3,))]
    for deleted_too in (False, True):
        assert calls(plan(a_snapshot(a_worker(0), *static, replicas=1, deleted=deleted_too))) == (
            [Drain(node="gpu-0", reason="corral: deletion of NodeSet lab/gpu", spares_others=False)]
            if deleted_too
            else []
        )


# --- deletion


def test_deletion_drains_every_worker_first() -> None:
    decided = plan(a_snapshot(a_worker(0), a_worker(1, state="MIXED", jobs=(3,)), replicas=2, deleted=True))
    assert drains(decided) == ["gpu-0", "gpu-1"]
    assert deleted(decided) == []


def test_deletion_ends_when_no_pod_and_no_node_is_left() -> None:
    (leave,) = plan(a_snapshot(deleted=True)).actions
    assert isinstance(leave, RemoveFinalizer)
    assert "no pods and no known Slurm nodes are left" in summary(leave)


def test_deletion_waits_while_slurm_does_not_answer() -> None:
    decided = plan(a_snapshot(a_worker(0, jobs=UNKNOWN), deleted=True))
    assert (decided.actions, reasons(decided)) == ((), ["SlurmUnreachable"])
    assert "kubectl -n lab delete pod -l slurm.corral.dev/nodeset=gpu" in decided.waits[0].message


def test_deletion_ends_without_slurm_when_a_person_has_deleted_the_pods() -> None:
    unanswered = a_snapshot(a_worker(0, jobs=UNKNOWN, pod=False), deleted=True)
    (leave,) = plan(unanswered).actions
    assert isinstance(leave, RemoveFinalizer)


def with_slurm_elsewhere(snapshot: Snapshot) -> Snapshot:
    """As an earlier pass has noted it, when there was a Controller."""
    elsewhere = External(host="slurm.example", port=6817)
    theirs = replace(SLURM, spec=replace(SLURM.spec, external=elsewhere))
    status = report(replace(snapshot, controller=theirs), Outcome(plan=Plan()))
    return replace(snapshot, object=replace(snapshot.object, status=status))


def test_with_a_slurmctld_elsewhere_workers_outlive_their_controller_and_people_are_told_what_to_do() -> None:
    orphaned = with_slurm_elsewhere(a_snapshot(a_worker(0, jobs=UNKNOWN), deleted=True, controller=None))
    decided = plan(orphaned)
    (wait,) = decided.waits
    assert (decided.actions, wait.reason, wait.stalled) == ((), "ControllerMissing", True)
    assert "create the Controller again" in wait.message
    assert "kubectl -n lab delete pod -l slurm.corral.dev/nodeset=gpu" in wait.message
    assert report(orphaned, Outcome(plan=decided)).external
    (leave,) = plan(with_slurm_elsewhere(a_snapshot(deleted=True, controller=None))).actions
    assert isinstance(leave, RemoveFinalizer)


def test_while_a_slurmctld_elsewhere_is_silent_nobody_is_told_to_delete_the_controller() -> None:
    (wait,) = plan(with_slurm_elsewhere(a_snapshot(a_worker(0, jobs=UNKNOWN), deleted=True))).waits
    assert "Controller is deleted" not in wait.message


def test_deletion_waits_for_pods_that_are_ending() -> None:
    decided = plan(a_snapshot(a_worker(0, leaving=True, registered=False), deleted=True))
    assert (decided.actions, reasons(decided)) == ((), ["PodsGoing"])


def test_a_deletion_without_pods_waits_for_slurm_for_a_while_if_it_had_nodes_when_it_answered_last() -> None:
    def silent_for(silent_s: float) -> Plan:
        unanswered = a_snapshot(a_worker(0, jobs=UNKNOWN, pod=False), deleted=True)
        since = unanswered.now - timedelta(seconds=silent_s)
        silent = Condition(type=SLURM_REACHABLE, status="False", reason="x", last_transition_time=since)
        said = msgspec.structs.replace(unanswered.object.status, down=1, conditions=(silent,))
        return plan(msgspec.structs.replace(unanswered, object=msgspec.structs.replace(unanswered.object, status=said)))

    assert (silent_for(30).actions, reasons(silent_for(30))) == ((), ["SlurmUnreachable"])
    assert [type(action).__name__ for action in silent_for(301).actions] == ["RemoveFinalizer"]
