"""The user's extra lines, put together with ours. The rule, in the order in which it is applied to each line:

1. A key that is OURS is refused: the pods, services and keys around the daemon were made for that value.
2. A record (NodeName, PartitionName, NodeSet, DownNodes, ...) is added. One that we define under the same name is
   refused: it would be a second definition, which Slurm does not start with.
3. A list of options that both sides set (UNITED) becomes one list: ours first, then theirs. Where both give the same
   option a value, ours stays.
4. A key that may be repeated (Prolog, Epilog, ...) is added.
5. Any other key is the user's: our line goes, theirs counts. Given twice by the user, the last one counts, as in Slurm.
6. An Include must name a file that is delivered with this one.

The result has no key twice, so what a reader sees is what Slurm takes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.slurm.config.findings import Finding
from corral.slurm.config.keys import FileTable, find, key_table
from corral.slurm.config.text import Line, Section, Setting, parse

_IDENTITY: Final = "set `spec.clusterName` instead"
_WIRING: Final = "the pods and services are made for this value"
_KEYS: Final = "it belongs to the keys that Corral makes and rotates"
_ACCOUNTING: Final = "it follows the cluster's Accounting"
OURS: Final[Mapping[str, Mapping[str, str]]] = {
    "slurm.conf": {
        "AccountingStorageHost": _ACCOUNTING,
        "AccountingStoragePort": _ACCOUNTING,
        "AccountingStorageType": _ACCOUNTING,
        "AuthAltTypes": _KEYS,
        "AuthType": _KEYS,
        "ClusterName": _IDENTITY,
        "CredType": _KEYS,
        "SlurmUser": _WIRING,
        "SlurmctldAddr": _WIRING,
        "SlurmctldHost": _WIRING,
        "SlurmctldPidFile": _WIRING,
        "SlurmctldPort": _WIRING,
        "SlurmdPort": _WIRING,
        "SlurmdSpoolDir": _WIRING,
        "SlurmdUser": _WIRING,
        "StateSaveLocation": _WIRING,
    },
    "slurmdbd.conf": {
        "AuthAltTypes": _KEYS,
        "AuthType": _KEYS,
        "DbdHost": _WIRING,
        "DbdPort": _WIRING,
        "PidFile": _WIRING,
        "SlurmUser": _WIRING,
        "StorageHost": _ACCOUNTING,
        "StorageLoc": _ACCOUNTING,
        "StoragePass": _ACCOUNTING,
        "StoragePort": _ACCOUNTING,
        "StorageType": _ACCOUNTING,
        "StorageUser": _ACCOUNTING,
    },
}
UNITED: Final = frozenset(
    {
        "AccountingStorageTRES",
        "AuthAltParameters",
        "AuthInfo",
        "CommunicationParameters",
        "GresTypes",
        "LaunchParameters",
        "PrologFlags",
        "SchedulerParameters",
        "SlurmctldParameters",
        "SlurmdParameters",
        "TaskPluginParam",
    }
)


@dataclass(frozen=True, slots=True)
class Merged:
    """The sections to write, and what was left out of them and why. Refused lines count from the user's text."""

    sections: tuple[Section, ...]
    refused: tuple[Finding, ...]


def merge(
    file: str, ours: Sequence[Section], extra: str, version: str, *, files: frozenset[str] = frozenset()
) -> Merged:
    table = key_table(version).files[file]
    document = parse(extra)
    refused = [Finding(fault.number, "", fault.reason) for fault in document.faults]
    kept: list[Line] = []
    taken = {_place(line, table) for section in ours for line in section.lines}
    for line in document.lines:
        reason = _refusal(file, line, table, taken, files)
        if reason:
            refused.append(Finding(line.number, "Include" if line.include else line.first.key, reason))
        else:
            kept.append(line)
    theirs = _last_of_each(kept, table)
    sections = [Section(section.title, tuple(_ours(section.lines, theirs, table))) for section in ours]
    united = {_place(line, table) for section in ours for line in section.lines if _unites(line, table)}
    added = tuple(line for line in theirs if _place(line, table) not in united)
    return Merged((*sections, Section("extra", added)), tuple(sorted(refused)))


def _refusal(file: str, line: Line, table: FileTable, taken: set[str], files: frozenset[str]) -> str:
    if line.include:
        return "" if line.include in files else f"names {line.include!r}, which is not among the files delivered"
    place = _place(line, table)
    why = {key.lower(): why for key, why in OURS.get(file, {}).items()}.get(place)
    if why:
        return f"is set by Corral: {why}"
    is_record = line.first.key.lower() in table.record_names
    if is_record and place in taken:
        return f"{line.first.value} is defined by Corral already: choose another name"
    if not is_record and len(line.settings) > 1:
        return f"is followed by {line.settings[1].key}: expected one key on a line"
    return ""


def _ours(lines: Sequence[Line], theirs: Sequence[Line], table: FileTable) -> Iterator[Line]:
    by_place = {_place(line, table): line for line in theirs}
    for line in lines:
        other = by_place.get(_place(line, table))
        if other is None or _repeats(line, table):
            yield line
        elif _unites(line, table):
            yield Line((Setting(line.first.key, united(line.first.value, other.first.value)),))


def united(ours: str, theirs: str) -> str:
    """One list of options. An option is known by what stands before its `=` or `:`, in any case."""
    options = [option for option in ours.split(",") if option]
    names = {_option(option) for option in options}
    for option in theirs.split(","):
        if option and _option(option) not in names:
            options.append(option)
            names.add(_option(option))
    return ",".join(options)


def _option(text: str) -> str:
    return text.partition("=")[0].partition(":")[0].strip().lower()


def _last_of_each(lines: Sequence[Line], table: FileTable) -> list[Line]:
    last = {_place(line, table): line for line in lines}
    return [line for line in lines if _repeats(line, table) or last[_place(line, table)] is line]


def _place(line: Line, table: FileTable) -> str:
    """What two lines have in common if the one replaces the other."""
    if line.include:
        return f"include {line.include}"
    key = line.first.key.lower()
    return f"{key}={line.first.value}" if key in table.record_names else key


def _repeats(line: Line, table: FileTable) -> bool:
    if line.include or line.first.key.lower() in table.record_names:
        return True
    found = find(table.settings, line.first.key)
    return found is not None and found[1].repeats


def _unites(line: Line, table: FileTable) -> bool:
    found = None if line.include else find(table.settings, line.first.key)
    return found is not None and found[0] in UNITED
