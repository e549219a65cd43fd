"""What is left of slurmctld while its Controller is missing, and what still runs on the workers.

A Controller may be away for a moment only (`kubectl replace --force`, a chart that is installed again), or be deleted
without what it made (`--cascade=orphan`). Its jobs live on all the while: slurmds run without slurmctld, and its state
is on a volume that outlives it. So whoever wants to conclude anything from a missing Controller asks for what is here.

Since when it is missing is remembered by this process alone: one that was just started waits as long again.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from corral.engine import Key, Reader
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kube.meta import EMPTY
from corral.kube.models.core_v1 import Pod


class Left(msgspec.Struct, frozen=True, kw_only=True):
    since: datetime  # when the Controller was first seen to be missing; later, while slurmctld's pod is there
    runs: bool = False  # slurmctld's pod is there
    steps: Mapping[str, tuple[str, ...]] = EMPTY  # of jobs, by worker, as a look into it just showed; if it could


class Memory:
    """Since when each NodeSet has no slurmctld."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

    def left(self, key: Key, of: str, read: Reader) -> Left | None:
        """Of the Controller of that name; None while it is there."""
        if read.get(Controller, of, key.namespace) is not None:
            self.forget(key)
            return None
        runs = read.get(Pod, slurmctld_pod(of), key.namespace) is not None
        self._since[key] = read.now if runs else self._since.get(key, read.now)
        return Left(since=self._since[key], runs=runs)


def slurmctld_pod(controller: str) -> str:
    return f"{names.controller_name(controller)}-0"
