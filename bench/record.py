"""What was measured when, kept beside the figures' code, so that the page can be written again from it.

One entry a figure: measuring one again replaces that entry and leaves the others with their own date and machine.
"""

from pathlib import Path

import msgspec

from bench.claims import Finding
from bench.machine import Machine

FILE = Path(__file__).parent / "record.json"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    findings: tuple[Finding, ...]
    machine: Machine


Record = dict[str, Measured]
"""By the figure's name."""


def read(file: Path = FILE) -> Record:
    return msgspec.json.decode(file.read_bytes(), type=Record) if file.exists() else {}


def write(record: Record, file: Path = FILE) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
