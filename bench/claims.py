"""What we claim about performance, and whether runs bear it out. Pure arithmetic: nothing here measures.

A claim compares each run with the baseline measured right beside it, so that a machine which is slow today is slow for
both. The figure is the median over the runs; the claim holds when the figure keeps the bound.
"""

import statistics
from typing import Literal

import msgspec

Comparison = Literal["ratio", "difference", "itself"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """`bound` is in `unit`; None for a figure that is only told. `strictly`: below the bound, not just at most."""

    key: str
    title: str
    unit: str
    bound: float | None = None
    strictly: bool = False
    compare: Comparison = "itself"
    measured: str  # what `Run.measured` is
    measured_unit: str
    baseline: str  # what `Run.baseline` is; with "itself": what it is shown beside


class Run(msgspec.Struct, frozen=True):
    measured: float
    baseline: float


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    claim: Claim
    runs: tuple[Run, ...]

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(value(self.claim.compare, run) for run in self.runs)

    @property
    def figure(self) -> float:
        return statistics.median(self.values)

    @property
    def holds(self) -> bool:
        bound = self.claim.bound
        if bound is None:
            return True
        return self.figure < bound if self.claim.strictly else self.figure <= bound

    @property
    def measured(self) -> float:
        return statistics.median(run.measured for run in self.runs)

    @property
    def baseline(self) -> float:
        return statistics.median(run.baseline for run in self.runs)


def value(compare: Comparison, run: Run) -> float:
    match compare:
        case "ratio":
            return run.measured / run.baseline
        case "difference":
            return run.measured - run.baseline
        case "itself":
            return run.measured


def number(amount: float) -> str:
    """As people write it: three significant digits, and whole numbers in full."""
    if amount == int(amount) or abs(amount) >= 1000:
        return f"{amount:,.0f}"
    return f"{amount:.3g}"


def bound_text(claim: Claim) -> str:
    if claim.bound is None:
        return ""
    return f"{'<' if claim.strictly else '≤'} {number(claim.bound)} {claim.unit}"


def figure_text(finding: Finding) -> str:
    return f"{number(finding.figure)} {finding.claim.unit}"


def spread_text(finding: Finding) -> str:
    return f"{number(min(finding.values))} to {number(max(finding.values))}"


def verdict_text(finding: Finding) -> str:
    if finding.claim.bound is None:
        return ""
    return "kept" if finding.holds else "MISSED"
