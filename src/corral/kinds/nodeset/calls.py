"""What a NodeSet asks Slurm to do: the calls as data, and the interface that carries them out.

`SlurmClusters` is implemented by `corral.kinds.nodeset.rest` (slurmrestd) and by tests (a model in memory).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import msgspec

from corral.slurm.facts import Extra, Observed, View
from corral.slurm.transport import Endpoint
from corral.slurm.values import Reservation

REASON_PREFIX = "corral: "  # a drain whose reason starts so is ours; any other is somebody else's and never touched


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    reason: str
    spares_others: bool = True  # skip a node that somebody else has drained or set DOWN, even just now


class Undrain(msgspec.Struct, frozen=True, kw_only=True):
    node: str


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the node from Slurm. slurmctld refuses while it has a job: the one check without a race."""

    node: str
    spares_others: bool = True


END_WAIT = ("/usr/libexec/corral/slurmd-leave", "now")


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The wait of a pod for its jobs, from within: kubelet heeds no shorter time once it ends a pod."""

    pod: str


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Keep nodes free for maintenance: no job starts there that would run past the start."""

    reservation: str
    start: datetime
    duration: timedelta
    nodes: tuple[str, ...]


class Narrow(msgspec.Struct, frozen=True, kw_only=True):
    """Reduce a reservation to these nodes."""

    reservation: str
    nodes: tuple[str, ...]


class Unreserve(msgspec.Struct, frozen=True, kw_only=True):
    reservation: str


NodeCall: TypeAlias = Drain | Undrain | Forget
Call: TypeAlias = NodeCall | Reserve | Narrow | Unreserve


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation, if Slurm has reported it. `told` is false if it is unknown whether there is one."""

    told: bool = False
    found: Reservation | None = None


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Whether jobs may be submitted to a partition, if Slurm has reported it. A missing one accepts none."""

    told: bool = False
    is_open: bool = True


def door_in(view: View, partition: str) -> Door:
    if not isinstance(view, Observed) or view.partitions is None:
        return Door()
    found = view.partitions.get(partition)
    return Door(told=True, is_open=found is not None and "INACTIVE" not in found.state)


def reserved_in(view: View, name: str) -> Reserved:
    if not isinstance(view, Observed) or view.reservations is None:
        return Reserved()
    return Reserved(told=True, found=view.reservations.get(name))


class OnlyByCommand(Exception):
    """slurmrestd cannot do it, but this command in the pod of slurmctld can."""

    def __init__(self, command: tuple[str, ...]) -> None:
        super().__init__(" ".join(command))
        self.command = command


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where the REST API of a cluster is, and the key that signs tokens for it. The repr does not show the key."""

    at: Endpoint
    jwt_key: bytes

    def __repr__(self) -> str:
        return f"<Address {self.at.url}>"


class SlurmClusters(Protocol):
    """Clusters are named `namespace/controller`. Calls raise `OutsideFailed`; `view` never raises."""

    async def view(
        self, cluster: str, address: Address | None, *, fresh: bool, extras: frozenset[Extra] = frozenset()
    ) -> View:
        """What is known, but nothing from before our last call. `fresh`: wait for a new observation, not for long."""
        ...

    async def perform(self, cluster: str, call: Call) -> None:
        """Nothing is drained or undrained that has somebody else's drain by now. May raise OnlyByCommand."""
        ...

    def wrote(self, cluster: str) -> None:
        """Something was changed there by other means: older observations are no longer valid."""
        ...

    def subscribe(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Call back with the cluster whose facts changed; the returned function ends it."""
        ...

    async def close(self) -> None: ...
