"""Objects of kinds for which we have no class: everything the server said, read-only to the last leaf.

`untyped(resource)` is the class of such objects, so a `Resource` can stand wherever a kind is asked for and
`obj.resource` works as it does for typed objects. Unlike our models this keeps `managedFields` and every field we have
never heard of; it costs five times as much memory, and is meant for the few kinds we only pass through.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Protocol, TypeVar

import msgspec

from corral.kube.meta import Object, ObjectMeta, Resource

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)


class StandsForKind(Protocol[T_co]):
    """What a `Resource` has: a class to stand for its kind. It is a protocol so that one signature types both."""

    def untyped(self) -> type[T_co]: ...


Kind = type[T] | StandsForKind[T]
"""A kind is a class of ours, or a Resource."""


def class_of(kind: Kind[T]) -> type[T]:
    return kind if isinstance(kind, type) else kind.untyped()


class Unstructured(Object, frozen=True, kw_only=True):
    """`content` is the whole object; `metadata` is read from it and cannot differ."""

    content: Mapping[str, object] = MappingProxyType({})

    def __post_init__(self) -> None:
        metadata = msgspec.convert(self.content.get("metadata") or {}, ObjectMeta)
        msgspec.structs.force_setattr(self, "metadata", metadata)
        msgspec.structs.force_setattr(self, "content", frozen(self.content))

    def get(self, *path: str | int, default: object = None) -> object:
        """What stands at the path (`get("spec", "ports", 0, "port")`), or the default if the path leads nowhere."""
        value: object = self.content
        for step in path:
            match value, step:
                case Mapping(), str() if step in value:
                    value = value[step]
                case tuple(), int() if -len(value) <= step < len(value):
                    value = value[step]
                case _:
                    return default
        return value


@cache
def untyped(resource: Resource) -> type[Unstructured]:
    """The class of all untyped objects of one resource."""
    cls = msgspec.defstruct(f"Untyped{resource.kind}", [], bases=(Unstructured,), frozen=True, kw_only=True)
    assert issubclass(cls, Unstructured)  # noqa: S101 - narrows the type that defstruct cannot express
    cls.resource = resource
    return cls


def frozen(value: object) -> object:
    """The same JSON value with mappings read-only and lists as tuples, all the way down."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    return value
