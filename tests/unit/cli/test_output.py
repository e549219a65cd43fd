"""How answers read."""

from datetime import UTC, datetime, timedelta

import pytest

from corral.cli.output import age, as_yaml, diff_lines, file_diffs, table
from corral.cli.rows import row_of
from corral.engine import Apply
from corral.engine.questions import Change
from corral.kube.meta import Condition, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap
from examples.note import Note, NoteSpec, NoteStatus

NOW = datetime(2026, 1, 8, tzinfo=UTC)
ACTION = Apply(object=ConfigMap(metadata=ObjectMeta(name="a", namespace="lab")), reason="Changed", message="")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d")]
)
def test_ages_read_as_kubectl_writes_them(seconds: int, shown: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == shown


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("A", "B"), [("long", "1"), ("x", "2")]) == "A      B\nlong   1\nx      2"


def test_a_diff_shows_only_what_changes() -> None:
    change = Change(action=ACTION, before={"data": {"a": "1"}}, after={"data": {"a": "2"}})

    assert [line for line in diff_lines(change) if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-  a: '1'",
        "+  a: '2'",
    ]


def test_a_refusal_by_the_server_is_shown_in_place_of_a_diff() -> None:
    change = Change(action=ACTION, before=None, after=None, refused="data: too long")

    assert diff_lines(change)[-1] == "! the server would refuse it: data: too long"


@pytest.mark.parametrize(
    ("generation", "seen", "conditions", "ready"),
    [
        pytest.param(1, -1, (), None, id="nobody has looked"),
        pytest.param(2, 1, (Condition(type="Ready", status="True", reason="AsDesired"),), None, id="an older version"),
        pytest.param(1, 1, (Condition(type="Ready", status="True", reason="AsDesired"),), True, id="ready"),
        pytest.param(1, 1, (Condition(type="Ready", status="False", reason="Waiting"),), False, id="not ready"),
    ],
)
def test_an_object_is_ready_only_when_its_present_version_was_looked_at(
    generation: int, seen: int, conditions: tuple[Condition, ...], ready: bool | None
) -> None:
    status = NoteStatus(observed_generation=seen, conditions=conditions)
    note = Note(metadata=ObjectMeta(name="n", generation=generation), spec=NoteSpec(text="t"), status=status)

    assert row_of(note).ready is ready


def test_a_file_in_an_object_has_a_diff_of_its_own() -> None:
    before = {"data": {"slurm.conf": "A=1\nB=2\n", "digest": "x"}}
    after = {"data": {"slurm.conf": "A=1\nB=3\n", "digest": "y"}}
    (found,) = file_diffs(Change(action=ACTION, before=before, after=after))

    assert found == ("--- slurm.conf (now)", "+++ slurm.conf (then)", "@@ -1,2 +1,2 @@", " A=1", "-B=2", "+B=3")


def test_texts_of_several_lines_are_written_as_blocks() -> None:
    assert as_yaml([{"data": {"slurm.conf": "A=1\nB=2\n"}}]) == "---\ndata:\n  slurm.conf: |\n    A=1\n    B=2\n"
