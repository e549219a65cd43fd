"""`make bench`: measure every figure on a real local Kubernetes, write `docs/performance.md`, fail on a missed bound.

python -m bench                  all of them
python -m bench events idle      only these; the others stay on the page as they were measured before
python -m bench --page           measure nothing; write the page again from bench/record.json
python -m bench --smoke          small sizes and one run, to see that everything still runs; says nothing about speed

A cluster named `bench` that is up already is used and left; otherwise one is started, and taken down at the end.
Wukongs need one that is started here: each part of their figure begins with an empty cluster.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from types import ModuleType

from bench import creation, events, growth, idle, nodes, quickstart, reconfigure, record, sync, waiting, wukong
from bench.claims import Finding, Run, bound_text, figure_text, number, value, verdict_text
from bench.machine import this_machine
from bench.page import page
from bench.process import SMOKE, MeasurementFailed, Settings, Sizes
from bench.world import prepare, running_cluster, server_version
from corral.local.progress import Progress, Step

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
STANDING = Path(__file__).parent / "standing.md"
FIGURES: dict[str, ModuleType] = {
    "creation": creation,
    "sync": sync,
    "events": events,
    "idle": idle,
    "waiting": waiting,
    "quickstart": quickstart,
    "reconfigure": reconfigure,
    "growth": growth,
    "nodes": nodes,
    "wukong": wukong,
}
# Each of these on a cluster without the objects of the others. Controllers of Kubernetes are busy for minutes with pods
# that were just made, and a loop of requests is measured with nothing beside it.
ALONE = frozenset({"creation"})
WITH_SLURM = frozenset({"quickstart", "reconfigure", "growth", "nodes", "wukong"})
AMONG_PODS = frozenset(FIGURES.keys() - ALONE - WITH_SLURM)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the figures of docs/performance.md.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"only these of {', '.join(FIGURES)}")
    parser.add_argument("--smoke", action="store_true", help="small sizes, one run, no page and no verdict")
    parser.add_argument("--page", action="store_true", help="write the page again from what was measured before")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.figures) - FIGURES.keys()):
        parser.error(f"no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    if arguments.page:
        return _write_page(record.read())
    names = tuple(arguments.figures or FIGURES)
    sizes = SMOKE if arguments.smoke else Sizes()
    try:
        measured: record.Record = {}
        for chosen in (_chosen(names, group) for group in (ALONE, AMONG_PODS, WITH_SLURM)):
            if chosen:
                with running_cluster(sizes) as settings:
                    measured |= asyncio.run(_measured(settings, chosen))
    except MeasurementFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    findings = [finding for entry in measured.values() for finding in entry.findings]
    for finding in findings:
        print(f"{verdict_text(finding):6}  {finding.claim.title}: {figure_text(finding)}  {bound_text(finding.claim)}")
    if arguments.smoke:
        return 0
    record.write(record.read() | measured)
    _write_page(record.read())
    return 0 if all(finding.holds for finding in findings) else 1


def _write_page(known: record.Record) -> int:
    PAGE.write_text(page_of(known))
    print(f"written: {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")
    return 0


def page_of(known: record.Record) -> str:
    methods = {name: figure.__doc__ or "" for name, figure in FIGURES.items()}
    return page(known, methods, STANDING.read_text())


def _chosen(names: tuple[str, ...], group: frozenset[str]) -> tuple[str, ...]:
    """In the order above: Wukongs leave a cluster behind that nobody else wants to measure on."""
    return tuple(name for name in FIGURES if name in names and name in group)


async def _measured(settings: Settings, names: tuple[str, ...]) -> record.Record:
    with Progress(("Objects", *names)) as progress:
        with progress.step("Objects") as step:
            with_objects = not WITH_SLURM.issuperset(names)
            pods = 0 if ALONE.issuperset(names) or not with_objects else settings.sizes.pods
            kubernetes = await prepare(settings, pods, step.say) if with_objects else await server_version(settings)
            step.note(f"{pods} pods, Kubernetes {kubernetes}")
        measured: record.Record = {}
        for name in names:
            with progress.step(name) as step:
                findings = await asyncio.to_thread(_findings, FIGURES[name], settings, step)
                measured[name] = record.Measured(findings=tuple(findings), machine=this_machine(kubernetes))
    return measured


def _findings(figure: ModuleType, settings: Settings, step: Step) -> list[Finding]:
    runs: list[dict[str, Run]] = []
    for run in figure.measure(settings):
        runs.append(run)
        told = ", ".join(
            f"{number(value(claim.compare, run[claim.key]))} {claim.unit}"
            for claim in figure.CLAIMS
            if claim.bound is not None
        )
        print(f"  {figure.__name__} run {len(runs)} of {settings.sizes.runs}: {told}", file=sys.stderr, flush=True)
        step.note(told)
    return [Finding(claim=claim, runs=tuple(run[claim.key] for run in runs)) for claim in figure.CLAIMS]


if __name__ == "__main__":
    sys.exit(main())
