"""What follows from a frozen value, found when it is first asked for. Pure.

As `functools.cached_property`, without its lock: that costs more than most of what is found here.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class derived(Generic[T]):  # noqa: N801 - written as `property` is
    """For a method of a Struct with `dict=True`. Once found, a value is read as any other attribute is."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    @overload
    def __get__(self, of: None, kind: type) -> "derived[T]": ...
    @overload
    def __get__(self, of: object, kind: type) -> T: ...
    def __get__(self, of: object | None, kind: type) -> "derived[T] | T":
        if of is None:
            return self
        found = of.__dict__[self._name] = self._find(of)
        return found
