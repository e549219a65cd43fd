"""A leader whose process is really suspended, before and during its writes, and another that leads meanwhile."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from corral.engine.clock import system_clock
from corral.engine.lease import Election
from corral.engine.send import send_status
from corral.kube import Client, NotFound, ObjectMeta, Precondition, Selector
from corral.kube.crd import crd_of
from corral.kube.definitions import define
from corral.kube.models.core_v1 import ConfigMap, Container, Pod, PodSchedulingGate, PodSpec
from corral.testing.cluster import Cluster
from corral.testing.toys import Toy, ToyStatus
from tests.integration.relay import by_way_of
from tests.integration.suspended_leader import TERMS

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("suspended_leader.py")
NEWER = {"said": "newer"}


class HalfWay:
    """A way to the API server in the middle of which requests can be stopped: of each, one half has passed."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._holds = False
        self._passable = asyncio.Event()
        self.stopped = 0  # connections on which the rest of a request waits here
        self.answered = 0  # of those

    def hold(self) -> None:
        self._holds = True

    def let_go(self) -> None:
        self._passable.set()

    async def connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(*self._server)
        was_stopped = asyncio.Event()
        back = asyncio.create_task(self._answers(server, to_client, was_stopped))
        try:
            while sent := await client.read(1 << 16):
                first, rest = (sent[: len(sent) // 2], sent[len(sent) // 2 :]) if self._holds else (sent, b"")
                to_server.write(first)
                if rest:
                    self.stopped += not was_stopped.is_set()
                    was_stopped.set()
                    await self._passable.wait()
                    to_server.write(rest)
        except ConnectionError:
            pass  # the leader was killed
        finally:
            back.cancel()
            to_client.close()
            to_server.close()

    async def _answers(
        self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter, was_stopped: asyncio.Event
    ) -> None:
        while answer := await server.read(1 << 16):
            to_client.write(answer)
            self.answered += was_stopped.is_set()
            was_stopped.clear()


@asynccontextmanager
async def a_leader(kubeconfig: Path, namespace: str, what: str) -> AsyncIterator[asyncio.subprocess.Process]:
    leader = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), str(kubeconfig), namespace, what),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(120):
            assert await told_by(leader) == "leading"
            yield leader
    finally:
        leader.kill()
        await leader.wait()


async def told_by(leader: asyncio.subprocess.Process) -> str:
    assert leader.stdout is not None
    return (await leader.stdout.readline()).decode().strip()


def ask_to_write(leader: asyncio.subprocess.Process) -> None:
    assert leader.stdin is not None
    leader.stdin.write(b"write\n")


def another(client: Client, namespace: str) -> Election:
    return Election(client, system_clock(), name="lease", namespace=namespace, identity="second", terms=TERMS)


async def test_a_suspended_leader_is_replaced_and_does_not_write_when_it_wakes(
    corral_cluster: Cluster, corral_namespace: str, client: Client
) -> None:
    async with a_leader(corral_cluster.kubeconfig, corral_namespace, "late") as leader:
        leader.send_signal(signal.SIGSTOP)
        second = another(client, corral_namespace)
        await second.acquire()
        ask_to_write(leader)
        leader.send_signal(signal.SIGCONT)

        assert await told_by(leader) == "refused"
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "late", corral_namespace)
    assert second.statistics().transitions == 1


async def test_writes_that_are_half_sent_when_their_leader_is_suspended_are_refused_after_the_next_one_has_acted(
    corral_cluster: Cluster, corral_namespace: str, client: Client, tmp_path: Path
) -> None:
    ns = corral_namespace
    await define(client, [crd_of(Toy)], field_manager="test")
    await what_the_first_looks_at(client, ns)
    async with (
        by_way_of(HalfWay, corral_cluster, tmp_path) as (way, kubeconfig),
        a_leader(kubeconfig, ns, "under-way") as leader,
    ):
        way.hold()
        ask_to_write(leader)
        await until(lambda: way.stopped == WRITES)
        leader.send_signal(signal.SIGSTOP)
        await another(client, ns).acquire()
        await what_the_second_does(client, ns)
        before = await state(client, ns)

        way.let_go()
        await until(lambda: way.answered == WRITES)

        assert await state(client, ns) == before
        leader.send_signal(signal.SIGCONT)
        outcomes = json.loads(await told_by(leader))
    assert outcomes.pop("create") == "AlreadyExists"
    assert set(outcomes.values()) == {"Conflict"}, outcomes
    assert len(outcomes) + 1 == WRITES


WRITES = 7


async def what_the_first_looks_at(client: Client, namespace: str) -> None:
    for name in ("applied", "patched", "gone"):
        await client.apply(a_map(name, namespace, {"said": "old"}), field_manager="test", force=True)
    gated = PodSpec(
        containers=(Container(name="c", image="none"),), scheduling_gates=(PodSchedulingGate(name="x.y/z"),)
    )
    await client.create(Pod(metadata=ObjectMeta(name="evicted", namespace=namespace), spec=gated), field_manager="test")
    await client.create(Toy(metadata=ObjectMeta(name="bear", namespace=namespace)), field_manager="test")


async def what_the_second_does(client: Client, namespace: str) -> None:
    for name in ("applied", "patched", "gone", "made", "created"):
        await client.apply(a_map(name, namespace, NEWER), field_manager="test", force=True)
    touched = {"metadata": {"labels": {"by": "second"}}}
    await client.patch(Pod, "evicted", namespace, merge=touched, precondition=Precondition(), field_manager="test")
    bear = await client.get(Toy, "bear", namespace)
    await send_status(ToyStatus(copies=2), bear, client, "test", note=lambda _: None)


async def state(client: Client, namespace: str) -> list[object]:
    where = Selector(namespace=namespace)
    return [(await client.list(kind, where)).items for kind in (ConfigMap, Pod, Toy)]


def a_map(name: str, namespace: str, data: dict[str, str]) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the other side is another process
        await asyncio.sleep(0.02)
