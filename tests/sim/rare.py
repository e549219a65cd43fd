"""Troubles that come in some seeds, once: drawn apart, so that all else of a seed stays what it was without them."""

from datetime import timedelta
from random import Random
from typing import Final

from corral.kinds.controller.spec import Controller
from corral.kube.models.core_v1 import Pod
from tests.sim.kubelet import Json
from tests.sim.troubles import Trouble, later, one_of
from tests.sim.wishes import FORCED_AFTER_S
from tests.sim.world import NAMESPACE, World, a_cluster


def replace_controller(world: World, luck: Random) -> None:
    """As `kubectl replace --force` does: for a while there is none, and jobs run on."""
    if world.server.get(Controller, "slurm", NAMESPACE) is not None:
        world.server.note("", "people delete the Controller")
        world.server.remove(Controller, "slurm", NAMESPACE)
        later(world, luck.uniform(0.5, 25), lambda: _make_controller(world))


def _make_controller(world: World) -> None:
    world.server.note("", "people make the Controller again")
    world.server.add(a_cluster()[0])


def reserve_ordinals(world: World, luck: Random) -> None:
    """Those of some that are there, or of none any more."""
    world.change(one_of(world, luck), reserveOrdinals=sorted(luck.sample(range(4), luck.randrange(3))))


def pad_ordinals(world: World, luck: Random) -> None:
    world.change(one_of(world, luck), ordinalPadding=luck.choice((0, 2, 3)))


def pin(world: World, luck: Random) -> None:
    world.change(one_of(world, luck), pinToNode=luck.random() < 0.7)


def force(world: World, luck: Random) -> None:
    """And soon fewer workers, or others, while there are jobs that outlast it."""
    name, within_s = one_of(world, luck), luck.choice((*FORCED_AFTER_S, None))
    world.change(name, forceDrainAfterSeconds=within_s)
    submit_long(world, luck)
    then: Json = luck.choice(({"replicas": 0}, {"replicas": 1}, {"extraConf": "Weight=9"}))
    later(world, luck.uniform(1, 30), lambda: world.change(name, **then))


def submit_long(world: World, luck: Random) -> None:
    for _ in range(luck.randint(1, 4)):
        world.slurm.submit(luck.choice((1, 1, 2)), luck.uniform(100, 300))


def force_late(world: World, luck: Random) -> None:
    """When a drain has lasted for longer than they now choose to wait."""
    name = one_of(world, luck)
    world.change(name, forceDrainAfterSeconds=None)
    submit_long(world, luck)
    later(world, luck.uniform(1, 10), lambda: world.change(name, replicas=0))
    later(world, luck.uniform(60, 150), lambda: world.change(name, forceDrainAfterSeconds=min(FORCED_AFTER_S)))


def delete_busy_pod(world: World, luck: Random) -> None:
    """Somebody, where people wait for jobs no longer than they chose to."""
    name = one_of(world, luck)
    world.change(name, forceDrainAfterSeconds=luck.choice(FORCED_AFTER_S))
    submit_long(world, luck)

    def delete() -> None:
        if busy := [pod["metadata"]["name"] for pod in world.pods(name) if world.kubelets.has_jobs(pod)]:
            world.server.note("", f"people delete pods {busy}")
            for pod in busy:
                world.server.remove(Pod, pod, NAMESPACE)

    later(world, luck.uniform(1, 20), delete)


def schedule_rollout(world: World, luck: Random) -> None:
    """In a while, for which Slurm keeps the nodes free."""
    start = world.server.now() + timedelta(seconds=luck.uniform(15, 60))
    window = {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ"), "duration": "2m"}
    update = {"strategy": "RollingUpdate", "paused": False, "window": window}
    world.change(one_of(world, luck), extraConf=f"Weight={luck.randint(3, 8)}", update=update)


def register_with_less(world: World, luck: Random) -> None:
    """All slurmds of a set find fewer CPUs than they were made with, and say so."""
    name = one_of(world, luck)
    for pod in world.pods(name):
        process = world.kubelets.processes.get(pod["metadata"]["uid"])
        if process is not None and process.slurmd is not None and process.slurmd.cpus > 1:
            process.slurmd.cpus -= 1
            world.kubelets.register_anew(pod)


RARE: Final[tuple[tuple[Trouble, float], ...]] = (
    (replace_controller, 0.2),
    (reserve_ordinals, 0.2),
    (pad_ordinals, 0.2),
    (pin, 0.2),
    (force, 0.3),
    (submit_long, 0.2),
    (schedule_rollout, 0.3),
    (register_with_less, 0.3),
    (delete_busy_pod, 0.3),
    (force_late, 0.3),
)
