"""All clusters that we speak to: one client and one poller each.

A cluster that hangs has a task of its own to hang in; nothing here waits for it.
"""

from collections.abc import Callable

from corral.slurm.clock import Clock
from corral.slurm.facts import Reachability, View
from corral.slurm.poller import Poller
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import TokenIssuer
from corral.slurm.transport import Endpoint, Transport


class Cluster:
    """One cluster's client and what its poller knows. Replaced as a whole when address or issuer change."""

    key: str
    client: SlurmClient
    poller: Poller


class Clients:
    """Keys are `namespace/name` of whatever stands for the cluster; their meaning is the caller's."""

    def __init__(self, clock: Clock, connect: Callable[[Endpoint], Transport] = ...) -> None: ...
    def connect(self, key: str, endpoint: Endpoint, issuer: TokenIssuer) -> Cluster:
        """The cluster's client: the same as before when address and issuer are, else a new one. Does not wait."""
        ...

    def disconnect(self, key: str, why: str = "...") -> None: ...
    def get(self, key: str) -> Cluster | None: ...
    def view(self, key: str) -> View: ...
    def reachability(self, key: str) -> Reachability: ...
    def subscribe(self, callback: Callable[[str, View], None]) -> Callable[[], None]: ...
    async def close(self) -> None: ...
