"""The text of `docs/performance.md`, from findings. Pure."""

from collections.abc import Iterable, Sequence

from bench.claims import Finding, bound_text, figure_text, number, spread_text, verdict_text
from bench.machine import Machine

HEAD = """\
# Performance

`make bench` measures these figures on a real local Kubernetes and writes this page; it fails when a bound is missed.
Each figure is the median of {runs} runs. A run stands beside a run of its baseline, on the same machine and the same
API server with nothing else running on it, and each is a process of its own.
"""

HOW = """\
## How it is measured

`python -m bench NAME` measures one figure again (its name is in brackets below) and does not write this page;
`python -m bench --smoke` goes through all of them with small sizes, to see that they still run.
"""


def page(findings: Sequence[Finding], machine: Machine, methods: Iterable[tuple[str, str]]) -> str:
    runs = max(len(finding.runs) for finding in findings)
    parts = [
        HEAD.format(runs=runs),
        table(
            ("figure", "bound", "measured", "runs from .. to", "bound is"),
            [(f.claim.title, bound_text(f.claim), figure_text(f), spread_text(f), verdict_text(f)) for f in findings],
        ),
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
        HOW,
        *(f"- **{name}** {method}" for name, method in methods),
        "\n## The machine\n",
        table(("", ""), [(name, text) for name, text in machine.described()]),
    ]
    return "\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
