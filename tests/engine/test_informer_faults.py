"""Whatever goes wrong on the way, an informer ends up with what the server has, and its handlers saw how it came about.

One seed is one schedule: a world that changes at random, a server with rough faults, restarts, compactions, dropped and
stalled watches and restored backups. Then the faults stop, and within a bound these hold:

    1. the store is what the server has, object by object, and so are its indexes;
    2. replaying what the handlers were told gives the same: every addition, change and deletion was delivered;
    3. for each object the handlers saw a sequence that makes sense (added, then updates from the state told last, then
       deleted), and the store showed the new state whenever a handler was called;
    4. nobody changed a cached object.

A failure prints its seed and the server's trace. To repeat it: SEEDS=n, and pytest of this file.
"""

import asyncio
import os
from random import Random

import pytest

from corral.engine.clock import virtual_clock
from corral.engine.informer import Cause, Informer
from corral.engine.mutation import MutationDetector
from corral.engine.store import Added, Change, Deleted, Key, Updated, key_of
from corral.kube.client import Client, Selector
from corral.kube.models.core_v1 import ConfigMap
from corral.kube.watch import Server
from corral.testing.apiserver import ROUGH, FakeApiServer

SCHEDULES = 2000
BATCH = 100
CONVERGED_WITHIN_S = 300.0
NAMES = tuple("abcdefgh")


class Witness:
    """A handler that checks each call as it comes and can replay them all."""

    def __init__(self, informer: Informer[ConfigMap]) -> None:
        self.told: dict[Key, ConfigMap] = {}
        self._store = informer.store

    def __call__(self, change: Change[ConfigMap], cause: Cause) -> None:
        match change:
            case Added(new):
                assert key_of(new) not in self.told, f"{key_of(new)} added twice"
                self.told[key_of(new)] = new
            case Updated(old, new):
                assert self.told[key_of(new)] == old, f"{key_of(new)} updated from a state that was never told"
                assert old.metadata.uid == new.metadata.uid
                self.told[key_of(new)] = new
            case Deleted(old):
                assert self.told.pop(key_of(old)) == old, f"{key_of(old)} deleted in a state that was never told"
        if cause is Cause.WATCH and not isinstance(change, Deleted):
            assert self._store.find(key_of(change.new)) == change.new, (
                "the handler was called before the store was changed"
            )


def change_the_world(server: FakeApiServer, random: Random, step: int) -> None:
    name = random.choice(NAMES)
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": random.choice("xy")}},
        "data": {"step": str(step)},
    }
    if server.get(ConfigMap, name, "default") is None:
        server.add(manifest)
    elif random.random() < 0.3:
        server.remove(ConfigMap, name, "default")
    else:
        server.edit(ConfigMap, name, "default", merge={"data": manifest["data"], "metadata": manifest["metadata"]})


async def disturb(server: FakeApiServer, random: Random, informer: Informer[ConfigMap], saved: list[object]) -> None:
    match random.randrange(9):
        case 0:
            server.restart(random.uniform(0, 20))
        case 1:
            server.compact()
        case 2:
            server.drop_watches()
        case 3:
            server.stall_watches()
        case 4:
            server.compact()
            server.drop_watches()
        case 5:
            server.pause()
            await asyncio.sleep(random.uniform(0, 100))
            server.resume()
        case 6:
            saved[:] = [server.snapshot()]
        case 7 if saved:
            await restore(server, informer, saved)
        case 8:
            await asyncio.sleep(random.uniform(1700, 1900))  # the server ends each watch after 1800 s


async def restore(server: FakeApiServer, informer: Informer[ConfigMap], saved: list[object]) -> None:
    """Nothing is written before the informer has noticed: a history that overtakes the old one looks like it.

    An answer from before the restore may still be on its way, so what was seen is asked only after such have come.
    """
    (snapshot,) = saved
    server.restore(snapshot, down_s=1.0)  # type: ignore[arg-type]
    await asyncio.sleep(ROUGH.slow_s_max)
    async with asyncio.timeout(CONVERGED_WITHIN_S):
        while (informer.store.version_seen or 0) > server.storage.version:  # noqa: ASYNC110
            await asyncio.sleep(1)


def what_the_server_has(server: FakeApiServer, team: str) -> dict[Key, tuple[str, str]]:
    return {
        Key(obj["metadata"]["namespace"], obj["metadata"]["name"]): (
            obj["metadata"]["uid"],
            obj["metadata"]["resourceVersion"],
        )
        for obj in server.all_of(ConfigMap, "default")
        if not team or obj["metadata"]["labels"]["team"] == team
    }


def what_is_known(informer: Informer[ConfigMap]) -> dict[Key, tuple[str, str]]:
    return {key_of(obj): (obj.metadata.uid, obj.metadata.resource_version) for obj in informer.store}


async def run_schedule(seed: int) -> None:
    random = Random(seed)
    server = FakeApiServer(seed=seed, faults=ROUGH)
    team = random.choice(("", "x"))
    where = Selector(namespace="default", labels=f"team={team}" if team else "")
    client = Client(server.connect("informer"), luck=Random(seed).random)
    features = Server()
    features.streams_lists = random.random() < 0.6
    informer = Informer(client, ConfigMap, where, clock=virtual_clock(seed), server=features)
    informer.add_index("step", lambda obj: (obj.data["step"],))
    witness, detector = Witness(informer), MutationDetector(informer.store)
    informer.subscribe(witness)
    informer.subscribe(detector.remember)
    running = asyncio.create_task(informer.run())
    saved: list[object] = []
    try:
        for step in range(random.randrange(10, 60)):
            change_the_world(server, random, step)
            await asyncio.sleep(random.choice((0, 0, 0.01, 1, 10)))
            if random.random() < 0.1:
                await disturb(server, random, informer, saved)
        server.stop_faults()
        async with asyncio.timeout(CONVERGED_WITHIN_S):
            while what_is_known(informer) != what_the_server_has(server, team) or not informer.synced.is_set():
                assert not running.done(), running.result()
                await asyncio.sleep(1)
        await asyncio.sleep(200)

        assert what_is_known(informer) == what_the_server_has(server, team)
        assert witness.told == {key_of(obj): obj for obj in informer.store}
        for obj in informer.store:
            assert obj in informer.store.by_index("step", obj.data["step"])
        assert detector.mutated() == ()
    except BaseException:
        print(f"seed {seed}", *server.trace[-40:], informer.statistics(), sep="\n")
        raise
    finally:
        running.cancel()
        await asyncio.wait([running])
        await client.close()


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize("first", range(0, SCHEDULES, BATCH))
async def test_after_the_faults_stop_the_store_is_what_the_server_has(first: int) -> None:
    for seed in seeds_of(first):
        await run_schedule(seed)


def seeds_of(first: int) -> list[int]:
    if chosen := os.environ.get("SEEDS"):
        return [int(seed) for seed in chosen.split(",")] if first == 0 else []
    return list(range(first, first + BATCH))
