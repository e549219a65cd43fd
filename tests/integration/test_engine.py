"""A whole controller on a real API server: what the fake promised, the server keeps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from corral.engine import EmitEvent, Key, Manager, Metrics, dry_run, explain, plan_object, system_clock, target
from corral.engine.events import Recorder
from corral.engine.informer import Informer
from corral.kube import Client, HttpTransport, NotFound, ObjectMeta, Precondition, Selector, load_credentials
from corral.kube.crd import crd_of
from corral.kube.models.core_v1 import ConfigMap
from corral.kube.models.events_v1 import Event
from corral.kube.watch import Server
from corral.testing.cluster import Cluster
from corral.testing.toys import Toy, ToySpec, toy_controller

pytestmark = pytest.mark.cluster

PERSON = "person"


@pytest.fixture
async def client(corral_cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(HttpTransport(load_credentials(corral_cluster.kubeconfig), component="test")) as client:
        await client.apply(crd_of(Toy), field_manager=PERSON, force=True)
        await until(lambda: client.list_page(Toy, limit=1))
        yield client


@asynccontextmanager
async def operating(client: Client, namespace: str) -> AsyncIterator[None]:
    """Ends with the toy let go: its finalizer would hold the namespace for ever."""
    stop = asyncio.Event()
    manager = Manager(client, (toy_controller(),), clock=system_clock(), metrics=Metrics(), on_synced=lambda: None)
    task = asyncio.create_task(manager.run(stop))
    try:
        yield
        with suppress(NotFound):
            await client.delete(Toy, "bear", namespace, precondition=Precondition())
        await until(lambda: is_gone(client, Toy, "bear", namespace))
    finally:
        stop.set()
        await task


async def until(holds: Callable[[], Awaitable[object]], within_s: float = 30.0) -> None:
    """Wait for a named state; what the server does not have yet counts as no."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                if await holds():
                    return
            except NotFound:
                pass
            await asyncio.sleep(0.05)


async def want(client: Client, namespace: str, **spec: str | int) -> None:
    toy = Toy(metadata=ObjectMeta(name="bear", namespace=namespace), spec=ToySpec(**spec))  # type: ignore[arg-type]
    await client.apply(toy, field_manager=PERSON, force=True)


async def has_condition(client: Client, namespace: str, kind: str) -> bool:
    toy = await client.get(Toy, "bear", namespace)
    return any(
        c.type == kind and c.status == "True" and c.observed_generation == toy.metadata.generation
        for c in toy.status.conditions
    )


async def test_a_toy_becomes_true_stays_true_and_goes(client: Client, corral_namespace: str) -> None:
    ns, bear = corral_namespace, Key(corral_namespace, "bear")
    async with operating(client, corral_namespace):
        await want(client, ns, copies=2)
        await until(lambda: has_condition(client, ns, "Ready"))
        assert (await plan_object(client, toy_controller(), bear)).plan.is_empty

        meddled = {"data": {"greeting": "go away", "theirs": "stays"}}
        await client.patch(ConfigMap, "bear-0", ns, merge=meddled, precondition=Precondition(), field_manager="meddler")
        await until(lambda: data_is(client, ns, "bear-0", {"greeting": "hello", "theirs": "stays"}))
        await until(lambda: tells(client, bear, "Drifted"))

        await want(client, ns, copies=1, greeting="bye")
        await until(lambda: data_is(client, ns, "bear-0", {"greeting": "bye", "theirs": "stays"}))
        await until(lambda: is_gone(client, ConfigMap, "bear-1", ns))

        await client.delete(Toy, "bear", ns, precondition=Precondition())
        await until(lambda: is_gone(client, Toy, "bear", ns))


async def test_a_name_that_is_taken_stalls_and_is_left_alone(client: Client, corral_namespace: str) -> None:
    theirs = ConfigMap(metadata=ObjectMeta(name="bear-0", namespace=corral_namespace), data={"k": "theirs"})
    before = await client.create(theirs, field_manager="stranger")
    async with operating(client, corral_namespace):
        await want(client, corral_namespace, copies=1)
        await until(lambda: has_condition(client, corral_namespace, "Stalled"))

    assert await client.get(ConfigMap, "bear-0", corral_namespace) == before


async def test_a_dry_run_shows_what_the_server_would_do(client: Client, corral_namespace: str) -> None:
    manifest = Toy(metadata=ObjectMeta(name="bear", namespace=corral_namespace), spec=ToySpec(greeting="bye"))
    async with operating(client, corral_namespace):
        await want(client, corral_namespace, copies=1)
        await until(lambda: has_condition(client, corral_namespace, "Ready"))
        planned = await plan_object(client, toy_controller(), manifest)
        (change,) = await dry_run(client, toy_controller(), planned.plan)
        assert await data_is(client, corral_namespace, "bear-0", {"greeting": "hello"})

    assert change.before is not None
    assert change.after is not None
    assert (change.before["data"], change.after["data"]) == ({"greeting": "hello"}, {"greeting": "bye"})


async def data_is(client: Client, namespace: str, name: str, data: dict[str, str]) -> bool:
    return (await client.get(ConfigMap, name, namespace)).data == data


async def tells(client: Client, key: Key, reason: str) -> bool:
    return reason in {event.reason for event in (await explain(client, toy_controller(), key)).events}


async def is_gone(client: Client, kind: type[Toy] | type[ConfigMap], name: str, namespace: str) -> bool:
    try:
        await client.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def test_what_is_said_again_is_one_event_whose_count_grows(client: Client, corral_namespace: str) -> None:
    await want(client, corral_namespace, copies=0)
    bear = await client.get(Toy, "bear", corral_namespace)
    recorder = Recorder(client, system_clock(), instance="here")
    said = EmitEvent(regarding=target(bear), reason="Happened", message="it happened", type="Warning")
    recorder.tell("corral-toy", said)
    await recorder.flush()
    recorder.tell("corral-toy", said)
    recorder.tell("corral-toy", said)
    await recorder.flush()

    (event,) = (await client.list(Event, Selector(corral_namespace))).items
    assert event.series is not None
    assert (event.note, event.series.count) == ("it happened", 3)


async def test_the_largest_object_that_etcd_takes_is_cached_whole(client: Client, corral_namespace: str) -> None:
    large = "x" * 1_500_000
    await want(client, corral_namespace, greeting=large, copies=0)
    informer = Informer(client, Toy, Selector(corral_namespace), clock=system_clock(), server=Server())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await until(lambda: has_synced(informer))
        cached = informer.store.find(Key(corral_namespace, "bear"))
        running.cancel()
    assert cached is not None
    assert cached.spec.greeting == large


async def has_synced(informer: Informer[Toy]) -> bool:
    return informer.statistics().synced
