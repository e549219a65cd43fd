"""Who stays and who goes, each for one reason. Pure.

leaving     not asked for any more
replaced    outdated, and its turn (see `rollout`)
lost        its slurmd runs, and Slurm has no record of it, or one of an earlier life, and gets none by itself
wrong       on record otherwise than it was made (see `registering`)
unpinned    its pod waits for a Kubernetes node that it is no longer pinned to (see `pins`)
settled     all others: they stay
orphans     records in Slurm without a pod, where none is to be made
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from corral.engine import Plan
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.arrival import REGISTERED_WITHIN_S, settled_since
from corral.kinds.nodeset.facts import Facts
from corral.kinds.nodeset.leaving import farewell_order, without
from corral.kinds.nodeset.pins import unpinned
from corral.kinds.nodeset.places import Asked, asked_for, is_of_other_mode
from corral.kinds.nodeset.registering import registered_wrong
from corral.kinds.nodeset.revision import is_outdated, revision_of, version_step
from corral.kinds.nodeset.rollout import Rollout, limits, outdated, rollout
from corral.kinds.nodeset.snapshot import Snapshot, recent
from corral.kinds.nodeset.started import LONG_AGO
from corral.kinds.nodeset.workers import Worker

FREED = (Facts.FREE, Facts.DRAINED)  # without a job, as far as Slurm knows
TOLD_ANEW_S = 0.1  # for so long at the most, a worker, the Controller tells slurmds to register anew


class Fates(msgspec.Struct, frozen=True, kw_only=True):
    asked: Asked
    outdated: tuple[Worker, ...]  # all that a rollout will replace one day
    rolling: Rollout
    staying: Sequence[Worker]  # all but `leaving`
    lost: Sequence[Worker]
    wrong: Sequence[Worker]
    unpinned: Sequence[Worker]
    settled: Sequence[Worker]
    orphans: Sequence[Worker]
    waiting: Plan  # for what, and when to look again

    @property
    def leaving(self) -> tuple[Worker, ...]:
        return self.asked.leaving


def fates_of(snapshot: Snapshot, controller: Controller) -> Fates:
    """Raises BadOverride, BadUpdate."""
    nodeset = snapshot.object
    old = _outdated(snapshot, controller)
    asked = asked_for(snapshot, controller, old)
    staying = without(snapshot.live, asked.leaving)
    missing = [place.name for place in asked.vacant]
    rolling = rollout(snapshot, staying, old, farewell_order, asked.count, missing)
    others = without(staying, rolling.replaced)
    lost = _lost(snapshot, others)
    missing_max = max(1, limits(nodeset.spec.update, asked.count)[0])
    # Whom the rollout takes in this pass is as good as missing: the two share what may be.
    wrong, waiting = registered_wrong(snapshot, without(others, lost), others, asked.count, missing_max)
    gone = (*lost, *wrong)
    free = unpinned(snapshot, controller, without(others, (*gone, *rolling.remade)))
    vacant = {place.name for place in asked.vacant}
    return Fates(
        asked=asked,
        outdated=old,
        rolling=rolling,
        staying=staying,
        lost=lost,
        wrong=wrong,
        unpinned=free,
        settled=without(others, (*gone, *free)),
        orphans=[worker for worker in snapshot.workers if worker.pod is None and worker.name not in vacant],
        waiting=waiting
        + Plan(waits=(*asked.waits, *version_step(nodeset, controller).waits, *rolling.waits))
        + Plan(again_after_s=rolling.again_after_s),
    )


def _outdated(snapshot: Snapshot, controller: Controller) -> tuple[Worker, ...]:
    """By what they are made from, by what they stand for, and by what their Kubernetes node says."""
    nodeset = snapshot.object
    revision, version = revision_of(nodeset, controller), version_step(nodeset, controller).version
    old = outdated(
        snapshot.live,
        snapshot,
        lambda make: is_outdated(make, revision, version) or is_of_other_mode(nodeset, make),
    )
    return (*old, *without([worker for worker in snapshot.live if worker.is_otherwise], old))


def _lost(snapshot: Snapshot, staying: Sequence[Worker]) -> list[Worker]:
    """Those that run and are not in Slurm. Who was there before is left to the Controller first: after slurmctld has
    lost its records it tells all slurmds to register anew, some after the others."""
    absent = [worker for worker in staying if worker.facts is Facts.UNREGISTERED and worker.is_ready]
    gone = [worker for worker in absent if worker.missing_since is not None]
    until = snapshot.now - timedelta(seconds=REGISTERED_WITHIN_S + TOLD_ANEW_S * len(gone))
    view = recent(snapshot)
    settled = settled_since(snapshot.now, view.since) if view is not None else LONG_AGO
    missed = [one for one in staying if one.is_missed and one.said in FREED and not one.is_somebodys]
    missed = [one for one in missed if one.body.begun is not None and one.body.begun <= settled]
    return [*(one for one in absent if one.missing_since is None or one.missing_since <= until), *missed]
