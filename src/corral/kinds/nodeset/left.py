"""What is left of slurmctld while its Controller is missing, and what it said last.

A Controller may be away for a moment only (`kubectl replace --force`, a chart that is installed again), or be deleted
without what it made (`--cascade=orphan`). Its jobs live on all the while: slurmds run without slurmctld, and its state
is on a volume that outlives it. So whoever wants to conclude anything from a missing Controller asks for what is here.

It is remembered by this process alone. One that was just started has seen nothing, and concludes nothing.
"""

from datetime import datetime

import msgspec

from corral.engine import Key, Reader
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.slurm.facts import Observed, View


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """`said`: Slurm's last answer, which held until `silent_since`; every change of it would have brought a pass."""

    since: datetime  # when the Controller was first seen to be missing; later, while slurmctld's pod is there
    runs: bool = False  # slurmctld's pod is there
    keeps_state: bool = True  # slurmctld would find its jobs again, or nobody knows
    said: Observed | None = None
    silent_since: datetime | None = None


class Known(msgspec.Struct, frozen=True, kw_only=True):
    said: Observed | None = None
    silent_since: datetime | None = None
    missing_since: datetime | None = None
    has_own_claim: bool = False  # and not one that people gave it, which we do not see


class Memory:
    """What was seen of each NodeSet's slurmctld."""

    def __init__(self) -> None:
        self._known: dict[Key, Known] = {}

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)

    def left(self, key: Key, of: str, controller: Controller | None, view: View, read: Reader) -> Left | None:
        """Of the Controller of that name; None while it is there."""
        before = self._known.get(key, Known())
        said = view if isinstance(view, Observed) else before.said
        silent_since = None if isinstance(view, Observed) else before.silent_since or view.since
        if controller is not None:
            own = not controller.spec.persistence.existing_claim
            self._known[key] = Known(said=said, silent_since=silent_since, has_own_claim=own)
            return None
        own, pod = before.has_own_claim, slurmctld_pod(of)
        runs = read.get(Pod, pod, key.namespace) is not None
        since = read.now if runs or before.missing_since is None else before.missing_since
        self._known[key] = Known(said=said, silent_since=silent_since, missing_since=since, has_own_claim=own)
        is_kept = read.get(PersistentVolumeClaim, f"state-{pod}", key.namespace) is not None
        return Left(since=since, runs=runs, keeps_state=is_kept or not own, said=said, silent_since=silent_since)


def slurmctld_pod(controller: str) -> str:
    return f"{names.controller_name(controller)}-0"
