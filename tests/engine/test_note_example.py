"""The example of docs/engine.md does what the page says, decided without an event loop and run in virtual time."""

from datetime import UTC, datetime

import pytest

from corral.engine import Plan, render, summary_lines
from corral.kube.client import Client
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from examples.note import Note, NoteReconciler, NoteSpec, Snapshot, controller

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_note(*, copies: int = 1, letterhead: str = "", name: str = "hello") -> Note:
    spec = NoteSpec(text="Hello", copies=copies, letterhead=letterhead)
    return Note(metadata=ObjectMeta(name=name, namespace="lab", uid="u1", generation=1), spec=spec)


def plan_of(note: Note, letterhead: ConfigMap | None = None) -> Plan:
    return NoteReconciler().plan(Snapshot(note, NOW, (), letterhead))


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
