"""Which workers a rollout replaces, and how many at once."""

from datetime import timedelta

import msgspec
import pytest

from corral.engine import Apply, Create, Delete, Plan
from corral.kinds import names
from corral.kinds.nodeset.calls import Drain
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.revision import before, kept, revision_of
from corral.kinds.nodeset.rollout import limits
from corral.kinds.nodeset.spec import Update
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.models.core_v1 import PodCondition
from tests.unit.kinds.nodeset.builders import NOW, OURS, SLURM, AWorker, a_nodeset, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_machine import a_machine
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, drains, made, reasons

OLD = "0123456789"


def old(worker: AWorker) -> AWorker:
    assert worker.pod is not None
    metadata = msgspec.structs.replace(worker.pod.metadata, labels={names.REVISION_LABEL: OLD})
    return msgspec.structs.replace(worker, pod=msgspec.structs.replace(worker.pod, metadata=metadata))


def below_machine(worker: AWorker) -> AWorker:
    assert worker.pod is not None
    spec = msgspec.structs.replace(worker.pod.spec, node_name="m")
    return msgspec.structs.replace(worker, pod=msgspec.structs.replace(worker.pod, spec=spec))


def unready(worker: AWorker) -> AWorker:
    """Its slurmd runs, and kubelet says that it is not ready."""
    assert worker.pod is not None
    slurms = [one for one in worker.pod.status.conditions if one.type != "Ready"]
    conditions = (PodCondition(type="Ready", status="False"), *slurms)
    status = msgspec.structs.replace(worker.pod.status, conditions=conditions)
    return msgspec.structs.replace(worker, pod=msgspec.structs.replace(worker.pod, status=status))


def decided(*workers: AWorker, replicas: int | None = None, **update: object) -> Plan:
    snapshot = a_snapshot(*workers, replicas=len(workers) if replicas is None else replicas)
    spec = msgspec.structs.replace(snapshot.object.spec, update=Update(**update))  # type: ignore[arg-type]
    return plan(msgspec.structs.replace(snapshot, object=msgspec.structs.replace(snapshot.object, spec=spec)))


@pytest.mark.parametrize(
    ("unavailable", "surge", "expected"),
    [(1, 0, (1, 0)), ("25%", "25%", (2, 3)), (0, 0, (1, 0)), ("1%", 0, (1, 0)), (0, 1, (0, 1))],
)
def test_limits_round_as_deployments_do_and_let_something_move(
    unavailable: int | str, surge: int | str, expected: tuple[int, int]
) -> None:
    assert limits(Update(max_unavailable=unavailable, max_surge=surge), 10) == expected


def test_as_many_go_as_may_be_missing() -> None:
    assert drains(decided(*(old(a_worker(n)) for n in range(4)), max_unavailable=2)) == ["gpu-2", "gpu-3"]


def test_whoever_is_missing_for_another_reason_counts() -> None:
    down = a_worker(0, state="DOWN")
    assert drains(decided(down, *(old(a_worker(n)) for n in (1, 2)), max_unavailable=1)) == []
    assert drains(decided(down, *(old(a_worker(n)) for n in (1, 2)), max_unavailable=2)) == ["gpu-2"]


@pytest.mark.parametrize("unfit", [a_worker(0, state="DOWN"), unready(a_worker(0))], ids=["down", "not ready"])
def test_an_outdated_worker_that_is_of_no_use_goes_first_and_holds_nobody_up(unfit: AWorker) -> None:
    """As on a machine that has died: it is missing already, so its replacement costs nothing."""
    found = decided(old(unfit), old(a_worker(1)), old(a_worker(2)), max_unavailable=1)
    assert (drains(found), "RolloutStopped" in reasons(found)) == (["gpu-0"], False)


def test_of_many_that_are_of_no_use_for_a_moment_no_more_go_at_once_than_may_be_missing() -> None:
    blip = [old(unready(a_worker(n, state="MIXED", jobs=(n,)))) for n in range(6)]
    assert len(drains(decided(*blip, max_unavailable=2))) == 2
    reason = "corral: rollout of NodeSet lab/gpu"
    begun = [old(unready(a_worker(n, state="MIXED+DRAIN", reason=reason, jobs=(n,)))) for n in range(2)]
    assert drains(decided(*begun, *blip[2:], max_unavailable=2)) == []


def test_who_is_missing_is_named_when_the_rollout_stops_for_it() -> None:
    gone = a_worker(1, leaving=True)  # on a machine that has died, where nobody ends it
    found = decided(old(a_worker(0)), gone, old(a_worker(2)), max_unavailable=1)
    assert drains(found) == ["gpu-1"]
    (stopped,) = [wait for wait in found.waits if wait.reason == "RolloutStopped"]
    assert "gpu-1" in stopped.message


def test_somebody_elses_drain_holds_no_rollout_up_and_is_not_replaced() -> None:
    theirs = old(a_worker(0, state="IDLE+DRAIN", reason="disk"))
    assert drains(decided(theirs, old(a_worker(1)))) == ["gpu-1"]


def test_one_whose_slurmd_does_not_run_is_replaced_whatever_else_is_missing() -> None:
    never_ran = old(a_worker(0, phase="Pending", registered=False))
    left_behind = old(a_worker(1, phase="Pending", state="DOWN+DRAIN", reason=OURS))
    found = decided(never_ran, left_behind, a_worker(2, phase="Pending", registered=False))
    assert deleted(found) == ["gpu-0", "gpu-1"]


def test_somebody_elses_drain_stays_in_slurm_while_a_pod_without_slurmd_is_made_anew() -> None:
    found = decided(old(a_worker(0, phase="Pending", state="DOWN+DRAIN", reason="disk")))
    assert (calls(found), deleted(found)) == ([], ["gpu-0"])
    (told,) = [action.message for action in found.actions if isinstance(action, Delete)]
    assert told.endswith("its node in Slurm stays drained")


def test_of_one_that_is_merely_down_nobody_says_that_it_stays_drained() -> None:
    """slurmctld gives it back when a slurmd registers."""
    found = decided(old(a_worker(0, phase="Pending", state="DOWN", reason="smoke")))
    (told,) = [action.message for action in found.actions if isinstance(action, Delete)]
    assert told.endswith("stays as it is until slurmd registers")


def test_a_slurmd_that_has_registered_runs_whatever_a_kubelet_says_that_is_cut_off() -> None:
    worker = old(a_worker(0, phase="Pending", state="IDLE+FAIL", reason="it will not last"))
    assert worker.pod is not None
    assert worker.node is not None
    made = msgspec.structs.replace(worker.pod.metadata, creation_timestamp=NOW - timedelta(hours=2))
    pod = msgspec.structs.replace(worker.pod, metadata=made)
    for registered_at, gone in ((NOW - timedelta(hours=3), ["gpu-0"]), (NOW - timedelta(hours=1), [])):
        node = msgspec.structs.replace(worker.node, registered_at=registered_at)
        assert deleted(decided(msgspec.structs.replace(worker, pod=pod, node=node))) == gone


def test_new_ones_that_do_not_come_up_stop_it_and_are_named() -> None:
    found = decided(a_worker(0, phase="Pending", registered=False), old(a_worker(1)), old(a_worker(2)))
    assert calls(found) == []
    assert "RolloutStopped" in reasons(found)
    (stopped,) = [wait for wait in found.waits if wait.reason == "RolloutStopped"]
    assert stopped.message == "the rollout waits for new workers to come up (gpu-0)"


def test_a_surge_makes_one_more_before_one_goes() -> None:
    found = decided(old(a_worker(0)), old(a_worker(1)), max_unavailable=0, max_surge=1)
    assert (made(found), drains(found)) == (["gpu-2"], [])
    then = decided(old(a_worker(0)), old(a_worker(1)), a_worker(2), replicas=2, max_unavailable=0, max_surge=1)
    assert drains(then) == ["gpu-1"]


@pytest.mark.parametrize(("field", "value"), [("paused", True), ("strategy", "OnDelete"), ("partition", 1)])
def test_held_back_none_is_replaced_and_one_that_was_on_its_way_stays(field: str, value: object) -> None:
    begun = old(a_worker(0, state="IDLE+DRAIN", reason=OURS))
    assert [type(call).__name__ for call in calls(decided(begun, replicas=1, **{field: value}))] == ["Undrain"]


def test_a_limit_that_is_no_number_is_told_and_nothing_is_done() -> None:
    found = decided(old(a_worker(0)), max_unavailable="some")
    assert (found.actions, reasons(found)) == ((), ["BadUpdate"])


BAD_SPECS: list[dict[str, object]] = [
    {"update": Update(max_unavailable="some")},
    {"scaling_mode": "DaemonSet", "slurmd": {"imagePolicy": "Always"}},
]


@pytest.mark.parametrize("bad", BAD_SPECS, ids=["BadUpdate", "BadOverride"])
def test_a_spec_that_cannot_be_followed_costs_nobodys_drain(bad: dict[str, object]) -> None:
    snapshot = a_snapshot(a_worker(0))
    spec = msgspec.structs.replace(snapshot.object.spec, **bad)
    status = msgspec.structs.replace(snapshot.object.status, lost_drains={"gpu-0": "bad DIMM [root@x]"})
    changed = msgspec.structs.replace(snapshot.object, spec=spec, status=status)
    found = plan(msgspec.structs.replace(snapshot, object=changed))
    assert calls(found) == [Drain(node="gpu-0", reason="bad DIMM [root@x]")]
    assert [wait.stalled for wait in found.waits] == [True]


@pytest.mark.parametrize("bad", BAD_SPECS, ids=["BadUpdate", "BadOverride"])
def test_while_a_spec_cannot_be_followed_workers_that_are_there_are_looked_after(bad: dict[str, object]) -> None:
    going, cordoned = a_worker(0, leaving=True), below_machine(a_worker(1))
    snapshot = a_snapshot(going, cordoned)
    changed = msgspec.structs.replace(snapshot.object, spec=msgspec.structs.replace(snapshot.object.spec, **bad))
    machines = {"m": a_machine(cordoned=True)}
    found = plan(msgspec.structs.replace(snapshot, object=changed, machines=machines, guards=()))
    assert sorted(call.node for call in calls(found) if isinstance(call, Drain)) == ["gpu-0", "gpu-1"]
    assert [action.object.metadata.name for action in found.actions if isinstance(action, Apply)] == [
        "gpu"
    ]  # its guard
    assert not any(isinstance(action, Delete) for action in found.actions)


@pytest.mark.parametrize("idle", [{"slurmd": {}}, {"template": {}}, {"template": {"spec": {}, "labels": {}}}])
def test_what_says_nothing_replaces_no_worker(idle: dict[str, object]) -> None:
    nodeset = a_nodeset()
    silent = msgspec.convert({**msgspec.to_builtins(nodeset.spec), **idle}, type(nodeset.spec))
    spoken = msgspec.structs.replace(nodeset, spec=silent)

    assert revision_of(spoken, SLURM) == revision_of(nodeset, SLURM)


def test_a_revision_is_kept_while_it_is_used_or_new_enough() -> None:
    def numbered(number: int) -> ControllerRevision:
        (one,) = kept(a_nodeset(), SLURM, (), ())
        name = f"gpu-{number}"
        return msgspec.structs.replace(one, revision=number, metadata=msgspec.structs.replace(one.metadata, name=name))

    nodeset = a_nodeset(update=Update(history=2))
    pod = old(a_worker(0)).pod
    assert pod is not None
    in_use = msgspec.structs.replace(
        numbered(1), metadata=msgspec.structs.replace(numbered(1).metadata, name=names.revision_name("gpu", OLD))
    )
    found = kept(nodeset, SLURM, [in_use, *(numbered(n) for n in (2, 3, 4))], [pod])
    assert [one.revision for one in found] == [1, 3, 4, 5]


def test_a_worker_below_the_partition_is_made_again_as_it_was() -> None:
    earlier = a_nodeset(extra_conf="Weight=7")
    history = kept(earlier, SLURM, (), ())
    now = a_nodeset(replicas=1, update=Update(partition=1))
    assert before(now, SLURM, history).spec.extra_conf == "Weight=7"
    snapshot = msgspec.structs.replace(a_snapshot(replicas=1), object=now, revisions=history)
    pods = [a.object for a in plan(snapshot).actions if isinstance(a, Create) and a.object.resource.kind == "Pod"]
    assert "Weight=7" in str(pods[0])
