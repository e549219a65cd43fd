"""Waiting for objects: by watch, with what is waited for told as it changes, and an end in every case."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from corral.cli.options import Cluster
from corral.cli.rows import Board, after, board_of, news, row_of
from corral.cli.status import lines, rows_now, rows_when_settled
from corral.engine import KindController
from corral.kube.answers import Gone, Put
from corral.kube.client import Client
from corral.kube.meta import Condition, ObjectMeta
from corral.kube.watch import InitDone, InitPut, InitStart, Trouble
from corral.testing.apiserver import FakeApiServer
from examples.note import Note, NoteSpec, NoteStatus, controller

KINDS = (KindController(Note, controller),)


def a_note(name: str = "a", ready: str = "", *, reason: str = "Waiting", stalled: bool = False) -> Note:
    """Seen by its controller if `ready` is given."""
    conditions = (
        Condition(type="Ready", status=ready, reason=reason, message="waiting for paper"),
        Condition(type="Stalled", status=str(stalled), reason=reason),
    )
    status = NoteStatus(observed_generation=1, conditions=conditions) if ready else NoteStatus()
    meta = ObjectMeta(name=name, namespace="lab", generation=1)
    return Note(metadata=meta, spec=NoteSpec(text="t"), status=status)


def told(*events: Any) -> list[str]:
    board = Board()
    lines: list[str] = []
    for event in events:
        before, board = board, after(board, "Note", event)
        lines += news(before, board)
    return lines


def test_what_is_waited_for_is_told_once_until_it_changes() -> None:
    waiting = a_note(ready="False")

    assert told(InitStart(), InitPut((waiting,)), InitDone("1"), Put(waiting), Put(a_note(ready="True"))) == [
        "Note a: waiting for paper (Waiting)",
        "Note a: ready",
    ]


def test_nothing_is_told_of_a_picture_before_it_is_complete() -> None:
    assert told(InitStart(), InitPut((a_note(),))) == []


def test_what_is_missing_from_a_new_picture_is_gone() -> None:
    lines = told(InitStart(), InitPut((a_note(),)), InitDone("1"), InitStart(), InitDone("2"))

    assert lines[-1] == "Note a: gone"


def test_a_deleted_object_is_not_waited_for() -> None:
    board = after(board_of([row_of(a_note(ready="False"))]), "Note", Gone(a_note(ready="False")))

    assert board.is_settled


def test_an_object_that_is_being_deleted_is_not_ready_whatever_its_condition_says() -> None:
    meta = ObjectMeta(name="a", namespace="lab", generation=1, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    ready = a_note(ready="True")
    row = row_of(Note(metadata=meta, spec=ready.spec, status=ready.status))

    assert (row.ready, row.reason) == (False, "Deleting")


def test_trouble_with_the_server_is_told_and_ends_with_the_next_word_of_it() -> None:
    lines = told(Trouble("Unreachable", "no answer", 1.0), Trouble("Unreachable", "no answer", 2.0), Put(a_note()))

    assert lines[0] == "cannot watch Note objects now: no answer"
    assert len(lines) == 2


def test_waiting_ends_when_a_person_must_act() -> None:
    assert not board_of([row_of(a_note(ready="False"))]).is_settled
    assert board_of([row_of(a_note(ready="False", stalled=True))]).is_settled


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer(namespaces=("lab",))
    server.register(Note)
    return server


def added(server: FakeApiServer, name: str) -> None:
    meta = {"name": name, "namespace": "lab"}
    server.add({"apiVersion": "demo.corral.dev/v1alpha1", "kind": "Note", "metadata": meta, "spec": {"text": "t"}})


async def made_ready(client: Client, name: str) -> None:
    note = await client.get(Note, name, "lab")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ready = Condition(type="Ready", status="True", reason="AsDesired", message="done", last_transition_time=now)
    status = NoteStatus(observed_generation=note.metadata.generation, conditions=(ready,))
    whole = Note(metadata=ObjectMeta(name=name, namespace="lab"), spec=note.spec, status=status)
    await client.apply(whole, field_manager="test", force=True, subresource="status")


@pytest.mark.looptime(noop_cycles=0)
async def test_waiting_follows_the_objects_until_all_are_ready(server: FakeApiServer) -> None:
    client = Client(server.connect("person"))
    added(server, "a")
    added(server, "b")
    lines: list[str] = []

    async def worked() -> None:
        for name in ("a", "b"):
            await asyncio.sleep(30)
            await made_ready(client, name)

    work = asyncio.create_task(worked())
    rows = await rows_when_settled(client, KINDS, "lab", "", within_s=300, tell=lines.append)
    await work

    assert [row.ready for row in rows] == [True, True]
    assert lines[-2:] == ["Note a: ready", "Note b: ready"]
    assert 60 <= asyncio.get_running_loop().time() < 61


@pytest.mark.looptime(noop_cycles=0)
async def test_waiting_for_one_object_does_not_wait_for_others(server: FakeApiServer) -> None:
    client = Client(server.connect("person"))
    added(server, "a")
    added(server, "b")
    await made_ready(client, "b")

    rows = await rows_when_settled(client, KINDS, "lab", "b", within_s=300, tell=lambda _line: None)

    assert [(row.name, row.ready) for row in rows] == [("b", True)]
    assert [row.name for row in await rows_now(client, KINDS, "lab", "a")] == ["a"]


@pytest.mark.looptime(noop_cycles=0)
async def test_when_the_time_is_up_the_last_known_state_is_shown(server: FakeApiServer) -> None:
    added(server, "a")
    rows = await rows_when_settled(
        Client(server.connect("person")), KINDS, "lab", "", within_s=5, tell=lambda _line: None
    )

    assert [row.ready for row in rows] == [None]


def test_the_hint_asks_the_same_cluster() -> None:
    shown = lines((row_of(a_note(ready="False")),), None, datetime.now(UTC), Cluster(None, "theirs", None).flags)

    assert shown[-1] == "Why: corral explain note a -n lab --context theirs"
    assert Cluster(None, None, None).flags == ""
