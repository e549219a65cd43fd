"""The third story: of nodes that are switched off, that slurmctld has lost, and that are kept for later.

As those in `tests.sim.story`: told by the model and by real Slurm, it must read the same.
"""

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Final

from corral.slurm.errors import NotFound, SlurmError
from corral.slurm.rest import SlurmClient
from corral.slurm.states import Base, Flag
from corral.slurm.values import Node
from tests.sim.story import (
    A_WHILE_S,
    Lab,
    Tale,
    end_of_last,
    holding,
    moments_later,
    names,
    reconfigured,
    refused,
    said,
    seen,
    stands,
    until,
)

POWER: Final = (Flag.POWER_DOWN, Flag.POWERING_DOWN, Flag.POWERED_DOWN, Flag.POWER_UP, Flag.POWERING_UP)
IN_WORK_S = 3.0
LONG_ENDED_S = 10.0  # MessageTimeout: what has just ended, slurmctld leaves alone
SOON_S, LATER_S = 12, 60

AWAY: Final = (
    "power_down where no program does it: refused",
    "powered down: removable, POWERING_DOWN",
    "its slurmd lives on, after a HUP: removable, POWERING_DOWN",
    "after SuspendTimeout: removable, POWERED_DOWN",
    "a drain: drained, POWERED_DOWN",
    "undrained: removable, POWERED_DOWN",
    "after a HUP: removable",
    "drained, powered down: removable, POWERING_DOWN",
    "ordered up meanwhile: removable, POWERING_DOWN",
    "still: removable, POWERED_DOWN",
    "a job for it: busy, POWERING_UP, 1 holds it, 0 run",
    "forget: Busy 2016",
    "drained: drained, POWERING_UP, 0 hold it, and its job: PENDING",
    "after ResumeTimeout: drained, POWERED_DOWN, DOWN",
    "forget: done",
    "after a HUP: removable",
    "powered down under a job: busy, POWER_DOWN, 1 holds it",
    "forget: Busy 2016",
    "the job has ended: removable, POWERED_DOWN",
    "ordered up: removable, POWERING_UP",
    "its slurmd starts anew: removable, POWERING_UP",
    "after ResumeTimeout: down, POWERED_DOWN, 'ResumeTimeout reached'",
    "nobody asks its slurmd: down, POWERED_DOWN, 'ResumeTimeout reached'",
    "after a HUP: removable",
    "forget one that is POWERING_DOWN: done",
    "after a HUP: removable",
    "slurmctld has lost its nodes: none",
    "the job that was there: NODE_FAIL, and 1 run",
    "looked up: NotFound 0",
    "forget: NotFound 2018",
    "after a HUP: removable, no reason, 0 hold it, and 0 run",
    "a job waits for it by name; forget: done",
    "its job: PENDING",
    "slurmctld is reconfigured, its job: NODE_FAIL",
    "reserved for later, and a job that would last until then: removable, PENDING",
    "forget: done",
    "after a HUP: removable, and nothing is reserved",
    "two are reserved; forget: done",
    "it is back, and w-1 is RESERVED now: removable",
    "forget: done",
)


async def away(lab: Lab) -> tuple[str, ...]:
    tale = Tale(lab, await lab.client.node("w-0"))
    await lab.client.drain("w-1", "corral: aside")
    for chapter in (switched_off, woken, switched_off_under_a_job, lost, wanted_by_name, kept_for_later, two_of_them):
        await chapter(tale)
    return tuple(tale.told)


async def switched_off(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    tale.tell(f"power_down where no program does it: {'refused' if lab.set_state('w-0', 'power_down') else 'done'}")
    lab.save_power()
    await asyncio.sleep(IN_WORK_S)
    lab.set_state("w-0", "power_down")
    await power(client, Flag.POWERING_DOWN)
    tale.tell(f"powered down: {await state(client)}")
    await register(lab)
    tale.tell(f"its slurmd lives on, after a HUP: {await state(client)}")
    await power(client, Flag.POWERED_DOWN)
    tale.tell(f"after SuspendTimeout: {await state(client)}")
    await client.drain("w-0", "corral: a")
    tale.tell(f"a drain: {await state(client)}")
    await client.undrain("w-0")
    tale.tell(f"undrained: {await state(client)}")
    await register(lab)
    tale.tell(f"after a HUP: {await state(client)}")


async def woken(tale: Tale) -> None:
    """Nobody has started its machine anew: so its slurmd is not heard."""
    lab, client = tale.lab, tale.client
    await client.drain("w-0", "corral: b")
    lab.set_state("w-0", "power_down")
    await power(client, Flag.POWERING_DOWN)
    tale.tell(f"drained, powered down: {await state(client)}")
    lab.set_state("w-0", "power_up")
    tale.tell(f"ordered up meanwhile: {await state(client)}")
    await power(client, Flag.POWERED_DOWN)
    await asyncio.sleep(IN_WORK_S)
    tale.tell(f"still: {await state(client)}")
    lab.submit()
    await power(client, Flag.POWERING_UP)
    tale.tell(f"a job for it: {await state(client)}, {await holding(client)}, {lab.running()} run")
    tale.tell(await refused("forget", client.delete_node("w-0")))
    await client.drain("w-0", "corral: c")
    tale.tell(f"drained: {await state(client)}, {await holding(client)}, and its job: {await last_job(client)}")
    lab.end_jobs()
    await seen(client, lambda node: node.state.base is Base.DOWN)
    tale.tell(f"after ResumeTimeout: {await state(client)}, DOWN")
    tale.tell(await refused("forget", client.delete_node("w-0")))
    await register(lab)
    tale.tell(f"after a HUP: {await state(client)}")


async def switched_off_under_a_job(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    lab.submit()
    await until(lambda: stands(client, "busy"))
    lab.set_state("w-0", "power_down")
    await asyncio.sleep(IN_WORK_S)
    tale.tell(f"powered down under a job: {await state(client)}, {await holding(client)}")
    tale.tell(await refused("forget", client.delete_node("w-0")))
    lab.end_jobs()
    await power(client, Flag.POWERED_DOWN)
    tale.tell(f"the job has ended: {await state(client)}")
    lab.set_state("w-0", "power_up")
    await power(client, Flag.POWERING_UP)
    tale.tell(f"ordered up: {await state(client)}")
    lab.kill_slurmd("w-0")
    lab.start_slurmd("w-0")
    await moments_later()
    tale.tell(f"its slurmd starts anew: {await state(client)}")
    node = await seen(client, lambda node: node.state.base is Base.DOWN)
    tale.tell(f"after ResumeTimeout: {await state(client)}, {node.reason!r}")
    await asyncio.sleep(A_WHILE_S)
    tale.tell(f"nobody asks its slurmd: {await state(client)}, {node.reason!r}")
    await register(lab)
    tale.tell(f"after a HUP: {await state(client)}")
    lab.set_state("w-0", "power_down")
    await power(client, Flag.POWERING_DOWN)
    tale.tell(await refused("forget one that is POWERING_DOWN", client.delete_node("w-0")))
    await register(lab)
    tale.tell(f"after a HUP: {await state(client)}")


async def lost(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    lab.submit()
    await until(lambda: stands(client, "busy"))
    await asyncio.sleep(A_WHILE_S)
    lab.restart_slurmctld(kill=False, lost=True)
    await until(lambda: is_unknown(client))
    tale.tell(f"slurmctld has lost its nodes: {await names(client) or 'none'}")
    tale.tell(f"the job that was there: {await end_of_last(client)}, and {lab.running()} run")
    tale.tell(await refused("looked up", client.node("w-0")))
    tale.tell(await refused("forget", client.delete_node("w-0")))
    await asyncio.sleep(LONG_ENDED_S)
    await register(lab)
    await asyncio.sleep(IN_WORK_S)
    node = await client.node("w-0")
    tale.tell(f"after a HUP: {said(node)}, {await holding(client)}, and {lab.running()} run")


async def wanted_by_name(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    await client.drain("w-0", "corral: d")
    lab.submit()
    tale.tell(await refused("a job waits for it by name; forget", client.delete_node("w-0")))
    await asyncio.sleep(IN_WORK_S)
    tale.tell(f"its job: {await last_job(client)}")
    await reconfigured(lab, "UP")
    tale.tell(f"slurmctld is reconfigured, its job: {await end_of_last(client)}")
    await register(lab)


async def kept_for_later(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    lab.reserve("w-0", in_s=LATER_S)
    lab.submit()
    await asyncio.sleep(IN_WORK_S)
    waits = await last_job(client)
    tale.tell(f"reserved for later, and a job that would last until then: {await state(client)}, {waits}")
    lab.end_jobs()
    tale.tell(await refused("forget", client.delete_node("w-0")))
    await until(lambda: is_free(client))
    await register(lab)
    tale.tell(f"after a HUP: {await state(client)}, and nothing is reserved")


async def two_of_them(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    await register(lab, "w-1")
    lab.reserve("w-0,w-1", in_s=SOON_S)
    tale.tell(await refused("two are reserved; forget", client.delete_node("w-0")))
    await register(lab)
    await seen(client, lambda node: Flag.RESERVED in node.state.flags, "w-1")
    tale.tell(f"it is back, and w-1 is RESERVED now: {await state(client)}")
    tale.tell(await refused("forget", client.delete_node("w-0")))


async def state(client: SlurmClient) -> str:
    """And what becomes of its power. (24.11 leaves a reason where there is no drain any more.)"""
    return shown(await client.node("w-0"))


def shown(node: Node) -> str:
    return ", ".join((node.state.standing.value, *(flag.value for flag in POWER if flag in node.state.flags)))


async def power(client: SlurmClient, flag: Flag) -> None:
    await seen(client, lambda node: flag in node.state.flags)


async def register(lab: Lab, name: str = "w-0") -> None:
    """Until that is known."""
    before = await registered_at(lab.client, name)
    await moments_later()
    lab.hang_up(name)
    await seen(lab.client, lambda node: node.registered_at not in (before, None), name)


async def registered_at(client: SlurmClient, name: str) -> datetime | None:
    try:
        return (await client.node(name)).registered_at
    except NotFound:
        return None


async def is_unknown(client: SlurmClient) -> bool:
    with suppress(SlurmError):
        return await registered_at(client, "w-0") is None and not await names(client)
    return False


async def is_free(client: SlurmClient) -> bool:
    return not await client.reservations()


async def last_job(client: SlurmClient) -> str:
    listing = await client.jobs()
    return ",".join(max(listing.items, key=lambda job: job.id).state) if listing and listing.items else ""
