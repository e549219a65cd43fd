"""What controllers beside the real server do about deletion: the garbage collector and the namespace controller.

`collect` makes one pass and says whether it changed anything; call it until it does not. Owners are found by uid, as
the real collector does; an owner reference across namespaces counts as dangling.
"""

from typing import Final, TypeAlias

from corral.testing.apiserver.admission import FOREGROUND, ORPHAN, Propagation
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Served
from corral.testing.apiserver.objects import Objects, key_of

Dependents: TypeAlias = dict[str, list[tuple[Served, Json]]]  # by the uid of their owner

PASSES_MAX: Final = 100  # more is a cycle of our own making, not a deep tree


def collect_all(objects: Objects) -> None:
    for _ in range(PASSES_MAX):
        if not collect(objects):
            return
    raise AssertionError(f"garbage collection did not settle after {PASSES_MAX} passes")


def collect(objects: Objects) -> bool:
    before = objects.storage.version
    found = [(objects.kinds.of_storage(resource), value) for resource, value in objects.storage.everything()]
    served = [(kind, value) for kind, value in found if kind is not None]
    alive = {value["metadata"]["uid"]: value for _, value in served}
    dependents: Dependents = {}
    for kind, value in served:
        for reference in references(value):
            dependents.setdefault(reference["uid"], []).append((kind, value))
    for kind, value in served:
        metadata = value["metadata"]
        if "deletionTimestamp" in metadata:
            finish_deletion(objects, kind, value, dependents)
        if metadata.get("ownerReferences"):
            delete_if_orphaned(objects, kind, value, alive)
    empty_terminating_namespaces(objects)
    return objects.storage.version != before


def references(value: Json) -> list[Json]:
    return value["metadata"].get("ownerReferences") or []


def finish_deletion(objects: Objects, kind: Served, owner: Json, of: Dependents) -> None:
    finalizers = owner["metadata"].get("finalizers") or []
    uid = owner["metadata"]["uid"]
    dependents = of.get(uid, [])
    if ORPHAN in finalizers:
        for dependent_kind, dependent in dependents:
            rewrite_metadata(objects, dependent_kind, dependent, ownerReferences=less_owner(dependent, {uid}))
        rewrite_metadata(objects, kind, owner, finalizers=[each for each in finalizers if each != ORPHAN])
    elif FOREGROUND in finalizers:
        blocking = [each for each in dependents if blocks(each[1], uid)]
        for dependent_kind, dependent in dependents:
            if "deletionTimestamp" not in dependent["metadata"] and still_there(objects, dependent_kind, dependent):
                metadata = dependent["metadata"]
                policy: Propagation = "Foreground" if of.get(metadata["uid"]) else "Background"
                objects.delete(dependent_kind, metadata.get("namespace", ""), metadata["name"], propagation=policy)
        if not any(still_there(objects, *each) for each in blocking):
            rewrite_metadata(objects, kind, owner, finalizers=[each for each in finalizers if each != FOREGROUND])


def blocks(dependent: Json, uid: str) -> bool:
    return any(each["uid"] == uid and each.get("blockOwnerDeletion") for each in references(dependent))


def delete_if_orphaned(objects: Objects, kind: Served, value: Json, alive: dict[str, Json]) -> None:
    current = objects.storage.get(key_of(kind, value))
    if current is None or current["metadata"]["uid"] != value["metadata"]["uid"]:
        return
    dangling = {each["uid"] for each in references(current) if not owner_is_alive(objects, current, each, alive)}
    if not dangling:
        return
    if len(dangling) < len(references(current)):
        rewrite_metadata(objects, kind, current, ownerReferences=less_owner(current, dangling))
    elif "deletionTimestamp" not in current["metadata"]:
        metadata = current["metadata"]
        objects.delete(kind, metadata.get("namespace", ""), metadata["name"], propagation="Background")


def owner_is_alive(objects: Objects, dependent: Json, reference: Json, alive: dict[str, Json]) -> bool:
    owner = alive.get(reference["uid"])
    if owner is None:
        return False
    kind = objects.kinds.of_kind(owner["apiVersion"], owner["kind"])
    if kind is None or not still_there(objects, kind, owner):
        return False
    return owner["metadata"].get("namespace", "") in ("", dependent["metadata"].get("namespace", ""))


def less_owner(value: Json, uids: set[str]) -> list[Json]:
    return [each for each in references(value) if each["uid"] not in uids]


def still_there(objects: Objects, kind: Served, value: Json) -> bool:
    current = objects.storage.get(key_of(kind, value))
    return current is not None and current["metadata"]["uid"] == value["metadata"]["uid"]


def rewrite_metadata(objects: Objects, kind: Served, value: Json, **fields: list[Json] | list[str]) -> None:
    current = objects.storage.get(key_of(kind, value))
    if current is None or current["metadata"]["uid"] != value["metadata"]["uid"]:
        return
    kept = {field: each for field, each in current["metadata"].items() if field not in fields}
    metadata = {**kept, **{field: each for field, each in fields.items() if each}}
    objects.store(kind, current, {**current, "metadata": metadata})


def empty_terminating_namespaces(objects: Objects) -> None:
    spaces = objects.kinds.find("", "v1", "namespaces")
    assert spaces is not None
    for _, space in objects.storage.scan("namespaces"):
        if "deletionTimestamp" not in space["metadata"]:
            continue
        content = [each for each in objects.kinds.all() if each.resource.namespaced]
        name = space["metadata"]["name"]
        for kind in content:
            for _, value in objects.storage.scan(kind.resource.plural_and_group, name):
                if "deletionTimestamp" not in value["metadata"]:
                    objects.delete(kind, name, value["metadata"]["name"], propagation="Background")
        if not any(objects.storage.scan(kind.resource.plural_and_group, name) for kind in content):
            objects.store(spaces, space, {**space, "spec": {**space["spec"], "finalizers": []}})
