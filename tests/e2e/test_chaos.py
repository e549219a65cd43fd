"""Everything at once, on real Slurm: people scale, roll and drain while daemons, REST, a worker, the operator and the
API server are killed.

Jobs come all the time. Afterwards everything is as asked for, and each job has one record that is COMPLETED. As in
`test_kills`, Slurm itself may lose the last seconds before slurmctld is killed: jobs that were accepted or ran then are
counted apart, and may have run twice; so may those that were on the worker that was killed. The order of events is
drawn from a seed, and so is how many jobs come between them: neither follows from how fast the machine is.

Some jobs are long, so that what happens to workers happens to busy ones. That a rollout and a scale-in meet one is no
luck: the worker that is to go first is given a job that ends only when it is let go, after the killers; meanwhile Slurm
says that this worker is drained by us and runs it.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from corral.kinds.nodeset.calls import REASON_PREFIX
from corral.kinds.nodeset.workers import COST_ANNOTATION
from corral.testing.cluster import Cluster
from corral.testing.localcluster import components
from tests.e2e.test_first_job import Lab, definitions, provide_images, quickstart
from tests.e2e.test_kills import KILLED_TOO, LOST_BEFORE_KILL_S, Outage, delete, is_recorded_once, kill, not_up
from tests.e2e.test_nodes import amiss, change, corral, nodeset, uid
from tests.kept_operator import KeptOperator

pytestmark = pytest.mark.cluster

SEED = 5
LOGIN = "deploy/demo-login"
COUNTED_MIN = 20
JOBS_BETWEEN = (2, 4)
# From a login node: nobody kills that. Every fourth job is long, but no more than two at a time: in the end there are
# two workers.
SUBMITTING = """
rm -f /tmp/accepted /tmp/enough
n=0
while [ ! -f /tmp/enough ]; do
    name=short seconds=1 n=$((n + 1))
    [ $((n % 4)) != 0 ] || [ $(squeue -h -n long -o %i | wc -l) -ge 2 ] || name=long seconds=15
    id=$(sbatch --parsable --job-name=$name --output=/dev/null --wrap "sleep $seconds" 2>/dev/null) &&
        echo "$(date +%s.%N) $id" >>/tmp/accepted
    sleep 0.8
done
"""
# $1 its worker. It is not requeued: a worker that was taken from it is not there to run it again.
HELD = """
wait='until [ -e /tmp/let-go ]; do sleep 0.5; done'
id=$(sbatch --parsable --no-requeue --job-name=held -w "$1" --output=/dev/null --wrap "$wait") || exit
echo "$(date +%s.%N) $id" >>/tmp/accepted
echo "$id"
"""
ASKED = ("sacct", "-a", "-D", "-X", "-n", "-P", "-S", "now-1days", "-o", "JobID,State,Start,End,NodeList")
VICTIM = "worker-0"  # it is asked for from the beginning to the end
LEAVER = "worker-4"  # it is the first that a rollout replaces, and that is too many
# One that is killed stays in /proc until it is reaped, so what counts is that there was one to kill.
KILLING_SLURMD = """
there=1
for p in /proc/[0-9]*; do
    [ "$(cat $p/comm 2>/dev/null)" != slurmd ] || { kill -KILL ${p#/proc/} && there=0; }
done
exit $there
"""


class Run(msgspec.Struct, frozen=True):
    """One record of a job: a job that was repeated has several."""

    state: str
    start: float
    end: float
    nodes: str

    def was_there_during(self, outage: Outage) -> bool:
        """Began or ended in it, or in the seconds before it that Slurm may not have kept; or lasted through it."""
        either = outage.may_cost_job(self.start) or outage.may_cost_job(self.end)
        return either or self.start < outage.began < self.end


class Outages(msgspec.Struct):
    of_slurmctld: list[Outage] = []
    of_victim: list[Outage] = []

    def may_have_cost(self, run: Run) -> bool:
        here = self.of_victim if run.nodes == VICTIM else []
        return any(run.was_there_during(outage) for outage in (*self.of_slurmctld, *here))


class Taken(msgspec.Struct, frozen=True):
    """A worker that had to go while it ran a job: when Slurm said so, and which pod that was."""

    job: str
    at: float
    pod: str

    def was_outlived_by(self, runs: list[Run]) -> bool:
        one = runs[0] if len(runs) == 1 else None
        return one is not None and one.nodes == LEAVER and one.start < self.at < one.end and one.state == "COMPLETED"


class Chaos(Lab):
    """A Lab whose operator may be killed."""

    def __init__(self, cluster: Cluster, namespace: str, log: Path) -> None:
        super().__init__(cluster, namespace)
        options = ("--health-port", "0", "--lease-namespace", namespace)
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        self.operator = KeptOperator(*options, environment=environment, log=log)


@pytest.fixture
def chaos(corral_cluster: Cluster, corral_namespace: str, tmp_path: Path) -> Iterator[Chaos]:
    provide_images(corral_cluster, "slurm:26.05", "mariadb:11.8")
    corral_cluster.define(definitions())
    lab = Chaos(corral_cluster, corral_namespace, tmp_path / "operator.log")
    try:
        yield lab
        lab.kubectl("delete", "slurm", "--all", "--timeout=300s", timeout_s=330)
    finally:
        lab.operator.stop()


def drain_for_a_moment(lab: Chaos) -> None:
    """As somebody does who thinks better of it: what is idle moves away and comes back, what is busy stays."""
    machine = lab.kubectl("get", "pod", "demo-controller-0", "-o", "jsonpath={.spec.nodeName}")
    workers = "--pod-selector=slurm.corral.dev/nodeset=worker"
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=3s")
    lab.cluster.try_kubectl("-n", lab.namespace, "drain", machine, workers, *options)
    given_back = corral(lab, "undrain", machine)
    assert given_back.returncode == 0, given_back.stderr


def kill_api_server(lab: Chaos) -> None:
    """Where it is ours to kill: not on a cluster that somebody else lent us."""
    if lab.cluster.name:
        os.kill(components(lab.cluster.name)["kube-apiserver"].pid, signal.SIGKILL)
        lab.until("the API server is back", lambda: lab.cluster.try_kubectl("get", "--raw", "/readyz").returncode)


def not_ready(lab: Chaos, pod: str) -> str:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    said = lab.cluster.try_kubectl("-n", lab.namespace, "get", "pod", pod, "-o", path)
    return "" if said.stdout == "True" else said.stdout + said.stderr or "no condition"


def take_while_busy(lab: Chaos, asked: dict[str, Any], outages: Outages) -> Taken:
    """Ask for something that costs `LEAVER` while it runs a job that counts; until it is drained for that."""
    state = ("sinfo", "-h", "-p", "all", "-n", LEAVER, "-O", "StateLong:20")
    why = ("sinfo", "-h", "-p", "all", "-n", LEAVER, "-o", "%E")
    ready = ("idle", "allocated", "mixed")
    lab.until("it takes jobs", lambda: amiss(lab.on_controller(*state).strip() in ready, True))
    lab.until("what is accepted counts", lambda: any(o.may_cost_job(time.time()) for o in outages.of_slurmctld))
    job = lab.kubectl("exec", "-i", LOGIN, "--", "sh", "-s", LEAVER, stdin=HELD).strip()
    runs = ("squeue", "-h", "-t", "RUNNING", "-j", job, "-o", "%N")
    lab.until("its job runs", lambda: amiss(lab.on_controller(*runs).strip(), LEAVER))
    ran_at = time.time()
    mark(lab, LEAVER, "-1")
    mark(lab, VICTIM, "1")
    change(lab, asked)
    lab.until("it is drained", lambda: amiss(lab.on_controller(*state).strip(), "draining"))
    lab.until("by us", lambda: amiss(lab.on_controller(*why).startswith(REASON_PREFIX), True))
    at, pod = time.time(), uid(lab, LEAVER)
    lab.until("slurmctld has saved its job", lambda: time.time() < ran_at + LOST_BEFORE_KILL_S)
    assert lab.on_controller(*runs).strip() == LEAVER, "the job is not where it was"
    return Taken(job, at, pod)


def mark(lab: Chaos, worker: str, cost: str) -> None:
    """Who is to go first, and who last. Its pod may just be replaced: then the next one is marked."""
    lab.until(
        "it is marked", lambda: not lab.kubectl("annotate", "pod", worker, "--overwrite", f"{COST_ANNOTATION}={cost}")
    )


def let_go(lab: Chaos) -> None:
    lab.kubectl("exec", LEAVER, "-c", "slurmd", "--", "touch", "/tmp/let-go")


def script(lab: Chaos, luck: Random, outages: Outages, taken: list[Taken]) -> Iterator[Callable[[], object]]:
    """People in their order, and after each of them some of the killers."""

    def kill_slurmctld() -> None:
        began = kill(lab, "demo-controller-0", "slurmctld", "slurmctld")
        lab.until("slurmctld is back", lambda: not_up(lab))
        outages.of_slurmctld.append(Outage(began, time.time()))

    def kill_slurmd() -> None:
        """It may be about to move or to be replaced: then the next one is.

        The connection may break with its pod, so each try may have killed one: the outage begins with the first.
        """
        began = time.time()

        def not_killed() -> str:
            pod = ("exec", VICTIM, "-c", "slurmd", "--", "sh", "-c", KILLING_SLURMD)
            done = lab.cluster.try_kubectl("-n", lab.namespace, *pod)
            return "" if done.returncode in (0, KILLED_TOO) else done.stderr or "there is no slurmd"

        lab.until("a slurmd is killed", not_killed)
        lab.until("its worker is back", lambda: not_ready(lab, VICTIM))
        outages.of_victim.append(Outage(began, time.time()))

    killers: list[Callable[[], object]] = [
        lab.operator.kill,
        kill_slurmctld,
        kill_slurmd,
        lambda: kill_api_server(lab),
        lambda: kill(lab, "demo-accounting-0", "slurmdbd", "slurmdbd"),
        lambda: delete_rest(lab),
        lambda: kill(lab, "demo-database-0", "mariadb", "mariadbd"),
        lambda: drain_for_a_moment(lab),
    ]
    luck.shuffle(killers)
    yield lambda: change(lab, {"replicas": 5})
    yield from killers[5:]
    rollout, fewer = {"update": {"maxUnavailable": 2}, "extraConf": "Weight=7"}, {"replicas": 2}
    for asked, meanwhile in ((rollout, killers[2:5]), (fewer, killers[:2])):
        yield lambda asked=asked: taken.append(take_while_busy(lab, asked, outages))  # type: ignore[misc]
        yield from meanwhile
        yield lambda: let_go(lab)


def delete_rest(lab: Chaos) -> None:
    pods = lab.kubectl("get", "pods", "-l", "app.kubernetes.io/name=slurmrestd", "-o", "name").split()
    assert pods, "there is no pod of slurmrestd"
    for pod in pods:
        delete(lab, pod.removeprefix("pod/"))


def not_as_asked(lab: Chaos) -> list[str]:
    """Of everything that there is, and of how many workers."""
    found = json.loads(lab.kubectl("get", "slurm", "-o", "json"))["items"]
    assert {one["kind"] for one in found} >= {"Accounting", "Controller", "LoginSet", "NodeSet", "RestApi"}
    status = nodeset(lab)["status"]
    counts = tuple(status[name] for name in ("replicas", "readyReplicas", "updatedReplicas", "draining", "down"))
    return [*filter(None, map(not_well, found)), *([f"workers: {counts}"] if counts != (2, 2, 2, 0, 0) else [])]


def not_well(found: dict[str, Any]) -> str:
    ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
    is_well = ready["status"] == "True" and ready["observedGeneration"] == found["metadata"]["generation"]
    return "" if is_well else f"{found['kind']}: {ready['reason']}: {ready['message']}"


def with_one_worker(manifests: str) -> str:
    documents = list(yaml.safe_load_all(manifests))
    for document in documents:
        if document["kind"] == "NodeSet":
            document["spec"]["replicas"] = 1
    return yaml.safe_dump_all(documents)


def records(lab: Chaos) -> dict[str, list[Run]]:
    """By job, also those that a repetition has replaced."""
    found: dict[str, list[Run]] = {}
    for line in lab.on_controller("env", "SLURM_TIME_FORMAT=%s", *ASKED).splitlines():
        job, state, start, end, nodes = line.split("|")
        found.setdefault(job, []).append(Run(state.split()[0], moment(start), moment(end), nodes))
    return found


def moment(text: str) -> float:
    return float(text) if text.isdigit() else 0.0


def test_with_everything_at_once_no_job_is_lost(chaos: Chaos) -> None:
    luck, outages, taken, jobs = Random(SEED), Outages(), list[Taken](), 0
    chaos.kubectl("apply", "-f", "-", stdin=with_one_worker(quickstart("26.05")))
    for what in ("nodeset/worker", "controller/demo", "loginset/demo"):
        chaos.wait(what)
    detached = "cat >/tmp/submit && (setsid sh /tmp/submit >/dev/null 2>&1 &)"
    chaos.kubectl("exec", "-i", LOGIN, "--", "sh", "-c", detached, stdin=SUBMITTING)
    for event in script(chaos, luck, outages, taken):
        event()
        jobs += luck.randint(*JOBS_BETWEEN)  # after an event that took long there are more already
        chaos.until("jobs are accepted", lambda wanted=jobs: len(accepted(chaos)) < wanted)  # type: ignore[misc]
    chaos.until("there are jobs enough to judge by", lambda: len(to_count(chaos, outages)) < COUNTED_MIN)
    chaos.kubectl("exec", LOGIN, "--", "touch", "/tmp/enough")
    chaos.until("everything is as asked for", lambda: not_as_asked(chaos))
    chaos.until("every job has ended", lambda: chaos.on_controller("squeue", "-h"))
    chaos.until(
        "no ghost stays RUNNING", lambda: [j for j, runs in records(chaos).items() if runs[-1].state == "RUNNING"]
    )

    old, found = to_count(chaos, outages), records(chaos)
    wrong = {}
    for job in old:
        runs = found.get(job, [])
        states = [run.state for run in runs]
        was_hit = any(outages.may_have_cost(run) for run in runs)
        if not (states == ["COMPLETED"] or (was_hit and is_recorded_once(states))):
            wrong[job] = runs
    print(f"{len(accepted(chaos))} jobs accepted, {len(old)} of them long enough before slurmctld was killed")
    assert not wrong, f"expected one record, COMPLETED, of each of {len(old)} jobs; found {wrong}"
    assert len(old) >= COUNTED_MIN
    assert len(taken) == 2
    for one in taken:
        assert one.job in old, f"{one} was accepted too close to a kill of slurmctld"
        assert one.was_outlived_by(found[one.job]), (
            f"{one} did not run on while its worker was drained: {found[one.job]}"
        )
        assert uid(chaos, LEAVER) != one.pod, f"{one}: its worker has not gone"


def accepted(chaos: Chaos) -> dict[str, float]:
    """When sbatch gave each job its number."""
    lines = chaos.kubectl("exec", LOGIN, "--", "cat", "/tmp/accepted").splitlines()
    return {job: float(at) for at, job in (line.split() for line in lines)}


def to_count(chaos: Chaos, outages: Outages) -> set[str]:
    """Those that slurmctld had time to save before it was killed."""
    return {job for job, at in accepted(chaos).items() if not any(one.may_cost_job(at) for one in outages.of_slurmctld)}
