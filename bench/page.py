"""The text of `docs/performance.md`, from what was measured. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from bench.claims import bound_text, figure_text, number, spread_text, verdict_text
from bench.record import Record

HEAD = """\
# Performance

`make bench` measures these figures on a real local Kubernetes and writes this page; it fails when a bound is missed.
Each figure is the median of {runs} runs. A run stands beside a run of its baseline, on the same machine and the same
API server with nothing else running on it, and each is a process of its own.
"""

HOW = """\
## How it is measured

`python -m bench NAME` measures one figure again (its name is in bold below); `python -m bench --smoke` goes through all
of them with small sizes, to see that they still run, and leaves this page as it is.
"""


def page(record: Record, methods: Mapping[str, str], standing: str) -> str:
    """`methods` has the figures in their order; `standing` is what no run measures, written by hand."""
    figures = [(name, record[name]) for name in methods if name in record]
    findings = [finding for _, measured in figures for finding in measured.findings]
    parts = [
        HEAD.format(runs=max((len(finding.runs) for finding in findings), default=0)),
        table(
            ("figure", "bound", "measured", "runs from .. to", "bound is"),
            [(f.claim.title, bound_text(f.claim), figure_text(f), spread_text(f), verdict_text(f)) for f in findings],
        ),
        *(f"**{name}** has not been measured yet.\n" for name in methods if name not in record),
        "## What stands behind each figure\n",
        table(
            ("figure", "what was measured", "median", "beside", "median"),
            [
                (
                    f.claim.title,
                    f.claim.measured,
                    f"{number(f.measured)} {f.claim.measured_unit}",
                    f.claim.baseline,
                    f"{number(f.baseline)} {f.claim.measured_unit}",
                )
                for f in findings
            ],
        ),
        standing,
        HOW,
        *(f"- **{name}** {method}" for name, method in methods.items()),
        "\n## The machine\n",
        *machines(record, [name for name, _ in figures]),
    ]
    return "\n".join(parts)


def machines(record: Record, names: Sequence[str]) -> Iterable[str]:
    """One table for each machine; each figure with the time at which it was measured."""
    described = {record[name].machine.described(): None for name in names}
    for machine in described:
        measured = [
            (name, f"measured {record[name].machine.measured_at:%Y-%m-%d %H:%M} UTC")
            for name in names
            if record[name].machine.described() == machine
        ]
        yield table(("", ""), [*machine, *measured])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
