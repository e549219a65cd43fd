"""A NodeSet of 1,000 and of 4,000 workers that is left alone, and then touched.

As in `growth`, no scheduler takes the pods and their Slurm is elsewhere and silent. At each size a quiet minute is
measured; then the NodeSet is touched a few times. What a pass costs that finds everything as it should be is measured
apart, in a process without a server (`bench/node_pass.py`).
"""

import time
from collections.abc import Iterator

import msgspec

from bench import node_pass
from bench.claims import Claim, Run
from bench.growth import NODESET, gone, grown, manifests
from bench.lab import Kubectl, Operator, namespace, operator
from bench.node_pass import Passes
from bench.process import Settings, measured

TOUCHES = 20
SETTLE_S = 15.0
MIB = 1 << 20

QUIET_WRITES = Claim(
    key="nodes-quiet-writes",
    title="Writes of the operator in a quiet minute with 4,000 workers, other than of its lease",
    unit="in a minute",
    bound=0.0,
    measured="writes",
    measured_unit="in a minute",
    baseline="with 1,000 workers",
)
QUIET_CPU = Claim(
    key="nodes-quiet-cpu",
    title="CPU of the operator in a quiet minute with 4,000 workers",
    unit="% of a core",
    bound=1.0,
    strictly=True,
    measured="CPU time in a minute",
    measured_unit="% of a core",
    baseline="with 1,000 workers",
)
MEMORY_FIRST = Claim(
    key="nodes-memory-first",
    title="Memory of the operator with 1,000 workers",
    unit="MiB",
    bound=100.0,
    measured="proportional share of its process",
    measured_unit="MiB",
    baseline="before the first worker",
)
MEMORY = Claim(
    key="nodes-memory",
    title="Memory of the operator with 4,000 workers",
    unit="MiB",
    bound=200.0,
    measured="proportional share of its process",
    measured_unit="MiB",
    baseline="before the first worker",
)
TOUCH = Claim(
    key="nodes-touch",
    title="What the operator needs for a touch of a NodeSet of 4,000 workers that wait for their Slurm",
    unit="ms of CPU",
    bound=None,
    measured="CPU for each of 20 touches, the event and the request included",
    measured_unit="ms",
    baseline="with 1,000 workers",
)
PASS = Claim(
    key="nodes-pass",
    title="A pass over an unchanged NodeSet of 4,000 workers",
    unit="ms of CPU",
    bound=20.0,
    measured="observe, plan and report",
    measured_unit="ms",
    baseline="when one pod of all has changed",
)
PLAN = Claim(
    key="nodes-plan",
    title="Planning with 5,000 Slurm nodes and 10,000 jobs",
    unit="ms of CPU",
    bound=100.0,
    measured="the plan of the first pass, with nothing remembered",
    measured_unit="ms",
    baseline="all of that pass: observe, plan and report",
)
CLAIMS = (QUIET_WRITES, QUIET_CPU, MEMORY_FIRST, MEMORY, TOUCH, PASS, PLAN)


class Still(msgspec.Struct, frozen=True):
    """A NodeSet to which nothing happens."""

    writes: float  # in a minute
    cpu_share: float
    memory_bytes: int
    touch_cpu_s: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    first, last, idle_s = settings.sizes.nodes, settings.sizes.nodes + settings.sizes.nodes_more, settings.sizes.idle_s
    for run in range(settings.sizes.runs):
        with operator(settings, images=()) as running:
            at_first = running.memory_bytes
            with namespace(settings, f"nodes-{run}") as kubectl:
                kubectl("apply", "-f", "-", stdin=manifests())
                grown(settings, kubectl, running, first)
                small = still(kubectl, running, idle_s)
                grown(settings, kubectl, running, last)
                large = still(kubectl, running, idle_s)
                gone(kubectl)
        yield {
            QUIET_WRITES.key: Run(large.writes, small.writes),
            QUIET_CPU.key: Run(large.cpu_share * 100, small.cpu_share * 100),
            MEMORY_FIRST.key: Run(small.memory_bytes / MIB, at_first / MIB),
            MEMORY.key: Run(large.memory_bytes / MIB, at_first / MIB),
            TOUCH.key: Run(large.touch_cpu_s * 1000, small.touch_cpu_s * 1000),
            **passes(settings),
        }


def passes(settings: Settings) -> dict[str, Run]:
    """Without a server: see `bench.node_pass`."""
    many, most = (measured(node_pass.__name__, part, settings, Passes) for part in ("all", "large"))
    return {
        PASS.key: Run(many.unchanged_s * 1000, many.one_changed_s * 1000),
        PLAN.key: Run(most.first_plan_s * 1000, most.first_s * 1000),
    }


def still(kubectl: Kubectl, running: Operator, seconds: float) -> Still:
    time.sleep(SETTLE_S)
    began, began_cpu_s = time.time(), running.cpu_s
    time.sleep(seconds)
    share = (running.cpu_s - began_cpu_s) / seconds
    sent = running.sent(began)
    writes = sum(one.is_write for one in sent)
    touched_cpu_s = running.cpu_s
    for touch in range(TOUCHES):
        kubectl("annotate", "nodeset", NODESET, f"bench.corral.dev/touch={touch}", "--overwrite")
    time.sleep(1.0)
    each_s = max(running.cpu_s - touched_cpu_s, 0.0) / TOUCHES
    return Still(writes * 60 / seconds, share, running.memory_bytes, each_s)
