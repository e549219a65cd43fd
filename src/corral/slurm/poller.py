"""One look after another at one cluster, for everyone who wants to know.

However many NodeSets there are, a cluster is asked once. `view` is what is known now; `subscribe` tells of changes;
`fresh` waits for a look that began late enough to be a proof.
"""

from collections.abc import Callable

from corral.slurm.clock import Clock
from corral.slurm.facts import Reachability, View
from corral.slurm.rest import SlurmClient


class Poller:
    view: View
    reachability: Reachability

    def __init__(self, client: SlurmClient, clock: Clock) -> None: ...
    def subscribe(self, callback: Callable[[View], None]) -> Callable[[], None]:
        """Called on the event loop after each look that differs; the returned function ends it."""
        ...

    async def fresh(self, max_age_s: float = 0.0, *, within_s: float = 30.0) -> View:
        """A look that began no longer than `max_age_s` ago (0: after this call). Unknown, never an error, if none can be had."""
        ...

    async def run(self) -> None:
        """Look until cancelled."""
        ...
