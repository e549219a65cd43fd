"""Ordinals in few words, as the status remembers which are asked for: `0-2,5`. Pure."""

from collections.abc import Iterable


def folded(ordinals: Iterable[int]) -> str:
    runs: list[tuple[int, int]] = []
    for ordinal in sorted(ordinals):
        if runs and runs[-1][1] == ordinal - 1:
            runs[-1] = runs[-1][0], ordinal
        else:
            runs.append((ordinal, ordinal))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def unfolded(text: str) -> frozenset[int]:
    """What we cannot read says nothing."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
