"""Stories of nodes and jobs, told through the real client: on the model and on real Slurm they must read the same.

`story` is one of a drain, a job and a forgotten node; `lives` one of slurmds that come, go and come again, and of what
slurmctld makes of it by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from corral.slurm.errors import Refusal, SlurmError
from corral.slurm.rest import SlurmClient
from corral.slurm.states import Base, Flag
from corral.slurm.values import Node

LOOK_EVERY_S = 0.25
WITHIN_S = 90.0
A_WHILE_S = 5.0  # slurmctld saves every few seconds
CPUS = 2  # of every worker
RESTARTS: Final = (("slurmctld was restarted", False), ("slurmctld was killed", True))


class Lab(Protocol):
    """A Slurm with idle workers w-0 and w-1 in partition `debug`, as people and their machines treat it."""

    client: SlurmClient

    def submit(self, partition: str = "debug") -> str:
        """A job on one node that runs until `end_jobs`; why it was refused, or nothing."""
        ...

    def end_jobs(self) -> None: ...

    def kill_slurmd(self, node: str) -> None:
        """At once, and nobody starts it again."""
        ...

    def start_slurmd(self, node: str, cpus: int = CPUS) -> None: ...

    def hang_up(self, node: str) -> None:
        """HUP to its slurmd."""
        ...

    def set_state(self, node: str, state: str, reason: str = "") -> None:
        """As an admin, with scontrol."""
        ...

    def reserve(self, node: str) -> None:
        """For maintenance, from now on."""
        ...

    def unreserve(self) -> None: ...

    def partition(self, state: str) -> None:
        """`debug` is UP, INACTIVE, or no more (an empty word); slurmctld is reconfigured."""
        ...

    def restart_slurmctld(self, *, kill: bool) -> None: ...


TOLD: Final = (
    "idle: removable, no reason, takes jobs",
    "drained: drained, 'corral: a'",
    "drained anew: drained, 'bad DIMM'",
    "undrained: removable",
    "undrained again: removable",
    "nothing changed: nodes as before, jobs as before",
    "a job runs: busy, 1 holds it",
    "forget: Busy 2016",
    "drained with a job: draining, 1 holds it",
    "forget: Busy 2016",
    "slurmctld was restarted: draining, 1 holds it",
    "forget: Busy 2016",
    "slurmctld was killed: draining, 1 holds it",
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

    async def state(what: str, *, holders: bool = False, reason: bool = True) -> None:
        node = await client.node("w-0")
        held = f", {await holding(client)}" if holders else ""
        shown = node.state.standing.value
        is_plain = shown in ("busy", "draining") or not reason
        told.append(f"{what}: {shown if is_plain else said(node)}{held}")

    await client.drain("w-1", "corral: aside")
    await state("idle")
    told[-1] += ", takes jobs"
    await client.drain("w-0", "corral: a")
    await state("drained")
    await client.drain("w-0", "bad DIMM")
    await state("drained anew")
    for what in ("undrained", "undrained again"):
        await client.undrain("w-0")
        await state(what, reason=False)  # 24.11 leaves the reason of a drain that is no more
    told.append(await unchanged(client))
    lab.submit()
    await until(lambda: stands(client, "busy"))
    await state("a job runs", holders=True)
    told.append(await refused("forget", client.delete_node("w-0")))
    await client.drain("w-0", "corral: b")
    await state("drained with a job", holders=True)
    told.append(await refused("forget", client.delete_node("w-0")))
    for what, kill in RESTARTS:
        await asyncio.sleep(A_WHILE_S)
        lab.restart_slurmctld(kill=kill)
        await seen(client, lambda _node: True)  # as soon as it answers, also before its slurmd has registered
        await state(what, holders=True)
        told.append(await refused("forget", client.delete_node("w-0")))
    lab.end_jobs()
    await until(lambda: stands(client, "drained"))
    await state("the job has ended", holders=True)
    told.append(await refused("forget", client.delete_node("w-0")))
    told.append(await refused("looked up", client.node("w-0")))
    told.append(await refused("forget", client.delete_node("w-0")))
    told.append(await refused("drain", client.drain("w-0", "corral: c")))
    await asyncio.sleep(A_WHILE_S)
    told.append(f"its slurmd lives on, and the node does not come back: {await names(client)}")
    return tuple(told)


LIVES: Final = (
    "started again over a drain: drained, 'bad DIMM', another slurmd",
    "after a HUP: drained, 'bad DIMM', another slurmd",
    "after a reconfigure: drained, 'bad DIMM', another slurmd",
    "slurmctld was restarted: drained, 'bad DIMM', the same slurmd",
    "slurmctld was killed: drained, 'bad DIMM', the same slurmd",
    "undrained: removable",
    "its slurmd is killed: IDLE, then NOT_RESPONDING, then DOWN, 'Not responding'",
    "that of a drained one is killed: DOWN, 'corral: b : Not responding'",
    "started again: removable",
    "the drained one is started again: drained, 'corral: b : Not responding'",
    "set down: down, 'smoke'",
    "slurmctld has asked its slurmd: removable",
    "marked as failing: down, 'it will not last'",
    "after a HUP: down, 'it will not last'",
    "undrained: removable",
    "with fewer CPUs: drained, 'Low socket*core*thread count, Low CPUs', INVALID_REG, 2 on record",
    "which nobody lifts: undrain: WrongState",
    "another reason, and a HUP: drained, 'Low socket*core*thread count, Low CPUs'",
    "with more CPUs: drained, 'Low socket*core*thread count, Low CPUs', 2 on record",
    "in a reservation that has begun: forget: Busy 2016",
    "when it has ended: forget: done",
    "slurmctld is reconfigured, and the node does not come back: w-1",
    "after a HUP: removable, no reason, another slurmd",
    "a partition that is inactive: refused, Required partition not available (inactive or drain)",
    "a partition that is up: accepted",
    "the partition is gone, and its job with it: NODE_FAIL",
)


class Tale:
    """`told`: what was seen so far. `before`: w-0 as it was when its slurmd was seen to be another one last."""

    def __init__(self, lab: Lab, before: Node) -> None:
        self.lab, self.client, self.before = lab, lab.client, before
        self.told = list[str]()

    def tell(self, what: str) -> None:
        self.told.append(what)

    async def anew(self, *, is_so: Callable[[Node], bool] = lambda _node: True) -> str:
        """What is said of w-0 when it has another slurmd."""
        known = self.before.registered_at
        self.before = await seen(self.client, lambda node: node.registered_at != known and is_so(node))
        return said(self.before)

    async def standing(self) -> str:
        return (await responding(self.client)).state.standing.value


async def lives(lab: Lab) -> tuple[str, ...]:
    tale = Tale(lab, await lab.client.node("w-0"))
    for chapter in (restarts, deaths, admins, sizes, reservations, partitions):
        await chapter(tale)
    return tuple(tale.told)


async def restarts(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    await moments_later()
    await client.drain("w-0", "bad DIMM")
    lab.kill_slurmd("w-0")
    lab.start_slurmd("w-0")
    tale.tell(f"started again over a drain: {await tale.anew()}, another slurmd")
    await moments_later()
    lab.hang_up("w-0")
    tale.tell(f"after a HUP: {await tale.anew()}, another slurmd")
    await moments_later()
    await reconfigured(lab, "UP")
    tale.tell(f"after a reconfigure: {await tale.anew()}, another slurmd")
    await asyncio.sleep(A_WHILE_S)
    for what, kill in RESTARTS:
        lab.restart_slurmctld(kill=kill)
        node = await seen(client, lambda node: node.registered_at is not None)  # not before its slurmd has registered
        same = "the same slurmd" if node.registered_at == tale.before.registered_at else "another slurmd"
        tale.tell(f"{what}: {said(node)}, {same}")
    await client.undrain("w-0")
    tale.tell(f"undrained: {await tale.standing()}")


async def deaths(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    await forgotten_and_back(lab, tale.before)
    await client.drain("w-1", "corral: b")
    for name in ("w-0", "w-1"):
        lab.kill_slurmd(name)
    states, _ = await asyncio.gather(until_down(client, "w-0"), until_down(client, "w-1"))
    tale.tell(f"its slurmd is killed: {', then '.join(states)}, {(await client.node('w-0')).reason!r}")
    tale.tell(f"that of a drained one is killed: DOWN, {(await client.node('w-1')).reason!r}")
    for name in ("w-0", "w-1"):
        lab.start_slurmd(name)
    tale.tell(f"started again: {await tale.standing()}")
    tale.tell(f"the drained one is started again: {said(await responding(client, 'w-1'))}")


async def admins(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    lab.set_state("w-0", "down", "smoke")
    tale.tell(f"set down: {said(await client.node('w-0'))}")
    back = await seen(client, lambda node: node.state.base is Base.IDLE)
    tale.tell(f"slurmctld has asked its slurmd: {back.state.standing.value}")
    tale.before = await client.node("w-0")
    lab.set_state("w-0", "fail", "it will not last")
    tale.tell(f"marked as failing: {said(await client.node('w-0'))}")
    await moments_later()
    lab.hang_up("w-0")
    again = await tale.anew(is_so=lambda node: Flag.NOT_RESPONDING not in node.state.flags)
    tale.tell(f"after a HUP: {again}")
    await client.undrain("w-0")
    tale.tell(f"undrained: {await tale.standing()}")


async def sizes(tale: Tale) -> None:
    """What a record was made with stays."""
    lab, client = tale.lab, tale.client
    await forgotten_and_back(lab, await client.node("w-0"))

    async def started(cpus: int) -> str:
        tale.before = await client.node("w-0")
        await moments_later()
        lab.kill_slurmd("w-0")
        lab.start_slurmd("w-0", cpus)
        state = await tale.anew()
        invalid = ", INVALID_REG" if Flag.INVALID_REG in tale.before.state.flags else ""
        return f"{state}{invalid}, {tale.before.cpus} on record"

    tale.tell(f"with fewer CPUs: {await started(CPUS - 1)}")
    lifted = await refused("which nobody lifts: undrain", client.undrain("w-0"))
    tale.tell(lifted.rpartition(" ")[0])  # each version has a number of its own for it
    await client.drain("w-0", "bad DIMM")
    await moments_later()
    lab.hang_up("w-0")
    tale.tell(f"another reason, and a HUP: {await tale.anew()}")
    tale.tell(f"with more CPUs: {await started(CPUS + 2)}")


async def reservations(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    lab.reserve("w-0")
    await seen(client, lambda node: Flag.RESERVED in node.state.flags)
    tale.tell(await refused("in a reservation that has begun: forget", client.delete_node("w-0")))
    lab.unreserve()
    await seen(client, lambda node: Flag.RESERVED not in node.state.flags)
    tale.tell(await refused("when it has ended: forget", client.delete_node("w-0")))
    await reconfigured(lab, "UP")
    tale.tell(f"slurmctld is reconfigured, and the node does not come back: {await names(client)}")
    lab.hang_up("w-0")
    tale.tell(f"after a HUP: {await tale.anew()}, another slurmd")


async def partitions(tale: Tale) -> None:
    lab, client = tale.lab, tale.client
    await reconfigured(lab, "INACTIVE")
    tale.tell(f"a partition that is inactive: refused, {lab.submit()}")
    await reconfigured(lab, "UP")
    tale.tell(f"a partition that is up: {lab.submit() or 'accepted'}")
    await reconfigured(lab, "")
    tale.tell(f"the partition is gone, and its job with it: {await end_of_last(client)}")


async def forgotten_and_back(lab: Lab, before: Node) -> None:
    """A new record, without the reason that 24.11 leaves there."""
    await lab.client.delete_node("w-0")
    await moments_later()
    lab.hang_up("w-0")
    await seen(lab.client, lambda node: node.registered_at != before.registered_at)


def said(node: Node) -> str:
    return f"{node.state.standing.value}, {f'{node.reason!r}' if node.reason else 'no reason'}"


async def seen(client: SlurmClient, is_so: Callable[[Node], bool], name: str = "w-0") -> Node:
    """The node as soon as it is so; while slurmctld is away, or has no such node, it is not."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with suppress(SlurmError):
                node = await client.node(name)
                if is_so(node):
                    return node
            await asyncio.sleep(LOOK_EVERY_S)


async def responding(client: SlurmClient, name: str = "w-0") -> Node:
    def is_so(node: Node) -> bool:
        return Flag.NOT_RESPONDING not in node.state.flags and node.state.base is not Base.DOWN

    return await seen(client, is_so, name)


async def until_down(client: SlurmClient, name: str) -> Sequence[str]:
    """What it was on the way, in short."""
    words = list[str]()
    async with asyncio.timeout(WITHIN_S):
        while not words or words[-1] != "DOWN":
            state = (await client.node(name)).state
            silent = Flag.NOT_RESPONDING in state.flags
            word = "DOWN" if state.base is Base.DOWN else "NOT_RESPONDING" if silent else state.base.value
            words += [word] if words[-1:] != [word] else []
            await asyncio.sleep(LOOK_EVERY_S)
    return words


async def end_of_last(client: SlurmClient) -> str:
    states = list[str]()

    async def has_ended() -> bool:
        listing = await client.jobs()
        states[:] = max(listing.items, key=lambda job: job.id).state if listing and listing.items else ()
        return bool(states) and "PENDING" not in states and "RUNNING" not in states

    await until(has_ended)
    return ",".join(states)


async def reconfigured(lab: Lab, state: str) -> None:
    """Each daemon has been told, and has started anew."""
    lab.partition(state)
    await asyncio.sleep(3)


async def moments_later() -> None:
    """Slurm's times are whole seconds."""
    await asyncio.sleep(1.5)


async def names(client: SlurmClient) -> str:
    listing = await client.nodes()
    return ", ".join(node.name for node in listing.items) if listing else "unchanged"


async def holding(client: SlurmClient) -> str:
    listing = await client.jobs()
    count = sum(job.holds_nodes and "w-0" in job.nodes for job in listing.items) if listing else -1
    return f"{count} holds it" if count == 1 else f"{count} hold it"


async def stands(client: SlurmClient, standing: str) -> bool:
    """In the list of all: asked for one alone, a slurmctld that was restarted goes on saying that a job is there until
    somebody asks for all."""
    listing = await client.nodes()
    return any(n.name == "w-0" and n.state.standing.value == standing for n in listing.items) if listing else False


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
