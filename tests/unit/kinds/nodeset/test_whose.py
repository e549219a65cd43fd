"""Whose word keeps a node out of service, and that nobody else's is overruled."""

import pytest

from corral.kinds.nodeset.calls import Drain
from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.whose import has_our_drain, is_somebodys
from corral.slurm.states import node_state
from tests.unit.kinds.nodeset.builders import OURS, a_snapshot, a_worker
from tests.unit.kinds.nodeset.test_nodeset_machine import a_machine, decided, on
from tests.unit.kinds.nodeset.test_nodeset_plan import calls, deleted, reasons


@pytest.mark.parametrize(
    ("state", "reason", "whose"),
    [
        ("IDLE", "", "nobody's"),
        ("IDLE", "was drained once", "nobody's"),
        ("IDLE+DRAIN", OURS, "ours"),
        ("DOWN+DRAIN", OURS, "ours"),
        ("MIXED+DRAIN", "bad DIMM", "somebody's"),
        ("IDLE+DRAIN", "", "somebody's"),
        ("IDLE+DRAIN", "Kill task failed", "somebody's"),
        ("DOWN", "bad DIMM", "somebody's"),
        ("DOWN+NOT_RESPONDING", "bad DIMM", "somebody's"),
        ("IDLE+FAIL", "predicted by the vendor", "somebody's"),
        ("MIXED+FAIL", "predicted by the vendor", "somebody's"),
        ("DOWN", "", "nobody's"),
        ("DOWN+NOT_RESPONDING", "Not responding", "nobody's"),
        ("DOWN", "Node unexpectedly rebooted", "nobody's"),
        ("DOWN", "Low RealMemory (reported:1 < 100.00% of configured:2)", "nobody's"),
        ("DOWN", "gres/gpu count reported lower than configured (0 < 2)", "nobody's"),
        ("DOWN+DRAIN", "Not responding", "somebody's"),
        ("IDLE+DRAIN+INVALID_REG", "Low socket*core*thread count, Low CPUs", "nobody's"),
        ("IDLE+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (0 < 2)", "nobody's"),
        ("IDLE+DRAIN+INVALID_REG", "bad DIMM", "somebody's"),
        ("IDLE+DRAIN+INVALID_REG+FAIL", "Low CPUs", "somebody's"),
        ("IDLE+DRAIN", "Low CPUs", "somebody's"),
        ("DOWN", OURS, "nobody's"),
    ],
)
def test_a_node_is_kept_out_of_service_by_whoever_gave_the_reason(state: str, reason: str, whose: str) -> None:
    read = node_state(state.split("+"))
    found = "ours" if has_our_drain(read, reason) else "somebody's" if is_somebodys(read, reason) else "nobody's"
    assert found == whose


@pytest.mark.parametrize("state", ["DOWN", "IDLE+FAIL"])
def test_what_an_admin_set_down_is_neither_scaled_in_nor_drained_and_people_are_told_how_it_goes(state: str) -> None:
    broken = a_worker(0, state=state, reason="bad DIMM")
    found = plan(a_snapshot(broken, replicas=0))
    assert (found.actions, reasons(found)) == ((), ["DrainedBySomebodyElse"])
    assert "set it DOWN ('bad DIMM')" in found.waits[0].message
    assert "state=resume" in found.waits[0].message
    assert decided(on(broken), a_machine(cordoned=True)).actions == ()


def test_another_goes_in_place_of_one_that_an_admin_set_down() -> None:
    found = plan(a_snapshot(a_worker(0), a_worker(1, state="DOWN", reason="bad DIMM"), replicas=1))
    assert calls(found) == [Drain(node="gpu-0", reason=OURS)]


def test_with_its_nodeset_goes_what_somebody_has_drained_or_set_down() -> None:
    down, drained = a_worker(0, state="DOWN", reason="bad DIMM"), a_worker(1, state="IDLE+DRAIN", reason="bad fan")
    found = plan(a_snapshot(down, drained, deleted=True))
    drain = Drain(node="gpu-0", reason="corral: deletion of NodeSet lab/gpu", spares_others=False)
    assert (calls(found)[0], deleted(found)) == (drain, ["gpu-1"])
