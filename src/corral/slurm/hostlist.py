"""Slurm's hostlists, both ways: `gpu[01-03,7]` and the names it stands for.

    list    = part, part, ...             separated by commas or blanks; empty parts are skipped
    part    = text [ranges] text ...      any number of brackets: a[1-2]b[3-4] has four names
    ranges  = 1,3-5,007-010               the width of the first number pads all of its range

Order and repetition are kept, as `scontrol show hostnames` and `scontrol show hostlist` keep them.

Where this is stricter than Slurm, it refuses: `a[1-]` (Slurm: a1), a bracket that closes nothing (Slurm: part of the
name), a number of more than 64 bits (Slurm: another number), more than HOSTS_MAX names, and functions such as
`feature{gpu}`, which scontrol of 26.05 asks slurmctld about. What Slurm calls dimensions (`a[00x11]`) exists only on
machines that it no longer supports; both refuse it.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

RANGE_MAX = 65_536  # hosts in one range, as in Slurm
HOSTS_MAX = 1_000_000  # ours: brackets multiply, and a list of a line must not fill the memory
_NUMBER_MAX = 2**64 - 1

_SEPARATORS = re.compile(r"[,\s]+")
_PART = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_NAME = re.compile(r"([^\[\],\s]*?)([0-9]*)")


class HostlistError(ValueError):
    """A text that is not a hostlist; the message has the part and what is wrong with it."""


def expand(hostlist: str) -> tuple[str, ...]:
    """The names, in Slurm's order."""
    hosts: list[str] = []
    for part in _parts(hostlist):
        if "{" in part:
            raise HostlistError(f"hostlist {_shown(part)}: functions (26.05) are known to slurmctld only")
        literals, choices = _pieces(part)
        if len(hosts) + prod(len(choice) for choice in choices) > HOSTS_MAX:
            raise HostlistError(f"hostlist {_shown(hostlist)}: more than {HOSTS_MAX} names")
        hosts.extend(_combinations(literals, choices))
    return tuple(hosts)


def fold(hosts: Iterable[str]) -> str:
    """The names in as few characters as Slurm uses for them; `expand` gives back the same names in the same order."""
    return ",".join(_groups(hosts))


def fold_set(hosts: Iterable[str]) -> str:
    """The same for names whose order does not matter: sorted, each once."""
    return fold(sorted(set(hosts), key=by_number))


def by_number(host: str) -> tuple[str, int, str]:
    """A key to sort names by: a2 before a10."""
    prefix, digits = _split(host)
    return prefix, int(digits or -1), digits


def _parts(hostlist: str) -> Iterator[str]:
    at = 0
    while at < len(hostlist):
        if gap := _SEPARATORS.match(hostlist, at):
            at = gap.end()
        elif part := _PART.match(hostlist, at):
            yield part.group()
            at = part.end()
        else:
            raise HostlistError(f"hostlist {_shown(hostlist)}: the bracket at character {at + 1} has no partner")


def _pieces(part: str) -> tuple[list[str], list[list[str]]]:
    """`a[1-2]b` is the literals a, b and one choice of 1, 2 between them."""
    pieces = _BRACKET.split(part)
    return pieces[::2], [_numbers(ranges, part) for ranges in pieces[1::2]]


def _numbers(ranges: str, part: str) -> list[str]:
    numbers: list[str] = []
    for text in ranges.split(","):
        found = _RANGE.fullmatch(text)
        if found is None:
            raise HostlistError(f"hostlist {_shown(part)}: expected a number or a range like 1-3, got {text!r}")
        low, high = found[1], found[2] or found[1]
        if max(int(low), int(high)) > _NUMBER_MAX:
            raise HostlistError(f"hostlist {_shown(part)}: {text} does not fit into 64 bits")
        if int(high) < int(low):
            raise HostlistError(f"hostlist {_shown(part)}: range {text} goes down")
        if int(high) - int(low) >= RANGE_MAX:
            raise HostlistError(f"hostlist {_shown(part)}: range {text} has more than {RANGE_MAX} numbers")
        numbers.extend(f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1))
    return numbers


def _combinations(literals: list[str], choices: list[list[str]]) -> Iterator[str]:
    if not choices:
        yield literals[0]
        return
    # Slurm's order: the last bracket turns fastest, then the first, the second, ...
    *before, last = choices
    for *chosen, final in product(*reversed(before), last):
        numbers = (*reversed(chosen), final)
        yield "".join(text for pair in zip(literals, (*numbers, ""), strict=True) for text in pair)


def _groups(hosts: Iterable[str]) -> Iterator[str]:
    """Neighbours with the same text before their number share a bracket."""
    prefix, ranges = "", list[tuple[str, str]]()
    for host in hosts:
        before, digits = _split(host)
        if ranges and (before != prefix or not digits or not ranges[0][0]):
            yield _group(prefix, ranges)
            ranges = []
        if ranges and _continues(ranges[-1], digits):
            ranges[-1] = (ranges[-1][0], digits)
        else:
            ranges.append((digits, digits))
        prefix = before
    if ranges:
        yield _group(prefix, ranges)


def _continues(so_far: tuple[str, str], digits: str) -> bool:
    low, high = so_far
    after = int(high) + 1
    return digits == f"{after:0{len(low)}}" and after - int(low) < RANGE_MAX


def _group(prefix: str, ranges: list[tuple[str, str]]) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return prefix + ranges[0][0]
    return f"{prefix}[{','.join(low if low == high else f'{low}-{high}' for low, high in ranges)}]"


def _split(host: str) -> tuple[str, str]:
    found = _NAME.fullmatch(host)
    if not host or found is None:
        raise HostlistError(f"host name {_shown(host)}: expected a name without brackets, commas and blanks")
    prefix, digits = found.groups()
    # A number that Slurm cannot hold is part of the name.
    return (prefix, digits) if not digits or int(digits) <= _NUMBER_MAX else (host, "")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
