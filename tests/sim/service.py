"""The law of `maxUnavailable`: whom an operator takes out of service in order to make it anew, and who is left.

Twice, for a plan may be wrong about what it sees, and right about what has changed meanwhile:

    plans    none takes a worker that is in service while more would be missing than may be, for whatever reason they
             are, as far as its own snapshot tells
    truth    a drain takes no worker that is in service unless, with those that others took since they were in service,
             as many are left as must be; whichever operator has taken the rest, whatever it knew

In service is who is ready, registered, neither drained nor down; in truth, for as long as it takes an operator to hear
of it at the latest. Whom somebody else has drained a plan counts as there, also one that was on its way out when that
happened; and so does the truth, for as long after it was given back as it takes to hear of that. Scale-in, the
machines below and pods that people delete are no such replacement. In an open window all go at once as soon as one has
come up as it is asked for now.

Why one is drained its words say, unless they are those of people about its Kubernetes node, which come first: then it
is as the fates of that snapshot have it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from corral.engine import Outside, Plan
from corral.kinds import names
from corral.kinds.nodeset.calls import REASON_PREFIX, Drain
from corral.kinds.nodeset.fates import fates_of
from corral.kinds.nodeset.rollout import BadUpdate
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSetSpec
from corral.kinds.nodeset.workers import Worker
from corral.kinds.overrides import BadOverride
from corral.kube.models.core_v1 import Node, Pod
from corral.slurm.states import Base, Flag
from tests.sim.kubelet import Json, is_ready
from tests.sim.kubernetes import SimServer
from tests.sim.slurmctld import Slurmctld
from tests.sim.whose import is_foreign

ROLLOUT, WRONG, SCALE_IN = (f"{REASON_PREFIX}{why} of " for why in ("rollout", "wrong registration", "scale-in"))
REPLACED: Final = (ROLLOUT, WRONG)
GOES: Final = (*REPLACED, SCALE_IN)
OUT: Final = frozenset({Flag.DRAIN, Flag.FAIL, Flag.INVALID_REG})
HEARD_OF_WITHIN_S = 80.0  # a silent watch is noticed after 75 s


class Service:
    """`taken`: whom operators have taken out of service to replace them. `served`: who has been in service, and was not
    taken out of it by a replacement or a scale-in."""

    def __init__(self, server: SimServer, slurm: Slurmctld, broken: Callable[[str], None]) -> None:
        self._server, self._slurm, self._broken = server, slurm, broken
        self._taken: set[str] = set()
        self._served: dict[str, str] = {}  # with the revision of its pod
        self._since_s: dict[str, float] = {}  # of those that are in service now
        self._others_s: dict[str, float] = {}  # when somebody else had them out of service last

    def tick(self) -> None:
        self._here(self._server.all_of(Pod))

    def is_made(self, nodeset: str) -> None:
        """What an earlier one of that name had is not missing."""
        self._taken = {name for name in self._taken if not names.is_worker_of(nodeset, name)}
        self._served = {name: made for name, made in self._served.items() if not names.is_worker_of(nodeset, name)}

    def drains(self, client: str, node: str, reason: str, seen: Snapshot) -> None:
        """An operator is about to; `seen`: what it has decided by."""
        here = self._here(self._server.all_of(Pod))
        revision, why = self._served.get(node, ""), whys_of(seen, {node: reason})[node]
        if why in GOES:
            self._served.pop(node, None)
        if node not in here or why not in REPLACED:
            return
        self._taken.add(node)
        if self._server.now_s() - self._since_s[node] < HEARD_OF_WITHIN_S:
            return
        nodeset = seen.object.metadata.name
        by_others = (self._served.keys() - self._taken) | self._had_by_others()
        left = [name for name in (here - {node}) | by_others if names.is_worker_of(nodeset, name)]
        least = least_of(seen, why)
        if len(left) < least and not self._all_at_once(seen, revision):
            self._broken(f"{client} drains {node} ({reason}): {len(left)} are left in service, and {least} must be")

    def _here(self, pods: Iterable[Json]) -> set[str]:
        """Who is in service now, whatever was before."""
        here = {pod["metadata"]["name"]: revision_of(pod) for pod in pods if self._serves(pod)}
        self._taken -= here.keys()
        self._served |= here
        self._others_s |= {name: self._server.now_s() for name, one in self._slurm.nodes.items() if is_foreign(one)}
        self._since_s = {name: self._since_s.get(name, self._server.now_s()) for name in here}
        return set(here)

    def _had_by_others(self) -> set[str]:
        return {name for name, at_s in self._others_s.items() if self._server.now_s() - at_s < HEARD_OF_WITHIN_S}

    def _serves(self, pod: Json) -> bool:
        record = self._slurm.nodes.get(pod["metadata"]["name"])
        if record is None or record.slurmd is None or "deletionTimestamp" in pod["metadata"] or not is_ready(pod):
            return False
        is_its_own = record.slurmd.alive and record.slurmd.pod_uid == pod["metadata"]["uid"]
        return is_its_own and not (record.drain or record.down or record.fail or record.invalid or record.power)

    def _all_at_once(self, seen: Snapshot, revision: str) -> bool:
        served = {made for name, made in self._served.items() if names.is_worker_of(seen.object.metadata.name, name)}
        return is_open(seen) and bool(served - {revision})


def breach_of(snapshot: Snapshot, plan: Plan) -> str:
    """Of the law, by a plan and as far as that can know; empty: none."""
    drains = [action.call for action in plan.actions if isinstance(action, Outside) and isinstance(action.call, Drain)]
    whys = whys_of(snapshot, {one.node: one.reason for one in drains})
    there = [worker for worker in snapshot.live if is_there(worker)]
    known = {worker.name for worker in there}
    taken = sorted(name for name in known if whys.get(name) in REPLACED)
    left = {name for name in known if whys.get(name) not in GOES}
    least = min((least_of(snapshot, why) for why in whys.values() if why in REPLACED), default=0)
    if not taken or len(left) >= least or (is_open(snapshot) and is_proven(there, taken)):
        return ""
    return f"a plan takes {taken}: {sorted(left)} are left in service, and {least} must be"


def whys_of(snapshot: Snapshot, drains: Mapping[str, str]) -> dict[str, str]:
    """By node, from the reason of its drain: one of GOES, or nothing."""
    said = {node: next((why for why in GOES if reason.startswith(why)), "") for node, reason in drains.items()}
    if all(said.values()) or snapshot.controller is None or snapshot.object.metadata.deletion_timestamp is not None:
        return said
    try:
        fates = fates_of(snapshot, snapshot.controller)
    except (BadOverride, BadUpdate):
        return said
    gone = ((fates.leaving, SCALE_IN), (fates.rolling.replaced, ROLLOUT), (fates.wrong, WRONG))
    fated = {worker.name: why for workers, why in gone for worker in workers}
    return {node: why or fated.get(node, "") for node, why in said.items()}


def is_there(worker: Worker) -> bool:
    if worker.is_somebodys:
        return True
    state = worker.node.state if worker.node is not None else None
    is_out = state is None or state.base is Base.DOWN or not state.flags.isdisjoint(OUT)
    return worker.is_ready and not is_out


def is_proven(there: Sequence[Worker], taken: Collection[str]) -> bool:
    old = {worker.make for worker in there if worker.name in taken}
    return any(worker.make not in old for worker in there)


def is_open(snapshot: Snapshot) -> bool:
    window = snapshot.object.spec.update.window
    return window is not None and window.is_open(snapshot.now)


def least_of(snapshot: Snapshot, why: str) -> int:
    """How many must be left in service."""
    spec = snapshot.object.spec
    count = places_of(snapshot) if spec.is_per_machine else spec.replicas
    most = most_of(spec, count)
    return count - (max(1, most) if why == WRONG else most)


def most_of(spec: NodeSetSpec, count: int) -> int:
    """How many may be missing. Where nobody may be, and nobody more than asked for may come, one may."""
    said, surge = spec.update.max_unavailable, spec.update.max_surge
    most = said if isinstance(said, int) else int(said.removesuffix("%")) * count // 100
    return most or (1 if surge in (0, "0%") else 0)


def places_of(snapshot: Snapshot) -> int:
    """Machines that have a worker, or that would take one."""
    here = {worker.pod.metadata.annotations.get(names.MACHINE) for worker in snapshot.live if worker.pod is not None}
    return sum(name in here or is_open_to_all(machine) for name, machine in snapshot.machines.items())


def is_open_to_all(machine: Node) -> bool:
    is_well = any(one.type == "Ready" and one.status == "True" for one in machine.status.conditions)
    return is_well and not machine.spec.unschedulable and not machine.spec.taints


def revision_of(pod: Json) -> str:
    return str(pod["metadata"]["labels"][names.REVISION_LABEL])
