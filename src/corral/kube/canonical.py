"""An object as the server would write it back, so that two spellings of one value compare as equal.

Which fields are rewritten follows from their types (see `corral.kube.values`): quantities and durations get their
canonical text, times lose their fraction of a second. The rest is returned as it is: the same objects, not copies.
What this never does: fill in the server's defaults.
"""

import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from operator import is_
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from corral.kube.values import DURATION, QUANTITY, canonical_quantity, format_duration, parse_duration

S = TypeVar("S", bound=msgspec.Struct)
Rewrite = Callable[[Any], Any]  # returns its argument itself when there is nothing to rewrite


def canonical(value: S) -> S:
    """`value` with every quantity, duration and time in its canonical form. Raises ValueError for one that is none."""
    changed = {}
    for name, rewrite in _rewrites(type(value)):
        before = getattr(value, name)
        if before is not None and (after := rewrite(before)) is not before:
            changed[name] = after
    return msgspec.structs.replace(value, **changed) if changed else value


@cache
def _rewrites(struct: type[msgspec.Struct]) -> tuple[tuple[str, Rewrite], ...]:
    """The fields of a class that may need rewriting; a class that reaches no such field costs nothing."""
    found = ((field.name, _rewrite_for(field.type)) for field in msgspec.structs.fields(struct))
    return tuple((name, rewrite) for name, rewrite in found if rewrite is not None)


def _rewrite_for(declared: Any, seen: frozenset[type] = frozenset()) -> Rewrite | None:
    """`seen` ends the recursion of types that contain themselves; their own rewrites are found when they are met."""
    for marker, rewrite in ((QUANTITY, _quantity), (DURATION, _duration)):
        if marker in getattr(declared, "__metadata__", ()):
            return rewrite
    if declared is datetime:
        return _whole_seconds
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        if declared in seen or not _reaches_one(declared, seen | {declared}):
            return None
        return canonical
    origin, arguments = get_origin(declared), get_args(declared)
    if origin is Annotated or origin in (Union, types.UnionType):
        return next((found for part in arguments if (found := _rewrite_for(part, seen))), None)
    if origin is tuple and (element := _rewrite_for(arguments[0], seen)):
        return partial(_each, element)
    if origin is Mapping and (element := _rewrite_for(arguments[1], seen)):
        return partial(_each_value, element)
    return None


def _reaches_one(struct: type[msgspec.Struct], seen: frozenset[type]) -> bool:
    return any(_rewrite_for(field.type, seen) is not None for field in msgspec.structs.fields(struct))


def _each(rewrite: Rewrite, items: tuple[Any, ...]) -> tuple[Any, ...]:
    rewritten = tuple(map(rewrite, items))
    return items if all(map(is_, rewritten, items)) else rewritten


def _each_value(rewrite: Rewrite, entries: Mapping[str, Any]) -> Mapping[str, Any]:
    rewritten = {key: rewrite(entry) for key, entry in entries.items()}
    return entries if all(map(is_, rewritten.values(), entries.values())) else rewritten


def _quantity(value: int | str) -> int | str:
    written = canonical_quantity(value)
    return value if written == value else written


def _duration(value: str) -> str:
    written = format_duration(parse_duration(value))
    return value if written == value else written


def _whole_seconds(value: datetime) -> datetime:
    return value if value.tzinfo is UTC and not value.microsecond else value.astimezone(UTC).replace(microsecond=0)
