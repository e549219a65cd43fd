"""The kinds that `corral run | plan | explain | render | status | crds` know. A kind adds an entry, no command code."""

from collections.abc import Callable, Iterable

import msgspec

from corral.engine.controller import AnyController
from corral.kube.meta import Object


class KindController(msgspec.Struct, frozen=True):
    """A kind and how its controller is built. The CRD comes from the class itself (`corral.kube.crd`).

    `build` is called once a command or run: clients of outside systems are made there and given to the reconciler.
    It must not do I/O; `render` calls it without any cluster.
    """

    kind: type[Object]
    build: Callable[[], AnyController]
    short_names: tuple[str, ...] = ()


class UnknownKind(LookupError):
    """A person asked for a kind that is not in the registry; the message lists those that are."""


def find(entries: Iterable[KindController], word: str) -> KindController:
    """By what people type: `toy`, `toys`, `toys.example.dev`, a short name; any case."""
    asked = word.lower()
    entries = tuple(entries)
    for entry in entries:
        if asked in names(entry):
            return entry
    known = ", ".join(sorted(entry.kind.resource.plural_and_group for entry in entries)) or "none"
    raise UnknownKind(f"no kind {word!r} here; known kinds: {known}")


def names(entry: KindController) -> tuple[str, ...]:
    resource = entry.kind.resource
    return (resource.kind.lower(), resource.plural, resource.plural_and_group, *entry.short_names)
