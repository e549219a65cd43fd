"""A complete controller: a Note becomes as many ConfigMaps as it asks for, under the letterhead it names.

corral crds --load examples/note.py | kubectl apply --server-side -f -
corral run --load examples/note.py
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from corral.engine import Controller, Key, KindController, Outcome, Plan, Reader, Status, Wait, children
from corral.kube.crd import Column, Scale, kind, rule
from corral.kube.meta import Model, Object, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap


class NoteSpec(Model, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=4096, description="What every copy says.")]
    copies: Annotated[int, Meta(ge=0, le=50, description="How many copies there are.")] = 1
    letterhead: Annotated[str, Meta(max_length=253, description="The ConfigMap whose `text` heads every copy.")] = ""


class NoteStatus(Status, frozen=True, kw_only=True):
    copies: int = 0


@kind(
    group="demo.corral.dev",
    version="v1alpha1",
    plural="notes",
    scale=Scale(spec=".spec.copies", status=".status.copies"),
    columns=(Column("Copies", "integer", ".status.copies"),),
    rules=(rule("self.spec.letterhead != self.metadata.name", "a note cannot be its own letterhead"),),
)
class Note(Object, frozen=True, kw_only=True):
    """A text, kept in as many copies as you like."""

    spec: NoteSpec
    status: NoteStatus = NoteStatus()


class Snapshot(msgspec.Struct, frozen=True):
    object: Note
    now: datetime
    copies: tuple[ConfigMap, ...]
    letterhead: ConfigMap | None


class NoteReconciler:
    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        note = read.get(Note, key.name, key.namespace)
        if note is None:
            return None
        letterhead = read.get(ConfigMap, note.spec.letterhead, key.namespace)
        return Snapshot(note, read.now, read.owned(ConfigMap, note), letterhead)

    def plan(self, snapshot: Snapshot) -> Plan:
        note = snapshot.object
        if note.spec.letterhead and snapshot.letterhead is None:
            missing = f"waiting for ConfigMap {note.metadata.namespace}/{note.spec.letterhead}, the letterhead"
            return Plan(waits=(Wait(reason="LetterheadMissing", message=missing),))
        return children(note, copies(note, snapshot.letterhead), snapshot.copies)

    def report(self, snapshot: Snapshot, outcome: Outcome) -> NoteStatus:
        return NoteStatus.of(snapshot, outcome, copies=len(snapshot.copies))


def copies(note: Note, letterhead: ConfigMap | None) -> Iterable[ConfigMap]:
    head = letterhead.data.get("text", "") + "\n" if letterhead else ""
    for number in range(note.spec.copies):
        metadata = ObjectMeta(name=f"{note.metadata.name}-{number}")
        yield ConfigMap(metadata=metadata, data={"text": head + note.spec.text})


def notes_under(letterhead: ConfigMap, read: Reader) -> Iterable[Key]:
    name, namespace = letterhead.metadata.name, letterhead.metadata.namespace
    return [Key(namespace, n.metadata.name) for n in read.list(Note, namespace) if n.spec.letterhead == name]


def controller() -> Controller[Note, Snapshot]:
    return Controller.for_(Note, NoteReconciler()).owns(ConfigMap).watches(ConfigMap, to=notes_under)


KINDS = (KindController(Note, controller),)
