"""One seed is one run: some minutes of trouble, then calm, and the laws of `world` all the time.

After the trouble two things must hold within a bound of virtual time: `plan(observe())` is empty for every NodeSet and
stays empty, and the world is as asked for.

The steps of a run are drawn one by one from the seed, each with luck of its own, so that a run can leave some out:
`shrunk` finds few steps that still fail.
"""

import asyncio
import re
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

import looptime

from corral.kinds import names
from corral.kinds.nodeset.registering import WRONG_AFTER_S
from corral.testing.apiserver import NONE, ROUGH
from corral.testing.apiserver.builtin import TOLERATED_S
from tests.sim.conftest import quiet
from tests.sim.keeping import breach_at_rest, claims_at_rest
from tests.sim.kubelet import Json, is_ready
from tests.sim.rare import RARE
from tests.sim.slurmrestd import CALM, ROUGH_REST
from tests.sim.troubles import TROUBLES, Trouble
from tests.sim.whose import is_foreign
from tests.sim.wishes import wishes
from tests.sim.witness import Decide
from tests.sim.world import LOOKED_EVERY_S, QUIET_S, SETS, World, set_of

STEPS_MIN, STEPS_MAX = 15, 70
PAUSES_S_MAX = (0.5, 3.0, 8.0)
CONVERGED_WITHIN_S = 1200.0
LATER_MAX = 5
TRACE_LINES = 60
LINE_MAX = 160
WHO_ASKS = re.compile(r"[?]fieldManager=\S+")
SHRINK_RUNS_MAX = 60

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    number: int
    pause_s: float
    trouble: Trouble

    def __str__(self) -> str:
        return f"step {self.number}: {self.trouble.__name__}"


@dataclass(frozen=True)
class Failure:
    seed: int
    error: BaseException
    steps: tuple[Step, ...]
    trace: tuple[str, ...]
    decide: Decide | None = None

    def __str__(self) -> str:
        steps = ", ".join(str(step) for step in self.steps)
        return "\n".join(
            [
                f"SEED {self.seed}: {type(self.error).__name__}: {self.error}",
                f"{len(self.steps)} steps: {steps}",
                *[WHO_ASKS.sub("", line)[:LINE_MAX] for line in self.trace if is_telling(line)][-TRACE_LINES:],
            ]
        )


def is_telling(line: str) -> bool:
    """Reads, watches and leases are not what a law is broken by."""
    return not any(word in line for word in (" GET ", " WATCH ", "/leases/", "/events?"))


def steps_of(seed: int) -> tuple[Step, ...]:
    luck = Random(f"{seed} steps")
    troubles, weights = zip(*TROUBLES, strict=True)
    count = luck.randint(STEPS_MIN, STEPS_MAX)
    pause_s_max = luck.choice(PAUSES_S_MAX)
    steps = [Step(n, luck.uniform(0, pause_s_max), luck.choices(troubles, weights)[0]) for n in range(count)]
    apart = Random(f"{seed} rare")
    for number, (trouble, probability) in enumerate(RARE, start=count):
        if apart.random() < probability:
            steps.insert(apart.randrange(count), Step(number, 0.0, trouble))
    return tuple(steps)


async def outcome(
    seed: int, steps: Iterable[Step], decide: Decide | None = None
) -> tuple[BaseException | None, tuple[str, ...]]:
    luck = Random(f"{seed} world")
    operators, tolerated_s = luck.choice((1, 1, 2)), luck.choice((TOLERATED_S, 20))
    world = World(seed, operators=operators, tolerated_s=tolerated_s, decide=decide)
    world.delivery.takes_s_max = luck.choice((1.0, 30.0))
    world.kubelets.conf_takes_s_max = luck.choice((1.0, 60.0))
    rough = luck.random() < 0.6, luck.random() < 0.6
    apart = Random(f"{seed} wishes")
    for name in SETS[: luck.choice((1, 1, 2))]:
        asks = {"extraConf": "Weight=2 Features={rack}"} if luck.random() < 0.4 else {}
        world.make(name, replicas=luck.randint(1, 5), **asks, **wishes(apart))
    try:
        async with world.running():
            await asyncio.sleep(luck.choice((0.1, 30)))
            world.server.faults = ROUGH if rough[0] else NONE
            world.rest.faults = ROUGH_REST if rough[1] else CALM
            for step in steps:
                await asyncio.sleep(step.pause_s)
                step.trouble(world, Random(f"{seed} step {step.number}"))
                world.check()
            world.crash_after_slurm_writes.clear()
            world.calm(lift_drains=luck.random() < 0.7)
            await world.settled(CONVERGED_WITHIN_S, QUIET_S)
            for _ in range(LATER_MAX):
                if is_more_to_come(world):
                    await asyncio.sleep(QUIET_S)
                    await world.settled(CONVERGED_WITHIN_S, QUIET_S)
            check_end(world)
    except Exception as error:
        return error, tuple(world.server.trace)
    return None, tuple(world.server.trace)


def is_more_to_come(world: World) -> bool:
    """What takes longer than the quiet: the end of a long job, or the time after which one that registered with less
    than is on record is made anew, or the next of them."""
    return any(job.holds for job in world.slurm.jobs.values()) or any(one.invalid for one in world.slurm.nodes.values())


def check_end(world: World) -> None:
    """What was asked for is there: so many workers, all registered, none drained by us, no record without a pod."""
    records = world.slurm.nodes
    foreign = {name for name, record in records.items() if is_foreign(record)}
    for name in SETS:
        nodeset = world.nodeset(name)
        pods = world.pods(name)
        wanted = wanted_of(nodeset, world) if nodeset else 0
        waiting = [job.id for job in world.slurm.jobs.values() if job.partition == name and job.state == "PENDING"]
        assert not nodeset or "deletionTimestamp" not in nodeset["metadata"] or waiting, f"{name} is not let go"
        here = {pod["metadata"]["name"] for pod in pods}
        assert len(here - foreign) <= wanted <= len(here | foreign), (
            f"{name}: {wanted} are wanted, and {sorted(here)} are here"
        )
        assert all(is_ready(pod) for pod in pods), f"{name}: not all are ready"
        old = [pod["metadata"]["name"] for pod in pods if nodeset and revision_of(pod) != nodeset["status"]["revision"]]
        assert set(old) <= foreign, f"{name}: {old} are outdated"
        wrong = [pod["metadata"]["name"] for pod in pods if is_registered_wrong(pod, world)]
        assert set(wrong) <= foreign, f"{name}: {wrong} registered otherwise than they are"
        reserved = (nodeset or {}).get("spec", {}).get("reserveOrdinals") or ()
        unwelcome = {pod for pod in here if names.worker_ordinal(name, pod) in reserved}
        assert unwelcome <= foreign, f"{name}: {unwelcome} have reserved ordinals"
        if nodeset and "deletionTimestamp" not in nodeset["metadata"] and foreign.isdisjoint(here):
            assert not (breach := breach_at_rest(world.server, nodeset)), f"{name}: {breach}"
            assert not (breach := claims_at_rest(world.server, nodeset)), f"{name}: {breach}"
        known = {node for node in records if set_of(node) == name}
        assert known - foreign == here - foreign, f"{name}: Slurm knows {sorted(known)}, and {sorted(here)} are here"
    assert not world.slurm.reservations, f"reservations are left: {sorted(world.slurm.reservations)}"
    ours = [name for name, record in records.items() if record.drain and name not in foreign]
    assert not ours, f"drains of ours are left: {ours}"


def wanted_of(nodeset: Json, world: World) -> int:
    if "deletionTimestamp" in nodeset["metadata"]:
        return 0
    per_machine = nodeset["spec"].get("scalingMode") == "DaemonSet"
    return len(world.kubernetes.machines) if per_machine else int(nodeset["spec"]["replicas"])


def is_registered_wrong(pod: Json, world: World) -> bool:
    """Whether Slurm has other CPUs on record than the slurmd has, for longer than it may take to notice."""
    record, made_at = world.slurm.nodes.get(pod["metadata"]["name"]), pod["metadata"]["creationTimestamp"]
    age = world.server.now() - datetime.fromisoformat(made_at)
    is_old = age > timedelta(seconds=WRONG_AFTER_S + LOOKED_EVERY_S)
    return is_old and record is not None and record.slurmd is not None and record.cpus != record.slurmd.cpus


def revision_of(pod: Json) -> str:
    return str(pod["metadata"]["labels"][names.REVISION_LABEL])


def failure_of(seed: int, decide: Decide | None = None) -> Failure | None:
    """`decide`: who plans in place of the real one."""
    steps = steps_of(seed)
    error, trace = in_virtual_time(outcome(seed, steps, decide))
    return None if error is None else Failure(seed, error, steps, trace, decide)


def trace_of(seed: int) -> tuple[str, ...]:
    quiet()
    return in_virtual_time(outcome(seed, steps_of(seed)))[1]


def shrunk(failure: Failure) -> Failure:
    """Fewer steps that fail in the same way, by leaving out ever smaller parts; so many runs at most."""
    best, runs, size = failure, 0, max(1, len(failure.steps) // 2)
    while size >= 1 and runs < SHRINK_RUNS_MAX:
        start, shorter = 0, False
        while start < len(best.steps) and runs < SHRINK_RUNS_MAX:
            steps = best.steps[:start] + best.steps[start + size :]
            error, trace = in_virtual_time(outcome(failure.seed, steps, failure.decide))
            runs += 1
            if error is not None and type(error) is type(failure.error):
                best, shorter = Failure(failure.seed, error, steps, trace, failure.decide), True
            else:
                start += size
        size = size if shorter and size == 1 else size // 2
    return best


def in_virtual_time(run: Coroutine[Any, Any, T]) -> T:
    """In a loop of its own whose clock begins at 0: the same seed is the same run, whatever ran before it."""
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0, noop_cycles=0)) as runner:
        return runner.run(run)
