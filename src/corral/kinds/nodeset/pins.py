"""Workers that come back to the Kubernetes node that they were on (`spec.pinToNode`). Pure.

Where each is, the status remembers by ordinal. A pin holds while its node is cordoned or not ready: the worker waits.
It is gone when the node is, when the pod no longer fits there, and when the ordinal is not asked for any more.
"""

from collections.abc import Set

from msgspec.structs import replace

from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.fitting import matches
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.worker import pod_of_nobody
from corral.kinds.nodeset.workers import Place


def pins(snapshot: Snapshot, asked: Set[int]) -> dict[str, str]:
    """Ordinal to node: of workers that are there, and of those that are missing. `asked`: whose are asked for."""
    spec, before = snapshot.object.spec, snapshot.object.status.ordinal_to_node
    if not spec.pin_to_node or spec.is_per_machine:
        return {}
    here = {str(w.ordinal): w.pod.spec.node_name for w in snapshot.live if w.pod is not None and w.ordinal is not None}
    missed = {
        ordinal: machine
        for ordinal, machine in before.items()
        if not here.get(ordinal) and machine in snapshot.machines and ordinal.isdecimal() and int(ordinal) in asked
    }
    found = {**{ordinal: machine for ordinal, machine in here.items() if machine}, **missed}
    return {ordinal: found[ordinal] for ordinal in sorted(found, key=int)}


def pinned(snapshot: Snapshot, controller: Controller, vacant: tuple[Place, ...]) -> tuple[Place, ...]:
    known = pins(snapshot, {place.ordinal for place in vacant if place.ordinal is not None}) if vacant else {}
    if not known:
        return vacant
    spec = pod_of_nobody(snapshot.object, controller).spec
    fit = {ordinal: name for ordinal, name in known.items() if matches(spec, snapshot.machines[name])}
    return tuple(replace(place, pinned=fit.get(str(place.ordinal), "")) for place in vacant)
