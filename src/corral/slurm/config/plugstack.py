"""plugstack.conf, which lists SPANK plugins: `required|optional PATH [ARGUMENT...]` and `include PATTERN`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from corral.slurm.config.findings import Finding, Severity
from corral.slurm.config.keys import nearest
from corral.slurm.config.text import UnwritableError

_WORDS = ("required", "optional", "include")


@dataclass(frozen=True, slots=True)
class Plugin:
    """`required`: a job fails if the plugin does. `path` is absolute, or a name in Slurm's plugin folders."""

    path: str
    required: bool = True
    arguments: tuple[str, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class Include:
    pattern: str
    number: int = 0


def parse(text: str) -> tuple[tuple[Plugin | Include, ...], tuple[Finding, ...]]:
    entries: list[Plugin | Include] = []
    findings: list[Finding] = []
    for number, raw in enumerate(text.split("\n"), 1):
        words = raw.partition("#")[0].split()
        if "\0" in raw:
            findings.append(Finding(number, "", "has a NUL: Slurm reads another text here"))
        elif words and words[0].lower() not in _WORDS:
            guess = nearest(words[0], _WORDS)
            findings.append(Finding(number, words[0], f"is not {', '.join(_WORDS)}{f': {guess}?' if guess else ''}"))
        elif words and len(words) == 1:
            findings.append(Finding(number, words[0], "names no plugin"))
        elif words and words[0].lower() == "include":
            entries.append(Include(" ".join(words[1:]), number))
        elif words:
            entries.append(Plugin(words[1], words[0].lower() == "required", tuple(words[2:]), number))
    return tuple(entries), tuple(findings)


def write(entries: Iterable[Plugin | Include]) -> str:
    return "".join(f"{' '.join(_checked(_words(entry)))}\n" for entry in entries)


def lint(text: str, files: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """Plugins in /etc/slurm or beside it must be among `files`; what an absolute path holds is not known here."""
    entries, findings = parse(text)
    seen: dict[str, int] = {}
    more: list[Finding] = []
    for entry in entries:
        if isinstance(entry, Include):
            if not entry.pattern.startswith("/") and entry.pattern not in files:
                reason = f"names {entry.pattern!r}, which is not among the files delivered"
                more.append(Finding(entry.number, "include", reason))
            continue
        if entry.path in seen:
            reason = f"is in line {seen[entry.path]} already"
            more.append(Finding(entry.number, entry.path, reason, Severity.WARNING))
        seen.setdefault(entry.path, entry.number)
    return tuple(sorted((*findings, *more)))


def _words(entry: Plugin | Include) -> tuple[str, ...]:
    if isinstance(entry, Include):
        return ("include", entry.pattern)
    return ("required" if entry.required else "optional", entry.path, *entry.arguments)


def _checked(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if not word or re.search(r"[\s#\x00-\x1f\x7f]", word):
            raise UnwritableError(f"plugstack.conf: {word!r} has a blank, a # or a line break, which it cannot hold")
    return words
