"""What the verbs answer beside objects: a page of a list, and what one watch says."""

from typing import Generic, TypeVar

import msgspec

from corral.kube.meta import Object

T = TypeVar("T", bound=Object)


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""


class Put(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A watch said: this is how the object is now. `event` is ADDED or MODIFIED as the server called it."""

    object: T
    event: str = "MODIFIED"


class Gone(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A watch said: the object is deleted; this is its last state, with the version of the deletion."""

    object: T


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """A watch said: you have seen everything up to this version. `initial_list_ends` closes a streamed list."""

    resource_version: str
    initial_list_ends: bool = False
