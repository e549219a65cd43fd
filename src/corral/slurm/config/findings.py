"""One thing that is wrong with a file, and where."""

from dataclasses import dataclass, field
from enum import Enum


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """`line` is 0 when the file as a whole is meant."""

    line: int
    key: str
    reason: str
    severity: Severity = field(default=Severity.ERROR, compare=False)

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.key + ' ' if self.key else ''}{self.reason}"
