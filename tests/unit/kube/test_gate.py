"""The gate: who may be under way, who waits, and what a cancelled wait leaves behind."""

import asyncio

import pytest

from corral.kube.gate import Gate
from corral.kube.transport import Priority

LEASE, NORMAL, BULK = Priority.LEASE, Priority.NORMAL, Priority.BULK


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_free_slot_is_taken_without_waiting() -> None:
    gate = Gate(slots=1)

    assert gate.enter_nowait(NORMAL)
    assert not gate.enter_nowait(NORMAL)
    assert gate.statistics().under_way == 1


async def test_waiting_ones_go_by_priority_then_in_the_order_they_came() -> None:
    gate, order = Gate(slots=1), list[str]()
    gate.enter_nowait(BULK)

    async def enter(name: str, priority: Priority) -> None:
        async with gate.slot(priority):
            order.append(name)

    names = [("bulk-1", BULK), ("bulk-2", BULK), ("normal-1", NORMAL), ("normal-2", NORMAL)]
    tasks = [asyncio.create_task(enter(*one)) for one in names]
    await settle()
    gate.leave(BULK)
    await asyncio.gather(*tasks)

    assert order == ["normal-1", "normal-2", "bulk-1", "bulk-2"]


async def test_a_lease_renewal_never_waits_behind_bulk_writes() -> None:
    gate = Gate(slots=2, slots_lease=1)
    for _ in range(2):
        gate.enter_nowait(BULK)
    waiting = [asyncio.create_task(gate.enter(BULK)) for _ in range(50)]
    await settle()

    assert gate.enter_nowait(LEASE)

    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_newcomer_does_not_overtake_an_equal_who_waits() -> None:
    gate = Gate(slots=1)
    gate.enter_nowait(NORMAL)
    waiting = asyncio.create_task(gate.enter(NORMAL))
    await settle()
    gate.leave(NORMAL)

    assert not gate.enter_nowait(NORMAL)

    await waiting


async def test_a_cancelled_wait_leaves_no_trace() -> None:
    gate = Gate(slots=1)
    gate.enter_nowait(NORMAL)
    before = gate.statistics()
    waiting = asyncio.create_task(gate.enter(NORMAL))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert gate.statistics() == before


async def test_a_wait_cancelled_in_the_moment_of_its_turn_passes_the_turn_on() -> None:
    gate = Gate(slots=1)
    gate.enter_nowait(NORMAL)
    first, second = (asyncio.create_task(gate.enter(NORMAL)) for _ in range(2))
    await settle()
    gate.leave(NORMAL)  # the turn is the first one's now, who has not run yet
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second

    assert first.cancelled()
    assert gate.statistics().under_way == 1


async def test_a_failure_within_the_slot_gives_it_back() -> None:
    gate = Gate(slots=1)
    with pytest.raises(RuntimeError):
        async with gate.slot(NORMAL):
            raise RuntimeError

    assert gate.statistics().under_way == 0
