"""A store that is told a true history, with repeats, late events, gaps and lists, always ends up with the truth.

The model is a small server: a version that counts up and the state at each version. The watch delivers its events in
order, but repeats old ones at will; it may lose its place, which a list repairs; a backup may be restored. Whenever the
store has been told everything, it equals the server, its indexes agree with its objects, and the changes that it
reported, replayed, give the same.
"""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from corral.engine.store import Added, Change, Deleted, Key, Updated, key_of, new_store
from corral.kube.client import Gone, Put
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap

names = st.sampled_from("abc")
colours = st.sampled_from(["red", "green", "blue"])


class StoreAndServer(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store, self.writer = new_store(ConfigMap, indexes={"colour": lambda obj: tuple(obj.data.values())})
        self.server: dict[str, ConfigMap] = {}
        self.version = 1
        self.uids = 0
        self.events: list[Put[ConfigMap] | Gone[ConfigMap]] = []  # of this history, all of them
        self.delivered = 0
        self.told: dict[Key, ConfigMap] = {}
        self.backup: tuple[int, dict[str, ConfigMap]] | None = None
        self.a_list_arrives()

    def _object(self, name: str, colour: str, uid: str) -> ConfigMap:
        metadata = ObjectMeta(name=name, namespace="lab", uid=uid, resource_version=str(self.version))
        return ConfigMap(metadata=metadata, data={"colour": colour})

    @rule(name=names, colour=colours)
    def the_server_puts(self, name: str, colour: str) -> None:
        self.version += 1
        known = self.server.get(name)
        self.uids += known is None
        self.server[name] = self._object(name, colour, known.metadata.uid if known else f"uid-{self.uids}")
        self.events.append(Put(self.server[name]))

    @rule(name=names)
    def the_server_deletes(self, name: str) -> None:
        if (known := self.server.pop(name, None)) is not None:
            self.version += 1
            self.events.append(Gone(self._object(name, known.data["colour"], known.metadata.uid)))

    @rule(count=st.integers(1, 5))
    def events_arrive(self, count: int) -> None:
        for event in self.events[self.delivered : self.delivered + count]:
            self._deliver(event)
        self.delivered = min(self.delivered + count, len(self.events))

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def an_old_event_arrives_again(self, data: st.DataObject) -> None:
        known = dict(self.told)
        self._deliver(self.events[data.draw(st.integers(0, self.delivered - 1))])

        assert self.told == known, "old news changed what is known"

    def _deliver(self, event: Put[ConfigMap] | Gone[ConfigMap]) -> None:
        changes = self.writer.put(event.object) if isinstance(event, Put) else self.writer.gone(event.object)
        self._replay(changes)

    @rule()
    def a_list_arrives(self) -> None:
        self.writer.stage_begin()
        self.writer.stage(self.server.values())
        self._replay(self.writer.swap(str(self.version)))
        self.delivered = len(self.events)

    @rule()
    def a_backup_is_made(self) -> None:
        self.backup = (self.version, dict(self.server))

    @precondition(lambda self: self.backup is not None)
    @rule()
    def the_backup_is_restored_and_the_store_lists(self) -> None:
        assert self.backup is not None
        self.version, self.server = self.backup[0], dict(self.backup[1])
        self.events, self.delivered = [], 0
        self.a_list_arrives()

    def _replay(self, changes: tuple[Change[ConfigMap], ...]) -> None:
        for change in changes:
            match change:
                case Added(new):
                    assert key_of(new) not in self.told
                    self.told[key_of(new)] = new
                case Updated(old, new):
                    assert self.told[key_of(new)] == old
                    assert old.metadata.uid == new.metadata.uid
                    self.told[key_of(new)] = new
                case Deleted(old):
                    assert self.told.pop(key_of(old)) == old

    @invariant()
    def the_changes_tell_the_store(self) -> None:
        assert self.told == {key_of(obj): obj for obj in self.store}

    @invariant()
    def who_was_told_everything_has_the_truth(self) -> None:
        if self.delivered == len(self.events):
            assert {obj.metadata.name: obj for obj in self.store} == self.server

    @invariant()
    def the_indexes_agree_with_the_objects(self) -> None:
        for colour in ("red", "green", "blue"):
            expected = {obj.metadata.name for obj in self.store if obj.data["colour"] == colour}
            assert {obj.metadata.name for obj in self.store.by_index("colour", colour)} == expected
        assert len(self.store.in_namespace("lab")) == len(self.store)


StoreAndServer.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_a_store_that_was_told_everything_has_the_truth = StoreAndServer.TestCase
