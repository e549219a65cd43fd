"""What `corral plan` tells programs."""

import json
from typing import Any

import pytest

from corral.cli.plan import Answer, _say
from corral.engine import Apply, Create, Plan
from corral.engine.questions import Change
from corral.kube.meta import ObjectMeta, ObjectRef
from corral.kube.models.core_v1 import ConfigMap

HELLO = ObjectMeta(name="hello", namespace="lab")
MAKE = Create(object=ConfigMap(metadata=HELLO), reason="Missing", message="")
CHANGE = Apply(object=ConfigMap(metadata=HELLO), reason="Changed", message="")
NOW, THEN = {"data": {"text": "a"}}, {"data": {"text": "b"}}
CHANGES = (
    Change(action=MAKE, before=None, after=THEN),
    Change(action=CHANGE, before=NOW, after=THEN),
    Change(action=CHANGE, before=NOW, after=NOW, refused="data: too long"),
    Change(action=CHANGE, before=None, after=None, untried="it cannot be asked for a dry run"),
)


def told(capsys: pytest.CaptureFixture[str], *, diff: bool) -> dict[str, Any]:
    answer = Answer(ObjectRef("Note", "lab", "hello"), Plan(actions=(MAKE, CHANGE)), CHANGES)
    _say((answer,), "json", diff=diff)
    (item,) = json.loads(capsys.readouterr().out)["items"]
    return dict(item)


def test_a_dry_run_is_told_to_programs_change_by_change(capsys: pytest.CaptureFixture[str]) -> None:
    about = {"kind": "ConfigMap", "namespace": "lab", "name": "hello"}
    untroubled = {"about": about, "refused": "", "untried": ""}

    assert told(capsys, diff=True)["changes"] == [
        {**untroubled, "before": None, "after": THEN},
        {**untroubled, "before": NOW, "after": THEN},
        {**untroubled, "before": NOW, "after": NOW, "refused": "data: too long"},
        {**untroubled, "before": None, "after": None, "untried": "it cannot be asked for a dry run"},
    ]


def test_without_a_dry_run_of_everything_no_changes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "changes" not in told(capsys, diff=False)
