"""MariaDB, slurmdbd and slurmctld are killed while jobs come and finish: the records are whole afterwards.

Slurm itself may lose its last seconds of state when slurmctld is killed, so jobs that were accepted less than 10 s
before such a kill are counted apart, and so are their records: one that was lost leaves its record and its number to
the next job. Of all others each has one record that is COMPLETED. A job that ended in the last seconds before a kill
comes back as running; once its slurmd registers, Slurm runs it again, and the record before that is a NODE_FAIL. By
itself a slurmd registers every 7 minutes: Corral has it done at once.

At last slurmctld is made to forget a job: a record that nobody would ever end is closed.
"""

import time
from collections import Counter

import msgspec
import pytest

from tests.e2e.test_first_job import CHECKOUT, Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

LOST_BEFORE_KILL_S = 10.0
APART_S = 12.0  # from one kill to the next: there must be jobs that are old enough
# In a worker: it lives on while slurmctld does not, and its clock is that of the kills.
SUBMITTING = """
rm -f /tmp/accepted /tmp/enough
while [ ! -f /tmp/enough ]; do
    id=$(sbatch --parsable --output=/dev/null --wrap 'sleep 1' 2>/dev/null) && echo "$(date +%s.%N) $id" >>/tmp/accepted
    sleep 0.4
done
"""
SIGNALLING = 'for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" != {} ] || kill -{} ${{p#/proc/}}; done'
ANSWER_S_MAX = 5.0  # from when slurmctld accepts a job until sbatch has told us
KILLED_TOO = 137  # a container whose first process ends takes our shell with it
COUNTED_MIN = 20
SAVED = "/var/spool/slurmctld/saved/job_state"


class Outage(msgspec.Struct, frozen=True):
    """Of slurmctld: from before it was killed until it was seen to answer again."""

    began: float
    over: float

    def may_cost_job(self, accepted: float) -> bool:
        return self.began - LOST_BEFORE_KILL_S <= accepted <= self.over + ANSWER_S_MAX

    def may_cost_record(self, submitted: float) -> bool:
        return self.began - LOST_BEFORE_KILL_S <= submitted <= self.over


class Accepted(msgspec.Struct, frozen=True):
    at: float
    job: str


def submitting(lab: Lab) -> None:
    detached = "cat >/tmp/submit && (setsid sh /tmp/submit >/dev/null 2>&1 &)"
    lab.kubectl("exec", "-i", "worker-0", "--", "sh", "-c", detached, stdin=SUBMITTING)


def kill(lab: Lab, pod: str, container: str, process: str) -> float:
    """When it was killed. Its pod restarts it. slurmdbd ends by itself when its database went, and is back soon."""
    lab.wait(f"pod/{pod}")
    at, command = time.time(), SIGNALLING.format(process, "KILL")
    done = lab.cluster.try_kubectl("-n", lab.namespace, "exec", pod, "-c", container, "--", "sh", "-c", command)
    assert done.returncode in (0, KILLED_TOO), done.stderr
    return at


def delete(lab: Lab, pod: str) -> float:
    at = time.time()
    lab.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
    return at


class Record(msgspec.Struct, frozen=True):
    submitted: float
    job: str
    state: str


def records(lab: Lab) -> list[Record]:
    """Every record of every job, also those that a repetition has replaced."""
    asked = ("sacct", "-a", "-D", "-X", "-n", "-P", "-S", "now-1days", "-o", "Submit,JobID,State")
    lines = lab.on_controller("env", "SLURM_TIME_FORMAT=%s", *asked).splitlines()
    return [Record(float(at), job, state) for at, job, state in (line.split("|") for line in lines)]


def test_killed_daemons_lose_no_record_of_a_job(lab: Lab) -> None:
    lab.kubectl("apply", "-f", str(CHECKOUT / "examples" / "quickstart.yaml"))
    lab.wait("nodeset/worker")
    lab.wait("controller/demo")
    submitting(lab)
    time.sleep(APART_S)

    kill(lab, "demo-database-0", "mariadb", "mariadbd")
    time.sleep(APART_S)
    kill(lab, "demo-accounting-0", "slurmdbd", "slurmdbd")
    time.sleep(APART_S)
    outages = [outage(lab, kill(lab, "demo-controller-0", "slurmctld", "slurmctld"))]
    time.sleep(APART_S)
    delete(lab, "demo-database-0")
    delete(lab, "demo-accounting-0")
    outages.append(outage(lab, delete(lab, "demo-controller-0")))
    time.sleep(APART_S)

    lab.kubectl("exec", "worker-0", "--", "touch", "/tmp/enough")
    lab.until("every job has ended", lambda: lab.on_controller("squeue", "-h"))
    lab.until("no ghost stays RUNNING", lambda: ghosts(records(lab)))
    accepted, found = accepted_jobs(lab), records(lab)
    young = {one.job for one in accepted if any(outage.may_cost_job(one.at) for outage in outages)}
    lost = {one for one in found if any(outage.may_cost_record(one.submitted) for outage in outages)}
    states = Counter(one.state for one in lost)
    print(f"{len(accepted)} jobs accepted, {len(young)} of them shortly before a kill, whose records are {states}")

    told: dict[str, list[str]] = {one.job: [] for one in accepted if one.job not in young}
    for one in found:
        if one.job in told and one not in lost:
            told[one.job].append(one.state)
    wrong = {job: states for job, states in told.items() if not is_recorded_once(states)}
    assert not wrong, f"expected one record, COMPLETED, for each of {len(told)} jobs; found {wrong}"
    assert len(told) >= COUNTED_MIN, (len(told), len(young))

    lab.on_controller("sh", "-c", f"cp {SAVED} /tmp/before")
    forgotten = lab.on_controller("sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 900").strip()
    lab.until("the job has a record", lambda: {forgotten} - set(open_records(lab)))
    forget = f"{SIGNALLING.format('slurmctld', 'STOP')}; cp /tmp/before {SAVED}; cp /tmp/before {SAVED}.old; "
    done = lab.cluster.try_kubectl(
        *("-n", lab.namespace, "exec", "demo-controller-0", "-c", "slurmctld", "--"),
        *("sh", "-c", forget + SIGNALLING.format("slurmctld", "KILL")),
    )
    assert done.returncode in (0, KILLED_TOO), done.stderr
    known = ("squeue", "-h", "-o", "%A")
    lab.until("slurmctld has forgotten the job", lambda: {forgotten} & set(lab.on_controller(*known).split()))
    lab.until("its record is closed", lambda: {forgotten} & set(open_records(lab)))


def is_recorded_once(states: list[str]) -> bool:
    return states.count("COMPLETED") == 1 and set(states) <= {"COMPLETED", "NODE_FAIL", "REQUEUED"}


def accepted_jobs(lab: Lab) -> list[Accepted]:
    lines = lab.kubectl("exec", "worker-0", "--", "cat", "/tmp/accepted").splitlines()
    return [Accepted(float(at), job) for at, job in (line.split() for line in lines)]


def outage(lab: Lab, began: float) -> Outage:
    lab.until("slurmctld is back", lambda: not_up(lab))
    return Outage(began, time.time())


def not_up(lab: Lab) -> str:
    said = lab.on_controller("scontrol", "ping")
    return "" if "is UP" in said else said


def open_records(lab: Lab) -> list[str]:
    return [one.job for one in records(lab) if one.state in ("RUNNING", "PENDING", "COMPLETING")]


def ghosts(found: list[Record]) -> list[Record]:
    return [one for one in found if one.state in ("RUNNING", "COMPLETING")]
