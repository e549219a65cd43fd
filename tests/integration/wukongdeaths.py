"""Operators that die after each write, one after another, until what is waited for has come."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypeAlias

from corral.engine import Clock
from corral.kube.transport import Request, Response, Socket, Stream, Transport
from corral.testing.cluster import Cluster
from corral.testing.kubevirt_standin import KubeVirtStandIn
from corral.testing.kubevirt_standin.subresources import StandInApi
from tests.integration.wukonglife import operator_over, until, way_to

DEATHS_MAX = 100
Fact: TypeAlias = Callable[[], Awaitable[object]]


class OneWrite:
    """`Transport`. Whoever writes over it dies with the first answer: what it would write next never leaves it.

    Events do not count. They are written before the status is, so one who dies of them says the same in each life.
    """

    def __init__(self, behind: Transport) -> None:
        self._behind = behind
        self.died = asyncio.Event()

    async def request(self, request: Request) -> Response:
        counts = request.method != "GET" and "/events" not in request.path
        if counts and self.died.is_set():
            await asyncio.Event().wait()  # until it is buried
        answer = await self._behind.request(request)
        if counts:
            self.died.set()
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._behind.stream(request)

    def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AbstractAsyncContextManager[Socket]:
        return self._behind.socket(request, subprotocols)

    async def close(self) -> None:
        await self._behind.close()


async def deaths_until(cluster: Cluster, standin: KubeVirtStandIn, holds: Fact, clock: Clock | None = None) -> int:
    """How many operators died until a fact held. `clock`: theirs, if it is not the machine's."""
    for died in range(DEATHS_MAX):
        if not await _died_of_a_write(cluster, standin, holds, clock):
            return died
    raise AssertionError(f"{DEATHS_MAX} operators died, and it does not hold yet: {await holds()}")


async def _died_of_a_write(cluster: Cluster, standin: KubeVirtStandIn, holds: Fact, clock: Clock | None) -> bool:
    """One life, until it wrote something or the fact held."""
    way = OneWrite(way_to(cluster))
    life = asyncio.create_task(operator_over(StandInApi(way, standin), clock).run(asyncio.Event()))
    try:
        await until(lambda: _is_over(way, life, holds))
    finally:
        life.cancel()
        with suppress(asyncio.CancelledError):
            await life
        await way.close()
    return way.died.is_set()


async def _is_over(way: OneWrite, life: asyncio.Task[None], holds: Fact) -> object:
    if life.done():
        life.result()
    return True if way.died.is_set() else await holds()
