"""Who drained a worker, why and since when is kept, also when slurmctld loses the worker's record."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from corral.engine import Outcome
from corral.kinds.nodeset.calls import Drain, Undrain
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.report import report
from corral.kinds.nodeset.restoring import KEPT_CHARS_MAX
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import Update
from corral.kube.models.core_v1 import Pod
from corral.slurm.states import node_state
from tests.unit.kinds.nodeset.builders import OURS, AWorker, a_snapshot, a_worker, with_shown
from tests.unit.kinds.nodeset.test_nodeset_life import a_world
from tests.unit.kinds.nodeset.test_nodeset_modes import a_machine, per_machine
from tests.unit.kinds.nodeset.test_nodeset_plan import calls

AT = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)
WORDS = "bad DIMM [root@2026-11-01T10:00:00Z]"
DRAIN = Drain(node="gpu-0", reason=WORDS)


def drained(reason: str = "bad DIMM", by: str = "root") -> AWorker:
    worker = a_worker(0, state="IDLE+DRAIN", reason=reason, runs_s=600)
    assert worker.node is not None
    assert worker.pod is not None
    node = replace(worker.node, reason_by=by, reason_at=AT)
    return replace(worker, node=node, pod=with_shown(worker.pod, node))


def messages(pod: Pod | None) -> set[str]:
    assert pod is not None
    return {one.message for one in pod.status.conditions if one.type.startswith("SlurmNodeState")}


def kept(snapshot: Snapshot) -> dict[str, str]:
    return dict(report(snapshot, Outcome(plan=plan(snapshot))).lost_drains)


def remembering(snapshot: Snapshot, drains: dict[str, str]) -> Snapshot:
    status = replace(snapshot.object.status, lost_drains=drains)
    return replace(snapshot, object=replace(snapshot.object, status=status))


def test_a_pod_shows_who_drained_its_node_and_when() -> None:
    assert messages(drained().pod) == {WORDS}
    assert messages(drained(by="").pod) == {"bad DIMM [@2026-11-01T10:00:00Z]"}
    (long,) = messages(drained("x" * 2000).pod)
    assert (len(long), long.endswith("[root@2026-11-01T10:00:00Z]")) == (1024, True)


def test_it_stays_there_when_slurmctld_has_lost_the_record_and_the_status_keeps_it() -> None:
    lost = replace(drained(), node=None)
    assert kept(a_snapshot(lost)) == {"gpu-0": WORDS}
    assert lost.pod is not None
    missing = replace(lost, pod=with_shown(lost.pod, None))
    assert messages(missing.pod) == {WORDS}
    assert kept(a_snapshot(missing)) == {"gpu-0": WORDS}


def test_nothing_is_kept_of_a_drain_of_ours_or_of_none() -> None:
    assert kept(a_snapshot(replace(drained(OURS), node=None))) == {}
    assert kept(a_snapshot(replace(a_worker(0), node=None))) == {}


def test_what_slurmctld_says_of_a_registration_is_not_said_of_the_next_one() -> None:
    assert kept(a_snapshot(replace(drained("Low CPUs", by="slurm"), node=None))) == {}
    words = "Low on coolant [root@2026-11-01T10:00:00Z]"
    assert kept(a_snapshot(replace(drained("Low on coolant"), node=None))) == {"gpu-0": words}


def test_a_worker_that_is_back_is_drained_again_with_the_same_words_and_only_once() -> None:
    back = a_worker(0)
    assert calls(plan(remembering(a_snapshot(back), {"gpu-0": WORDS}))) == [DRAIN]
    arriving = remembering(a_snapshot(a_worker(0, registered=False)), {"gpu-0": WORDS})
    assert (calls(plan(arriving)), kept(arriving)) == ([], {"gpu-0": WORDS})
    again = remembering(a_snapshot(a_worker(0, state="IDLE+DRAIN", reason=WORDS)), {"gpu-0": WORDS})
    assert (calls(plan(again)), kept(again)) == ([], {})


def test_a_second_loss_does_not_add_our_own_name() -> None:
    twice = replace(drained(WORDS, by="slurm"), node=None)
    assert kept(a_snapshot(twice)) == {"gpu-0": WORDS}


def test_it_goes_with_the_place_of_the_worker_and_waits_while_slurm_is_silent() -> None:
    assert kept(remembering(a_snapshot(replicas=0), {"gpu-0": WORDS})) == {}
    old = remembering(a_snapshot(replicas=0, age_s=300), {"gpu-0": WORDS})
    assert kept(old) == {"gpu-0": WORDS}


def test_a_drain_of_ours_is_neither_the_lost_one_nor_in_its_way() -> None:
    ours = remembering(a_snapshot(a_worker(0, state="IDLE+DRAIN", reason=OURS)), {"gpu-0": WORDS})
    assert kept(ours) == {"gpu-0": WORDS}
    assert calls(plan(ours)) == [DRAIN, Undrain(node="gpu-0")]  # the latter is refused then


def test_a_worker_that_somebody_has_only_set_down_is_not_touched_and_drained_when_it_is_back() -> None:
    down = remembering(a_snapshot(a_worker(0, state="DOWN", reason="smoke")), {"gpu-0": WORDS})
    assert (calls(plan(down)), kept(down)) == ([], {"gpu-0": WORDS})


def test_what_its_pod_still_says_of_a_record_that_was_lost_is_kept_also_when_it_is_back_already() -> None:
    lost = replace(drained(), node=None)
    assert lost.pod is not None
    back = replace(a_worker(0), pod=with_shown(lost.pod, None))
    assert (calls(plan(a_snapshot(back))), kept(a_snapshot(back))) == ([DRAIN], {"gpu-0": WORDS})
    again = replace(drained(WORDS, by="slurm"), pod=back.pod)
    assert kept(a_snapshot(again)) == {}
    assert kept(a_snapshot(replace(a_worker(0), pod=drained().pod))) == {}, "as when somebody has lifted it"


def test_when_slurmctld_puts_its_own_reason_in_place_of_somebodys_that_one_comes_back_after_the_registration() -> None:
    worker = drained()
    assert worker.node is not None
    assert worker.pod is not None
    state = node_state(["IDLE", "DRAIN", "INVALID_REG"])
    node = replace(worker.node, state=state, reason="Low CPUs", reason_by="slurm")
    low = replace(worker, node=node)
    assert (DRAIN in calls(plan(a_snapshot(low))), kept(a_snapshot(low))) == (False, {"gpu-0": WORDS})
    shown = replace(low, pod=with_shown(worker.pod, node))
    assert (messages(shown.pod), kept(a_snapshot(shown))) == ({WORDS}, {"gpu-0": WORDS})
    assert messages(with_shown(a_worker(0).pod or worker.pod, node)) == {"Low CPUs [slurm@2026-11-01T10:00:00Z]"}
    told = remembering(a_snapshot(shown), {"gpu-0": WORDS})
    assert DRAIN not in calls(plan(told)), "slurmctld would overwrite it again"


def test_it_is_kept_for_a_worker_of_the_other_mode_as_long_as_that_stays() -> None:
    held = per_machine(a_worker(0), machines=[a_machine("m1")], update=Update(paused=True))
    assert kept(remembering(held, {"gpu-0": WORDS, "gpu-7": WORDS})) == {"gpu-0": WORDS}


def test_it_is_kept_while_the_spec_is_wrong() -> None:
    lost = per_machine(replace(drained(), node=None), machines=[a_machine("m1")])
    found = remembering(lost, {"gpu-7": WORDS})
    spec = replace(found.object.spec, slurmd={"imagePolicy": "Always"})
    assert kept(replace(found, object=replace(found.object, spec=spec))) == {"gpu-0": WORDS, "gpu-7": WORDS}


def test_thousands_are_kept_and_with_shorter_reasons_where_there_is_no_room() -> None:
    many = {f"gpu-{number}": "x" * 1024 for number in range(3000)}
    found = kept(remembering(a_snapshot(replicas=3000), many))
    assert len(found) == 3000
    assert sum(map(len, found.values())) <= KEPT_CHARS_MAX


@pytest.mark.looptime(noop_cycles=0)
async def test_when_slurmctld_has_lost_all_its_records_an_admins_drain_comes_back_with_the_worker() -> None:
    async with a_world(2) as world:
        world.slurm.reasons["gpu-0"] = "bad DIMM"
        world.slurm.changed()
        await asyncio.sleep(600)
        world.slurm.reasons.clear()
        world.slurm.changed()
        await asyncio.sleep(300)  # they have time to register by themselves, and are made anew then
        await world.settled()
        assert {name: bool(reason) for name, reason in world.slurm.reasons.items()} == {"gpu-0": True, "gpu-1": False}
        assert world.slurm.reasons["gpu-0"].startswith("bad DIMM")
        assert "lostDrains" not in world.status()
