"""Somebody's drain outlives what slurmctld forgets: seeds with little else than drains, losses, cordons and crashes.

In the seeds of all troubles such a loss is rare, and people ask for other workers all the time.
"""

import asyncio
from random import Random

import pytest

from corral.kinds.nodeset.shown import DRAINED
from corral.kinds.nodeset.whose import are_somebodys_words
from tests.sim import troubles
from tests.sim.kubelet import Json, is_ready
from tests.sim.seeds import Failure, Step, in_virtual_time, outcome, shrunk
from tests.sim.world import World

SEEDS = range(9000, 9040)
STEPS = 12
PAUSE_S_MAX = 40.0
LOOKS, LOOKED_EVERY_S = 24, 5.0  # of the Controller


def drain(world: World, luck: Random) -> None:
    """For good, or until all is calm."""
    if world.slurm.up and world.slurm.nodes:
        world.slurm.drain(luck.choice(sorted(world.slurm.nodes)), "bad DIMM", "health")


def lose_all(world: World, luck: Random) -> None:
    if world.slurm.up:
        world.slurm.kill()
        troubles.later(world, luck.uniform(0.5, 30), lambda: _begin_empty(world))


def _begin_empty(world: World) -> None:
    before = {name: record.drain for name, record in world.slurm.nodes.items()}
    drained = {pod["metadata"]["name"]: words for pod in world.pods() if (words := drain_shown(pod))}
    world.slurm.start(lost=1.0)
    gone = [name for name in drained if before.get(name) and name not in world.slurm.nodes]
    world.lost_drains |= {name: drained[name] for name in gone}
    _tell(world, frozenset(world.names()), LOOKS)


def _tell(world: World, strangers: frozenset[str], looks: int) -> None:
    """As the Controller does, which leaves alone whoever would lose its drain."""
    left = strangers - world.slurm.nodes.keys()
    for pod in world.pods():
        is_staying = is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        if pod["metadata"]["name"] in left and is_staying and not drain_shown(pod):
            world.kubelets.register_anew(pod)
    if left and looks:
        asyncio.get_running_loop().call_later(LOOKED_EVERY_S, _tell, world, left, looks - 1)


def drain_shown(pod: Json) -> str:
    shown = pod["status"].get("conditions") or ()
    said = [one.get("message", "") for one in shown if one["type"] == DRAINED]
    return next((text for text in said if are_somebodys_words(text)), "")


OFTEN = (
    *(drain, lose_all) * 4,
    *(troubles.cordon, troubles.crash_after_a_write, troubles.submit) * 2,
    troubles.crash_after_a_write_to_slurm,
    troubles.crash,
    troubles.restart_rest,
    troubles.suspend,
    troubles.disturb_watches,
    troubles.resize,
    troubles.roll,
)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drain_that_slurmctld_has_lost_is_there_again(seed: int) -> None:
    luck = Random(f"{seed} drains")
    steps = tuple(Step(n, luck.uniform(0, PAUSE_S_MAX), luck.choice(OFTEN)) for n in range(STEPS))
    error, trace = in_virtual_time(outcome(seed, steps))
    if error is not None:
        pytest.fail(str(shrunk(Failure(seed, error, steps, trace))), pytrace=False)
