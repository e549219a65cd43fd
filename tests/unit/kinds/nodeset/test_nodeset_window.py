"""A rollout that has its time: Slurm keeps the nodes free for it, and nobody is replaced before."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from corral.engine import Outcome, OutsideFailed, Plan, RemoveFinalizer
from corral.kinds.controller.shell import Answer
from corral.kinds.nodeset.beside import run_beside_slurmctld
from corral.kinds.nodeset.calls import Forget, Narrow, Reserve, Reserved, Unreserve
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.report import report
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Update, Window
from corral.slurm.values import Reservation
from tests.unit.kinds.nodeset.builders import NOW, SLURM, AWorker, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, drains, reasons
from tests.unit.kinds.nodeset.test_nodeset_rollout import old

NAME = "corral-gpu"
HOUR = timedelta(hours=1)
NODES = ("gpu-0", "gpu-1")
THERE = Reserved(told=True, found=Reservation(name=NAME, nodes=NODES, start_at=NOW + HOUR, end_at=NOW + 2 * HOUR))
NONE = Reserved(told=True)


def snapshot_of(
    *workers: AWorker, opens_in: timedelta = HOUR, reservation: Reserved = NONE, **update: object
) -> Snapshot:
    found = a_snapshot(*workers, replicas=len(workers))
    window = Window(start=NOW + opens_in, duration="1h")
    spec = msgspec.structs.replace(found.object.spec, update=Update(window=window, **update))  # type: ignore[arg-type]
    nodeset = msgspec.structs.replace(found.object, spec=spec)
    return msgspec.structs.replace(found, object=nodeset, reservation=reservation)


def outdated(*jobs: tuple[int, ...]) -> list[AWorker]:
    return [
        old(a_worker(n, jobs=held, state="MIXED+DYNAMIC_NORM" if held else "IDLE+DYNAMIC_NORM"))
        for n, held in enumerate(jobs)
    ]


def test_before_its_time_the_nodes_are_reserved_and_nobody_is_drained() -> None:
    decided = plan(snapshot_of(*outdated((), ())))
    assert calls(decided) == [Reserve(reservation=NAME, start=NOW + HOUR, duration=HOUR, nodes=NODES)]
    assert reasons(decided) == ["WorkersOutdated"]
    assert "from 2026-11-16T03:00Z on" in decided.waits[0].message
    assert decided.again_after_s == 3600


def test_what_is_reserved_already_is_left_as_it_is() -> None:
    assert plan(snapshot_of(*outdated((), ()), reservation=THERE)).is_empty


def test_while_slurm_does_not_tell_whether_it_is_there_nothing_is_done_about_it() -> None:
    assert plan(snapshot_of(*outdated((), ()), reservation=Reserved())).is_empty


@pytest.mark.parametrize("opens_in", [2 * HOUR, HOUR])
def test_another_time_or_more_nodes_make_another_reservation(opens_in: timedelta) -> None:
    decided = plan(snapshot_of(*outdated((), (), ()), opens_in=opens_in, reservation=THERE))
    assert [type(call) for call in calls(decided)] == [Unreserve, Reserve]


def test_in_its_time_the_first_go_as_in_every_rollout_until_one_has_come_up_as_it_is_asked_for_now() -> None:
    begun = snapshot_of(*outdated((), (12,), ()), opens_in=timedelta(minutes=-5), reservation=THERE)
    assert drains(plan(begun)) == ["gpu-2"]
    not_up = a_worker(2, registered=False)
    assert drains(plan(snapshot_of(*outdated((), ()), not_up, opens_in=timedelta(minutes=-5)))) == []


def test_then_all_go_at_once_and_who_has_a_job_is_waited_for() -> None:
    proven = a_worker(2)
    begun = snapshot_of(*outdated((), (12,)), proven, opens_in=timedelta(minutes=-5), reservation=THERE)
    decided = plan(begun)
    assert drains(decided) == ["gpu-0", "gpu-1"]
    assert "Draining" in reasons(decided)
    assert not any(isinstance(call, Reserve | Unreserve) for call in calls(decided))


BEGUN = Reserved(
    told=True, found=Reservation(name=NAME, nodes=NODES, start_at=NOW - 0.5 * HOUR, end_at=NOW + 0.5 * HOUR)
)
EMPTIED = "IDLE+DRAIN+DYNAMIC_NORM+MAINTENANCE+RESERVED"


def emptied(ordinal: int) -> AWorker:
    return old(a_worker(ordinal, state=EMPTIED, reason="corral: rollout of x"))


def test_a_node_leaves_the_reservation_directly_before_slurmctld_is_to_forget_it() -> None:
    busy = old(a_worker(1, jobs=(12,), state="MIXED+DYNAMIC_NORM+MAINTENANCE+RESERVED"))
    told = calls(plan(snapshot_of(emptied(0), busy, opens_in=-0.5 * HOUR, reservation=BEGUN)))
    asked = [call for call in told if isinstance(call, Narrow | Forget | Unreserve)]
    assert asked == [Narrow(reservation=NAME, nodes=("gpu-1",)), Forget(node="gpu-0")]


def test_with_its_last_nodes_the_reservation_goes() -> None:
    told = calls(plan(snapshot_of(emptied(0), emptied(1), opens_in=-0.5 * HOUR, reservation=BEGUN)))
    assert told[0] == Unreserve(reservation=NAME)
    assert told[1:] == [Forget(node="gpu-0"), Forget(node="gpu-1")]


def test_in_a_reservation_of_somebody_else_it_is_waited_for_and_holds_nobody_else_up() -> None:
    free = old(a_worker(1, state="IDLE+DRAIN+DYNAMIC_NORM", reason="corral: rollout of x"))
    decided = plan(snapshot_of(emptied(0), free, opens_in=-0.5 * HOUR))
    assert [call for call in calls(decided) if isinstance(call, Forget)] == [Forget(node="gpu-1")]
    assert "gpu-0 is to be removed and has no jobs, but it is in an active reservation" in str(decided.waits)
    assert "Reserved" in reasons(decided)


def test_before_it_has_begun_slurmctld_forgets_its_nodes_and_nothing_is_taken_out() -> None:
    drained = a_worker(0, state="IDLE+DRAIN+DYNAMIC_NORM", reason="corral: scale-in of x")
    found = snapshot_of(drained, old(a_worker(1)), reservation=THERE)
    assert not any(isinstance(call, Narrow) for call in calls(plan(found)))


def test_after_its_time_nobody_is_replaced_and_people_are_told_to_set_another() -> None:
    decided = plan(snapshot_of(*outdated((), ()), opens_in=-2 * HOUR))
    assert decided.is_empty
    assert [(wait.reason, wait.stalled) for wait in decided.waits] == [("WorkersOutdated", True)]
    assert "set a new spec.update.window.start" in decided.waits[0].message


@pytest.mark.parametrize("opens_in", [HOUR, timedelta(minutes=-5)])
def test_when_nobody_is_outdated_any_more_the_nodes_are_given_back(opens_in: timedelta) -> None:
    decided = plan(snapshot_of(a_worker(0), a_worker(1), opens_in=opens_in, reservation=THERE))
    assert calls(decided) == [Unreserve(reservation=NAME)]


@pytest.mark.parametrize("update", [{"paused": True}, {"strategy": "OnDelete"}])
def test_a_rollout_that_is_held_back_holds_no_nodes(update: dict[str, Any]) -> None:
    assert calls(plan(snapshot_of(*outdated(()), reservation=THERE, **update))) == [Unreserve(reservation=NAME)]


def test_what_was_reserved_is_asked_for_until_it_is_gone_though_the_window_is_taken_away() -> None:
    reserved = snapshot_of(a_worker(0), reservation=THERE)
    assert report(reserved, Outcome(plan=Plan())).reservation == NAME
    spec = msgspec.structs.replace(reserved.object.spec, update=Update())
    left = msgspec.structs.replace(reserved, object=msgspec.structs.replace(reserved.object, spec=spec))
    assert calls(plan(left)) == [Unreserve(reservation=NAME)]
    assert report(left, Outcome(plan=Plan())).reservation == NAME
    gone = msgspec.structs.replace(left, reservation=NONE)
    assert report(gone, Outcome(plan=Plan())).reservation == ""


def test_a_deletion_gives_the_nodes_back_before_it_lets_go() -> None:
    deleted = msgspec.structs.replace(a_snapshot(replicas=0, deleted=True), reservation=THERE)
    decided = plan(deleted)
    assert calls(decided) == [Unreserve(reservation=NAME)]
    assert isinstance(decided.actions[-1], RemoveFinalizer)


def test_a_deletion_within_its_time_gives_the_nodes_back_before_slurmctld_is_to_forget_them() -> None:
    deleted = a_snapshot(emptied(0), replicas=1, deleted=True)
    told = calls(plan(msgspec.structs.replace(deleted, reservation=BEGUN)))
    assert told == [Unreserve(reservation=NAME), Forget(node="gpu-0", spares_others=False)]


class Shell:
    def __init__(self, code: int = 0) -> None:
        self.ran: list[tuple[str, ...]] = []
        self._code = code

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = ""
    ) -> Answer:
        assert (namespace, pod, run_s_max > 0, container) == ("lab", "slurm-controller-0", True, "")
        self.ran.append(command)
        return Answer(self._code, b"", b"Requested reservation is invalid")


@pytest.mark.looptime(noop_cycles=0)
async def test_what_slurmrestd_cannot_do_is_done_beside_slurmctld() -> None:
    shell = Shell()
    await run_beside_slurmctld(shell, SLURM, ("scontrol", "delete", f"ReservationName={NAME}"))
    assert shell.ran == [("scontrol", "delete", f"ReservationName={NAME}")]


@pytest.mark.looptime(noop_cycles=0)
async def test_what_slurmctld_refuses_is_told_in_its_words() -> None:
    with pytest.raises(OutsideFailed, match="Requested reservation is invalid"):
        await run_beside_slurmctld(Shell(1), SLURM, ("scontrol", "create", "reservation"))


@pytest.mark.looptime(noop_cycles=0)
async def test_of_a_slurmctld_that_is_elsewhere_people_are_told_what_to_run() -> None:
    with pytest.raises(OutsideFailed, match="run it there: scontrol create reservation"):
        await run_beside_slurmctld(None, SLURM, ("scontrol", "create", "reservation"))
