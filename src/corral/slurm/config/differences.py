"""What changes between two texts of a file, and what it takes for it to be real. Pure; for `plan` and people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from corral.slurm.config.effects import RECORD_GONE, Effect, effect_of
from corral.slurm.config.keys import FileTable, find, key_table
from corral.slurm.config.text import parse


@dataclass(frozen=True, slots=True)
class Change:
    """`old` or `new` is None where there is none. `record` is empty for a key that stands alone: PartitionName=gpu."""

    record: str
    key: str
    old: str | None
    new: str | None
    effect: Effect
    why: str = ""

    def __str__(self) -> str:
        name = f"{self.record} {self.key}".strip()
        if self.old is None:
            what = f"{name} is new: {self.new}" if self.new else f"{name} is new"
        elif self.new is None:
            what = f"{name} is removed (was {self.old})" if self.old else f"{name} is removed"
        else:
            what = f"{name}: {self.old} becomes {self.new}"
        return f"{what}: {self.effect}{f', because {self.why}' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class Differences:
    file: str
    changes: tuple[Change, ...]

    @property
    def effect(self) -> Effect | None:
        """What it takes for all of it; None if nothing changes."""
        effects = {change.effect for change in self.changes}
        if len(effects - {Effect.RECONFIGURE}) > 1 and Effect.DRAIN not in effects:
            return Effect.RESTART_ALL
        return max(effects, default=None)

    @property
    def sentence(self) -> str:
        if self.effect is None:
            return f"{self.file}: nothing changes"
        if self.effect is Effect.RECONFIGURE:
            return f"{self.file}: {_count(self.changes)}, applied by a reconfigure; running jobs are not affected"
        cause = next((change for change in self.changes if change.effect is self.effect), self.changes[0])
        name = f"{cause.record} {cause.key}".strip()
        return f"{self.file}: {_count(self.changes)}; {self.effect}, because of {name}: {cause.why}"


def differences(file: str, old: str, new: str, version: str) -> Differences:
    """Comments, order, case of keys, quotes and line breaks are no differences; a repeated key counts as it counts."""
    table = key_table(version).files.get(file, FileTable({}, {}))
    before, after = _values(old, table), _values(new, table)
    keys = sorted(before.keys() | after.keys())
    changed = [key for key in keys if before.get(key) != after.get(key)]
    return Differences(file, tuple(_change(file, key, before, after) for key in changed))


_Values = Mapping[tuple[str, str], str]


def _change(file: str, place: tuple[str, str], before: _Values, after: _Values) -> Change:
    record, key = place
    old, new = before.get(place), after.get(place)
    kind = record.partition("=")[0]
    effect, why = effect_of(file, key if not record else kind)
    if record and not key and new is None and kind in RECORD_GONE:
        effect, why = RECORD_GONE[kind]
    if "pass" in key.lower():
        old, new = (None if value is None else "(secret)" for value in (old, new))
    if key == "MaxNodeCount" and old and new and old.isdigit() and new.isdigit() and int(new) < int(old):
        effect, why = Effect.DRAIN, "nodes above the new number are dropped, with the jobs on them"
    return Change(record, key, old, new, effect, why)


def _values(text: str, table: FileTable) -> dict[tuple[str, str], str]:
    """(record, key) to value. A record itself is there with an empty key, so that its end is a change of its own."""
    values: dict[tuple[str, str], str] = {}
    for line in parse(text).lines:
        if line.include:
            values["", f"Include {line.include}"] = ""
            continue
        name = table.record_names.get(line.first.key.lower())
        if name is None:
            values.update(_alone(line.first.key, line.first.value, table, values))
            continue
        record = f"{name}={line.first.value}"
        values[record, ""] = ""
        known = table.records[name]
        for setting in line.settings[1:]:
            found = find(known, setting.key)
            values[record, found[0] if found else setting.key] = setting.value
    return values


def _alone(key: str, value: str, table: FileTable, so_far: _Values) -> Iterator[tuple[tuple[str, str], str]]:
    found = find(table.settings, key)
    place = ("", found[0] if found else key)
    repeats = found is not None and found[1].repeats and place in so_far
    yield place, f"{so_far[place]}, {value}" if repeats else value


def _count(changes: tuple[Change, ...]) -> str:
    return "1 change" if len(changes) == 1 else f"{len(changes)} changes"
