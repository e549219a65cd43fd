"""Workers that cannot be created because a pod or claim of that name exists that is not ours. Pure.

Caches only have objects of Corral, so we learn it when the server refuses. One refused creation holds up those behind
it. So such names are remembered and created apart from the others, and hold up only themselves. They are tried again
from time to time, because nothing tells when a name is free.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from corral.engine import NOTHING, Create, Outcome, Plan, Wait
from corral.kinds.nodeset.claims import claim_names
from corral.kinds.nodeset.each import beside
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.words import some
from corral.kube.meta import EMPTY
from corral.kube.models.core_v1 import Pod

NAME_TAKEN = "NameTaken"  # the engine's reason
TRIED_EVERY_S = 60.0


def apart(snapshot: Snapshot, pods: Sequence[Pod], made: Callable[[Sequence[Pod]], Plan]) -> Plan:
    """`made` for most of them together, and separately for each whose name was taken."""
    if not snapshot.taken:
        return made(pods)
    free = [pod for pod in pods if pod.metadata.name not in snapshot.taken]
    known = [pod for pod in pods if pod.metadata.name in snapshot.taken]
    left_s = {pod.metadata.name: _left_s(snapshot, pod.metadata.name) for pod in known}
    return beside(
        made(free),
        *(made([pod]) for pod in known if left_s[pod.metadata.name] <= 0),
        _told([*left_s], by_ordinal=not snapshot.object.spec.is_per_machine),
        Plan(again_after_s=min((after_s for after_s in left_s.values() if after_s > 0), default=None)),
    )


def names_taken(snapshot: Snapshot, outcome: Outcome) -> Mapping[str, datetime]:
    """Workers that a pass could not create, and when each was last tried."""
    if outcome.problem is None and not snapshot.taken:
        return EMPTY
    tried = [(result.action.object, result) for result in outcome.results if isinstance(result.action, Create)]
    refused = {made.metadata.name for made, r in tried if r.state == "refused" and r.reason == NAME_TAKEN}
    pods = {made.metadata.name: result.state for made, result in tried if isinstance(made, Pod)}
    still = {name: at for name, at in snapshot.taken.items() if pods.get(name) != "done"}
    new = [name for name in pods if refused.intersection((name, *claim_names(snapshot.object, name)))]
    return {**still, **dict.fromkeys(new, snapshot.now)}


def _left_s(snapshot: Snapshot, name: str) -> float:
    return (snapshot.taken[name] + timedelta(seconds=TRIED_EVERY_S) - snapshot.now).total_seconds()


def _told(names: Sequence[str], *, by_ordinal: bool) -> Plan:
    if not names:
        return NOTHING
    otherwise = ", or skip these ordinals (spec.reserveOrdinals)" if by_ordinal else ""
    message = (
        f"cannot create {some(names)}: a pod or claim of that name exists and does not belong to this NodeSet. "
        f"Delete it{otherwise}. Other workers are not affected"
    )
    return Plan(waits=(Wait(reason=NAME_TAKEN, message=message, stalled=True),))
