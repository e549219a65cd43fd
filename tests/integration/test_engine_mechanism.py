"""The informer and the barrier against a real API server."""

import asyncio

import pytest

from corral.engine.barrier import Barrier
from corral.engine.clock import system_clock
from corral.engine.informer import Informer
from corral.engine.store import Change, Deleted, key_of
from corral.kube import Client, ObjectMeta, Precondition, Selector
from corral.kube.models.core_v1 import ConfigMap, Container, Pod, PodSpec
from corral.kube.watch import Server

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("streams_lists", [True, False])
async def test_an_informer_has_what_the_server_has(corral_namespace: str, client: Client, streams_lists: bool) -> None:
    made = [await client.create(a_map(f"map-{number}", corral_namespace), field_manager="test") for number in range(5)]
    features = Server()
    features.streams_lists = streams_lists
    where = Selector(namespace=corral_namespace, fields="metadata.name!=kube-root-ca.crt")
    informer = Informer(client, ConfigMap, where, clock=system_clock(), server=features)
    deleted: asyncio.Queue[str] = asyncio.Queue()

    def on_change(change: Change[ConfigMap], _: object) -> None:
        if isinstance(change, Deleted):
            deleted.put_nowait(change.old.metadata.name)

    informer.subscribe(on_change)
    running = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(60):
            await informer.synced.wait()
            assert {key_of(obj) for obj in informer.store} == {key_of(obj) for obj in made}
            await client.delete(ConfigMap, "map-3", corral_namespace, precondition=Precondition.of(made[3]))
            assert await deleted.get() == "map-3"

        assert (informer.statistics().lists, informer.statistics().troubles) == (1, 0)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_whatever_a_delete_answers_the_barrier_passes_only_when_the_cache_shows_it(
    corral_namespace: str, client: Client
) -> None:
    """A ConfigMap's deletion is answered without the object, a Pod's with it: the first is awaited by uid."""
    where = Selector(namespace=corral_namespace)
    maps = Informer(client, ConfigMap, where, clock=system_clock(), server=Server())
    pods = Informer(client, Pod, where, clock=system_clock(), server=Server())
    barrier: Barrier[str] = Barrier()
    for informer in (maps, pods):
        barrier.add_cache(informer.kind.resource, informer.store)
        informer.on_progress(barrier.progressed)
    made = [
        await client.create(a_map("short-lived", corral_namespace), field_manager="test"),
        await client.create(a_pod("short-lived", corral_namespace), field_manager="test"),
    ]
    running = [asyncio.create_task(maps.run()), asyncio.create_task(pods.run())]
    try:
        await asyncio.wait_for(asyncio.gather(maps.synced.wait(), pods.synced.wait()), 60)
        for obj in made:
            answer = await client.delete(
                type(obj),
                "short-lived",
                corral_namespace,
                precondition=Precondition(obj.metadata.uid),
                grace_period_s=0,
            )
            if answer is None:
                barrier.deleted_unseen("key", obj.resource, key_of(obj), obj.metadata.uid)
            else:
                barrier.wrote("key", answer)
            if barrier.pending("key"):
                seen = asyncio.Event()
                barrier.hold("key", seen.set)
                await asyncio.wait_for(seen.wait(), 60)

            assert maps.store.get(corral_namespace, "short-lived") is None
        assert pods.store.get(corral_namespace, "short-lived") is None
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


def a_pod(name: str, namespace: str) -> Pod:
    """One that no node takes, so that its deletion is immediate."""
    spec = PodSpec(containers=(Container(name="c", image="none"),), node_selector={"none": "such"})
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def a_map(name: str, namespace: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))
