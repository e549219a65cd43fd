"""Slurm as a NodeSet sees it, through slurmrestd: one client and one poller per cluster, for all its NodeSets.

A drain has a reason, and the last writer wins. So the node is read again directly before it is drained, undrained or
forgotten, and left alone if somebody else has drained it or set it DOWN meanwhile. A node whose slurmd is being told to
register is not forgotten: slurmd would create it again, without a drain. That is checked once more afterwards.

After a call the next pass waits for an observation that began later: an older one shows the state before the call.
"""

from collections.abc import Callable
from contextlib import suppress

from corral.engine import Clock, OutsideFailed, system_clock
from corral.kinds.nodeset.arrival import is_being_told
from corral.kinds.nodeset.calls import (
    Address,
    Call,
    Drain,
    Forget,
    Narrow,
    OnlyByCommand,
    Reserve,
    Undrain,
    Unreserve,
)
from corral.kinds.nodeset.whose import has_our_drain, is_somebodys
from corral.slurm.clients import Clients
from corral.slurm.errors import Busy, Invalid, NotFound, SlurmError, Unreachable, Unsupported, WrongState
from corral.slurm.facts import Extra, NotAsked, View
from corral.slurm.http import HttpTransport
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import Hs256
from corral.slurm.transport import Endpoint, Transport
from corral.slurm.values import Node, ReservationRequest

SLURM_USER = "slurm"  # SlurmUser: may do everything, and slurmctld always knows it
FRESH_WITHIN_S = 10.0
FIRST_WITHIN_S = 2.0  # a pass that creates pods does not wait longer than this for Slurm
RETRY_S = 5.0
RESERVATION_FLAGS = ("MAINT", "IGNORE_JOBS")  # jobs that already run may outlast its start: we wait for them
NO_SUCH_NODE = 2018  # slurmctld's own word for it


class RestClusters:
    """See `SlurmClusters`. It starts with the first call, on the event loop that runs then."""

    def __init__(
        self, clock: Clock | None = None, *, transport: Callable[[Endpoint], Transport] = HttpTransport
    ) -> None:
        self._clock, self._transport = clock, transport
        self._clients: Clients | None = None
        self._listeners: list[Callable[[str], None]] = []

    async def view(
        self, cluster: str, address: Address | None, *, fresh: bool, extras: frozenset[Extra] = frozenset()
    ) -> View:
        clients = self._started()
        if address is None:
            clients.disconnect(cluster)
            return clients.view(cluster)
        clients.connect(cluster, address.at, Hs256(address.jwt_key, user=SLURM_USER))
        if fresh:
            return await clients.fresh(cluster, extras=extras, within_s=FRESH_WITHIN_S)
        if isinstance(clients.reachability(cluster), NotAsked):
            return await clients.fresh(cluster, extras=extras, within_s=FIRST_WITHIN_S)
        return await clients.current(cluster, extras, within_s=FRESH_WITHIN_S)

    async def perform(self, cluster: str, call: Call) -> None:
        known = self._started().get(cluster)
        if known is None:
            raise OutsideFailed("SlurmUnreachable", f"Slurm {cluster}: no REST API known yet", retry_after_s=RETRY_S)
        try:
            await _carried_out(known.client, call)
        except NotFound as error:
            if isinstance(call, Forget) and all(problem.number != NO_SUCH_NODE for problem in error.problems):
                # A lookup that failed looks like this too, and is no proof of anything.
                raise OutsideFailed("SlurmUnclear", str(error), alone=True, retry_after_s=RETRY_S) from None
            return  # there is no such node: nothing to drain, nothing to forget
        except Busy as error:
            raise OutsideFailed("NodeBusy", str(error), alone=True, retry_after_s=RETRY_S) from None
        except Unsupported as error:
            raise OnlyByCommand(error.command) from None
        except SlurmError as error:
            reason = "SlurmUnreachable" if isinstance(error, Unreachable) else f"Slurm{type(error).__name__}"
            alone = isinstance(error, Invalid | WrongState)
            raise OutsideFailed(reason, str(error), alone=alone, retry_after_s=RETRY_S) from None
        finally:
            self.wrote(cluster)

    def wrote(self, cluster: str) -> None:
        if known := self._started().get(cluster):
            known.poller.wrote()

    def subscribe(self, told: Callable[[str], None]) -> Callable[[], None]:
        self._listeners.append(told)
        return lambda: self._listeners.remove(told) if told in self._listeners else None

    async def close(self) -> None:
        clients, self._clients = self._clients, None
        if clients is not None:
            await clients.close()

    def _started(self) -> Clients:
        if self._clients is None:
            self._clients = Clients(self._clock or system_clock(), transport=self._transport)
            self._clients.subscribe(self._tell)
        return self._clients

    def _tell(self, cluster: str, _view: View) -> None:
        for listener in tuple(self._listeners):
            listener(cluster)


async def _carried_out(client: SlurmClient, call: Call) -> None:
    match call:
        case Drain():
            node = await _read(client, call.node, spares_others=call.spares_others)
            if not has_our_drain(node.state, node.reason) or node.reason != call.reason:
                await client.drain(call.node, call.reason)
        case Undrain():
            node = await _read(client, call.node)
            if has_our_drain(node.state, node.reason):
                await client.undrain(call.node)
        case Forget():
            await _forget(client, call)
        case Reserve():
            await client.create_reservation(
                ReservationRequest(
                    name=call.reservation,
                    start_at=call.start,
                    duration=call.duration,
                    nodes=call.nodes,
                    users=(SLURM_USER,),
                    flags=RESERVATION_FLAGS,
                )
            )
        case Narrow():
            await client.narrow_reservation(call.reservation, call.nodes)
        case Unreserve():
            await client.delete_reservation(call.reservation)


async def _read(client: SlurmClient, name: str, *, spares_others: bool = True) -> Node:
    """The node as it is now. If somebody else drained it or set it DOWN, the call ends."""
    node = await client.node(name)
    if spares_others and is_somebodys(node.state, node.reason):
        message = f"node {name} was drained or set DOWN by somebody else ({node.reason!r}): Corral does not touch it"
        raise OutsideFailed("DrainedBySomebodyElse", message, alone=True, retry_after_s=RETRY_S)
    return node


async def _forget(client: SlurmClient, call: Forget) -> None:
    """Only slurmctld's answer to the deletion proves that it has no such node."""
    with suppress(NotFound):
        if is_being_told(await _read(client, call.node, spares_others=call.spares_others)):
            message = f"node {call.node} registers again after a reconfigure; it is deleted from Slurm after that"
            raise OutsideFailed("WorkerArriving", message, alone=True, retry_after_s=RETRY_S)
    await client.delete_node(call.node)
    with suppress(NotFound):
        back = await client.node(call.node)
        message = f"node {call.node} registered again after it was deleted from Slurm ({back.state}): its worker stays"
        raise OutsideFailed("RegisteredAnew", message, alone=True, retry_after_s=RETRY_S)
