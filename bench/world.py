"""The cluster the figures are measured on, and the objects in it. Safe to run again: what is there stays."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TypeVar

from bench.objects import CREATION, PODS, QUEUE, Ticket, a_ticket, worker_pod, worker_status
from bench.process import MeasurementFailed, Settings, Sizes
from bench.server import our_client
from corral.kube import AlreadyExists, Client, ObjectMeta, Precondition, Selector
from corral.kube.crd import crd_of
from corral.kube.models.core_v1 import Namespace, Pod
from corral.local.home import home_of

NAME = "bench"
MANAGER = "corral-bench"
AT_A_TIME = 24
SERVED_WITHIN_S = 30.0

Item = TypeVar("Item")


@contextmanager
def running_cluster(sizes: Sizes) -> Iterator[Settings]:
    """With a cluster of our own. One that is up already is used, and stays."""
    home = home_of(NAME)
    is_ours = not home.spec_file.exists()
    try:
        _up()
        yield Settings(str(home.kubeconfig), sizes, is_ours)
    finally:
        if is_ours:
            _corral("down", "--name", NAME)


def renew(settings: Settings) -> None:
    """The same cluster with nothing in it; without a word, for it is done many times."""
    if not settings.is_ours:
        raise MeasurementFailed(f"cluster {NAME} was up already: take it down (`corral down --name {NAME}`) and repeat")
    _corral("down", "--name", NAME, output=subprocess.DEVNULL)
    _up(output=subprocess.DEVNULL)


def _up(output: IO[str] | int | None = None) -> None:
    if _corral("up", "--name", NAME, "--bare", "--audit", output=output) != 0:
        raise MeasurementFailed(f"`corral up --name {NAME}` failed")


def _corral(*arguments: str, output: IO[str] | int | None = None) -> int:
    command = [sys.executable, "-c", "from corral.cli.main import main; main()", *arguments]
    return subprocess.run(command, check=False, stdout=output or sys.stderr, stderr=output).returncode


async def prepare(settings: Settings, pods: int, say: Callable[[str], None]) -> str:
    """Make the objects that the figures need, with so many pods; returns the server's version."""
    sizes = settings.sizes
    async with our_client(settings) as client:
        for namespace in (CREATION, QUEUE, PODS):
            await client.apply(Namespace(metadata=ObjectMeta(name=namespace)), field_manager=MANAGER, force=True)
        await client.apply(crd_of(Ticket), field_manager=MANAGER, force=True)
        await _until_served(client)
        for namespace, count in ((CREATION, sizes.creations), (QUEUE, sizes.tickets)):
            tickets = [a_ticket(number, namespace) for number in range(count)]
            await _each(tickets, lambda ticket: _make(client, ticket), "tickets", say)
        have = {pod.metadata.name for pod in (await client.list(Pod, Selector(namespace=PODS))).items}
        if len(have) > pods:
            raise MeasurementFailed(
                f"cluster {NAME} has {len(have)} pods of an earlier, larger run: take it down first"
            )
        missing = [number for number in range(pods) if worker_pod(number).metadata.name not in have]
        await _each(missing, lambda number: _make_pod(client, number), "pods", say)
        return (await client.server_version()).git_version


async def server_version(settings: Settings) -> str:
    async with our_client(settings) as client:
        return (await client.server_version()).git_version


async def _until_served(client: Client) -> None:
    async with asyncio.timeout(SERVED_WITHIN_S):
        while not await client.served(Ticket.resource):  # noqa: ASYNC110 - nobody is told when a new kind is served
            await asyncio.sleep(0.2)


async def _make(client: Client, ticket: Ticket) -> None:
    with suppress(AlreadyExists):
        await client.create(ticket, field_manager=MANAGER)


async def _make_pod(client: Client, number: int) -> None:
    pod = await client.create(worker_pod(number), field_manager=MANAGER)
    await client.patch(
        Pod,
        pod.metadata.name,
        PODS,
        merge={"status": worker_status(number)},
        precondition=Precondition(uid=pod.metadata.uid),
        field_manager="kubelet",
        subresource="status",
    )


async def _each(
    items: Iterable[Item], work: Callable[[Item], Awaitable[None]], what: str, say: Callable[[str], None]
) -> None:
    def tell(done: int) -> None:
        if done % 500 == 0:
            say(f"{done} {what}")

    await at_once(items, work, workers=AT_A_TIME, after_each=tell)


async def at_once(
    items: Iterable[Item],
    work: Callable[[Item], Awaitable[None]],
    *,
    workers: int,
    after_each: Callable[[int], None] = lambda _done: None,
) -> None:
    """The plainest loop with a fixed concurrency: so many workers take from one iterator until it is empty."""
    left, done = iter(items), 0

    async def worker() -> None:
        nonlocal done
        for item in left:
            await work(item)
            done += 1
            after_each(done)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(worker())
