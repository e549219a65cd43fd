"""Which decisions need a look of Slurm that began after they were made, and what such a look is asked for. Pure.

A plan over what was seen last is good enough to make, to drain and to wait. Whoever is removed by it, or let go, is
looked at once more: the plan is made again over a new look, and that one is carried out.
"""

from corral.engine import Action, Delete, Outside, Plan, RemoveFinalizer
from corral.kinds.nodeset.calls import Forget
from corral.kinds.nodeset.force import FORCED
from corral.kinds.nodeset.reservation import is_asked_for
from corral.kinds.nodeset.spec import NodeSet
from corral.slurm.facts import Extra


def needs_proof(decided: Plan) -> bool:
    return any(_takes_away(action) for action in decided.actions)


def extras_for(nodeset: NodeSet) -> frozenset[Extra]:
    closes = nodeset.metadata.deletion_timestamp is not None and nodeset.spec.partition.enabled
    wanted = {Extra.RESERVATIONS: is_asked_for(nodeset), Extra.PARTITIONS: closes}
    return frozenset(extra for extra, is_wanted in wanted.items() if is_wanted)


def _takes_away(action: Action) -> bool:
    match action:
        case Outside():
            return isinstance(action.call, Forget)
        case Delete():
            return action.reason == FORCED
    return isinstance(action, RemoveFinalizer)
