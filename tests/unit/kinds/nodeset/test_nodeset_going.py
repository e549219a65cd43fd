"""Pods that go without Corral: what becomes of their node, of their jobs, and of those that do not end."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from corral.engine import NOTHING, Delete, EmitEvent, Outcome, Outside, OutsideFailed, Plan, Result
from corral.kinds.controller.shell import Answer
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.calls import Drain, End, Forget, Undrain
from corral.kinds.nodeset.ending import ended
from corral.kinds.nodeset.going import hanging
from corral.kinds.nodeset.looks import end_wait, stepped
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.warned import Warned
from corral.kube.errors import ServerError, Subject, Unreachable
from corral.kube.meta import EMPTY
from corral.kube.models.core_v1 import Container
from tests.unit.kinds.nodeset.builders import NOW, UNKNOWN, AWorker, a_snapshot, a_worker, deleted_ago, told_of
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains, reasons

GOING = "corral: loss of its pod of NodeSet lab/gpu"
DELETED = "corral: deletion of NodeSet lab/gpu"
FREED = a_worker(0, state="IDLE+DRAIN", reason=GOING, runs_s=900)
FORGOTTEN = a_worker(0, registered=False, runs_s=900)
SOMEBODYS = a_worker(0, state="IDLE+DRAIN", reason="bad DIMM", runs_s=900)
IDLE = {"gpu-0": ()}


def looked_into(
    worker: AWorker, steps: Mapping[str, tuple[str, ...]] = IDLE, *, is_deleted: bool = False, **more: object
) -> Snapshot:
    return replace(a_snapshot(worker, deleted=is_deleted), steps=steps, **more)


def ended_soon(decided: Plan) -> list[tuple[str, int | None]]:
    return [(one.target.name, one.grace_period_s) for one in decided.actions if isinstance(one, Delete)]


def busy_until(worker: AWorker, at: datetime) -> AWorker:
    assert worker.node is not None
    return replace(worker, node=replace(worker.node, busy_until=at))


# --- its node


@pytest.mark.parametrize("how", [{"leaving": True}, {"phase": "Failed"}], ids=["somebody deletes it", "it has ended"])
def test_a_pod_that_goes_without_us_is_given_no_more_jobs_until_the_next_one_is_ready(how: dict[str, Any]) -> None:
    for going in (a_worker(0, **how), a_worker(0, state="MIXED", jobs=(7,), **how)):
        assert calls(plan(a_snapshot(going))) == [Drain(node="gpu-0", reason=GOING)]
    for state, reason in (("IDLE+DRAIN", "bad DIMM"), ("DOWN", "smoke"), ("IDLE+DRAIN", GOING)):
        assert drains(plan(a_snapshot(a_worker(0, state=state, reason=reason, **how)))) == []
    assert drains(plan(a_snapshot(a_worker(0, jobs=UNKNOWN, **how)))) == []
    next_one = a_worker(0, state="IDLE+DRAIN", reason=GOING)
    assert calls(plan(a_snapshot(next_one))) == [Undrain(node="gpu-0")]
    not_registered = a_worker(0, state="IDLE+DRAIN", reason=GOING, earlier_s=600)
    assert calls(plan(a_snapshot(not_registered))) == []


def test_also_in_a_deletion_a_pod_that_somebody_deletes_is_given_no_more_jobs() -> None:
    """As in one in the foreground, where all pods are deleted at once: other partitions may have its node too."""
    for going in (a_worker(0), a_worker(0, state="MIXED", jobs=(7,))):
        assert calls(plan(a_snapshot(deleted_ago(going, 1), deleted=True))) == [Drain(node="gpu-0", reason=DELETED)]


# --- it does not end


@pytest.mark.parametrize("is_deleted", [False, True], ids=["the NodeSet stays", "the NodeSet goes"])
@pytest.mark.parametrize("free", [FREED, FORGOTTEN], ids=["drained", "forgotten"])
def test_a_pod_that_was_deleted_has_no_job_and_does_not_end_is_given_no_more_time(
    free: AWorker, is_deleted: bool
) -> None:
    decided = plan(looked_into(deleted_ago(free, 61), is_deleted=is_deleted))
    assert calls(decided) == [Forget(node="gpu-0", spares_others=not is_deleted), End(pod="gpu-0")]
    assert ended_soon(decided) == [("gpu-0", 30)]


@pytest.mark.parametrize(
    "going",
    [
        deleted_ago(FREED, 59),
        deleted_ago(FREED, 61, grace_s=30),
        deleted_ago(a_worker(0, state="MIXED+DRAIN", reason=GOING, jobs=(7,)), 9000),
        deleted_ago(SOMEBODYS, 9000),
        deleted_ago(a_worker(0, jobs=UNKNOWN), 9000),
        deleted_ago(busy_until(FREED, NOW - timedelta(seconds=59)), 9000),
    ],
    ids=["not long ago", "has little time anyway", "waits for its job", "somebody's", "nobody knows", "just had a job"],
)
def test_another_pod_that_was_deleted_is_left_to_end(going: AWorker) -> None:
    assert deleted(plan(looked_into(going))) == []


def test_its_time_to_end_counts_from_its_last_job_and_nobody_is_told_that_it_waits_meanwhile() -> None:
    just_ended = deleted_ago(busy_until(FREED, NOW - timedelta(seconds=5)), 3600)
    decided = plan(looked_into(just_ended))
    assert (deleted(decided), "PodWaitsForJobs" in reasons(decided)) == ([], False)
    assert decided.again_after_s == 55
    assert hanging(looked_into(just_ended)) == []
    long_ago = deleted_ago(busy_until(FREED, NOW - timedelta(seconds=61)), 3600)
    assert deleted(plan(looked_into(long_ago))) == ["gpu-0"]


def test_so_it_does_from_the_last_step_that_a_look_saw_where_slurm_has_lost_its_records() -> None:
    lost = deleted_ago(FORGOTTEN, 3600)
    just_now = plan(looked_into(lost, stepped_at={"gpu-0": NOW - timedelta(seconds=20)}))
    assert (deleted(just_now), "PodWaitsForJobs" in reasons(just_now), just_now.again_after_s) == ([], False, 40)
    assert deleted(plan(looked_into(lost, stepped_at={"gpu-0": NOW - timedelta(seconds=61)}))) == ["gpu-0"]


def test_what_looks_saw_is_remembered_for_as_long_as_they_go_on() -> None:
    earlier = NOW - timedelta(minutes=1)
    seen = stepped(EMPTY, ["gpu-0", "gpu-1"], {"gpu-0": ("7.batch",), "gpu-1": ()}, earlier)
    assert seen == {"gpu-0": earlier}
    assert stepped(seen, ["gpu-0", "gpu-1"], {"gpu-1": ("8.batch",)}, NOW) == {"gpu-0": earlier, "gpu-1": NOW}
    assert stepped(seen, ["gpu-1"], {}, NOW) == {}


@pytest.mark.parametrize("going", [FREED, FORGOTTEN, SOMEBODYS], ids=["drained", "forgotten", "somebody's"])
@pytest.mark.parametrize("steps", [{}, {"gpu-0": ("7.batch",)}], ids=["it does not say", "steps run there"])
def test_none_is_cut_off_that_was_not_seen_to_run_no_step_in_a_deletion_neither(
    going: AWorker, steps: Mapping[str, tuple[str, ...]]
) -> None:
    for is_deleted in (False, True):
        decided = plan(looked_into(deleted_ago(going, 3600), steps, is_deleted=is_deleted))
        assert (deleted(decided), calls(decided)) == ([], [])
        (wait,) = [one for one in decided.waits if one.reason == "PodWaitsForJobs"]
        assert "kubectl exec -n lab gpu-0 -c slurmd -- /usr/libexec/corral/slurmd-leave now" in wait.message
        assert ("7.batch" in wait.message) is bool(steps)


def test_what_somebody_drained_is_looked_into_before_a_deletion_cuts_it_off() -> None:
    theirs = deleted_ago(SOMEBODYS, 61)
    assert [worker.name for worker in hanging(a_snapshot(theirs, deleted=True))] == ["gpu-0"]
    assert hanging(a_snapshot(theirs)) == []
    assert ended_soon(plan(looked_into(theirs, is_deleted=True))) == [("gpu-0", 30)]
    assert "bad DIMM" in " ".join(one.message for one in plan(looked_into(theirs)).waits)


def test_a_look_that_said_nothing_is_soon_repeated() -> None:
    assert plan(looked_into(deleted_ago(FREED, 3600), {})).again_after_s == 20


def test_a_pod_that_was_deleted_is_looked_at_again_when_its_time_is_over() -> None:
    assert plan(a_snapshot(deleted_ago(FREED, 5))).again_after_s == 55


# --- force


def held(drained_s: float, *, jobs: tuple[int, ...] = (7, 8), reason: str = GOING) -> AWorker:
    worker = a_worker(0, state="MIXED+DRAIN", reason=reason, jobs=jobs)
    assert worker.node is not None
    at = NOW - timedelta(seconds=drained_s)
    return deleted_ago(replace(worker, node=replace(worker.node, reason_at=at)), drained_s)


def within(limit_s: int, worker: AWorker, *, is_deleted: bool = False, told: Warned | None = None) -> Plan:
    snapshot = replace(a_snapshot(worker, deleted=is_deleted), warned={"uid-gpu-0": told} if told is not None else {})
    spec = replace(snapshot.object.spec, force_drain_after_seconds=limit_s)
    return plan(replace(snapshot, object=replace(snapshot.object, spec=spec)))


def warnings(found: Plan, reason: str) -> list[str]:
    return [one.message for one in found.actions if isinstance(one, EmitEvent) and one.reason == reason]


@pytest.mark.parametrize(("reason", "is_deleted"), [(GOING, False), (DELETED, True)])
def test_one_that_somebody_deleted_is_hurried_as_others_are_and_its_jobs_are_named(
    reason: str, is_deleted: bool
) -> None:
    over = within(600, held(601, reason=reason), is_deleted=is_deleted, told=told_of(7, 8))
    assert (calls(over), ended_soon(over)) == ([End(pod="gpu-0")], [("gpu-0", 30)])
    assert [type(one) for one in over.actions] == [Outside, EmitEvent, Delete]
    (told,) = warnings(over, "JobsKilled")
    assert "running jobs: 7, 8" in told
    first = told_of(7, 8, ago_s=400, left_s=200)
    soon = within(600, held(400, reason=reason), is_deleted=is_deleted, told=first)
    assert (deleted(soon), len(warnings(soon, "JobsToBeKilled"))) == ([], 1)
    assert soon.again_after_s is not None
    assert soon.again_after_s <= 201


def test_people_are_warned_when_somebody_deletes_a_busy_one() -> None:
    begins = within(600, deleted_ago(a_worker(0, state="MIXED", jobs=(7,)), 1))
    assert drains(begins) == ["gpu-0"]
    (told,) = warnings(begins, "JobsToBeKilled")
    assert "at 2026-11-16T02:10:00Z" in told
    assert "running job: 7" in told


def test_without_their_word_or_with_somebodys_drain_nobody_is_hurried() -> None:
    assert deleted(plan(a_snapshot(held(9000)))) == []
    assert deleted(within(600, held(9000, reason="bad DIMM"), told=told_of(7, 8))) == []


def test_one_that_is_being_ended_already_is_not_ended_again() -> None:
    worker = held(601)
    assert deleted(within(600, deleted_ago(worker, 1, grace_s=30), told=told_of(7, 8))) == []


# --- kubelet heeds no shorter time once it ends a pod


def with_others(worker: AWorker, *, own_grace_s: int | None = None, is_sidecar: bool = False) -> AWorker:
    """With a container of people's own; and as all workers are, with time to wait for their jobs."""
    pod = worker.pod
    assert pod is not None
    theirs = Container(name="log-shipper", restart_policy="Always" if is_sidecar else None)
    spec = replace(pod.spec, termination_grace_period_seconds=own_grace_s or GRACE_S)
    with_theirs = {"init_containers": (theirs,)} if is_sidecar else {"containers": (*spec.containers, theirs)}
    return replace(worker, pod=replace(pod, spec=replace(spec, **with_theirs)))


DRAINED = a_worker(0, state="IDLE+DRAIN", reason="corral: scale-in of NodeSet lab/gpu")


@pytest.mark.parametrize(
    ("worker", "grace_s"),
    [
        (DRAINED, None),
        (with_others(DRAINED), 30),
        (with_others(DRAINED, is_sidecar=True), 30),
        (with_others(DRAINED, own_grace_s=90), None),
    ],
    ids=["slurmd alone", "others", "a sidecar", "with a time of theirs"],
)
def test_one_that_may_be_deaf_to_its_term_does_not_get_a_year_to_end(worker: AWorker, grace_s: int | None) -> None:
    assert ended_soon(plan(a_snapshot(worker, replicas=0))) == [("gpu-0", grace_s)]


def the_wait(found: Plan, reason: str) -> str:
    (wait,) = [one for one in found.waits if one.reason == reason]
    return wait.message


LEAVE_NOW = "kubectl exec -n lab gpu-0 -c slurmd -- /usr/libexec/corral/slurmd-leave now"
HOLDS_7 = a_worker(0, state="MIXED+DRAIN", reason=GOING, jobs=(7,))


def test_one_that_does_not_end_in_its_time_is_told_with_what_to_do() -> None:
    def decided(ago_s: float, worker: AWorker = FORGOTTEN) -> Plan:
        return plan(a_snapshot(deleted_ago(with_others(worker, own_grace_s=30), ago_s, grace_s=30)))

    assert ("PodStuck" in reasons(decided(89)), decided(89).again_after_s) == (False, 1)
    message = the_wait(decided(91), "PodStuck")
    assert ("the kubelet is restarted" in message, LEAVE_NOW in message) == (True, False)
    message = the_wait(decided(91, HOLDS_7), "PodStuck")
    assert "job 7 runs" in message
    assert LEAVE_NOW in message


# --- somebody deletes it a second time, with less time, which kubelet does not heed


def test_one_that_waits_does_so_too_when_it_is_given_less_time_later() -> None:
    for ago_s, grace_s in ((3600, 30), (62, 1)):  # as an older Kubernetes tells it, and a newer one
        message = the_wait(plan(a_snapshot(deleted_ago(HOLDS_7, ago_s, grace_s=grace_s))), "PodWaitsForJobs")
        assert "job 7 runs" in message
        assert LEAVE_NOW in message
    over = within(600, deleted_ago(held(601), 601, grace_s=30), told=told_of(7, 8))
    assert (calls(over), ended_soon(over)) == ([End(pod="gpu-0")], [("gpu-0", 30)])
    assert ended_soon(plan(looked_into(deleted_ago(FREED, 3600, grace_s=30)))) == [("gpu-0", 30)]


def test_one_that_was_given_little_time_is_let_end_in_it_first() -> None:
    for ago_s, is_held, again_s in ((89, False, 1), (90, True, 20)):
        found = plan(a_snapshot(deleted_ago(HOLDS_7, ago_s, grace_s=30)))
        assert ("PodWaitsForJobs" in reasons(found), "PodStuck" in reasons(found)) == (is_held, False)
        assert found.again_after_s == again_s


def test_one_whose_wait_was_ended_is_not_ended_again_and_told_if_it_is_still_there() -> None:
    idle = looked_into(deleted_ago(FREED, 3600))
    results = tuple(Result(action=one, state="done") for one in plan(idle).actions)
    known = ended(idle, Outcome(plan=plan(idle), results=results))
    assert known == {"uid-gpu-0": NOW}
    cut = replace(looked_into(deleted_ago(FREED, 3600, grace_s=30)), ended=known)
    assert (deleted(plan(cut)), hanging(cut), plan(cut).again_after_s) == ([], [], 60)
    assert reasons(plan(cut)) == ["ChildBeingDeleted"]
    late = replace(cut, ended={"uid-gpu-0": NOW - timedelta(seconds=61)})
    assert (deleted(plan(late)), reasons(plan(late))) == ([], ["ChildBeingDeleted", "PodStuck"])
    assert ended(cut, Outcome(plan=NOTHING)) == known
    assert ended(a_snapshot(FREED), Outcome(plan=NOTHING)) == {}


def test_the_end_of_a_wait_that_failed_or_a_first_deletion_ends_none() -> None:
    idle = looked_into(deleted_ago(FREED, 3600))
    failed = tuple(Result(action=one, state="failed") for one in plan(idle).actions)
    assert ended(idle, Outcome(plan=plan(idle), results=failed)) == {}
    first = a_snapshot(DRAINED, replicas=0)
    results = tuple(Result(action=one, state="done") for one in plan(first).actions)
    assert deleted(plan(first)) == ["gpu-0"]
    assert ended(first, Outcome(plan=plan(first), results=results)) == {}


async def test_its_wait_is_ended_from_within_and_a_container_that_has_ended_waits_for_nothing() -> None:
    asked: list[tuple[str, ...]] = []

    class Shell:
        async def run(self, namespace: str, pod: str, command: tuple[str, ...], **_: object) -> Answer:
            asked.append((namespace, pod, *command))
            subject = Subject("exec", "Pod", namespace, pod)
            if pod == "ended":
                raise ServerError(subject, 'container not found ("slurmd")', status=500)
            if pod == "mute":
                raise Unreachable(subject, "its kubelet does not answer")
            return Answer(127 if pod == "other" else 0, b"", b"no such program")

    await end_wait(Shell(), "lab", "gpu-0")
    assert asked == [("lab", "gpu-0", "/usr/libexec/corral/slurmd-leave", "now")]
    await end_wait(Shell(), "lab", "ended")
    for pod in ("mute", "other"):
        with pytest.raises(OutsideFailed) as failed:
            await end_wait(Shell(), "lab", pod)
        assert failed.value.alone
