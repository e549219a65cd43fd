"""The example of docs/engine.md does what the page says, decided without an event loop and run in virtual time."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from corral.engine import Plan, render, summary_lines
from corral.kube.client import Client, Precondition, Selector
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from examples.note import Note, NoteReconciler, NoteSpec, Snapshot, controller

NOW = datetime(2026, 1, 1, tzinfo=UTC)


PAGE = Path(__file__).parents[2] / "docs" / "engine.md"
FILE = Path(__file__).parents[2] / "examples" / "note.py"


def a_note(*, copies: int = 1, letterhead: str = "", name: str = "hello") -> Note:
    spec = NoteSpec(text="Hello", copies=copies, letterhead=letterhead)
    return Note(metadata=ObjectMeta(name=name, namespace="lab", uid="u1", generation=1), spec=spec)


def plan_of(note: Note, letterhead: ConfigMap | None = None) -> Plan:
    return NoteReconciler().plan(Snapshot(note, NOW, (), letterhead))


def test_the_page_shows_the_whole_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    _imports, code = FILE.read_text().split("import ConfigMap\n")
    for block in blocks:
        code = code.replace(block, "")

    assert code.strip() == ""


def test_a_new_note_plans_one_config_map_a_copy() -> None:
    assert summary_lines(plan_of(a_note(copies=2))) == (
        "create ConfigMap lab/hello-0: the ConfigMap does not exist yet (Missing)",
        "create ConfigMap lab/hello-1: the ConfigMap does not exist yet (Missing)",
    )


def test_a_note_waits_for_its_letterhead_and_says_so() -> None:
    plan = plan_of(a_note(letterhead="paper"))

    assert plan.is_empty
    assert summary_lines(plan) == ("wait: waiting for ConfigMap lab/paper, the letterhead (LetterheadMissing)",)


async def test_rendering_needs_no_cluster() -> None:
    objects = await render(controller(), a_note(copies=3))

    assert [obj.metadata.name for obj in objects] == ["hello-0", "hello-1", "hello-2"]


@pytest.mark.looptime
async def test_a_letterhead_that_appears_brings_the_waiting_note_back() -> None:
    server = FakeApiServer(seed=1, namespaces=("lab",))
    server.register(Note.resource, status=True)
    client = Client(server.connect("person"))
    operator = Operator(server, controller)
    operator.start()
    await client.create(a_note(letterhead="paper"), field_manager="person")
    await converged(server, controller, within_s=120)
    assert (await client.get(Note, "hello", "lab")).status.conditions[0].reason == "LetterheadMissing"

    paper = ConfigMap(metadata=ObjectMeta(name="paper", namespace="lab"), data={"text": "The Lab"})
    await client.create(paper, field_manager="person")
    await converged(server, controller, within_s=120)

    assert (await client.get(ConfigMap, "hello-0", "lab")).data == {"text": "The Lab\nHello"}
    await operator.stop()


@pytest.mark.looptime
async def test_a_note_that_somebody_else_keeps_from_going_is_left_alone_and_says_so() -> None:
    server = FakeApiServer(seed=1, namespaces=("lab",))
    server.register(Note.resource, status=True)
    client = Client(server.connect("person"))
    operator = Operator(server, controller)
    operator.start()
    held = msgspec.structs.replace(a_note().metadata, finalizers=("example.org/keep",))
    note = await client.create(msgspec.structs.replace(a_note(), metadata=held), field_manager="person")
    await converged(server, controller, within_s=120)

    await client.delete(Note, "hello", "lab", precondition=Precondition(uid=note.metadata.uid))
    copy = await client.get(ConfigMap, "hello-0", "lab")
    await client.delete(ConfigMap, "hello-0", "lab", precondition=Precondition(uid=copy.metadata.uid))
    await converged(server, controller, within_s=120)

    assert (await client.list(ConfigMap, Selector(namespace="lab"))).items == ()
    ready = (await client.get(Note, "hello", "lab")).status.conditions[0]
    assert (ready.status, ready.reason) == ("False", "BeingDeleted")
    assert ready.message == "it is being deleted, held by its finalizers example.org/keep"
    await operator.stop()
