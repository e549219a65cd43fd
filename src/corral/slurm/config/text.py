"""The grammar that slurm.conf, slurmdbd.conf, cgroup.conf, gres.conf, topology.conf and their kin share, both ways.

    Key=Value                         one on a line; keys in any case
    NodeName=n[1-2] CPUs=4 Gres=...   or several, when the first one begins a record
    Key="a b"                         quotes around blanks; there is no quote inside quotes
    # comment                         to the end of the line, also inside quotes; \\# is a plain #
    ... \\                             goes on in the next line
    Include FILE                      alone on its line

Slurm drops every other backslash. A NUL would end the line for Slurm and nobody else, so it is a fault here.
This file knows nothing about which keys there are; see `keys` and `lint`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    value: str
    operator: str = ""  # "+" in Key+=Value, which some plugins know

    def __str__(self) -> str:
        return f"{self.key}{self.operator}={_escaped(self.value)}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file: a setting, a record of several, or an Include. `number` is where it begins; 0 if not read."""

    settings: tuple[Setting, ...]
    include: str = ""
    number: int = 0

    @property
    def first(self) -> Setting:
        return self.settings[0]

    def get(self, key: str) -> str | None:
        """The last value of the key on this line, as Slurm takes it."""
        found = [setting.value for setting in self.settings if setting.key.lower() == key.lower()]
        return found[-1] if found else None

    def __str__(self) -> str:
        return f"Include {self.include}" if self.include else " ".join(str(setting) for setting in self.settings)


@dataclass(frozen=True, slots=True)
class Fault:
    """A place that cannot be read, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Document:
    lines: tuple[Line, ...]
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a comment that names them. One without lines is not written at all."""

    title: str
    lines: tuple[Line, ...]


class UnwritableError(ValueError):
    """A key or value that would not be read back as it was: a line break, a quote inside quotes."""


def setting(key: str, value: str | int) -> Line:
    return Line((Setting(key, str(value)),))


def record(**settings: str | int) -> Line:
    """`record(PartitionName="p", Nodes="ALL")`; the order is kept."""
    return Line(tuple(Setting(key, str(value)) for key, value in settings.items()))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_KEY = re.compile(r"[A-Za-z0-9_.]+")
_SETTING = re.compile(r'\s*([A-Za-z0-9_.]+)\s*([-*+/]?)=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(\S.*?)\s*", re.IGNORECASE)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)#.*")
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\s*$")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


def parse(text: str) -> Document:
    """Everything that can be read, and a fault for everything that cannot. Nothing is looked up, nothing is refused."""
    lines: list[Line] = []
    faults: list[Fault] = []
    for number, raw in _logical_lines(text):
        if control := _CONTROL.search(raw.removesuffix("\r")):
            faults.append(
                Fault(number, f"has the control character {control.group()!r}: Slurm reads another text here")
            )
        elif include := _INCLUDE.fullmatch(raw):
            lines.append(Line((), include[1], number))
        else:
            settings, rest = _settings(raw)
            if rest:
                where = (
                    "the value on" if "pass" in raw.lower() else f"{_shown(rest)} on"
                )  # part of a password is a secret
                faults.append(Fault(number, f"cannot be read from {where}: expected Key=Value"))
            if settings:
                lines.append(Line(settings, "", number))
    return Document(tuple(lines), tuple(faults))


def write(parts: Iterable[Section | Line]) -> str:
    """The text of a file. The same values give the same bytes; `parse` gives the values back."""
    out: list[str] = []
    for part in parts:
        if isinstance(part, Line):
            out.append(_checked(part))
        elif part.lines:
            out += ["#", f"### {_one_line(part.title).upper()} ###", *(_checked(line) for line in part.lines)]
    return "".join(f"{line}\n" for line in out)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    start, so_far = 1, ""
    for number, physical in enumerate(text.split("\n"), 1):
        if not so_far:
            start = number
        so_far += _COMMENT.sub(r"\1", physical)
        if _CONTINUED.search(so_far):
            so_far = _CONTINUED.sub(r"\1", so_far)
        elif so_far:
            yield start, _ESCAPE.sub(r"\1", so_far)
            so_far = ""
    if so_far:
        yield start, _ESCAPE.sub(r"\1", so_far)


def _settings(line: str) -> tuple[tuple[Setting, ...], str]:
    found: list[Setting] = []
    at = 0
    while match := _SETTING.match(line, at):
        key, operator, quoted, bare = match.groups()
        found.append(Setting(key, bare if quoted is None else quoted, operator))
        at = match.end()
    return tuple(found), line[at:].strip()


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("#", "\\#")
    return f'"{escaped}"' if not value or re.search(r"\s", value) else escaped


def _checked(line: Line) -> str:
    for part in line.settings:
        if not _KEY.fullmatch(part.key):
            raise UnwritableError(f"key {part.key!r}: expected letters, digits, dots and underscores")
        if '"' in part.value or _one_line(part.value) != part.value:
            raise UnwritableError(f"value of {part.key}: has a quote or a line break, which no Slurm file can hold")
    if line.include and not _INCLUDE.fullmatch(f"include {_one_line(line.include)}"):
        raise UnwritableError(f"Include {line.include!r}: expected one file name")
    return str(line)


def _one_line(text: str) -> str:
    # What str.splitlines would break, and what Slurm would: one rule for both.
    if len(text.splitlines()) > 1 or text != text.rstrip("\r\n") or re.search(r"[\x00-\x1f\x7f]", text):
        raise UnwritableError(f"{_shown(text)}: has a line break or a control character")
    return text


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
