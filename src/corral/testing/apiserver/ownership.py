"""Server-side apply: who owns which field, and what an apply or an ordinary write makes of it.

An object is flattened into leaves, path -> value (`leaves`). Ownership is a set of paths for each manager, kept in the
object's `metadata.managedFields` as the real server keeps it. From there everything is set arithmetic:

    an ordinary write   the writer gets what it added or changed; nobody else keeps that; what it removed nobody has
    an apply            the applier gets exactly what it sent. What it changes and another owns is a conflict (or taken,
                        with force). What it owned before, no longer sends and no one else owns is removed
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from corral.testing.apiserver.answers import Json, Rejection
from corral.testing.apiserver.topology import DEFAULT_OF_KEY, SET, Names, Topology

Path: TypeAlias = tuple[str, ...]  # as in FieldsV1: "f:spec", 'k:{"name":"a"}', 'v:"x"'
Paths: TypeAlias = frozenset[Path]

ITEM: Final = object()  # the value of a list item's own path: it is there; its fields have paths of their own

UNOWNED_ROOT: Final = frozenset({"apiVersion", "kind"})
UNOWNED_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


class Writer(msgspec.Struct, frozen=True, order=True):
    """One entry of managedFields. The same manager has one for each way it writes."""

    operation: str  # Apply or Update: applies are listed first
    manager: str
    api_version: str
    subresource: str = ""


class Owned(msgspec.Struct, frozen=True):
    paths: Paths
    since: str  # RFC 3339, or nothing


Owners: TypeAlias = Mapping[Writer, Owned]


class Conflict(msgspec.Struct, frozen=True):
    writer: Writer
    path: Path


class ApplyConflict(Rejection):
    def __init__(self, conflicts: list[Conflict]) -> None:
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {described(each.writer)}",
                "field": dotted(each.path),
            }
            for each in conflicts
        ]
        if len(causes) == 1:
            text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            text = f"{len(causes)} conflicts: " + "\n".join(listed(conflicts))
        super().__init__(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def listed(conflicts: list[Conflict]) -> Iterator[str]:
    for writer in dict.fromkeys(each.writer for each in conflicts):
        yield f"conflicts with {described(writer)}:"
        yield from (f"- {dotted(each.path)}" for each in conflicts if each.writer == writer)


def described(writer: Writer) -> str:
    name = f'"{writer.manager}"' + (f' with subresource "{writer.subresource}"' if writer.subresource else "")
    return name if writer.operation == "Apply" else f"{name} using {writer.api_version}"


def written(before: Json | None, after: Json, writer: Writer, now: str, topology: Topology) -> Json:
    """`after` with the ownership that an ordinary write (create, patch, update) leaves."""
    old, new = leaves(before or {}, topology), leaves(after, topology)
    changed = frozenset(path for path, value in new.items() if path not in old or old[path] != value)
    gone = frozenset(old) - frozenset(new)
    owners = {
        other: Owned(owned.paths - gone - (frozenset() if other == writer else changed), owned.since)
        for other, owned in owners_of(before or {}).items()
    }
    mine = owners.get(writer, Owned(frozenset(), now))
    if changed - mine.paths:
        owners[writer] = Owned(mine.paths | changed, now)
    return with_owners(after, owners)


def applied(live: Json, config: Json, writer: Writer, now: str, topology: Topology, *, force: bool) -> Json:
    """`live` after `writer` applied `config`, ownership included. Raises ApplyConflict."""
    sent = leaves(config, topology)
    claims = frozenset(sent)
    there = leaves(live, topology)
    changed = frozenset(path for path, value in sent.items() if path not in there or there[path] != value)
    owners = dict(owners_of(live))
    before = owners.pop(writer, Owned(frozenset(), ""))

    conflicts = [
        Conflict(other, path) for other, owned in sorted(owners.items()) for path in sorted(owned.paths & changed)
    ]
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    owners = {other: Owned(owned.paths - changed, owned.since) for other, owned in owners.items()}

    kept = claims.union(*(owned.paths for owned in owners.values()))
    held = {path[:length] for path in kept for length in range(1, len(path) + 1)}
    result = without(merged(live, config, topology), [path for path in before.paths if path not in held], topology)
    # As the server does it: who only joins the owners of what is there already gets no time.
    owners[writer] = Owned(claims, before.since if result == live else now)
    return with_owners(result, owners)


def leaves(value: Json, topology: Topology) -> dict[Path, Any]:
    found: dict[Path, Any] = {}
    for name, field in value.items():
        if name == "metadata":
            for key, each in field.items():
                if key not in UNOWNED_METADATA:
                    collect(each, ("metadata", key), ("f:metadata", f"f:{key}"), topology, found)
        elif name not in UNOWNED_ROOT:
            collect(field, (name,), (f"f:{name}",), topology, found)
    return found


def collect(value: Any, names: Names, path: Path, topology: Topology, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and not topology.is_atomic_map(names):
        for key, each in value.items():
            collect(each, (*names, key), (*path, f"f:{key}"), topology, found)
    elif isinstance(value, list) and value and (keys := topology.list_keys(names)):
        for item in value:
            item_path = (*path, element(item, keys))
            atomic = topology.is_atomic_map(names)
            found[item_path] = item if atomic else ITEM
            if keys != SET and not atomic:
                for key, each in item.items():
                    collect(each, (*names, key), (*item_path, f"f:{key}"), topology, found)
    else:
        found[path] = value


def element(item: Any, keys: Names) -> str:
    if keys == SET:
        return "v:" + compact(item)
    return "k:" + compact({key: item.get(key, DEFAULT_OF_KEY.get(key)) for key in sorted(keys)})


def compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def merged(live: Any, config: Any, topology: Topology, names: Names = ()) -> Any:
    if isinstance(live, dict) and isinstance(config, dict) and not topology.is_atomic_map(names):
        return {
            **live,
            **{key: merged(live.get(key), value, topology, (*names, key)) for key, value in config.items()},
        }
    if isinstance(live, list) and isinstance(config, list) and (keys := topology.list_keys(names)):
        items = {element(item, keys): item for item in live}
        for item in config:
            key = element(item, keys)
            items[key] = merged(items.get(key), item, topology, names)
        return list(items.values())
    return config


def without(value: Any, paths: list[Path], topology: Topology, names: Names = ()) -> Any:
    """`value` less the given paths. What becomes empty by that goes too."""
    if not paths:
        return value
    at_once = {path[0] for path in paths if len(path) == 1}
    deeper: dict[str, list[Path]] = {}
    for path in paths:
        if len(path) > 1 and path[0] not in at_once:
            deeper.setdefault(path[0], []).append(path[1:])
    if isinstance(value, dict):
        rest = {key: (key, each) for key, each in value.items() if f"f:{key}" not in at_once}
        pruned = {
            key: without(each, deeper.get(f"f:{key}", []), topology, (*names, key)) for key, each in rest.values()
        }
        return {key: each for key, each in pruned.items() if each not in ({}, []) or f"f:{key}" not in deeper}
    if isinstance(value, list) and (keys := topology.list_keys(names)):
        remaining = [(element(item, keys), item) for item in value]
        return [without(item, deeper.get(key, []), topology, names) for key, item in remaining if key not in at_once]
    return value


def owners_of(value: Json) -> Owners:
    return {
        Writer(
            operation=entry["operation"],
            manager=entry["manager"],
            api_version=entry["apiVersion"],
            subresource=entry.get("subresource", ""),
        ): Owned(frozenset(paths_of(entry["fieldsV1"])), entry.get("time", ""))
        for entry in value.get("metadata", {}).get("managedFields") or ()
    }


def paths_of(fields: Json, prefix: Path = ()) -> Iterable[Path]:
    for key, below in fields.items():
        if key == ".":
            yield prefix
        elif not below:
            yield (*prefix, key)
        else:
            yield from paths_of(below, (*prefix, key))


def with_owners(value: Json, owners: Owners) -> Json:
    entries = [
        {
            "manager": writer.manager,
            "operation": writer.operation,
            "apiVersion": writer.api_version,
            **({"time": owned.since} if owned.since else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": fields_v1(owned.paths),
            **({"subresource": writer.subresource} if writer.subresource else {}),
        }
        for writer, owned in sorted(owners.items(), key=lambda each: (each[0].operation, each[1].since, each[0]))
        if owned.paths
    ]
    metadata = {key: each for key, each in value["metadata"].items() if key != "managedFields"}
    return {**value, "metadata": {**metadata, **({"managedFields": entries} if entries else {})}}


def fields_v1(paths: Paths) -> Json:
    root: Json = {}
    for path in sorted(paths):  # a path comes before those below it
        level = root
        for depth, step in enumerate(path, start=1):
            level = level.setdefault(step, {})
            if depth < len(path) and path[:depth] in paths:
                level["."] = {}
    return root


def dotted(path: Path) -> str:
    """As conflicts print it: `.spec.containers[name="a"].image`."""
    text = ""
    for step in path:
        kind, rest = step[:1], step[2:]
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = msgspec.json.decode(rest)
            text += "[" + ",".join(f"{key}={compact(value)}" for key, value in keys.items()) + "]"
        else:
            text += f"[={rest}]"
    return text
