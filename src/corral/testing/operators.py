"""Processes of an operator in one event loop, against the fake API server: start, stop, crash, and wait for the end.

    server = FakeApiServer(seed=7, faults=ROUGH)
    operator = Operator(server, toy_controller)
    await operator.start()
    ...
    await operator.crash()               # as by kill -9: nothing is released, answers under way are lost
    await converged(server, toy_controller, within_s=300)

`converged` is the engine's theorem, in words: after faults stop, within a bound, `plan(observe())` is empty and stays
empty.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from corral.engine import Barrier, Key, LeaseAddress, Manager, Metrics, Plan, plan_object, summary_lines, virtual_clock
from corral.engine.controller import AnyController
from corral.kube.client import Client
from corral.kube.meta import Object
from corral.kube.transport import Transport
from corral.testing.apiserver import Connection, Crashed, FakeApiServer

LOOKED_EVERY_S = 5.0


class NotConverged(AssertionError):
    """What was still planned when the time was up."""


class Operator:
    """One process: a connection, a client and a manager. It can be started again after it ended, as another process."""

    def __init__(
        self,
        server: FakeApiServer,
        build: Callable[[], AnyController],
        *,
        name: str = "operator",
        lease: LeaseAddress | None = None,
        barrier: Callable[[], Barrier[Key]] = Barrier,
        seed: int = 0,
        through: Callable[[Transport], Transport] = lambda way: way,
    ) -> None:
        self._server = server
        self._build = build
        self._name = name
        self._lease = lease
        self._barrier = barrier
        self._seed = seed
        self._through = through
        self._starts = 0
        self._stop = asyncio.Event()
        self.connection: Connection
        self.manager: Manager
        self.metrics: Metrics
        self.task: asyncio.Task[None]

    def start(self) -> None:
        self._starts += 1
        self._stop = asyncio.Event()
        self.connection = self._server.connect(self._name)
        self.metrics = Metrics()
        clock = virtual_clock(self._seed * 1000 + self._starts)
        client = Client(self._through(self.connection), observer=self.metrics, luck=clock.random.random)
        self.manager = Manager(
            client,
            (self._build(),),
            clock=clock,
            metrics=self.metrics,
            lease=self._lease,
            identity=f"{self._name}-{self._starts}",
            on_synced=lambda: None,
            barrier=self._barrier,
        )
        self.task = asyncio.create_task(self.manager.run(self._stop), name=f"{self._name}-{self._starts}")

    async def stop(self) -> None:
        """As by SIGTERM. Raises what `run` raises."""
        self._stop.set()
        await self.task

    async def crash(self) -> None:
        """As by kill -9. A process that ended by itself, however, is fine too."""
        self.task.cancel()
        with suppress(asyncio.CancelledError, Exception, Crashed, BaseExceptionGroup):
            await self.task

    @property
    def has_ended(self) -> bool:
        return self.task.done()

    async def keep_running(self, pause_s: float = 1.0) -> None:
        """As the kubelet does: start it again whenever it has ended, until cancelled."""
        while True:
            if self._starts == 0 or self.task.done():
                self.start()
            await asyncio.wait((self.task,))
            if not self.task.cancelled():
                self.task.exception()  # looked at, so that nobody reports it later: processes may die here
            await asyncio.sleep(pause_s)


async def converged(
    server: FakeApiServer, build: Callable[[], AnyController], *, within_s: float, quiet_s: float = 30.0
) -> None:
    """Return when nothing was written for `quiet_s` and nothing is planned for any object of the controller's kind.

    An operator whose watch went silent notices after 75 s: with such faults, `quiet_s` must be longer than that.
    """
    client, controller = Client(server.connect("onlooker")), build()
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + within_s
    quiet_since_s, version = now_s(), server.storage.version
    while True:
        await asyncio.sleep(LOOKED_EVERY_S)
        if server.storage.version != version:
            quiet_since_s, version = now_s(), server.storage.version
        if now_s() < min(deadline_s, quiet_since_s + quiet_s):
            continue
        plans = await plans_for_all(client, controller, server.now())
        if all(plan.is_empty for plan in plans.values()) and now_s() - quiet_since_s >= quiet_s:
            return
        if now_s() >= deadline_s:
            left = [f"{key}: {line}" for key, plan in plans.items() for line in summary_lines(plan)]
            raise NotConverged("\n".join([f"not converged within {within_s:g} s; planned:", *left]))


async def plans_for_all(client: Client, controller: AnyController, now: datetime) -> dict[Key, Plan]:
    kind: type[Object] = controller.kind
    page = await client.list(kind)
    keys = [Key(obj.metadata.namespace, obj.metadata.name) for obj in page.items]
    return {key: (await plan_object(client, controller, key, now=now)).plan for key in keys}
