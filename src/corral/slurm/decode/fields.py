"""The fields that answers are made of: numbers, words, times and lists of hosts, in every shape they come in. Pure."""

import math
from datetime import UTC, datetime

import msgspec

from corral.slurm.hostlist import HostlistError, expand
from corral.slurm.values import Mark


class WireNumber(msgspec.Struct):
    set: bool = False
    infinite: bool = False
    number: int | float = 0


Number = WireNumber | int | float | None
Words = list[str] | str | None
Text = str | None


def mark(last_update: Number) -> Mark | None:
    """None for an answer that is not one: 24.11 and 26.05 say 0 when no job has changed."""
    seconds = count_of(last_update)
    return Mark(updated_s=seconds) if seconds > 0 else None


def hosts(hostlist: Text) -> tuple[str, ...]:
    """The names; of a list that cannot be read, the list itself as one name, so that it is not mistaken for none."""
    if not hostlist or hostlist == "(null)":
        return ()
    try:
        return expand(hostlist)
    except HostlistError:
        return (hostlist,)


def words_of(words: Words) -> tuple[str, ...]:
    if words is None:
        return ()
    return tuple(words) if isinstance(words, list) else tuple(word for word in words.split(",") if word)


def number_of(number: Number) -> float | None:
    """None: not set. math.inf: infinite."""
    if isinstance(number, WireNumber):
        if number.infinite:
            return math.inf
        return float(number.number) if number.set else None
    return None if number is None else float(number)


def count_of(number: Number) -> int:
    value = number_of(number)
    return 0 if value is None or not math.isfinite(value) else int(value)


def minutes_of(number: Number) -> float | None:
    value = number_of(number)
    return None if value is None else value * 60


def time_of(number: Number) -> datetime | None:
    """0 is Slurm's word for never."""
    seconds = count_of(number)
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (OverflowError, ValueError, OSError):
        return None  # further away than a calendar goes
