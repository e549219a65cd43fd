"""Which objects a verb is about, and what must still be true of them."""

from __future__ import annotations

from typing import Literal

import msgspec

from corral.kube.meta import Object

Propagation = Literal["Background", "Foreground", "Orphan"]


class Precondition(msgspec.Struct, frozen=True):
    """The object we decided about. The server refuses (Conflict) when it has become another.

    An empty one guards nothing; say so on purpose.
    """

    uid: str = ""
    resource_version: str = ""

    @classmethod
    def of(cls, obj: Object) -> Precondition:
        """Exactly the object as we saw it."""
        return cls(obj.metadata.uid, obj.metadata.resource_version)


class Selector(msgspec.Struct, frozen=True):
    """Which objects of a kind. Empty strings mean all."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
