"""What is left of slurmctld while its Controller is missing, and what still runs on the workers.

A Controller may be away for a moment only (`kubectl replace --force`, a chart that is installed again), or be deleted
without what it made (`--cascade=orphan`). Its jobs live on all the while: slurmds run without slurmctld, and its state
is on a volume that outlives it. So whoever wants to conclude anything from a missing Controller asks for what is here.

Since when it is missing is remembered by this process alone: one that was just started waits as long again.
"""

from datetime import datetime

import msgspec

from corral.engine import Key, Reader
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kube.models.core_v1 import Pod
from corral.slurm.facts import Observed, View


class Left(msgspec.Struct, frozen=True, kw_only=True):
    since: datetime  # when the Controller was first seen to be missing; later, while slurmctld's pod is there
    runs: bool = False  # slurmctld's pod is there
    said: Observed | None = None  # Slurm's last answer, if this process heard it


class Memory:
    """Since when each NodeSet has no slurmctld, and what that said last."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}
        self._said: dict[Key, Observed] = {}

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)
        self._said.pop(key, None)

    def hears(self, key: Key, view: View) -> None:
        if isinstance(view, Observed):
            self._said[key] = view

    def left(self, key: Key, of: str, read: Reader) -> Left | None:
        """Of the Controller of that name; None while it is there."""
        if read.get(Controller, of, key.namespace) is not None:
            self._since.pop(key, None)
            return None
        runs = read.get(Pod, slurmctld_pod(of), key.namespace) is not None
        self._since[key] = read.now if runs else self._since.get(key, read.now)
        return Left(since=self._since[key], runs=runs, said=self._said.get(key))


def slurmctld_pod(controller: str) -> str:
    return f"{names.controller_name(controller)}-0"
