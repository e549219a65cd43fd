"""One story of a node and a job, told through the real client: on the model and on real Slurm it must read the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from corral.slurm.errors import Refusal
from corral.slurm.rest import SlurmClient
from corral.slurm.values import Node

LOOK_EVERY_S = 0.25
WITHIN_S = 60.0


class Lab(Protocol):
    """A Slurm with idle workers w-0 and w-1."""

    client: SlurmClient

    def submit(self) -> None:
        """A job on one node that runs until `end_jobs`."""
        ...

    def end_jobs(self) -> None: ...


TOLD: Final = (
    "idle: removable, no reason, takes jobs",
    "drained: drained, 'corral: a'",
    "drained anew: drained, 'bad DIMM'",
    "undrained: removable, no reason",
    "undrained again: removable, no reason",
    "nothing changed: nodes as before, jobs as before",
    "a job runs: busy, 1 holds it",
    "forget: Busy 2016",
    "drained with a job: draining, 1 holds it",
    "forget: Busy 2016",
    "the job has ended: drained, 'corral: b', 0 hold it",
    "forget: done",
    "looked up: NotFound 0",
    "forget: NotFound 2018",
    "drain: NotFound 2018",
    "its slurmd lives on, and the node does not come back: w-1",
)


async def story(lab: Lab) -> tuple[str, ...]:
    client, told = lab.client, list[str]()

    async def state(what: str, *, holders: bool = False) -> None:
        node = await client.node("w-0")
        reason = f"{node.reason!r}" if node.reason else "no reason"
        held = f", {await holding(client)}" if holders else ""
        shown = node.state.standing.value if node.state.standing.value in ("busy", "draining") else said(node, reason)
        told.append(f"{what}: {shown}{held}")

    await client.drain("w-1", "corral: aside")
    await state("idle")
    told[-1] += ", takes jobs"
    await client.drain("w-0", "corral: a")
    await state("drained")
    await client.drain("w-0", "bad DIMM")
    await state("drained anew")
    for what in ("undrained", "undrained again"):
        await client.undrain("w-0")
        await state(what)
    told.append(await unchanged(client))
    lab.submit()
    await until(lambda: stands(client, "busy"))
    await state("a job runs", holders=True)
    told.append(await refused("forget", client.delete_node("w-0")))
    await client.drain("w-0", "corral: b")
    await state("drained with a job", holders=True)
    told.append(await refused("forget", client.delete_node("w-0")))
    lab.end_jobs()
    await until(lambda: stands(client, "drained"))
    await state("the job has ended", holders=True)
    told.append(await refused("forget", client.delete_node("w-0")))
    told.append(await refused("looked up", client.node("w-0")))
    told.append(await refused("forget", client.delete_node("w-0")))
    told.append(await refused("drain", client.drain("w-0", "corral: c")))
    await asyncio.sleep(5)
    listing = await client.nodes()
    names = ", ".join(node.name for node in listing.items) if listing else "unchanged"
    told.append(f"its slurmd lives on, and the node does not come back: {names}")
    return tuple(told)


def said(node: Node, reason: str) -> str:
    return f"{node.state.standing.value}, {reason}"


async def holding(client: SlurmClient) -> str:
    listing = await client.jobs()
    count = sum(job.holds_nodes and "w-0" in job.nodes for job in listing.items) if listing else -1
    return f"{count} holds it" if count == 1 else f"{count} hold it"


async def stands(client: SlurmClient, standing: str) -> bool:
    return (await client.node("w-0")).state.standing.value == standing


async def unchanged(client: SlurmClient) -> str:
    """After seconds in which nothing happened: marks have whole ones, and slurmctld itself touches nodes at times."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            await asyncio.sleep(2)
            nodes, jobs = await client.nodes(), await client.jobs()
            assert nodes is not None
            assert jobs is not None
            await asyncio.sleep(2)
            if await client.nodes(unless=nodes.mark) is None and await client.jobs(unless=jobs.mark) is None:
                return "nothing changed: nodes as before, jobs as before"


async def refused(what: str, call: Awaitable[object]) -> str:
    try:
        await call
    except Refusal as error:
        number = error.problems[-1].number if error.problems else 0
        return f"{what}: {type(error).__name__} {number}"
    return f"{what}: done"


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await is_so():  # noqa: ASYNC110 - another system: there is nothing to wait on
            await asyncio.sleep(LOOK_EVERY_S)
