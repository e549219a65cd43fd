"""The barrier: a key waits until the caches show its own writes, never for ever, and says for what."""

import asyncio

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from corral.engine.barrier import Awaited, Barrier
from corral.engine.store import Key, Store, StoreWriter, new_store
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Secret

MAPS = ConfigMap.resource


def a_map(version: int | str, name: str = "a", uid: str = "") -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(name=name, namespace="lab", uid=uid or f"uid-{name}", resource_version=str(version))
    )


def a_cache(*objects: ConfigMap, version: int | str = 10) -> tuple[Store[ConfigMap], StoreWriter[ConfigMap]]:
    store, writer = new_store(ConfigMap)
    writer.stage_begin()
    writer.stage(objects)
    writer.swap(str(version))
    return store, writer


def a_barrier(store: Store[ConfigMap]) -> Barrier[str]:
    barrier: Barrier[str] = Barrier()
    barrier.add_cache(MAPS, store)
    return barrier


def test_a_write_that_the_cache_has_not_shown_is_pending_by_name() -> None:
    store, _ = a_cache(version=10)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(11))

    (awaited,) = barrier.pending("key")

    assert str(awaited) == "waiting for the cache of configmaps to show version 11 of lab/a"
    assert barrier.pending("another key") == ()


def test_the_event_of_the_write_lets_the_key_pass() -> None:
    store, writer = a_cache(version=10)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(11))
    writer.put(a_map(11))

    assert barrier.pending("key") == ()
    assert barrier.statistics().keys == 0


def test_a_bookmark_lets_the_key_pass() -> None:
    store, writer = a_cache(version=10)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(11))
    writer.progress("12")

    assert barrier.pending("key") == ()


def test_a_list_lets_the_key_pass() -> None:
    store, writer = a_cache(version=10)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(11))
    writer.stage_begin()
    writer.swap("11")

    assert barrier.pending("key") == ()


def test_the_newest_of_many_writes_stands_for_all() -> None:
    store, writer = a_cache(version=10)
    barrier = a_barrier(store)
    for version in (12, 14, 11):
        barrier.wrote("key", a_map(version, name=f"map-{version}"))
    writer.progress("13")

    assert [awaited.version for awaited in barrier.pending("key")] == ["14"]
    assert barrier.statistics().awaited == 1


def test_a_write_that_changed_nothing_is_not_awaited() -> None:
    store, _ = a_cache(a_map(7), version=10)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(7))

    assert barrier.pending("key") == ()


def test_a_write_to_a_kind_without_a_cache_is_not_awaited() -> None:
    barrier = a_barrier(a_cache()[0])
    barrier.wrote("key", Secret(metadata=ObjectMeta(name="s", namespace="lab", resource_version="99")))

    assert barrier.pending("key") == ()
    assert barrier.statistics().keys == 0


def test_all_caches_of_a_kind_must_show_the_write() -> None:
    (first, first_writer), (second, second_writer) = a_cache(), a_cache()
    barrier = a_barrier(first)
    barrier.add_cache(MAPS, second)
    barrier.wrote("key", a_map(11))
    first_writer.progress("11")

    assert len(barrier.pending("key")) == 1
    second_writer.progress("11")
    assert barrier.pending("key") == ()


def test_a_cache_that_has_not_listed_yet_shows_nothing() -> None:
    store, _ = new_store(ConfigMap)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(11))

    assert len(barrier.pending("key")) == 1


def test_a_deletion_without_an_answer_is_awaited_by_uid() -> None:
    store, writer = a_cache(a_map(5), version=10)
    barrier = a_barrier(store)
    barrier.deleted_unseen("key", MAPS, Key("lab", "a"), "uid-a")
    writer.progress("99")

    assert barrier.pending("key") == (Awaited(MAPS, Key("lab", "a"), "uid-a"),)
    writer.gone(a_map(100))
    assert barrier.pending("key") == ()


def test_a_successor_under_the_same_name_shows_the_deletion_too() -> None:
    store, writer = a_cache(a_map(5), version=10)
    barrier = a_barrier(store)
    barrier.deleted_unseen("key", MAPS, Key("lab", "a"), "uid-a")
    writer.put(a_map(12, uid="another"))

    assert barrier.pending("key") == ()


def test_versions_that_are_no_numbers_are_awaited_exactly() -> None:
    store, writer = a_cache(a_map("alpha"), version="alpha")
    barrier = a_barrier(store)
    barrier.wrote("key", a_map("beta"))

    assert len(barrier.pending("key")) == 1
    writer.put(a_map("beta"))
    assert barrier.pending("key") == ()


def test_a_history_that_went_backwards_ends_the_wait_for_its_versions() -> None:
    store, writer = a_cache(version=100)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(101))
    writer.stage_begin()
    writer.swap("50")

    assert barrier.pending("key") == ()
    assert barrier.statistics().resets_total == 1
    barrier.wrote("key", a_map(51))
    assert len(barrier.pending("key")) == 1


def test_a_write_in_the_new_history_replaces_a_higher_one_of_the_old() -> None:
    store, writer = a_cache(version=100)
    barrier = a_barrier(store)
    barrier.wrote("key", a_map(101))
    writer.stage_begin()
    writer.swap("50")
    barrier.wrote("key", a_map(51))

    assert [awaited.version for awaited in barrier.pending("key")] == ["51"]
    writer.progress("51")
    assert barrier.pending("key") == ()


async def test_whoever_holds_a_key_is_told_once_when_the_cache_has_come_far_enough() -> None:
    store, writer = a_cache(version=10)
    barrier, told = a_barrier(store), []
    barrier.wrote("key", a_map(12))
    barrier.hold("key", lambda: told.append("too old a holder"))
    barrier.hold("key", lambda: told.append("seen"))
    for version in (11, 12, 13):
        assert told == []
        writer.progress(str(version))
        barrier.progressed()
        if version == 11:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == ["seen"]
    assert barrier.statistics().held == 0


async def test_what_is_given_up_is_awaited_no_longer_and_counted() -> None:
    store, writer = a_cache(version=10)
    barrier, told = a_barrier(store), []
    barrier.wrote("key", a_map(11))
    barrier.hold("key", lambda: told.append("seen"))

    barrier.give_up("key")

    assert barrier.pending("key") == ()
    assert (barrier.statistics().timeouts_total, barrier.statistics().held) == (1, 0)
    writer.progress("11")
    barrier.progressed()
    await asyncio.sleep(0)
    assert told == []


class ReadYourWrites(RuleBasedStateMachine):
    """A server, a cache that lags behind it, and a controller that looks only when the barrier lets it.

    The statement: whenever the barrier lets a key pass, the cache shows every write that was done for the key. It is
    checked against the server's own history, not against what the barrier was told.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store, self.writer = a_cache(version=0)
        self.barrier = a_barrier(self.store)
        self.version = 0
        self.history: list[ConfigMap | None] = [None]  # by version: what was put; None: a deletion or another kind
        self.shown = 0
        self.written: dict[str, int] = {}

    @rule(key=st.sampled_from("xyz"), name=st.sampled_from("abc"))
    def write(self, key: str, name: str) -> None:
        self.version += 1
        obj = a_map(self.version, name)
        self.history.append(obj)
        self.barrier.wrote(key, obj)
        self.written[key] = self.version

    @rule()
    def something_else_happens(self) -> None:
        self.version += 1
        self.history.append(None)

    @rule(steps=st.integers(1, 4))
    def events_arrive(self, steps: int) -> None:
        for _ in range(min(steps, self.version - self.shown)):
            self.shown += 1
            if (obj := self.history[self.shown]) is not None:
                self.writer.put(obj)

    @rule()
    def a_bookmark_arrives(self) -> None:
        self.writer.progress(str(self.shown))

    @invariant()
    def who_passes_sees_its_own_writes(self) -> None:
        for key, version in self.written.items():
            if not self.barrier.pending(key):
                assert self.shown >= version
            if (self.store.version_seen or 0) >= version:
                assert not self.barrier.pending(key), "the barrier waits for what was shown"


ReadYourWrites.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_whoever_passes_the_barrier_sees_its_own_writes = ReadYourWrites.TestCase
