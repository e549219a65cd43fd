"""Leader election on a Lease: at most one process writes.

`Election.may_write` is what the client's `fence` calls, without an await, before each send.
"""

from corral.engine.clock import Clock
from corral.kube.client import Client


class LeaseLost(Exception):
    """We led and do not any more. The process should end: another may be leading already."""


class Election:
    def __init__(self, client: Client, clock: Clock, *, name: str, namespace: str, identity: str) -> None: ...

    def may_write(self) -> bool: ...  # True only while our lease is certainly ours; once lost, False for ever
    async def acquire(self) -> None: ...  # returns when we lead; waits for as long as it takes
    async def hold(self) -> None: ...  # renews until cancelled; raises LeaseLost
    async def release(self) -> None: ...  # lets another lead at once; for a clean shutdown
