"""What to do so that an owner's children are as desired: make, change, put back, prune. Pure.

    desired and missing              create (server-side apply that refuses to touch an existing object; `Once`: POST)
    desired, but we changed our mind  change
    desired, but someone changed it   put back, and say so in a Drifted event with the field paths
    desired, but the name is taken    wait: an object that is not ours is never touched
    not desired, ours                 delete (ours: our controller reference by uid, and our manager's mark)
    not desired, not ours             left alone

A field that we do not set is not ours and is left alone. An object wrapped in `Once` is made and never changed.
"""

from collections.abc import Iterable

import msgspec

from corral.engine.plan import Plan
from corral.kube.meta import Object


class Once(msgspec.Struct, frozen=True):
    """A child that is made once and never changed afterwards: a pod, a generated Secret."""

    object: Object


def manager_name(kind: type[Object]) -> str:
    """The default field manager and controller name of a kind: `corral-toy`."""
    return f"corral-{kind.resource.kind.lower()}"


def children(owner: Object, desired: Iterable[Object | Once], observed: Iterable[Object], *, manager: str = "") -> Plan:
    """`observed`: every child the owner controls (`read.owned`), and any other object under a desired name.

    The owner reference, the mark and the namespace are added here; `desired` says only what the kind means.
    """
    raise NotImplementedError
