"""Roll a NodeSet back to an earlier revision: which one, and what changes in the spec. Pure.

This only changes the spec; the workers follow as in every rollout, drained and a few at a time.
"""

from collections.abc import Sequence

import msgspec

from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.revision import Made, as_of, revision_of, version_step
from corral.kinds.nodeset.spec import NodeSet, NodeSetSpec
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.values import Json


class NoSuchRevision(Exception):
    """There is no such revision; the message says which ones exist."""


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """`patch`: JSON patch of the NodeSet; empty when its spec already is that revision."""

    number: int
    revision: str
    patch: tuple[dict[str, Json], ...]


def rollback(nodeset: NodeSet, controller: Controller, known: Sequence[ControllerRevision], to: str = "") -> Rollback:
    """`to`: number, digest or name of a revision; empty: the newest one except the current."""
    present = revision_of(nodeset, controller)
    chosen = _named(nodeset, known, to) if to else _newest(nodeset, known, present)
    was = as_of(nodeset, chosen)
    if was is None:
        raise NoSuchRevision(
            f"revision {chosen.revision} ({chosen.metadata.name}) cannot be read by this version of Corral"
        )
    digest = chosen.metadata.labels.get(names.REVISION_LABEL, chosen.metadata.name)
    return Rollback(
        number=chosen.revision,
        revision=digest,
        patch=() if digest == present else _patch(nodeset.spec, _unpinned(was, nodeset, controller).spec),
    )


def _newest(nodeset: NodeSet, known: Sequence[ControllerRevision], present: str) -> ControllerRevision:
    name = names.revision_name(nodeset.metadata.name, present)
    older = [one for one in known if one.metadata.name != name]
    if not older:
        raise NoSuchRevision("there is no other revision to roll back to")
    return max(older, key=lambda one: (one.revision, one.metadata.name))


def _named(nodeset: NodeSet, known: Sequence[ControllerRevision], to: str) -> ControllerRevision:
    for one in known:
        if to in (str(one.revision), one.metadata.name, one.metadata.labels.get(names.REVISION_LABEL)):
            return one
    there = ", ".join(str(number) for number in sorted(one.revision for one in known)) or "none"
    raise NoSuchRevision(f"{nodeset.metadata.name} has no revision {to}; its revisions: {there}")


def _unpinned(was: NodeSet, nodeset: NodeSet, controller: Controller) -> NodeSet:
    """Without a version that equals the Controller's: the NodeSet keeps following the Controller."""
    free = msgspec.structs.replace(was.spec, version=None)
    left = version_step(msgspec.structs.replace(nodeset, spec=free), controller).version
    return msgspec.structs.replace(was, spec=free) if left == was.spec.version else was


def _patch(present: NodeSetSpec, wanted: NodeSetSpec) -> tuple[dict[str, Json], ...]:
    fields = msgspec.structs.fields(Made)
    changed = [one.encode_name for one in fields if getattr(present, one.name) != getattr(wanted, one.name)]
    after = msgspec.to_builtins(wanted)
    return tuple(
        {"op": "add", "path": f"/spec/{name}", "value": after[name]}
        if name in after
        else {"op": "remove", "path": f"/spec/{name}"}
        for name in changed
    )
