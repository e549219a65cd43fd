"""Workers that come back to the Kubernetes node that they were on (`spec.pinToNode`). Pure.

Where each is, or was when its pod ended, the status remembers by ordinal. A pin holds while its node is cordoned or not
ready: the worker waits. It is gone when the node is, when the pod no longer fits there, and when the ordinal is not
asked for any more. A pod that was made for it and waits for a pin that is gone would wait forever: it is made again.
"""

from collections.abc import Sequence, Set

from msgspec.structs import replace

from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.fitting import matches
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.worker import pod_of_nobody
from corral.kinds.nodeset.workers import Place, Worker
from corral.kube.models.core_v1 import Pod


def pins(snapshot: Snapshot, asked: Set[int]) -> dict[str, str]:
    """Ordinal to node: of workers that are there, and of those that are missing. `asked`: whose are asked for."""
    spec, before = snapshot.object.spec, snapshot.object.status.ordinal_to_node
    if not spec.pin_to_node or spec.is_per_machine:
        return {}
    on = [(w, str(w.ordinal), w.pod.spec.node_name) for w in snapshot.workers if w.pod and w.ordinal is not None]
    here = {ordinal: machine for worker, ordinal, machine in on if worker.is_live and machine}
    ending = {ordinal: machine for worker, ordinal, machine in on if not worker.is_live and machine}
    missed = {
        ordinal: machine
        for ordinal, machine in {**before, **ending}.items()
        if ordinal not in here and machine in snapshot.machines and ordinal.isdecimal() and int(ordinal) in asked
    }
    found = {**here, **missed}
    return {ordinal: found[ordinal] for ordinal in sorted(found, key=int)}


def pinned(snapshot: Snapshot, controller: Controller, vacant: tuple[Place, ...]) -> tuple[Place, ...]:
    held = _held(snapshot, controller, {place.ordinal for place in vacant if place.ordinal is not None})
    return tuple(replace(place, pinned=held.get(str(place.ordinal), "")) for place in vacant) if held else vacant


def unpinned(snapshot: Snapshot, controller: Controller, staying: Sequence[Worker]) -> list[Worker]:
    """Those whose pod waits for a node that it is no longer pinned to. None of them has ever run."""
    waiting = [(worker, pin_of(worker.pod)) for worker in staying if worker.pod and not worker.pod.spec.node_name]
    bound = [(worker, pin) for worker, pin in waiting if pin and worker.ordinal is not None]
    held = _held(snapshot, controller, {worker.ordinal for worker, _ in bound if worker.ordinal is not None})
    return [worker for worker, pin in bound if held.get(str(worker.ordinal)) != pin]


def pin_of(pod: Pod) -> str:
    return pod.metadata.annotations.get(names.PINNED, "")


def _held(snapshot: Snapshot, controller: Controller, ordinals: Set[int]) -> dict[str, str]:
    known = pins(snapshot, ordinals) if ordinals else {}
    if not known:
        return {}
    spec = pod_of_nobody(snapshot.object, controller).spec
    there = {ordinal: snapshot.machines[name] for ordinal, name in known.items() if name in snapshot.machines}
    return {ordinal: known[ordinal] for ordinal, machine in there.items() if matches(spec, machine)}
