"""What both readers use: a document, what became of it, and how what was left out is told."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from corral.kinds.wukong.spec import GROUP, VERSION

Document: TypeAlias = Mapping[str, Any]

SERVERS_OWN = ("kubectl.kubernetes.io/last-applied-configuration",)


class CannotImport(ValueError):
    """The message says which object, what is wrong with it and what to do."""


class Imported(msgspec.Struct, frozen=True):
    """`notes`: what is not as it was, as sentences for a person."""

    manifest: Document
    notes: tuple[str, ...] = ()


class Notes:
    """What a reader finds worth telling, each once and in order."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}

    def add(self, note: str) -> None:
        self._said[note] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._said)


def ours(kind: str, document: Document, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": metadata(document),
        "spec": without_nothing(spec),
    }


def metadata(document: Document) -> dict[str, Any]:
    """What people wrote, without what a server added."""
    meta = document.get("metadata") or {}
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in SERVERS_OWN}
    kept = {
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace"),
        "labels": meta.get("labels"),
        "annotations": annotations,
    }
    return {name: value for name, value in kept.items() if value}


def without_nothing(value: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that say nothing are left out: None, and empty texts, lists and maps."""
    return {name: each for name, each in value.items() if each not in (None, "", [], {}, ())}


class Taken:
    """Reads fields of a document and knows in the end which ones nobody has read."""

    def __init__(self, content: Mapping[str, Any] | None, path: str = "") -> None:
        self._content, self._path = content or {}, path
        self._read: set[str] = set()
        self._inner: list[Taken] = []

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return self._content.get(name, default)

    def into(self, name: str) -> "Taken":
        """An object within, whose own fields count each for itself."""
        self._read.add(name)
        inner = Taken(self._content.get(name), f"{self._path}{name}.")
        self._inner.append(inner)
        return inner

    def each(self, name: str) -> "list[Taken]":
        self._read.add(name)
        entries = self._content.get(name) or []
        inner = [Taken(entry, f"{self._path}{name}[{entry.get('name', n)}].") for n, entry in enumerate(entries)]
        self._inner += inner
        return inner

    def repeats(self, name: str, value: Any) -> None:
        """A field that need not be told because another one said the same."""
        if self._content.get(name) == value:
            self._read.add(name)

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    def unread(self) -> Iterator[str]:
        yield from (f"{self._path}{name}" for name, value in self._content.items() if name not in self._read and value)
        for inner in self._inner:
            yield from inner.unread()


def left_out(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path} has no counterpart and is left out" for path in paths)
