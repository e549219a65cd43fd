"""What `status` says of objects, and how that changes while one waits. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from corral.kube.answers import Gone, Put
from corral.kube.meta import EMPTY, Condition, Object, ObjectRef, ref
from corral.kube.watch import Event, InitDone, InitGone, InitPut, InitStart, Trouble


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """`ready` is None while no controller has looked at this generation of the object."""

    kind: str
    namespace: str
    name: str
    ready: bool | None
    stalled: bool
    reason: str
    message: str
    created: datetime | None

    @property
    def about(self) -> ObjectRef:
        return ObjectRef(self.kind, self.namespace, self.name)

    @property
    def is_settled(self) -> bool:
        """Waiting longer brings nothing: it is ready, or a person must act."""
        return bool(self.ready) or self.stalled

    @property
    def sentence(self) -> str:
        if self.ready:
            return "ready"
        return f"{self.message} ({self.reason})" + ("; a person must act" if self.stalled else "")


def row_of(obj: Object) -> Row:
    meta = obj.metadata
    status: Any = getattr(obj, "status", None)
    conditions: tuple[Condition, ...] = getattr(status, "conditions", ())
    by_type = {condition.type: condition for condition in conditions}
    seen = getattr(status, "observed_generation", meta.generation) >= meta.generation
    ready, stalled = by_type.get("Ready"), by_type.get("Stalled")

    def row(is_ready: bool | None, is_stalled: bool, reason: str, message: str) -> Row:
        about = ref(obj)
        return Row(
            about.kind, about.namespace, about.name, is_ready, is_stalled, reason, message, meta.creation_timestamp
        )

    if ready is None or not seen:
        return row(None, False, "NotSeenYet", "no operator has processed this version of the object yet")
    is_stalled = stalled is not None and stalled.status == "True"
    if meta.deletion_timestamp is not None:
        return row(False, is_stalled, "Deleting", f"it is being deleted: {ready.message}")
    return row(ready.status == "True", is_stalled, ready.reason, ready.message)


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is waited for. `incoming` is a full picture of a kind that is not complete yet."""

    rows: Mapping[ObjectRef, Row] = msgspec.field(default_factory=dict)
    incoming: Mapping[str, tuple[Row, ...]] = EMPTY
    trouble: str = ""

    @property
    def is_settled(self) -> bool:
        return all(row.is_settled for row in self.rows.values())


def after(board: Board, kind: str, event: Event[Any]) -> Board:
    """The board with what a watch of that kind has just told."""
    match event:
        case InitStart():
            return _replaced(board, incoming={**board.incoming, kind: ()})
        case InitPut(objects):
            staged = (*board.incoming.get(kind, ()), *map(row_of, objects))
            return _replaced(board, incoming={**board.incoming, kind: staged})
        case InitGone(obj):
            staged = tuple(row for row in board.incoming.get(kind, ()) if row.about != ref(obj))
            return _replaced(board, incoming={**board.incoming, kind: staged})
        case InitDone():
            others = {about: row for about, row in board.rows.items() if about.kind != kind}
            staged = board.incoming.get(kind, ())
            return _replaced(board, rows={**others, **{row.about: row for row in staged}}, trouble="")
        case Put(obj):
            return _replaced(board, rows={**board.rows, ref(obj): row_of(obj)}, trouble="")
        case Gone(obj):
            left = {about: row for about, row in board.rows.items() if about != ref(obj)}
            return _replaced(board, rows=left, trouble="")
        case Trouble(_, message):
            return _replaced(board, trouble=f"cannot watch {kind} objects now: {message}")
    return board


def news(before: Board, now: Board) -> tuple[str, ...]:
    """What changed, a line each; nothing when it would only repeat what was said."""
    lines = [
        f"{about.kind} {about.name}: {row.sentence}"
        for about, row in now.rows.items()
        if about not in before.rows or before.rows[about].sentence != row.sentence
    ]
    lines += [f"{about.kind} {about.name}: gone" for about in before.rows if about not in now.rows]
    if now.trouble and now.trouble != before.trouble:
        lines.append(now.trouble)
    return tuple(lines)


def board_of(rows: Iterable[Row]) -> Board:
    return Board(rows={row.about: row for row in rows})


def _replaced(board: Board, **changes: Any) -> Board:
    return msgspec.structs.replace(board, **changes)
