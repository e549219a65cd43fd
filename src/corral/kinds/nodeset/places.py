"""Who is to be there: a worker an ordinal (scalingMode StatefulSet), or one a Kubernetes node (DaemonSet). Pure.

A Kubernetes node that the pod no longer fits loses its worker as in every scale-in. One that is merely cordoned, not
ready or tainted gets no new worker; what becomes of the one that it has, `machine` says.

Workers of the other mode are outdated: they are replaced as `rollout` says, and since no place is theirs they are not
made again. New ones are made at once, wherever there is room.
"""

from collections.abc import Iterable, Sequence

import msgspec

from corral.engine import Wait
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.fitting import matches, takes
from corral.kinds.nodeset.leaving import surplus, vacant_ordinals, without
from corral.kinds.nodeset.ordinals import unfolded
from corral.kinds.nodeset.pins import pinned
from corral.kinds.nodeset.revision import Make
from corral.kinds.nodeset.rollout import surge
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.worker import pod_of_nobody
from corral.kinds.nodeset.workers import Place, Worker
from corral.kube.models.core_v1 import Pod


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """`count`: how many there are to be, without those that a rollout has more for a while. `vacant`: where none is."""

    count: int
    vacant: tuple[Place, ...]
    leaving: tuple[Worker, ...] = ()
    waits: tuple[Wait, ...] = ()


def asked_for(snapshot: Snapshot, controller: Controller, old: Sequence[Worker] = ()) -> Asked:
    """`old`: those that a rollout is to replace. Raises BadOverride, BadUpdate."""
    live, per_machine = snapshot.live, snapshot.object.spec.is_per_machine
    ours = [worker for worker in live if worker.make is not None and worker.make.stands_for_machine is per_machine]
    if per_machine:
        return _by_machine(snapshot, controller, ours)
    movable = [worker for worker in old if worker.make is not None and not worker.make.stands_for_machine]
    asked = _by_ordinal(snapshot, ours, surge(snapshot, movable))
    return msgspec.structs.replace(asked, vacant=pinned(snapshot, controller, asked.vacant))


def lasting(snapshot: Snapshot, controller: Controller, asked: Asked) -> frozenset[str]:
    """Workers that are asked for, or would be if their Kubernetes node took any now."""
    if snapshot.object.spec.is_per_machine:
        spec, name = pod_of_nobody(snapshot.object, controller).spec, snapshot.object.metadata.name
        return frozenset(names.worker_on(name, one) for one, node in snapshot.machines.items() if matches(spec, node))
    staying = without(snapshot.live, asked.leaving)
    return frozenset({worker.name for worker in staying} | {place.name for place in asked.vacant})


def is_of_other_mode(nodeset: NodeSet, make: Make) -> bool:
    return make.stands_for_machine is not nodeset.spec.is_per_machine


def machine_of(pod: Pod) -> str:
    """The Kubernetes node that it stands for, in scalingMode DaemonSet."""
    return pod.metadata.annotations.get(names.MACHINE, "")


def asked_ordinals(snapshot: Snapshot, asked: Asked) -> frozenset[int]:
    """Of those that are there and stay, and of those that are missing."""
    found = [worker.ordinal for worker in without(snapshot.live, asked.leaving)]
    found += [place.ordinal for place in asked.vacant]
    return frozenset(ordinal for ordinal in found if ordinal is not None)


def _by_ordinal(snapshot: Snapshot, live: Sequence[Worker], more: int) -> Asked:
    nodeset = snapshot.object
    spec, name = nodeset.spec, nodeset.metadata.name
    leaving = surplus(live, spec.replicas + more, spec.reserve_ordinals)
    staying = {worker.ordinal for worker in without(live, leaving) if worker.ordinal is not None}
    known = _asked_before(snapshot) - {worker.ordinal for worker in leaving}
    vacant = tuple(
        Place(name=names.worker_name(name, ordinal, padding=spec.ordinal_padding), ordinal=ordinal)
        for ordinal in vacant_ordinals(staying, spec.replicas + more, spec.reserve_ordinals, known)
    )
    return Asked(count=spec.replicas, vacant=vacant, leaving=leaving)


def _asked_before(snapshot: Snapshot) -> frozenset[int]:
    """A worker comes back at its ordinal, with its volumes and to its Kubernetes node, whichever others are free."""
    if said := snapshot.object.status.ordinals:
        return unfolded(said)
    return frozenset(
        worker.ordinal for worker in snapshot.workers if worker.pod is not None and worker.ordinal is not None
    )


def _by_machine(snapshot: Snapshot, controller: Controller, live: Sequence[Worker]) -> Asked:
    nodeset = snapshot.object
    spec = pod_of_nobody(nodeset, controller).spec
    here = {machine_of(worker.pod): worker for worker in live if worker.pod is not None}
    fit = {name: machine for name, machine in sorted(snapshot.machines.items()) if matches(spec, machine)}
    wanted = [name for name, machine in fit.items() if name in here or takes(spec, machine)]
    places = {names.worker_on(nodeset.metadata.name, name): name for name in reversed(wanted)}
    hidden = sorted(set(wanted) - set(places.values()))
    return Asked(
        count=len(places),
        vacant=tuple(Place(name=place, machine=name) for place, name in sorted(places.items()) if name not in here),
        leaving=tuple(worker for name, worker in here.items() if name not in fit),
        waits=tuple(_hidden(hidden)),
    )


def _hidden(machines: Iterable[str]) -> Iterable[Wait]:
    """`a.b` and `a-b` would have one worker between them."""
    for name in machines:
        message = f"Kubernetes node {name} gets no worker: its worker would have the same name as that of another node"
        yield Wait(reason="NameTaken", message=message, stalled=True)
