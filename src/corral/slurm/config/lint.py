"""What is wrong with a configuration file, before a daemon reads it: line, key, reason.

An ERROR is what the daemon refuses (it does not start, or a reconfigure ends it). A WARNING is what it accepts and does
otherwise than one would think: a key given twice, an option that does not exist, a node that is nowhere.
tests/integration/test_slurm_config.py holds both against the real daemons. Values of keys with "Pass" in their name
never appear in a reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from corral.slurm.config import plugstack, topology
from corral.slurm.config.findings import Finding, Severity
from corral.slurm.config.keys import VERSIONS, FileTable, Key, KeyTable, find, key_table, nearest
from corral.slurm.config.text import Document, Line, parse
from corral.slurm.config.values import doubtful_options, wrong_value
from corral.slurm.hostlist import HostlistError, expand


@dataclass(frozen=True, slots=True)
class Names:
    """What a file may refer to. For a fragment: what the rest of the file defines."""

    nodes: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    node_sets: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()  # that an Include may name


def lint(file: str, text: str, version: str, *, known: Names | None = None, whole: bool = True) -> tuple[Finding, ...]:
    """Everything that is wrong with a file of that name (`slurm.conf`). `whole`: it must have what Slurm demands."""
    table = key_table(version)
    known = known or Names()
    if file == "plugstack.conf":
        return plugstack.lint(text, known.files)
    if file == "topology.yaml" and file in table.files:
        return topology.lint(text)
    document = parse(text)
    findings = [Finding(fault.number, "", fault.reason) for fault in document.faults]
    findings += _includes(document, known)
    if file not in table.files:
        others = [other for other in VERSIONS if file in key_table(other).files]
        hint = f" (it came with another version: {', '.join(others)})" if others else ""
        findings.append(Finding(0, "", f"Slurm {version} reads no file named {file}{hint}"))
        return tuple(sorted(findings))
    for line in document.lines:
        if not line.include:
            findings += _line(file, line, table)
    findings += _repeated_settings(document, table.files[file])
    if file == "slurm.conf":
        findings += _names(document, known)
        findings += _missing(document) if whole else ()
    return tuple(sorted(findings))


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity is Severity.ERROR)


def names_of(text: str) -> Names:
    """What a slurm.conf defines, for the check of lines that will be added to it."""
    lines = parse(text).lines
    return Names(
        frozenset(name for line in lines for name in _hosts(line.get("NodeName"))),
        frozenset(line.first.value for line in _records(lines, "PartitionName")),
        frozenset(line.first.value for line in _records(lines, "NodeSet")),
    )


def _line(file: str, line: Line, table: KeyTable) -> Iterator[Finding]:
    this = table.files[file]
    record = this.record_names.get(line.first.key.lower(), "")
    if not record and len(line.settings) > 1 and find(this.settings, line.first.key):
        more = line.settings[1].key
        yield Finding(line.number, more, f"stands on the line of {line.first.key}: expected a line of its own")
        return
    keys = this.records[record] if record else this.settings
    for position, setting in enumerate(line.settings):
        if record and position == 0 and not find(keys, setting.key):
            continue
        found = find(keys, setting.key)
        if found is None:
            yield Finding(line.number, setting.key, _unknown(file, setting.key, record, table))
            continue
        yield from _value(line.number, *found, setting.value, table, record)
        if file != "slurm.conf":  # whose names are looked up as well, in _names
            yield from _hostlist(line.number, found[0], setting.value)
    yield from _repeated_in_record(line)


def _value(number: int, name: str, key: Key, value: str, table: KeyTable, record: str) -> Iterator[Finding]:
    if key.defunct:
        yield Finding(number, name, "is defunct: Slurm ignores it; take it out", Severity.WARNING)
        return
    if key.undocumented and not record:
        reason = f"is still read by Slurm {table.version}, but no longer in its manual"
        yield Finding(number, name, reason, Severity.WARNING)
    if wrong := wrong_value(name, key, value, table, record):
        yield Finding(number, name, "has a value of the wrong type" if "pass" in name.lower() else wrong)
    for reason in doubtful_options(name, key, value):
        yield Finding(number, name, reason, Severity.WARNING)


def _hostlist(number: int, key: str, value: str) -> Iterator[Finding]:
    if key in ("NodeName", "Nodes", "Switches"):
        try:
            expand(value)
        except HostlistError as error:
            yield Finding(number, key, str(error))


def _unknown(file: str, key: str, record: str, table: KeyTable) -> str:
    def keys_of(file_table: FileTable) -> Mapping[str, Key]:
        return file_table.records.get(record, {}) if record else file_table.settings

    here = table.files[file]
    for version in VERSIONS:
        other = key_table(version).files.get(file)
        if version != table.version and other and find(keys_of(other), key):
            return f"is a key of Slurm {version}; {table.version} does not have it"
    if record and find(here.settings, key):
        return f"stands on the line of a {record}: expected a line of its own"
    known = {**keys_of(here), **({} if record else here.records)}
    guess = nearest(key, known)
    where = f"of a {record} line" if record else f"in {file}"
    return f"is no key {where} of Slurm {table.version}{f': did you mean {guess}?' if guess else ''}"


def _repeated_in_record(line: Line) -> Iterator[Finding]:
    seen: set[str] = set()
    for setting in line.settings:
        if setting.key.lower() in seen:
            yield Finding(line.number, setting.key, "is twice on this line: Slurm takes the last", Severity.WARNING)
        seen.add(setting.key.lower())


def _repeated_settings(document: Document, table: FileTable) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for line in document.lines:
        found = None if line.include else find(table.settings, line.first.key)
        if found is None or found[1].repeats:
            continue
        if found[0] in first:
            reason = f"was set in line {first[found[0]]} already: Slurm takes the last"
            yield Finding(line.number, found[0], reason, Severity.WARNING)
        first.setdefault(found[0], line.number)


def _includes(document: Document, known: Names) -> Iterator[Finding]:
    for line in document.lines:
        if line.include and line.include not in known.files:
            yield Finding(line.number, "Include", f"names {line.include!r}, which is not among the files delivered")


def _names(document: Document, known: Names) -> Iterator[Finding]:
    nodes, partitions = set(known.nodes), set(known.partitions)
    node_sets = set(known.node_sets)
    for line in _records(document.lines, "NodeName"):
        yield from _new_nodes(line, nodes)
    for record, defined in (("PartitionName", partitions), ("NodeSet", node_sets)):
        for line in _records(document.lines, record):
            if line.first.value in defined:
                yield Finding(line.number, record, f"{line.first.value} is defined twice")
            defined.add(line.first.value)
    for line in document.lines:
        if not line.include:
            yield from _dangling(line, nodes, partitions, node_sets)


def _new_nodes(line: Line, nodes: set[str]) -> Iterator[Finding]:
    try:
        defined = expand(line.first.value)
    except HostlistError as error:
        yield Finding(line.number, "NodeName", str(error))
        return
    twice = [name for name in defined if name in nodes and name != "DEFAULT"]
    if twice:
        yield Finding(line.number, "NodeName", f"{twice[0]} is defined twice")
    nodes.update(defined)


# Which keys name nodes or partitions, and whether Slurm refuses a name that is nowhere or only complains.
_REFERENCES = (
    ("PartitionName", "Nodes", "node", Severity.ERROR),
    ("NodeSet", "Nodes", "node", Severity.WARNING),
    ("DownNodes", "DownNodes", "node", Severity.WARNING),
    ("SuspendExcNodes", "SuspendExcNodes", "node", Severity.WARNING),
    ("PartitionName", "Alternate", "partition", Severity.WARNING),
    ("SuspendExcParts", "SuspendExcParts", "partition", Severity.WARNING),
)


def _dangling(line: Line, nodes: set[str], partitions: set[str], node_sets: set[str]) -> Iterator[Finding]:
    for record, key, kind, severity in _REFERENCES:
        value = line.get(key)
        if line.first.key.lower() != record.lower() or value is None:
            continue
        present = partitions if kind == "partition" else nodes | node_sets | {"ALL", "DEFAULT", "(null)"}
        try:
            # SuspendExcNodes has counts: n[1-3]:2
            named = expand(value.partition(":")[0])
        except HostlistError as error:
            yield Finding(line.number, key, str(error))
            continue
        if missing := [name for name in named if name not in present]:
            guess = nearest(missing[0], tuple(present))
            hint = f": did you mean {guess}?" if guess else ""
            yield Finding(line.number, key, f"names the {kind} {missing[0]}, which is not defined{hint}", severity)


def _missing(document: Document) -> Iterator[Finding]:
    keys = {line.first.key.lower() for line in document.lines if not line.include}
    if "clustername" not in keys:
        yield Finding(0, "ClusterName", "is missing: Slurm does not start without it")
    if not keys & {"slurmctldhost", "controlmachine"}:
        yield Finding(0, "SlurmctldHost", "is missing: Slurm does not start without it")


def _records(lines: tuple[Line, ...], record: str) -> Iterator[Line]:
    return (line for line in lines if not line.include and line.first.key.lower() == record.lower())


def _hosts(hostlist: str | None) -> tuple[str, ...]:
    try:
        return expand(hostlist or "")
    except HostlistError:
        return ()
