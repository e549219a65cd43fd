"""Changes of Kubernetes nodes bring the NodeSets back that they concern, at once and not with the next look."""

import asyncio
from typing import Any

import pytest

from corral.kinds.nodeset.calls import Drain, Undrain
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Node, Pod
from corral.testing.apiserver.storage import Key
from tests.unit.kinds.nodeset.test_nodeset_life import World, a_world

pytestmark = pytest.mark.looptime(noop_cycles=0)

SOON_S = 5.0
ASKS = {"scalingMode": "DaemonSet", "template": {"spec": {"nodeSelector": {"gpu": "yes"}}}}


def a_node(name: str, *, gpu: str = "yes") -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True"}
    meta = {"name": name, "labels": {"gpu": gpu}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"conditions": [ready]}}


def label(world: World, name: str, gpu: str) -> None:
    world.server.edit(Node, name, merge={"metadata": {"labels": {"gpu": gpu}}})


async def test_a_node_that_appears_or_is_labelled_gets_its_worker_and_one_that_is_not_any_more_or_goes_loses_it() -> (
    None
):
    async with a_world(0) as world:
        world.server.edit(NodeSet, "gpu", "lab", merge={"spec": ASKS})
        await asyncio.sleep(60)
        world.server.add(a_node("m1"))
        world.server.add(a_node("m2", gpu="no"))
        await asyncio.sleep(SOON_S)
        assert world.pods() == ["gpu-m1"]
        label(world, "m2", "yes")
        await asyncio.sleep(SOON_S)
        assert world.pods() == ["gpu-m1", "gpu-m2"]
        await asyncio.sleep(60)
        label(world, "m1", "no")
        await asyncio.sleep(SOON_S)
        assert world.pods() == ["gpu-m2"]
        await asyncio.sleep(60)
        world.server.remove(Node, "m2")
        await asyncio.sleep(SOON_S)
        assert world.pods() == []


def bound(world: World, pod: str, machine: str) -> None:
    """As the scheduler binds it: the one change of spec.nodeName that the server lets through."""
    found = world.server.get(Pod, pod, "lab")
    assert found is not None
    spec = {**found["spec"], "nodeName": machine}
    world.server.storage.put(Key("pods", "lab", pod), {**found, "spec": spec})


@pytest.mark.parametrize(
    ("trouble", "cause"),
    [
        ({"spec": {"unschedulable": True}}, "is cordoned"),
        ({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}, "has taint x:NoExecute"),
    ],
    ids=["cordoned", "tainted"],
)
async def test_what_happens_to_the_node_below_a_worker_reaches_slurm_at_once_and_so_does_its_end(
    trouble: dict[str, Any], cause: str
) -> None:
    async with a_world(1) as world:
        world.server.add(a_node("m1"))
        bound(world, "gpu-0", "m1")
        world.slurm.start_job(7, "gpu-0")
        await world.settled()
        world.server.edit(Node, "m1", merge=trouble)
        await asyncio.sleep(SOON_S)
        (drain,) = world.slurm.done
        assert isinstance(drain, Drain)
        assert cause in drain.reason
        world.server.edit(Node, "m1", merge={"spec": {"unschedulable": None, "taints": None}})
        await asyncio.sleep(SOON_S)
        assert [type(call) for call in world.slurm.done] == [Drain, Undrain]
