"""What is wrong with a file of Slurm, and what a later change of its keys would cost. Pure: texts in, remarks out."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from corral.slurm.config.effects import EXCEPTIONS, Effect, effect_of
from corral.slurm.config.findings import Finding, Severity
from corral.slurm.config.keys import VERSIONS, key_table
from corral.slurm.config.lint import Names, lint
from corral.slurm.config.text import parse


class Level(Enum):
    """An error is refused by the daemon; a warning is taken otherwise than one would think; a note is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Remark(msgspec.Struct, frozen=True):
    """`line` is 0 when the file as a whole is meant; `where` is the field, when the file is a manifest."""

    file: str
    line: int
    level: Level
    key: str = ""
    reason: str = ""
    where: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        said = f"{self.key} {self.reason}".strip()
        return f"{place}: {self.level.value}: {f'{self.where}: ' if self.where else ''}{said}"


LEVELS: Mapping[Severity, Level] = {Severity.ERROR: Level.ERROR, Severity.WARNING: Level.WARNING}
FILES = frozenset(file for version in VERSIONS for file in key_table(version).files) | {"plugstack.conf"}


def remarks_of_file(shown: str, file: str, text: str, version: str, beside: frozenset[str]) -> tuple[Remark, ...]:
    """`shown` is how the person named it, `file` what Slurm calls it; `beside` are files that an Include may name."""
    findings = lint(file, text, version, known=Names(files=beside))
    return ordered((*(remark_of(shown, finding) for finding in findings), *costs(shown, file, text)))


def remark_of(shown: str, finding: Finding, *, where: str = "", first_line: int = 1) -> Remark:
    """`first_line`: where in the shown file the text begins that the finding counts from."""
    line = first_line + finding.line - 1 if finding.line else 0
    return Remark(shown, line, LEVELS[finding.severity], finding.key, finding.reason, where)


def costs(shown: str, file: str, text: str, *, where: str = "", first_line: int = 1) -> Iterator[Remark]:
    """A note for each key here whose change a reconfigure does not bring into effect."""
    if file not in EXCEPTIONS:
        return
    for line in parse(text).lines:
        if line.include:
            continue
        effect, why = effect_of(file, line.first.key)
        if effect is not Effect.RECONFIGURE:
            reason = f"needs more than a reconfigure when it changes: {effect} ({why})"
            yield Remark(shown, first_line + line.number - 1, Level.NOTE, line.first.key, reason, where)


def ordered(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """What is wrong by its place, then the notes; each once."""
    return tuple(sorted(set(remarks), key=lambda one: (one.level is Level.NOTE, one.file, one.line, str(one))))
