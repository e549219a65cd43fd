"""What happens to a world, by seed: people, admins, jobs and faults of every part. Each trouble is a small function.

A trouble that takes something away gives it back later by itself (`later`), so that troubles overlap.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Final

from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Node, Pod
from corral.testing.apiserver import Fault
from tests.sim.kubelet import BACKOFF_S, BAD_IMAGE, is_ready
from tests.sim.records import ALL, Refused
from tests.sim.slurmctld import POWERING_DOWN, POWERING_UP
from tests.sim.taints import NO_EXECUTE
from tests.sim.whose import is_foreign
from tests.sim.wishes import wishes
from tests.sim.world import NAMESPACE, SETS, World

Trouble = Callable[[World, Random], None]

TOLD_WITHIN_S = 60.0  # slurmctld's recovery takes so long at most
COST = "controller.kubernetes.io/pod-deletion-cost"


def later(world: World, after_s: float, then: Callable[[], None]) -> None:
    """Nothing that is left to happen outlives the faults: `World.calm` does it then."""
    world.owed.append(then)

    def due() -> None:
        if then in world.owed:
            world.owed.remove(then)
            then()

    asyncio.get_running_loop().call_later(after_s, due)


def one_of(world: World, luck: Random) -> str:
    """A NodeSet that is there, if one is."""
    return luck.choice([name for name in SETS if world.nodeset(name) is not None] or SETS)


# --- people


def scale(world: World, luck: Random) -> None:
    world.change(luck.choice(SETS), replicas=luck.randrange(6))


def submit(world: World, luck: Random) -> None:
    """To all nodes, or to a partition, which may go meanwhile."""
    for _ in range(luck.randint(1, 5)):
        partition = luck.choice((ALL, ALL, *world.slurm.partitions))
        with suppress(Refused):
            world.slurm.submit(luck.choice((1, 1, 1, 2, 3)), luck.uniform(2, 60), partition)


def suspend(world: World, luck: Random) -> None:
    name = luck.choice(SETS)
    world.change(name, suspend=True)
    later(world, luck.uniform(1, 30), lambda: world.change(name, suspend=False))


def delete_set(world: World, luck: Random) -> None:
    name = luck.choice(SETS)
    if world.nodeset(name) is None:
        world.make(name, replicas=luck.randrange(4), **wishes(luck))
    elif luck.random() < 0.4:
        world.deleted_sets.add(name)
        world.server.note("", f"people delete NodeSet {name}")
        world.server.remove(NodeSet, name, NAMESPACE)


def delete_pod(world: World, luck: Random) -> None:
    """A person who knows what they do, or not."""
    if pods := world.pods():
        world.server.remove(Pod, luck.choice(pods)["metadata"]["name"], NAMESPACE)


def mark_pod(world: World, luck: Random) -> None:
    if pods := world.pods():
        merge = {"metadata": {"annotations": {COST: luck.choice(("-5", "5", "x", None))}}}
        world.server.edit(Pod, luck.choice(pods)["metadata"]["name"], NAMESPACE, merge=merge)


def roll(world: World, luck: Random) -> None:
    """Another image, now and then one that cannot be pulled, or another annotation."""
    image = luck.choice(("corral/slurm:new", "corral/slurm:newer", f"corral/slurm:{BAD_IMAGE}"))
    world.change(luck.choice(SETS), slurmd={"image": image})


def change_update(world: World, luck: Random) -> None:
    name = luck.choice(SETS)
    update = {
        "strategy": luck.choice(("RollingUpdate", "RollingUpdate", "OnDelete")),
        "maxUnavailable": luck.choice((1, 2, "50%", 0)),
        "maxSurge": luck.choice((0, 0, 1, "30%")),
        "partition": luck.choice((0, 0, 2)),
        "paused": luck.random() < 0.2,
        "window": a_window(world, luck) if luck.random() < 0.3 else None,
    }
    if ((world.nodeset(name) or {}).get("spec") or {}).get("scalingMode") == "DaemonSet":
        update |= {"maxSurge": 0, "partition": 0}  # the server takes nothing else
    world.change(name, update=update)


def switch_mode(world: World, luck: Random) -> None:
    """From ordinals to one worker a machine, or back."""
    mode = luck.choice(("DaemonSet", "StatefulSet"))
    world.change(luck.choice(SETS), scalingMode=mode, update={"maxSurge": 0, "partition": 0})


def resize(world: World, luck: Random) -> None:
    world.change(luck.choice(SETS), slurmd={"resources": {"limits": {"cpu": luck.choice(("1", "2"))}}})


def relabel(world: World, luck: Random) -> None:
    """A machine that moved to another rack."""
    name = luck.choice(sorted(world.kubernetes.machines))
    world.server.edit(Node, name, merge={"metadata": {"labels": {"rack": luck.choice(("r1", "r2", None))}}})


def a_window(world: World, luck: Random) -> dict[str, str]:
    """In a while, now, or over already."""
    start = world.server.now() + timedelta(seconds=luck.uniform(-60, 60))
    return {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ"), "duration": luck.choice(("30s", "2m"))}


def admin_drains(world: World, luck: Random) -> None:
    if world.slurm.up and world.slurm.nodes:
        node = luck.choice(sorted(world.slurm.nodes))
        world.slurm.drain(node, luck.choice(("bad DIMM", "gpu fell off the bus")), "root")
        if luck.random() < 0.7:
            later(world, luck.uniform(1, 60), lambda: _admin_gives_back(world, node))


def _admin_gives_back(world: World, node: str) -> None:
    record = world.slurm.nodes.get(node)
    if world.slurm.up and record is not None and is_foreign(record):
        world.slurm.resume(node, "root")


def admin_sets_down(world: World, luck: Random) -> None:
    """Or marks as failing. What runs there ends with it, which is their affair; slurmctld itself brings it back."""
    if not world.slurm.up or not world.slurm.nodes:
        return
    node = luck.choice(sorted(world.slurm.nodes))
    if luck.random() < 0.5:
        world.slurm.set_down(node, "smoke", "root")
    else:
        world.slurm.set_fail(node, "it will not last", "root")
        later(world, luck.uniform(1, 60), lambda: _admin_gives_back(world, node))


def power_down(world: World, luck: Random) -> None:
    """Where people have a SuspendProgram: nothing that we know of is switched off by it."""
    idle = [name for name in sorted(world.slurm.nodes) if world.slurm.is_idle(name)]
    if not world.slurm.up or not idle:
        return
    node = luck.choice(idle)
    world.slurm.power(node, POWERING_DOWN, "root")

    def power_up() -> None:
        if node in world.slurm.nodes and world.slurm.nodes[node].power:
            world.slurm.power(node, POWERING_UP, "root")
            for pod in world.pods():
                if pod["metadata"]["name"] == node:
                    world.kubelets.register_anew(pod)

    later(world, luck.uniform(1, 60), power_up)


def reconfigure(world: World, luck: Random) -> None:
    """As `scontrol reconfigure` does: whom slurmctld knows, registers again; one that was forgotten in that second,
    without its drain."""
    if world.slurm.up:
        world.server.note("slurm", "reconfigure")
        world.kubernetes.reconfigured()


def admin_undrains_ours(world: World, luck: Random) -> None:
    """Somebody lifts whatever drain there is, ours too: at the worst moment a job starts there."""
    drained = [name for name, record in sorted(world.slurm.nodes.items()) if record.drain]
    if world.slurm.up and drained:
        with suppress(Refused):
            world.slurm.undrain(luck.choice(drained), "root")


# --- Slurm


def kill_slurmctld(world: World, luck: Random) -> None:
    if world.slurm.up:
        world.slurm.kill()
        lost = luck.choice((0.0, 0.0, 0.3, 1.0))
        later(world, luck.uniform(0.5, 30), lambda: _slurmctld_starts(world, lost, luck))


def _slurmctld_starts(world: World, lost: float, luck: Random) -> None:
    """With nothing left, Corral's Controller tells those to register that it does not know."""
    world.slurm.start(lost=lost)
    if lost == 1.0:
        for name in world.names():
            after_s = luck.uniform(1, TOLD_WITHIN_S)
            asyncio.get_running_loop().call_later(after_s, lambda name=name: _register_anew(world, name))  # type: ignore[misc]


def _register_anew(world: World, name: str) -> None:
    """Not one that is being deleted: the Controller leaves it alone, also while its kubelet has not heard of it."""
    for pod in world.pods():
        is_staying = is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        if pod["metadata"]["name"] == name and is_staying and name not in world.slurm.nodes:
            world.kubelets.register_anew(pod)


def restart_rest(world: World, luck: Random) -> None:
    world.rest.up = False
    later(world, luck.uniform(1, 20), lambda: setattr(world.rest, "up", True))


def hang_rest(world: World, luck: Random) -> None:
    world.rest.hangs = True
    later(world, luck.uniform(5, 60), lambda: setattr(world.rest, "hangs", False))


# --- operators


def crash(world: World, luck: Random) -> None:
    operator = luck.choice(world.operators)
    if not operator.task.done():
        operator.task.cancel()


def crash_after_a_write(world: World, luck: Random) -> None:
    luck.choice(world.operators).connection.crash_after_writes(luck.randint(1, 6))


def crash_after_a_write_to_slurm(world: World, luck: Random) -> None:
    client = luck.choice(world.operators).connection.client
    world.crash_after_slurm_writes[client] = luck.randint(1, 4)


def cut_operator(world: World, luck: Random) -> None:
    connection = luck.choice(world.operators).connection
    connection.cut()
    later(world, luck.uniform(1, 25), connection.mend)


# --- the API server and its watches


def restart_server(world: World, luck: Random) -> None:
    world.server.restart(luck.uniform(0, 8))


def disturb_watches(world: World, luck: Random) -> None:
    luck.choice((world.server.drop_watches, world.server.stall_watches, world.server.compact))()


def fail_deletions(world: World, luck: Random) -> None:
    fault = luck.choice((Fault.LOSE_ANSWER, Fault.CONFLICT, Fault.SERVER_ERROR, Fault.HANG, Fault.SLOW))
    world.server.fail_next(fault, method="DELETE", resource="pods", times=luck.randint(1, 2))


# --- machines and containers


def kill_machine(world: World, luck: Random) -> None:
    name = luck.choice(sorted(world.kubernetes.machines))
    if not world.kubernetes.machines[name].alive:
        return
    world.kubernetes.kill_machine(name)
    back = luck.random() < 0.6
    later(world, luck.uniform(5, 90), lambda: _machine_comes_or_goes(world, name, back=back))


def _machine_comes_or_goes(world: World, name: str, *, back: bool) -> None:
    machine = world.kubernetes.machines.get(name)
    if machine is None or machine.alive:
        return
    if back:
        world.kubernetes.return_machine(name)
    else:
        world.kubernetes.delete_machine(name)
        world.kubernetes.add_machine(f"{name}x")


def delete_machine(world: World, luck: Random) -> None:
    name = luck.choice(sorted(world.kubernetes.machines))
    world.kubernetes.delete_machine(name)
    world.kubernetes.add_machine(f"{name}y")


def cordon(world: World, luck: Random) -> None:
    name = luck.choice(sorted(world.kubernetes.machines))
    world.kubernetes.cordon(name, on=True)
    later(world, luck.uniform(1, 60), lambda: world.kubernetes.cordon(name, on=False))


def kubectl_drain(world: World, luck: Random) -> None:
    """Cordons, and evicts for as long as it takes; gives up and uncordons some time."""
    name = luck.choice(sorted(world.kubernetes.machines))
    world.kubernetes.cordon(name, on=True)

    def evict_all() -> None:
        if give_up in world.owed:
            for pod in world.kubernetes.pods_on(name):
                world.evict(pod["metadata"]["name"])
            asyncio.get_running_loop().call_later(5.0, evict_all)

    def give_up() -> None:
        world.kubernetes.cordon(name, on=False)

    later(world, luck.uniform(5, 90), give_up)
    evict_all()


def taint(world: World, luck: Random) -> None:
    """By somebody who wants everybody off it."""
    name = luck.choice(sorted(world.kubernetes.machines))
    world.server.note("", f"{name} is tainted")
    world.kubernetes.taint(name, "example.com/broken", NO_EXECUTE, on=True)
    later(world, luck.uniform(1, 60), lambda: world.kubernetes.taint(name, "example.com/broken", on=False))


def cut_kubelet(world: World, luck: Random) -> None:
    """From the API server only: jobs run on."""
    name = luck.choice(sorted(world.kubernetes.machines))
    world.kubernetes.cut_off(name)
    later(world, luck.uniform(1, 120), lambda: world.kubernetes.connect(name))


def crash_container(world: World, luck: Random) -> None:
    if pods := world.pods():
        world.kubelets.crash(luck.choice(pods))


def crash_loop(world: World, luck: Random) -> None:
    """Not the first time: kubelet takes its time to start it again."""
    if pods := world.pods():
        world.kubelets.crash(luck.choice(pods), again_after_s=luck.uniform(*BACKOFF_S))


def lose_sandbox(world: World, luck: Random) -> None:
    if pods := world.pods():
        world.kubelets.lose_sandbox(luck.choice(pods))


def fail_pod(world: World, luck: Random) -> None:
    if pods := [pod for pod in world.pods() if pod["status"]["phase"] == "Running"]:
        world.kubelets.fail(luck.choice(pods))


TROUBLES: Final[tuple[tuple[Trouble, int], ...]] = (
    (submit, 20),
    (scale, 20),
    (suspend, 1),
    (delete_set, 3),
    (delete_pod, 2),
    (mark_pod, 1),
    (admin_drains, 4),
    (admin_undrains_ours, 2),
    (admin_sets_down, 3),
    (power_down, 1),
    (reconfigure, 2),
    (kill_slurmctld, 4),
    (restart_rest, 2),
    (hang_rest, 2),
    (crash, 4),
    (crash_after_a_write, 6),
    (crash_after_a_write_to_slurm, 4),
    (cut_operator, 2),
    (restart_server, 2),
    (disturb_watches, 4),
    (fail_deletions, 3),
    (kill_machine, 3),
    (delete_machine, 1),
    (cordon, 3),
    (kubectl_drain, 3),
    (roll, 6),
    (change_update, 4),
    (switch_mode, 3),
    (resize, 2),
    (relabel, 2),
    (taint, 2),
    (cut_kubelet, 3),
    (crash_container, 3),
    (crash_loop, 2),
    (lose_sandbox, 2),
    (fail_pod, 2),
)
