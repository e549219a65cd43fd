"""From `kubectl apply` of examples/quickstart.yaml, images present, to the output of a first job over three workers.

The operator runs already. Beside each run the same daemons start as plain pods (bench/bare.yaml), applied at once; ours
also starts the REST API and whatever else the quickstart has. Both are asked for idle nodes in the same way, and `srun`
follows as soon as there are three. Where the time goes is read from the daemons' own logs. Then the operator's requests
are counted: writes of children for each child that is there in the end, status writes for each kind, and, once
everything is ready, whatever it asks the API server for in a quiet minute other than its lease and its watches.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from bench.audit import LEASES, Sent
from bench.claims import Claim, Run
from bench.lab import CHECKOUT, Kubectl, Operator, bare_manifests, first_job, namespace, operator, said_at, until
from bench.process import Settings
from corral.kinds.parts import GROUP
from corral.kinds.registry import KINDS

OURS = frozenset(entry.kind.resource.plural for entry in KINDS)
NO_CHILDREN = OURS | {"events"}
CHILD_KINDS = "pods,services,secrets,configmaps,statefulsets,deployments,poddisruptionbudgets,controllerrevisions"
LATE_S = 4.0  # a slurmd that found no slurmctld and tries again after ten seconds; its log is shown
SETTLE_S = 15.0  # what is only detail is told within ten seconds

FIRST_JOB = Claim(
    key="quickstart",
    title="`kubectl apply` of the quickstart to the first job's output",
    unit="x",
    bound=1.5,
    compare="ratio",
    measured="with the operator",
    measured_unit="s",
    baseline="the same daemons as plain pods, applied at once",
)
CHILD_WRITES = Claim(
    key="quickstart-child-writes",
    title="Writes for each child that exists in the end",
    unit="writes",
    bound=1.2,
    compare="ratio",
    measured="writes of children",
    measured_unit="",
    baseline="children",
)
STATUS_WRITES = Claim(
    key="quickstart-status-writes",
    title="Status writes of the kind that has most",
    unit="writes",
    bound=4.0,
    measured="status writes",
    measured_unit="",
    baseline="status writes of all kinds together",
)
QUIET = Claim(
    key="quickstart-quiet",
    title="Requests of the operator in a quiet minute, other than its lease and watches",
    unit="in a minute",
    bound=0.0,
    measured="requests",
    measured_unit="in a minute",
    baseline="requests about the lease",
)


def _milestone(key: str, what: str) -> Claim:
    return Claim(
        key=f"quickstart-{key}",
        title=f"on the way there: {what}",
        unit="s after apply",
        measured="with the operator",
        measured_unit="s",
        baseline="plain pods",
    )


MILESTONES = tuple(
    _milestone(key, what)
    for key, what in (
        ("database", "the database takes connections"),
        ("slurmdbd", "slurmdbd runs"),
        ("slurmctld", "slurmctld runs"),
        ("slurmd", "the last slurmd runs"),
    )
)
WORDS = ("ready for connections", "slurmdbd version", "Running as primary controller", "started on")
CLAIMS = (FIRST_JOB, CHILD_WRITES, STATUS_WRITES, QUIET, *MILESTONES)


class Took(msgspec.Struct, frozen=True):
    """Seconds after `kubectl apply` began."""

    first_job: float
    milestones: tuple[float, ...]


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    with operator(settings) as running:
        for run in range(settings.sizes.runs):
            plain = bare(settings, f"bare-{run}")
            ours, counts = with_operator(settings, f"ours-{run}", running)
            steps = zip(MILESTONES, ours.milestones, plain.milestones, strict=True)
            yield {
                FIRST_JOB.key: Run(ours.first_job, plain.first_job),
                **counts,
                **{claim.key: Run(ours_s, plain_s) for claim, ours_s, plain_s in steps},
            }


def bare(settings: Settings, name: str) -> Took:
    manifests = bare_manifests()
    with namespace(settings, name) as kubectl:
        began = time.time()
        kubectl("apply", "-f", "-", stdin=manifests)
        done = first_job(kubectl, "controller")
        return took(kubectl, began, done, ("database", "accounting", "controller", "worker"))


def with_operator(settings: Settings, name: str, running: Operator) -> tuple[Took, dict[str, Run]]:
    with namespace(settings, name) as kubectl:
        began = time.time()
        kubectl("apply", "-f", str(CHECKOUT / "examples" / "quickstart.yaml"))
        done = first_job(kubectl, "demo-controller-0")
        until("all of the quickstart is ready", lambda: all_ready(kubectl))
        time.sleep(SETTLE_S)
        ours = took(kubectl, began, done, ("demo-database-0", "demo-accounting-0", "demo-controller-0", "worker"))
        counts = counted(running.sent(began), children(kubectl))
        quiet = time.time()
        time.sleep(settings.sizes.idle_s)
        counts[QUIET.key] = quiet_run(running.sent(quiet), settings.sizes.idle_s)
        return ours, counts


def took(kubectl: Kubectl, began: float, done: float, pods: Sequence[str]) -> Took:
    *single, worker = pods
    containers = ("mariadb", "slurmdbd", "slurmctld")
    found = [
        said_at(kubectl, pod, container, words) - began
        for pod, container, words in zip(single, containers, WORDS, strict=False)
    ]
    workers = {name: said_at(kubectl, name, "slurmd", WORDS[3]) - began for name in (f"{worker}-{n}" for n in range(3))}
    for name in (name for name, at in workers.items() if at - found[-1] > LATE_S):
        sys.stderr.write(f"{name} came {workers[name] - found[-1]:.1f} s after slurmctld, and says:\n")
        for before in ((), ("--previous",)):
            sys.stderr.write(kubectl.tried("logs", name, "-c", "slurmd", "--timestamps", *before).stdout)
        sys.stderr.write(kubectl.tried("get", "events", "--field-selector", f"involvedObject.name={name}").stdout)
    return Took(done - began, (*found, max(workers.values())))


def all_ready(kubectl: Kubectl) -> bool:
    conditions = "{range .items[*]}{.status.conditions[?(@.type=='Ready')].status}{'\\n'}{end}"
    found = kubectl("get", "slurm", "-o", f"jsonpath={conditions}").split()
    return bool(found) and set(found) == {"True"}


def children(kubectl: Kubectl) -> int:
    """What has an owner of ours. What Kubernetes makes of it (pods of a StatefulSet, claims) is not our writing."""
    items = json.loads(kubectl("get", CHILD_KINDS, "-o", "json"))["items"]
    owners = (one.get("apiVersion", "") for item in items for one in item["metadata"].get("ownerReferences", ()))
    return sum(version.startswith(f"{GROUP}/") for version in owners)


def counted(sent: Sequence[Sent], child_count: int) -> dict[str, Run]:
    child_writes = sum(one.is_write and one.resource not in NO_CHILDREN for one in sent)
    statuses = Counter(one.resource for one in sent if one.subresource == "status" and one.resource in OURS)
    return {
        CHILD_WRITES.key: Run(child_writes, child_count),
        STATUS_WRITES.key: Run(max(statuses.values()), statuses.total()),
    }


def quiet_run(sent: Sequence[Sent], seconds: float) -> Run:
    lease = sum(one.resource == LEASES for one in sent)
    others = sum(one.resource != LEASES and one.verb != "watch" for one in sent)
    return Run(others * 60 / seconds, lease * 60 / seconds)
