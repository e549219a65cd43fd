"""The detector finds what the type checker cannot stop at run time: a write into a cached mapping."""

from corral.engine.informer import Cause
from corral.engine.mutation import MutationDetector
from corral.engine.store import Key, Store, new_store
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap


def a_watched_store() -> tuple[Store[ConfigMap], MutationDetector[ConfigMap]]:
    store, writer = new_store(ConfigMap)
    detector = MutationDetector(store)
    writer.stage_begin()
    writer.stage([ConfigMap(metadata=ObjectMeta(name=name, resource_version="1"), data={"k": "v"}) for name in "ab"])
    for change in writer.swap("1"):
        detector.remember(change, Cause.INITIAL)
    return store, detector


def test_untouched_objects_are_not_reported() -> None:
    _, detector = a_watched_store()

    assert detector.mutated() == ()


def test_a_write_into_a_cached_mapping_is_reported_with_its_object() -> None:
    store, detector = a_watched_store()
    cached = store.get("", "b")
    assert cached is not None
    cached.data["k"] = "polluted"  # type: ignore[index]

    (found,) = detector.mutated()

    assert found.key == Key("", "b")
    assert "polluted" in found.now
