"""Over any snapshot: a pod whose jobs run or are unknown is not deleted, and a foreign drain is not touched."""

from hypothesis import given
from hypothesis import strategies as st

from corral.engine import Delete, Outside
from corral.kinds.nodeset.calls import REASON_PREFIX, Forget
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.slurm.facts import Observed
from corral.slurm.states import Base, Flag
from tests.unit.kinds.nodeset.builders import NOW, OURS, UNKNOWN, AWorker, NotSaid, a_controller, a_snapshot, a_worker

states = st.builds(
    lambda base, flags: "+".join([base, *flags]),
    st.sampled_from([*(base.value for base in Base), "QUANTUM"]),
    st.sets(st.sampled_from([flag.value for flag in Flag] + ["DRAIN"] * 8), max_size=3),
)
jobs: st.SearchStrategy[tuple[int, ...] | NotSaid] = st.sampled_from([(), (), (), (12,), (12, 17), UNKNOWN])
phases = st.sampled_from(["Running", "Running", "Pending", "Failed", "Succeeded", "Unknown"])


@st.composite
def some_workers(draw: st.DrawFn) -> dict[str, AWorker]:
    return {
        f"gpu-{ordinal}": a_worker(
            ordinal,
            state=draw(states | st.just("IDLE+DRAIN")),
            reason=draw(st.sampled_from(["", OURS, "bad DIMM"])),
            jobs=draw(jobs),
            registered=draw(st.booleans()),
            phase=draw(phases),
            leaving=draw(st.booleans()),
            pod=draw(st.sampled_from([True, True, True, False])),
            cost=draw(st.sampled_from(["", "-3", "much"])),
            runs_s=draw(st.sampled_from([1.0, 600.0])),
        )
        for ordinal in range(draw(st.integers(0, 6)))
    }


@st.composite
def snapshots(draw: st.DrawFn) -> tuple[Snapshot, dict[str, AWorker]]:
    found = draw(some_workers())
    snapshot = a_snapshot(
        *found.values(),
        replicas=draw(st.integers(0, 8)),
        deleted=draw(st.booleans()),
        controller=draw(st.sampled_from([a_controller(), a_controller(), None])),
        age_s=draw(st.sampled_from([0.0, 5.0, 300.0])),
        answers_s=draw(st.sampled_from([1.0, 3600.0])),
    )
    return snapshot, found


def may_register(snapshot: Snapshot, worker: AWorker) -> bool:
    """A slurmd without a record, and not long enough beside a Slurm that answers to say that it will stay so."""
    if worker.pod is None or worker.node is not None:
        return False
    (answers,) = snapshot.object.status.conditions
    running = [one.state.running for one in worker.pod.status.container_statuses if one.state.running]
    moments = [answers.last_transition_time, *(one.started_at for one in running)]
    return bool(running) and any(at is None or (NOW - at).total_seconds() < 60 for at in moments)


@given(snapshots())
def test_no_pod_that_may_hold_a_job_is_deleted(drawn: tuple[Snapshot, dict[str, AWorker]]) -> None:
    snapshot, found = drawn
    actions = plan(snapshot).actions
    nobody_to_ask = snapshot.controller is None and snapshot.object.metadata.deletion_timestamp is not None
    for number, action in enumerate(actions):
        if not isinstance(action, Delete) or nobody_to_ask:
            continue
        worker = found[action.target.name]
        if worker.pod is not None and worker.pod.status.phase in ("Failed", "Succeeded"):
            continue  # it has no process left
        assert isinstance(snapshot.slurm, Observed)
        assert worker.known
        assert worker.jobs == ()
        assert not may_register(snapshot, worker)
        before = actions[number - 1]
        assert isinstance(before, Outside)
        is_deleted = snapshot.object.metadata.deletion_timestamp is not None
        assert before.call == Forget(node=action.target.name, spares_others=not is_deleted)


@given(snapshots())
def test_no_call_goes_to_slurm_that_does_not_answer_and_none_touches_a_foreign_drain(
    drawn: tuple[Snapshot, dict[str, AWorker]],
) -> None:
    snapshot, found = drawn
    for action in plan(snapshot).actions:
        if not isinstance(action, Outside) or isinstance(action.call, Forget):
            continue
        assert isinstance(snapshot.slurm, Observed)
        node = found[action.subject.removeprefix("node ")].node
        assert node is not None
        assert Flag.DRAIN not in node.state.flags or node.reason.startswith(REASON_PREFIX)


@given(snapshots())
def test_what_a_plan_makes_never_exceeds_what_is_asked_for(drawn: tuple[Snapshot, dict[str, AWorker]]) -> None:
    snapshot, found = drawn
    made = [action for action in plan(snapshot).actions if type(action).__name__ == "Create"]
    live = [w for w in found.values() if w.pod and not w.pod.metadata.deletion_timestamp]
    running = [w for w in live if w.pod and w.pod.status.phase not in ("Failed", "Succeeded")]
    assert len(made) + len(running) <= max(snapshot.object.spec.replicas, len(running))
