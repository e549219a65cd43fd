"""A NodeSet of 1,000 and of 4,000 workers that come up, register in Slurm, are left alone, and then touched.

Their pods are scheduled onto nodes of kwok, which makes them Ready; a stand-in for Slurm (`bench/slurm_standin.py`, the
simulator's model over HTTP) has a node for each that is. When all of them show Slurm's word as a condition, a quiet
minute is measured; then the NodeSet is touched a few times. Writes are counted in the API server's audit log. What a
pass costs that finds everything as it should be is measured apart, in a process without a server
(`bench/node_pass.py`).
"""

import json
import time
from collections.abc import Iterator

import msgspec

from bench import node_pass
from bench.audit import Sent
from bench.claims import Claim, Run
from bench.growth import API, NODESET, SLURM, gone, grown, manifests
from bench.kwok import THERE, pretended_nodes
from bench.lab import Kubectl, Operator, namespace, operator, until
from bench.node_pass import Passes
from bench.process import Settings, measured
from bench.slurm_standin import slurm

TOUCHES = 20
SETTLE_S = 15.0
MIB = 1 << 20
REST_API = {
    "apiVersion": API,
    "kind": "RestApi",
    "metadata": {"name": SLURM},
    "spec": {"controllerRef": {"name": SLURM}, "replicas": 0},
}

UP_WRITES = Claim(
    key="nodes-up-writes",
    title="Writes of the operator for a worker until it has registered",
    unit="writes",
    bound=1.05,
    compare="ratio",
    measured="writes but for conditions of pods, until the first thousand have registered",
    measured_unit="",
    baseline="workers",
)
SHOWN_WRITES = Claim(
    key="nodes-shown-writes",
    title="And to show Slurm's word as conditions of its pod",
    unit="writes",
    bound=1.0,
    compare="ratio",
    measured="writes of conditions of pods",
    measured_unit="",
    baseline="workers",
)
SHOWN_S = Claim(
    key="nodes-shown",
    title="From the change of the scale until 1,000 workers are Ready, registered and shown so",
    unit="s",
    measured="with the operator, the scheduler, kwok and the stand-in for Slurm",
    measured_unit="s",
    baseline="until their pods exist",
)
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
    title="What the operator needs for a touch of a NodeSet of 4,000 workers",
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
    measured="the plan of the first pass, with its workers gathered and nothing else known",
    measured_unit="ms",
    baseline="all of that pass: observe, plan and report",
)
CLAIMS = (UP_WRITES, SHOWN_WRITES, SHOWN_S, QUIET_WRITES, QUIET_CPU, MEMORY_FIRST, MEMORY, TOUCH, PASS, PLAN)


class Came(msgspec.Struct, frozen=True, kw_only=True):
    """Workers that came up, seconds after they were asked for."""

    made_s: float
    shown_s: float
    up_writes: int
    shown_writes: int


class Still(msgspec.Struct, frozen=True):
    """A NodeSet to which nothing happens."""

    writes: float  # in a minute
    cpu_share: float
    memory_bytes: int
    touch_cpu_s: float


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    first, last, idle_s = settings.sizes.nodes, settings.sizes.nodes + settings.sizes.nodes_more, settings.sizes.idle_s
    for run in range(settings.sizes.runs):
        where = f"nodes-{run}"
        with (
            pretended_nodes(settings, last),
            slurm(settings, where) as address,
            operator(settings, images=(), slurm=address) as running,
            namespace(settings, where) as kubectl,
        ):
            at_first = running.memory_bytes
            kubectl("apply", "-f", "-", stdin=f"{manifests(THERE)}\n---\n{json.dumps(REST_API)}")
            came = shown(settings, kubectl, running, first)
            small = still(kubectl, running, idle_s)
            shown(settings, kubectl, running, last)
            large = still(kubectl, running, idle_s)
            gone(kubectl)
        yield {
            UP_WRITES.key: Run(came.up_writes, first),
            SHOWN_WRITES.key: Run(came.shown_writes, first),
            SHOWN_S.key: Run(came.shown_s, came.made_s),
            QUIET_WRITES.key: Run(large.writes, small.writes),
            QUIET_CPU.key: Run(large.cpu_share * 100, small.cpu_share * 100),
            MEMORY_FIRST.key: Run(small.memory_bytes / MIB, at_first / MIB),
            MEMORY.key: Run(large.memory_bytes / MIB, at_first / MIB),
            TOUCH.key: Run(large.touch_cpu_s * 1000, small.touch_cpu_s * 1000),
            **passes(settings),
        }


def shown(settings: Settings, kubectl: Kubectl, running: Operator, replicas: int) -> Came:
    """Scale, and wait until the NodeSet says that all are idle and the conditions of each new pod were written."""
    there = int(kubectl("get", "nodeset", NODESET, "-o", "jsonpath={.spec.replicas}"))
    began = time.time()
    made_s = grown(settings, kubectl, running, replicas).seconds

    def of_conditions() -> list[Sent]:
        return [one for one in running.sent(began) if (one.resource, one.subresource) == ("pods", "status")]

    idle = ("get", "nodeset", NODESET, "-o", "jsonpath={.status.idle}")
    until(f"{replicas - there} pods with conditions", lambda: len(of_conditions()) >= replicas - there)
    until(f"{replicas} idle workers", lambda: kubectl(*idle) == str(replicas))
    writes = [one for one in running.sent(began) if one.is_write]
    conditions = of_conditions()
    return Came(
        made_s=made_s,
        shown_s=max((one.at for one in conditions), default=began) - began,
        up_writes=len(writes) - len(conditions),
        shown_writes=len(conditions),
    )


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
