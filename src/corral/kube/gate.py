"""How many requests may be under way at once, and who goes first when more want to.

Slots are shared by NORMAL and BULK; waiting ones go by priority, then in the order they came. LEASE has slots of its
own, so a renewal never waits for anything but another renewal. Everything but `enter` is synchronous: no other task
can come between finding a free slot and taking it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from corral.kube.transport import Priority


class GateStatistics(msgspec.Struct, frozen=True):
    under_way: int
    under_way_lease: int
    waiting: dict[Priority, int]
    slots: int
    slots_lease: int


class Gate:
    def __init__(self, slots: int = 32, slots_lease: int = 4) -> None:
        self._slots = slots
        self._slots_lease = slots_lease
        self._under_way = {Priority.LEASE: 0, Priority.NORMAL: 0, Priority.BULK: 0}
        self._waiting: dict[Priority, deque[asyncio.Future[None]]] = {priority: deque() for priority in Priority}

    def __repr__(self) -> str:
        return f"<Gate {self.statistics()}>"

    def statistics(self) -> GateStatistics:
        return GateStatistics(
            under_way=self._ordinary(),
            under_way_lease=self._under_way[Priority.LEASE],
            waiting={priority: len(queue) for priority, queue in self._waiting.items()},
            slots=self._slots,
            slots_lease=self._slots_lease,
        )

    @asynccontextmanager
    async def slot(self, priority: Priority) -> AsyncIterator[None]:
        await self.enter(priority)
        try:
            yield
        finally:
            self.leave(priority)

    def enter_nowait(self, priority: Priority) -> bool:
        """Take a free slot, if there is one and nobody waits who goes before us."""
        if not self._is_free(priority) or any(self._waiting[other] for other in NOT_AFTER[priority]):
            return False
        self._under_way[priority] += 1
        return True

    async def enter(self, priority: Priority) -> None:
        """Take a slot. Cancelled while waiting, it leaves the gate as if it had never come."""
        if self.enter_nowait(priority):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[priority].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._withdraw(priority, turn)
            raise

    def leave(self, priority: Priority) -> None:
        self._under_way[priority] -= 1
        self._admit()

    def _withdraw(self, priority: Priority, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting[priority]:
            self._waiting[priority].remove(turn)
        else:  # our turn came in the same moment: pass it on
            self.leave(priority)

    def _admit(self) -> None:
        for priority, queue in self._waiting.items():
            while queue and self._is_free(priority):
                turn = queue.popleft()
                self._under_way[priority] += 1
                if not turn.cancelled():
                    turn.set_result(None)

    def _is_free(self, priority: Priority) -> bool:
        if priority is Priority.LEASE:
            return self._under_way[Priority.LEASE] < self._slots_lease
        return self._ordinary() < self._slots

    def _ordinary(self) -> int:
        return self._under_way[Priority.NORMAL] + self._under_way[Priority.BULK]


# Those whose waiting ones go before a newcomer of this priority.
NOT_AFTER: Mapping[Priority, tuple[Priority, ...]] = {
    Priority.LEASE: (Priority.LEASE,),
    Priority.NORMAL: (Priority.NORMAL,),
    Priority.BULK: (Priority.NORMAL, Priority.BULK),
}
