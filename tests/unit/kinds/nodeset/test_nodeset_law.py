"""Over any snapshot: a pod whose jobs run or are unknown is not deleted, and what is somebody's is not touched.

What may hold a job is said here in other words than in the code: from what kubelet and Slurm told of one worker.
"""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from corral.engine import Action, Create, Delete, EmitEvent, Outside
from corral.kinds import names
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.calls import REASON_PREFIX, Drain, End, Forget, Undrain
from corral.kinds.nodeset.left import Left
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Update, Window
from corral.kinds.nodeset.warned import Warned
from corral.kube.models.core_v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    Node,
    Pod,
    Taint,
)
from corral.slurm.facts import Observed
from corral.slurm.states import Base, Flag, node_state
from tests.unit.kinds.nodeset.builders import (
    NOW,
    OURS,
    UNKNOWN,
    AWorker,
    a_controller,
    a_snapshot,
    a_worker,
    deleted_ago,
    told_of,
    with_shown,
)
from tests.unit.kinds.nodeset.test_nodeset_machine import a_machine

REGISTERS_WITHIN = timedelta(seconds=120)
OLD = timedelta(hours=1)
FORCED_AFTER_S = 60

states = st.builds(
    lambda base, flags: "+".join([base, *flags]),
    st.sampled_from([*(base.value for base in Base), "QUANTUM"]),
    st.sets(st.sampled_from([flag.value for flag in Flag] + ["DRAIN"] * 8), max_size=3),
)
jobs: st.SearchStrategy[tuple[int, ...]] = st.sampled_from([(), (), (), (), (12,), (12, 17)])
phases = st.sampled_from(["Running", "Running", "Running", "Pending", "Failed", "Succeeded", "Unknown"])
ages = st.sampled_from([timedelta(seconds=1), timedelta(seconds=90), OLD])
containers = st.sampled_from(
    ["runs", "runs", "runs", "ContainerCreating", "CrashLoopBackOff", "ImagePullBackOff", "ended", "nothing told"]
)
machines: st.SearchStrategy[Node | None] = st.sampled_from(
    [
        a_machine(),
        a_machine(),
        a_machine(cordoned=True),
        a_machine(ready="Unknown"),
        a_machine(taints=(Taint(key="x", effect="NoExecute"),)),
        None,
    ]
)
updates = st.sampled_from(
    [
        Update(),
        Update(max_unavailable="50%"),
        Update(max_unavailable=0, max_surge=1),
        Update(strategy="OnDelete"),
        Update(paused=True),
        Update(window=Window(start=NOW - timedelta(minutes=5))),
        Update(window=Window(start=NOW + timedelta(hours=1))),
    ]
)


@st.composite
def a_container(draw: st.DrawFn, pod: Pod) -> Pod:
    """What kubelet says of its slurmd, and when anything was said last."""
    said, age = draw(containers), draw(ages)
    at = NOW - age
    state = {
        "runs": ContainerState(running=ContainerStateRunning(started_at=at)),
        "ended": ContainerState(terminated=ContainerStateTerminated(exit_code=1, finished_at=at)),
    }.get(said, ContainerState(waiting=ContainerStateWaiting(reason=said)))
    about = tuple(replace(one, state=state) for one in pod.status.container_statuses if said != "nothing told")
    meta = replace(pod.metadata, creation_timestamp=NOW - OLD if said == "runs" else at)
    is_old = draw(st.booleans())
    return replace(
        pod,
        metadata=replace(meta, labels={names.REVISION_LABEL: "0123456789"}) if is_old else meta,
        spec=replace(pod.spec, node_name=draw(st.sampled_from(["m", "m", ""]))),
        status=replace(pod.status, container_statuses=about),
    )


@st.composite
def some_workers(draw: st.DrawFn) -> dict[str, AWorker]:
    found = {}
    is_silent = draw(st.sampled_from([False] * 9 + [True]))
    for ordinal in range(draw(st.integers(0, 4))):
        worker = a_worker(
            ordinal,
            state=draw(st.sampled_from(["IDLE+DRAIN", "IDLE+DRAIN", "MIXED+DRAIN", ""])) or draw(states),
            reason=draw(st.sampled_from(["", OURS, OURS, OURS, "corral: rollout of NodeSet lab/gpu", "bad DIMM"])),
            jobs=UNKNOWN if is_silent else draw(jobs),
            registered=draw(st.sampled_from([True, True, False])),
            phase=draw(phases),
            leaving=draw(st.sampled_from([True, False, False])),
            pod=draw(st.sampled_from([True, True, True, False])),
            cost=draw(st.sampled_from(["", "-3", "much"])),
        )
        node, pod = worker.node, worker.pod
        if node is not None:
            told = draw(st.sampled_from([None, NOW - OLD, NOW - timedelta(seconds=80)]))
            node = replace(node, registered_at=told, reason_at=draw(st.sampled_from([None, NOW - OLD, NOW])))
        if pod is not None and pod.metadata.deletion_timestamp is not None:
            pod = deleted_ago(worker, draw(st.sampled_from([5, 90])), grace_s=draw(st.sampled_from([30, GRACE_S]))).pod
        if pod is not None:
            shown = draw(st.sampled_from(["nothing", "its state", "its state before"]))
            before = worker.node if shown != "nothing" else None
            pod = with_shown(replace(pod, status=replace(pod.status, conditions=pod.status.conditions[:1])), before)
            pod = draw(a_container(with_shown(pod, node) if shown == "its state" else pod))
        found[f"gpu-{ordinal}"] = replace(worker, node=node, pod=pod)
    return found


@st.composite
def snapshots(draw: st.DrawFn) -> tuple[Snapshot, dict[str, AWorker]]:
    found, machine = draw(some_workers()), draw(machines)
    snapshot = a_snapshot(
        *found.values(),
        replicas=draw(st.sampled_from([0, 0, 1, 2, 6])),
        deleted=draw(st.sampled_from([False, False, True])),
        controller=draw(st.sampled_from([*[a_controller()] * 5, None])),
        age_s=draw(st.sampled_from([*[5.0] * 5, 300.0])),
        answers_s=draw(st.sampled_from([1.0, 90.0, *[3600.0] * 4])),
    )
    limit_s = draw(st.sampled_from([None, None, FORCED_AFTER_S]))
    spec = replace(snapshot.object.spec, update=draw(updates), force_drain_after_seconds=limit_s)
    status = replace(snapshot.object.status, external=draw(st.booleans()))
    machines_below = {"m": machine} if machine is not None else {}
    whole = replace(snapshot, object=replace(snapshot.object, spec=spec, status=status), machines=machines_below)
    left = draw(what_is_left(whole)) if whole.controller is None else None
    return replace(whole, left=left, steps=draw(what_runs(whole)), warned=draw(what_was_told(whole))), found


@st.composite
def what_runs(draw: st.DrawFn, snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    seen = {pod.metadata.name: draw(st.sampled_from([None, (), (), ("7.batch",)])) for pod in snapshot.pods}
    return {name: steps for name, steps in seen.items() if steps is not None}


@st.composite
def what_was_told(draw: st.DrawFn, snapshot: Snapshot) -> dict[str, Warned]:
    """Of what may be on these pods, and of less; in time, and for a time that is not over."""
    words = [None, told_of(7, 12, 17), told_of(7, 12, 17), told_of(12), told_of(7, 12, 17, left_s=30)]
    told = {pod.metadata.uid: draw(st.sampled_from(words)) for pod in snapshot.pods}
    return {uid: said for uid, said in told.items() if said is not None}


@st.composite
def what_is_left(draw: st.DrawFn, snapshot: Snapshot) -> Left | None:
    since = NOW - timedelta(seconds=draw(st.sampled_from([10, 60, 60, 60, 9000])))
    said = snapshot.slurm if isinstance(snapshot.slurm, Observed) else None
    found = Left(since=since, runs=draw(st.booleans()), said=draw(st.sampled_from([None, said])))
    return draw(st.sampled_from([None, found, found, found]))


def may_register(snapshot: Snapshot, worker: AWorker) -> bool:
    """Whether its slurmd may be one that slurmctld has not heard of yet, and that comes in a moment."""
    view, pod, record = snapshot.slurm, worker.pod, worker.node
    assert isinstance(view, Observed)
    assert view.since is not None
    if pod is None or pod.status.phase in ("Failed", "Succeeded"):
        return False
    has_just_answered = NOW - view.since < REGISTERS_WITHIN
    about = pod.status.container_statuses[0].state if pod.status.container_statuses else ContainerState()
    shows = [one for one in pod.status.conditions if one.type.startswith("SlurmNodeState")]
    if record is None and shows and all(one.type != "SlurmNodeStateMissing" for one in shows):
        return True  # it had a record a moment ago, and may be told to register anew
    if about.running is None and (not pod.spec.node_name and pod.status.phase != "Running"):
        return False  # on no Kubernetes node
    if about.waiting is not None and about.waiting.reason == "ImagePullBackOff":
        return False
    begun = about.running.started_at if about.running is not None else pod.metadata.creation_timestamp
    assert begun is not None
    is_recent = has_just_answered or NOW - begun < REGISTERS_WITHIN
    is_the_one = record is not None and record.registered_at is not None and record.registered_at >= begun
    if record is None or record.registered_at is not None:
        return is_recent and not is_the_one
    is_just_drained = record.reason_at is not None and NOW - record.reason_at < REGISTERS_WITHIN
    away = {Flag.NOT_RESPONDING, Flag.POWERED_DOWN, Flag.POWERING_DOWN}
    is_told_now = record.state.base is not Base.DOWN and not away & record.state.flags
    return is_recent or is_just_drained or is_told_now


def parts_of(snapshot: Snapshot) -> list[tuple[Action, ...]]:
    return [actions for _, actions in plan(snapshot).split()]


@settings(max_examples=400)
@given(snapshots())
def test_no_pod_that_may_hold_a_job_is_deleted(drawn: tuple[Snapshot, dict[str, AWorker]]) -> None:
    snapshot, found = drawn
    is_deleted = snapshot.object.metadata.deletion_timestamp is not None
    nobody_to_ask = snapshot.controller is None and is_deleted and not snapshot.object.status.external
    for actions in parts_of(snapshot):
        for number, action in enumerate(actions):
            if not isinstance(action, Delete):
                continue
            worker = found[action.target.name]
            if worker.pod is not None and worker.pod.status.phase in ("Failed", "Succeeded"):
                continue  # it has no process left
            if nobody_to_ask:
                assert_it_had_no_job(snapshot, worker)
                continue
            assert isinstance(snapshot.slurm, Observed)
            assert worker.known
            if action.reason == "DrainForced":
                assert_forced(snapshot, worker, actions)
                continue
            assert worker.jobs == ()
            assert not may_register(snapshot, worker)
            if worker.pod is not None and worker.pod.metadata.deletion_timestamp is not None:
                assert snapshot.steps[action.target.name] == ()  # somebody deleted it, and it may wait for jobs
            if action.reason == "PodOutdated":
                assert not has_registered(worker)
                continue  # its slurmd does not run, and the record stays with somebody's drain
            calls = [one.call for one in actions[:number] if isinstance(one, Outside)]
            is_going = worker.pod is not None and worker.pod.metadata.deletion_timestamp is not None
            ends = [End(pod=action.target.name)] if is_going else []
            assert calls == [Forget(node=action.target.name, spares_others=not is_deleted), *ends]
            assert len(calls) == number  # directly before it


def assert_it_had_no_job(snapshot: Snapshot, worker: AWorker) -> None:
    """Or never a slurmd; or people asked for it."""
    left, limit_s, pod = snapshot.left, snapshot.object.spec.force_drain_after_seconds, worker.pod
    assert pod is not None
    if not any(one.state.running for one in pod.status.container_statuses):
        return
    assert left is not None
    assert not left.runs
    assert NOW - left.since >= timedelta(seconds=30)
    if limit_s is not None and NOW - left.since >= timedelta(seconds=limit_s):
        steps = snapshot.steps.get(pod.metadata.name, ())
        assert steps == () or was_warned(snapshot, pod, [int(step.partition(".")[0]) for step in steps])
        return
    assert snapshot.steps[pod.metadata.name] == ()


def has_registered(worker: AWorker) -> bool:
    """Whether its record is of its pod's slurmd, which then runs, whatever kubelet says."""
    made = worker.pod.metadata.creation_timestamp if worker.pod is not None else None
    at = worker.node.registered_at if worker.node is not None else None
    return made is not None and at is not None and at >= made


def was_warned(snapshot: Snapshot, pod: Pod, jobs: list[int]) -> bool:
    """Whether all these were named, with a time that has passed."""
    said = snapshot.warned.get(pod.metadata.uid)
    return said is not None and said.jobs.issuperset(jobs) and said.until < NOW


def assert_forced(snapshot: Snapshot, worker: AWorker, beside: tuple[Action, ...]) -> None:
    """People asked for it, a drain of ours has lasted that long, its jobs were named before and are named with it."""
    node, limit_s = worker.node, snapshot.object.spec.force_drain_after_seconds
    assert limit_s is not None
    assert node is not None
    assert node.reason.startswith(REASON_PREFIX)
    assert node.reason_at is not None
    assert NOW - node.reason_at > timedelta(seconds=limit_s)
    assert worker.pod is not None
    assert not worker.jobs or was_warned(snapshot, worker.pod, [job.id for job in worker.jobs])
    told = " ".join(one.message for one in beside if isinstance(one, EmitEvent) and one.reason == "JobsKilled")
    assert not isinstance(beside[0], EmitEvent)  # what fails is not told
    assert all(str(job.id) in told for job in worker.jobs)


@given(snapshots())
def test_nobody_is_killed_unwarned(drawn: tuple[Snapshot, dict[str, AWorker]]) -> None:
    """Where all have had their drain for long, and people have just said that they wait for a minute."""
    snapshot, found = drawn
    if not isinstance(snapshot.slurm, Observed):
        return
    held = {"state": node_state(("MIXED", "DRAIN")), "reason": OURS, "reason_at": NOW - OLD}
    nodes = {name: replace(node, **held) for name, node in snapshot.slurm.nodes.items()}
    spec = replace(snapshot.object.spec, force_drain_after_seconds=FORCED_AFTER_S, replicas=0)
    whole = replace(snapshot.object, spec=spec)
    for action in plan(replace(snapshot, object=whole, slurm=replace(snapshot.slurm, nodes=nodes))).actions:
        if isinstance(action, Delete) and action.reason == "DrainForced":
            worker = found[action.target.name]
            assert worker.pod is not None
            assert not worker.jobs or was_warned(snapshot, worker.pod, [job.id for job in worker.jobs])


@given(snapshots())
def test_no_call_goes_to_slurm_that_does_not_answer_and_none_touches_what_is_somebodys(
    drawn: tuple[Snapshot, dict[str, AWorker]],
) -> None:
    snapshot, found = drawn
    is_deleted = snapshot.object.metadata.deletion_timestamp is not None
    for action in plan(snapshot).actions:
        if not isinstance(action, Outside) or not isinstance(action.call, Drain | Undrain | Forget):
            continue
        assert isinstance(snapshot.slurm, Observed)
        node = found[action.call.node].node
        if node is None or is_deleted:
            continue
        is_out = Flag.DRAIN in node.state.flags or node.state.base is Base.DOWN or Flag.FAIL in node.state.flags
        assert not (is_out and node.reason == "bad DIMM")
        assert isinstance(action.call, Undrain) or action.call.spares_others


@given(snapshots())
def test_what_a_plan_makes_never_exceeds_what_is_asked_for(drawn: tuple[Snapshot, dict[str, AWorker]]) -> None:
    snapshot, found = drawn
    made = [one for one in plan(snapshot).actions if isinstance(one, Create) and isinstance(one.object, Pod)]
    live = [w for w in found.values() if w.pod and not w.pod.metadata.deletion_timestamp]
    running = [w for w in live if w.pod and w.pod.status.phase not in ("Failed", "Succeeded")]
    update = snapshot.object.spec.update
    more = 1 if update.max_surge else 0
    assert len(made) + len(running) <= max(snapshot.object.spec.replicas + more, len(running))
