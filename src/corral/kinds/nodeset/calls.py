"""What a NodeSet asks of Slurm, and through whom: the calls as data, and the seam that carries them out.

`SlurmClusters` is implemented by `corral.kinds.nodeset.rest` (slurmrestd) and by tests (a model in memory).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import msgspec

from corral.slurm.facts import Extra, Observed, View
from corral.slurm.transport import Endpoint
from corral.slurm.values import Reservation

REASON_PREFIX = "corral: "  # a drain with this reason is ours; any other is somebody's and is never touched


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    reason: str
    spares_others: bool = True  # not a node that somebody else has taken out of service, also meanwhile


class Undrain(msgspec.Struct, frozen=True, kw_only=True):
    node: str


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """slurmctld refuses while a job holds the node: the one check that nothing can overtake."""

    node: str
    spares_others: bool = True


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Keep nodes free for maintenance: no job begins there that would not have ended by then."""

    reservation: str
    start: datetime
    duration: timedelta
    nodes: tuple[str, ...]


class Narrow(msgspec.Struct, frozen=True, kw_only=True):
    """Leave a reservation these nodes only."""

    reservation: str
    nodes: tuple[str, ...]


class Unreserve(msgspec.Struct, frozen=True, kw_only=True):
    reservation: str


NodeCall: TypeAlias = Drain | Undrain | Forget
Call: TypeAlias = NodeCall | Reserve | Narrow | Unreserve


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation, as far as Slurm told. Nothing that was not told is taken for "there is none"."""

    told: bool = False
    found: Reservation | None = None


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Of a partition: whether jobs may be submitted to it, as far as Slurm told. One that is not there takes none."""

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
    """slurmrestd cannot do it; beside slurmctld this command does."""

    def __init__(self, command: tuple[str, ...]) -> None:
        super().__init__(" ".join(command))
        self.command = command


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a cluster is asked, and the key that signs the question. Its repr shows no key."""

    at: Endpoint
    jwt_key: bytes

    def __repr__(self) -> str:
        return f"<Address {self.at.url}>"


class SlurmClusters(Protocol):
    """Clusters are named `namespace/controller`. Calls raise `OutsideFailed`; `view` never raises."""

    async def view(
        self, cluster: str, address: Address | None, *, fresh: bool, extras: frozenset[Extra] = frozenset()
    ) -> View:
        """What is known, and nothing from before a call of ours. `fresh`: wait, but not for long, for a new look."""
        ...

    async def perform(self, cluster: str, call: Call) -> None:
        """A drain or undrain is left undone when the node has somebody else's drain by now. May raise OnlyByCommand."""
        ...

    def wrote(self, cluster: str) -> None:
        """Something was changed there by other means: what was seen before does not count any more."""
        ...

    def subscribe(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Tell which cluster's facts changed; the returned function ends it."""
        ...

    async def close(self) -> None: ...
