"""An informer on a bad way to a real API server, which is killed, forgets its history and is set back to a backup.

What the fake API server plays by the thousand (`tests/engine/test_informer_faults.py`), here once each. After each
trouble the store is what a list of the server says, and so is what the handlers were told, replayed.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from corral.engine.clock import system_clock
from corral.engine.informer import Cause, Informer, InformerStatistics
from corral.engine.store import Change, Deleted, Key, key_of
from corral.kube import Client, KubeError, Object, ObjectMeta, Precondition, Selector
from corral.kube.models.core_v1 import ConfigMap, ObjectReference
from corral.kube.models.events_v1 import Event
from corral.kube.values import micro_time
from corral.kube.watch import SILENCE_S_MAX, Server
from corral.local.cluster import supervisor_process
from corral.local.home import home_of
from corral.local.namespaces import enter
from corral.local.processes import is_alive, wait
from corral.local.supervisor import read_records
from corral.testing.cluster import Cluster
from corral.testing.localcluster import down, up
from tests.engine.test_informer_faults import Witness
from tests.integration.relay import Relay, by_way_of

pytestmark = pytest.mark.cluster
NAME = "informer"
API_SERVER = "kube-apiserver"
WE = "test"
MANY, WAVE = 300, 25
WITHIN_S = 180.0
AN_OBJECT = ConfigMap()
T = TypeVar("T")
COMPACT = """
import ssl, sys, urllib.request
revision, ca, certificate, key = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
tls.load_cert_chain(certificate, key)
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
direct.open("https://127.0.0.1:2379/v3/kv/compaction", b'{"physical": true, "revision": "%s"}' % revision.encode())
"""


@pytest.fixture(scope="module")
def corral_cluster() -> Iterator[Cluster]:
    """Instead of the shared one: its API server and etcd are killed here, and its past comes back."""
    yield up(NAME)
    down(NAME)


class World:
    """Objects, changed directly, and an informer of them that hears of it by way of a relay."""

    def __init__(self, client: Client, like: Object, where: Selector, relay: Relay, informer: Informer[Any]) -> None:
        self.relay, self.informer, self.witness = relay, informer, Witness(informer)
        self.deleted: set[str] = set()
        """The names whose deletion was delivered."""
        self._client, self._like, self._where = client, like, where
        informer.subscribe(self.witness)
        informer.subscribe(self._note_deletion)

    async def make(self, prefix: str) -> set[str]:
        names = [f"{prefix}-{number}" for number in range(MANY)]
        metadata = [ObjectMeta(name=name, namespace=self._where.namespace) for name in names]
        await in_waves(lambda one: self._client.create(replace(self._like, metadata=one), field_manager=WE), metadata)
        return set(names)

    async def change(self, trouble: Callable[[], Awaitable[None]] | None = None) -> set[str]:
        """Of three objects one goes and one is touched, with trouble after each wave. Returns the names that went."""
        found = (await self._client.list(type(self._like), self._where)).items
        gone = {obj.metadata.name for obj in found[::3]}

        async def write(obj: Object) -> None:
            kind, at, precondition = type(obj), obj.metadata, Precondition(obj.metadata.uid)
            if at.name in gone:
                await self._client.delete(kind, at.name, at.namespace, precondition=precondition)
            else:
                touch = {"metadata": {"labels": {"touched": "yes"}}}
                await self._client.patch(
                    kind, at.name, at.namespace, merge=touch, precondition=precondition, field_manager=WE
                )

        await in_waves(write, [obj for pair in zip(found[::3], found[1::3], strict=False) for obj in pair], trouble)
        return gone

    async def version(self) -> str:
        return (await self._client.list_page(type(self._like), self._where, limit=1)).resource_version

    def statistics(self) -> InformerStatistics:
        return self.informer.statistics()

    async def served(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not await self._list():  # noqa: ASYNC110 - the other side is another process
                await asyncio.sleep(0.1)

    async def converged(self) -> None:
        """What the handlers were told, replayed, is what the server has, and so is the store."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while self.witness.told != await self._list():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"not what the server has: {self.statistics()}") from None
        assert {key_of(obj): obj for obj in self.informer.store} == self.witness.told

    async def _list(self) -> dict[Key, Object]:
        """Nothing of a server that does not answer."""
        with suppress(KubeError):
            return {key_of(obj): obj for obj in (await self._client.list(type(self._like), self._where)).items}
        return {}

    def _note_deletion(self, change: Change[Object], _: Cause) -> None:
        if isinstance(change, Deleted):
            self.deleted.add(change.old.metadata.name)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_world(
    cluster: Cluster, namespace: str, folder: Path, *, like: Object = AN_OBJECT, silence_s_max: float = SILENCE_S_MAX
) -> AsyncIterator[World]:
    """Its informer has seen many objects."""
    where = Selector(namespace=namespace, fields="metadata.name!=kube-root-ca.crt")
    async with (
        by_way_of(Relay, cluster, folder) as (relay, kubeconfig),
        Cluster(kubeconfig).client() as far,
        cluster.client() as near,
    ):
        informer = Informer(far, type(like), where, clock=system_clock(), server=Server(), silence_s_max=silence_s_max)
        world = World(near, like, where, relay, informer)
        await world.make("first")
        running = asyncio.create_task(informer.run())
        try:
            await world.converged()
            yield world
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_deletions_arrive_though_the_way_breaks_again_and_again_in_the_middle_of_them(
    corral_cluster: Cluster, corral_namespace: str, tmp_path: Path
) -> None:
    async with a_world(corral_cluster, corral_namespace, tmp_path) as world:
        ways_to_break = cycle((world.relay.cut, world.relay.end_half_way))

        async def broken_once_it_hears_again() -> None:
            await until(lambda: not world.statistics().trouble)
            troubles = world.statistics().troubles
            next(ways_to_break)()
            await until(lambda: world.statistics().troubles > troubles)

        gone = await world.change(broken_once_it_hears_again)
        await world.converged()

        assert gone <= world.deleted


async def test_deletions_arrive_though_the_server_stops_sending_without_a_word(
    corral_cluster: Cluster, corral_namespace: str, tmp_path: Path
) -> None:
    async with a_world(corral_cluster, corral_namespace, tmp_path, silence_s_max=10.0) as world:
        with capture_logs() as said:
            world.relay.hush()
            gone = await world.change()
            await world.converged()

        assert gone <= world.deleted
        assert any("nothing came for 10 s" in line.get("message", "") for line in said)


async def test_deletions_arrive_though_the_api_server_is_killed(
    corral_cluster: Cluster, corral_namespace: str, tmp_path: Path
) -> None:
    async with a_world(corral_cluster, corral_namespace, tmp_path) as world:
        before = await world.change()
        kill(API_SERVER)
        await world.served()
        after = await world.change()
        await world.converged()

        assert before | after <= world.deleted
        assert world.statistics().troubles > 0


async def test_deletions_arrive_though_etcd_has_forgotten_them_meanwhile(
    corral_cluster: Cluster, corral_namespace: str, tmp_path: Path
) -> None:
    """Of Events: the API server watches them in etcd itself. Of other kinds it remembers more than etcd does."""
    about = ObjectReference(kind="ConfigMap", name="none", namespace=corral_namespace)
    an_event = Event(
        event_time=micro_time(datetime.now(UTC)), action="Try", reason="Tried", type="Normal", regarding=about,
        reporting_controller="corral.dev/test", reporting_instance=WE,
    )  # fmt: skip
    async with a_world(corral_cluster, corral_namespace, tmp_path, like=an_event) as world:
        with capture_logs() as said:
            world.relay.is_closed = True
            world.relay.cut()
            gone = await world.change()
            compact(await world.version())
            world.relay.is_closed = False
            await world.converged()

        assert gone <= world.deleted
        assert "Expired" in [line.get("reason") for line in said]


async def test_what_was_made_after_the_backup_goes_when_etcd_is_set_back_to_it(
    corral_cluster: Cluster, corral_namespace: str, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    async with a_world(corral_cluster, corral_namespace, tmp_path) as world:
        with etcd_at_rest() as data:
            shutil.copytree(data, backup)
        await world.served()
        gone, late = await world.change(), await world.make("late")
        await world.converged()

        with etcd_at_rest() as data:
            shutil.rmtree(data)
            shutil.copytree(backup, data)
        await world.served()
        await world.converged()

        assert late <= world.deleted
        assert gone <= {obj.metadata.name for obj in world.informer.store}
        assert world.informer.store.history == 1


async def in_waves(
    write: Callable[[T], Awaitable[object]], those: Sequence[T], after: Callable[[], Awaitable[None]] | None = None
) -> None:
    for first in range(0, len(those), WAVE):
        await asyncio.gather(*(write(one) for one in those[first : first + WAVE]))
        if after is not None:
            await after()


def kill(*components: str) -> None:
    """The supervisor starts them again."""
    records = read_records(home_of(NAME))
    for process in (records[component].process for component in components):
        os.kill(process.pid, signal.SIGKILL)
        wait([process], WITHIN_S)
        assert not is_alive(process)


@contextmanager
def etcd_at_rest() -> Iterator[Path]:
    """Its data, which nobody reads or writes meanwhile: the supervisor is suspended."""
    supervisor = supervisor_process(home_of(NAME))
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGSTOP)
    try:
        kill(API_SERVER, "etcd")
        yield home_of(NAME).etcd
    finally:
        os.kill(supervisor.pid, signal.SIGCONT)


def compact(version: str) -> None:
    """etcd forgets what was before. It is asked as the API server does it, from where it listens."""
    home = home_of(NAME)
    files = (home.pki / file for file in ("etcd-ca.crt", "apiserver-etcd.crt", "apiserver-etcd.key"))
    program = (sys.executable, "-c", COMPACT, version, *map(str, files))
    subprocess.run([*enter(network=home.control_network), *program], check=True, timeout=60)
