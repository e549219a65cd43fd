"""The table of node states, row by row, and every way in which Slurm writes a state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.states import (
    JOB_WORDS,
    ROWS,
    Base,
    Flag,
    NodeState,
    Phase,
    Standing,
    job_phase,
    node_state,
    node_state_from_text,
)

TABLE = [
    ("IDLE", Standing.REMOVABLE, "idle"),
    ("IDLE+DYNAMIC_NORM", Standing.REMOVABLE, "idle"),
    ("IDLE+CLOUD+POWERED_DOWN", Standing.REMOVABLE, "idle"),
    ("IDLE+NOT_RESPONDING", Standing.REMOVABLE, "idle"),
    ("ALLOCATED", Standing.BUSY, "jobs run"),
    ("MIXED+NOT_RESPONDING", Standing.BUSY, "jobs run"),
    ("MIXED+FAIL", Standing.BUSY, "jobs run"),
    ("ALLOCATED+COMPLETING", Standing.BUSY, "jobs run"),
    ("IDLE+COMPLETING", Standing.BUSY, "cleaned up"),
    ("DOWN+COMPLETING", Standing.BUSY, "cleaned up"),
    ("IDLE+RESERVED", Standing.BUSY, "reservation"),
    ("IDLE+MAINTENANCE", Standing.BUSY, "reservation"),
    ("IDLE+PLANNED", Standing.BUSY, "promised"),
    ("IDLE+BLOCKED", Standing.BUSY, "promised"),
    ("IDLE+REBOOT_REQUESTED", Standing.BUSY, "reboot"),
    ("IDLE+REBOOT_ISSUED", Standing.BUSY, "reboot"),
    ("ALLOCATED+DRAIN", Standing.DRAINING, "no new ones"),
    ("MIXED+DRAIN+MAINTENANCE", Standing.DRAINING, "no new ones"),
    ("IDLE+DRAIN+COMPLETING", Standing.DRAINING, "cleaned up"),
    ("DOWN+DRAIN+COMPLETING", Standing.DRAINING, "cleaned up"),
    ("IDLE+DRAIN+REBOOT_ISSUED", Standing.DRAINING, "lifts the drain"),
    ("DOWN+DRAIN+REBOOT_ISSUED", Standing.DRAINING, "lifts the drain"),
    ("IDLE+POWER_DRAIN", Standing.DRAINING, "powered down"),
    ("IDLE+POWER_DOWN_ASAP", Standing.DRAINING, "powered down"),
    ("IDLE+DRAIN", Standing.DRAINED, "none comes"),
    ("IDLE+DRAIN+RESERVED", Standing.DRAINED, "none comes"),
    ("IDLE+DRAIN+NOT_RESPONDING", Standing.DRAINED, "none comes"),
    ("IDLE+DRAIN+INVALID_REG", Standing.DRAINED, "none comes"),
    ("DOWN+DRAIN", Standing.DRAINED, "none comes"),
    ("DOWN", Standing.DOWN, "down"),
    ("DOWN+NOT_RESPONDING", Standing.DOWN, "down"),
    ("DOWN+REBOOT_ISSUED", Standing.DOWN, "down"),
    ("DOWN+RESERVED", Standing.DOWN, "down"),
    ("FUTURE", Standing.DOWN, "never registered"),
    ("IDLE+FAIL", Standing.DOWN, "failing"),
    ("IDLE+INVALID_REG", Standing.DOWN, "less than"),
    ("UNKNOWN", Standing.UNKNOWN, "does not say"),
    ("UNKNOWN+DRAIN", Standing.UNKNOWN, "does not say"),
    ("ERROR+DRAIN", Standing.UNKNOWN, "does not say"),
    ("INVALID", Standing.UNKNOWN, "does not say"),
    ("EXTERNAL", Standing.UNKNOWN, "does not say"),
    ("IDLE+DRAIN+UNDRAIN", Standing.UNKNOWN, "order"),
    ("IDLE+RESUME", Standing.UNKNOWN, "order"),
    ("IDLE+DRAIN+SOMETHING_NEW", Standing.UNKNOWN, "do not know"),
    ("FUTURE+DRAIN", Standing.DOWN, "never registered"),
]


@pytest.mark.parametrize(("text", "standing", "why"), TABLE, ids=[row[0] for row in TABLE])
def test_a_state_stands_for(text: str, standing: Standing, why: str) -> None:
    state = node_state(text.split("+"))

    assert state.standing is standing
    assert why in state.row.why


def test_every_row_of_the_table_is_reached_by_a_test() -> None:
    reached = {node_state(text.split("+")).row for text, _, _ in TABLE}

    assert [row.why for row in ROWS[:-1] if row not in reached] == []


@given(st.sampled_from(Base), st.frozensets(st.sampled_from(Flag)))
def test_the_last_row_is_never_needed_for_what_we_know(base: Base, flags: frozenset[Flag]) -> None:
    assert NodeState(base, flags).row is not ROWS[-1]


@given(st.lists(st.sampled_from([*Base.__members__, *Flag.__members__, "NEW_IN_29"])))
def test_only_an_idle_or_down_node_is_ever_removable_or_drained(words: list[str]) -> None:
    state = node_state(words)

    if state.standing in (Standing.REMOVABLE, Standing.DRAINED):
        assert state.base in (Base.IDLE, Base.DOWN)
        assert Flag.COMPLETING not in state.flags
        assert not state.unread


@given(st.sampled_from(Base), st.frozensets(st.sampled_from(Flag)))
def test_a_state_written_as_scontrol_does_is_read_back(base: Base, flags: frozenset[Flag]) -> None:
    state = NodeState(base, flags)

    assert node_state_from_text(str(state)) == state


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("idle", "IDLE"),
        ("down*", "DOWN+NOT_RESPONDING"),
        ("IDLE*+DRAIN", "IDLE+DRAIN+NOT_RESPONDING"),
        ("drain", "IDLE+DRAIN"),
        ("drained*", "IDLE+DRAIN+NOT_RESPONDING"),
        ("drng", "MIXED+DRAIN"),
        ("draining@", "MIXED+DRAIN+REBOOT_REQUESTED"),
        ("alloc", "ALLOCATED"),
        ("mix-", "MIXED+PLANNED"),
        ("mix#*", "MIXED+POWERING_UP+NOT_RESPONDING"),
        ("idle~", "IDLE+POWERED_DOWN"),
        ("idle%", "IDLE+POWERING_DOWN"),
        ("idle!", "IDLE+POWER_DOWN"),
        ("boot^", "IDLE+REBOOT_ISSUED"),
        ("maint", "IDLE+MAINTENANCE"),
        ("alloc$", "ALLOCATED+MAINTENANCE"),
        ("resv", "IDLE+RESERVED"),
        ("comp*", "IDLE+COMPLETING+NOT_RESPONDING"),
        ("failing", "MIXED+FAIL"),
        ("inval", "UNKNOWN+INVALID_REG"),
        (" MIXED+DRAIN ", "MIXED+DRAIN"),
    ],
)
def test_sinfo_and_scontrol_say(text: str, same_as: str) -> None:
    assert str(node_state_from_text(text)) == str(node_state(same_as.split("+")))


def test_words_that_we_cannot_read_are_kept_for_people_to_see() -> None:
    state = node_state(["IDLE", "SOMETHING_NEW"])

    assert state.unread == ("SOMETHING_NEW",)
    assert str(state) == "IDLE+SOMETHING_NEW"


@pytest.mark.parametrize("words", [[], ["DRAIN"], ["IDLE", "MIXED"], [""]], ids=str)
def test_no_base_or_two_is_unknown(words: list[str]) -> None:
    assert node_state(words).standing is Standing.UNKNOWN


@pytest.mark.parametrize(
    ("words", "phase"),
    [
        (["PENDING"], Phase.PENDING),
        (["PENDING", "REQUEUE_HOLD"], Phase.PENDING),
        (["PENDING", "SPECIAL_EXIT"], Phase.PENDING),
        (["PENDING", "COMPLETING", "REQUEUED"], Phase.COMPLETING),
        (["RUNNING"], Phase.RUNNING),
        (["RUNNING", "CONFIGURING"], Phase.RUNNING),
        (["RUNNING", "POWER_UP_NODE", "CONFIGURING"], Phase.RUNNING),
        (["SUSPENDED", "STOPPED"], Phase.RUNNING),
        (["RUNNING", "EXPEDITING"], Phase.RUNNING),
        (["COMPLETED", "COMPLETING"], Phase.COMPLETING),
        (["COMPLETED", "STAGE_OUT"], Phase.COMPLETING),
        (["COMPLETING"], Phase.COMPLETING),
        (["COMPLETED"], Phase.ENDED),
        (["CANCELLED by 1000"], Phase.ENDED),
        (["CANCELLED+"], Phase.ENDED),
        (["OUT_OF_MEMORY"], Phase.ENDED),
        (["NODE_FAIL"], Phase.ENDED),
        (["REVOKED"], Phase.ENDED),
        (["CONFIGURING"], Phase.UNKNOWN),
        (["COMPLETED", "NEW_IN_29"], Phase.UNKNOWN),
        ([], Phase.UNKNOWN),
    ],
    ids=str,
)
def test_a_job_is(words: list[str], phase: Phase) -> None:
    assert job_phase(words) is phase


@given(st.lists(st.sampled_from(sorted(JOB_WORDS)), min_size=1))
def test_a_job_whose_words_say_running_has_never_ended(words: list[str]) -> None:
    if {"RUNNING", "SUSPENDED", "COMPLETING"} & set(words):
        assert job_phase(words) is not Phase.ENDED
