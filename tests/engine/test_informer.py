"""The informer: store first, then handlers; one per kind and selector; trouble is told, not raised."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from corral.engine.clock import virtual_clock
from corral.engine.informer import Cause, Informers
from corral.engine.store import Added, Change, Deleted, Updated
from corral.kube.client import Client, Selector
from corral.kube.meta import Object, Resource
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.testing.apiserver import FakeApiServer, Fault


def a_manifest(name: str, colour: str = "red") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"colour": colour}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colour": colour}}


@asynccontextmanager
async def running(informers: Informers, *, synced: bool = True) -> AsyncIterator[None]:
    task = asyncio.create_task(informers.run())
    try:
        if synced:
            async with asyncio.timeout(60):
                await informers.synced()
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def informers_of(server: FakeApiServer) -> Informers:
    return Informers(Client(server.connect("informers")), virtual_clock())


Told = list[tuple[str, str, Cause]]


def a_log() -> tuple[Told, Callable[[Change[ConfigMap], Cause], None]]:
    told: Told = []

    def handler(change: Change[ConfigMap], cause: Cause) -> None:
        obj = change.old if isinstance(change, Deleted) else change.new
        told.append((type(change).__name__, obj.metadata.name, cause))

    return told, handler


@pytest.mark.looptime
async def test_handlers_are_told_why() -> None:
    server = FakeApiServer()
    server.add(a_manifest("a"))
    informers = informers_of(server)
    told, handler = a_log()
    informers.of(ConfigMap).subscribe(handler)
    async with running(informers):
        server.add(a_manifest("b"))
        await asyncio.sleep(1)
        server.restart(down_s=5)
        server.remove(ConfigMap, "a", "default")
        server.compact()
        await asyncio.sleep(30)

    assert told == [
        ("Added", "a", Cause.INITIAL),
        ("Added", "b", Cause.WATCH),
        ("Deleted", "a", Cause.RELIST),
    ]


@pytest.mark.looptime
async def test_a_handler_finds_the_change_in_the_store() -> None:
    server = FakeApiServer()
    informers = informers_of(server)
    informer = informers.of(ConfigMap)
    seen: list[bool] = []

    def handler(change: Change[ConfigMap], _: Cause) -> None:
        match change:
            case Added(new) | Updated(_, new):
                seen.append(informer.store.get("default", new.metadata.name) is new)
            case Deleted(old):
                seen.append(informer.store.get("default", old.metadata.name) is None)

    informer.subscribe(handler)
    async with running(informers):
        server.add(a_manifest("a"))
        server.edit(ConfigMap, "a", "default", merge={"data": {"colour": "blue"}})
        server.remove(ConfigMap, "a", "default")
        await asyncio.sleep(1)

    assert seen == [True, True, True]


@pytest.mark.looptime
async def test_synced_means_that_the_handlers_have_seen_the_first_list() -> None:
    server = FakeApiServer()
    server.add(a_manifest("a"))
    informers = informers_of(server)
    told, handler = a_log()
    informer = informers.of(ConfigMap)
    informer.subscribe(handler)
    assert not informer.synced.is_set()
    async with running(informers):
        assert len(told) == 1


@pytest.mark.looptime
async def test_the_same_kind_and_selector_is_the_same_informer() -> None:
    informers = informers_of(FakeApiServer())
    red = Selector(labels="colour=red")

    assert informers.of(ConfigMap) is informers.of(ConfigMap)
    assert informers.of(ConfigMap, red) is informers.of(ConfigMap, red)
    assert informers.of(ConfigMap, red) is not informers.of(ConfigMap)
    assert len(list(informers)) == 2


@pytest.mark.looptime
async def test_two_askers_must_agree_on_how_objects_are_trimmed() -> None:
    informers = informers_of(FakeApiServer())
    informers.of(ConfigMap, trim=lambda obj: msgspec.structs.replace(obj, data={}))

    with pytest.raises(ValueError, match="ConfigMap is cached already, trimmed otherwise"):
        informers.of(ConfigMap)


@pytest.mark.looptime
async def test_subscribing_too_late_is_refused() -> None:
    informers = informers_of(FakeApiServer())
    informer = informers.of(ConfigMap)
    async with running(informers):
        with pytest.raises(RuntimeError, match="subscribe before it starts"):
            informer.subscribe(lambda change, cause: None)


@pytest.mark.looptime
async def test_an_informer_asked_for_while_the_others_run_starts_at_once() -> None:
    server = FakeApiServer()
    informers = informers_of(server)
    informers.of(Secret)
    async with running(informers):
        server.add(a_manifest("a"))
        informer = informers.of(ConfigMap)
        async with asyncio.timeout(10):
            await informers.synced()

        assert len(informer.store) == 1


@pytest.mark.looptime
async def test_only_what_is_selected_is_kept_and_leaving_the_selection_is_a_deletion() -> None:
    server = FakeApiServer()
    informers = informers_of(server)
    told, handler = a_log()
    red = informers.of(ConfigMap, Selector(labels="colour=red"))
    red.subscribe(handler)
    server.add(a_manifest("a"))
    server.add(a_manifest("b", colour="blue"))
    async with running(informers):
        server.edit(ConfigMap, "a", "default", merge={"metadata": {"labels": {"colour": "blue"}}})
        await asyncio.sleep(1)
        server.edit(ConfigMap, "a", "default", merge={"metadata": {"labels": {"colour": "red"}}})
        await asyncio.sleep(1)

    assert [(what, name) for what, name, _ in told] == [("Added", "a"), ("Deleted", "a"), ("Added", "a")]


@pytest.mark.looptime
async def test_progress_is_told_for_events_and_bookmarks() -> None:
    server = FakeApiServer()
    informers = informers_of(server)
    informer = informers.of(ConfigMap)
    versions: list[str] = []
    informer.on_progress(lambda: versions.append(informer.store.version))
    async with running(informers):
        server.add(a_manifest("a"))
        await asyncio.sleep(1)
        server.add({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}})
        await asyncio.sleep(100)

    assert len(versions) == 3
    assert versions[-1] == str(server.storage.version)


@pytest.mark.looptime
async def test_trouble_is_told_in_the_statistics_until_it_is_over() -> None:
    server = FakeApiServer()
    server.fail_next(Fault.FORBID, watch=True, times=3)
    informers = informers_of(server)
    informer = informers.of(ConfigMap)
    async with running(informers, synced=False):
        await asyncio.sleep(1)
        assert "cannot do this" in informer.statistics().trouble
        assert not informer.statistics().synced
        await asyncio.sleep(30)

        assert informer.statistics().trouble == ""
        assert (informer.statistics().synced, informer.statistics().troubles) == (True, 3)


@pytest.mark.looptime
async def test_a_handler_that_fails_ends_the_informer_loudly() -> None:
    server = FakeApiServer()
    server.add(a_manifest("a"))
    informers = informers_of(server)

    def broken(change: Change[ConfigMap], cause: Cause) -> None:
        raise ZeroDivisionError

    informers.of(ConfigMap).subscribe(broken)
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(informers.run(), 60)

    assert raised.group_contains(ZeroDivisionError)


class Blob(Object, frozen=True, kw_only=True):
    resource = Resource("test.corral.dev", "v1", "Blob", "blobs", True)

    spec: Mapping[str, str]


@pytest.mark.looptime
async def test_an_object_of_one_and_a_half_mebibytes_is_an_object_like_any_other() -> None:
    server = FakeApiServer()
    server.register(Blob)
    informers = informers_of(server)
    informer = informers.of(Blob)
    metadata = {"name": "big", "namespace": "default"}
    manifest = {
        "apiVersion": "test.corral.dev/v1",
        "kind": "Blob",
        "metadata": metadata,
        "spec": {"x": "x" * 1_500_000},
    }
    async with running(informers):
        server.add(manifest)
        await asyncio.sleep(1)

        (big,) = informer.store
        assert len(big.spec["x"]) == 1_500_000
