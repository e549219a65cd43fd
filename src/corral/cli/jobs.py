"""Real jobs through a Slurm cluster, as a person would submit them, each with a verdict. `corral test` runs them.

Everything is done by Slurm's own commands in slurmctld's pod, so it works wherever `kubectl exec` does. Another user's
commands carry a token that `scontrol token` makes in the pod and that never leaves it. All jobs have one name, by which
`clean_up` cancels what is left; files that jobs wrote on workers are removed.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from corral.cli.verdicts import Outcome, Verdict
from corral.slurm.transport import Endpoint
from corral.slurm.versions import KNOWN

USABLE = frozenset({"idle", "mixed", "allocated", "completing"})
ARRAY_TASKS = 4
RECORDED_WITHIN_S = 30
FOLDER = "/tmp"  # noqa: S108 - of the worker, which every user can write to
TOKEN_LIFE_S = 900

# $1 is the user; what follows is the command.
AS_USER = f"""
SLURM_JWT=$(scontrol token username="$1" lifespan={TOKEN_LIFE_S}) || exit
export "$SLURM_JWT"
shift
exec "$@"
"""
# $1 is the job, $2 how many quarters of a second. A job that Slurm has forgotten has ended too; no answer is no end.
UNTIL_ENDED = """
for quarter in $(seq "$2"); do
  left=$(squeue -h -j "$1" 2>&1) && [ -z "$left" ] && exit 0
  case $left in *Invalid\\ job*) exit 0 ;; esac
  sleep 0.25
done
exit 1
"""
# $1 is the job, $2 how many seconds. Prints the state as it was recorded last.
UNTIL_RECORDED = """
for second in $(seq "$2"); do
  state=$(sacct -X -n -P -j "$1" -o State) || exit
  [ "$state" = COMPLETED ] && break
  sleep 1
done
echo "$state"
"""
# $1 host, $2 port, $3 whom to trust in PEM (empty: no TLS), $4 the certificate's name; then the versions, best first.
# Prints "version status" and the body of the first that is known. The token goes through pipes, never into arguments.
ASK_REST = """
token=$(scontrol token lifespan=60) && token=${token#SLURM_JWT=} || exit
host=$1 port=$2 authority=$3 name=$4
shift 4
asked() {
  printf 'GET /slurm/%s/ping/ HTTP/1.1\\r\\nHost: %s\\r\\nX-SLURM-USER-TOKEN: %s\\r\\nConnection: close\\r\\n\\r\\n' \\
    "$1" "${name:-$host}" "$token"
}
plainly() {
  exec 3<>"/dev/tcp/$host/$port" || exit
  asked "$1" >&3
  timeout 20 cat <&3
}
by_tls() {
  asked "$1" | timeout 20 openssl s_client -quiet -connect "$host:$port" -servername "$name" -verify_hostname "$name" \\
    -verify_return_error -partial_chain -CAfile <(printf '%s\\n' "$authority")
}
for version; do
  if [ "$authority" ]; then answer=$(by_tls "$version"); else answer=$(plainly "$version"); fi
  [ "$answer" ] || exit 1
  status=${answer#* } status=${status%% *}
  if [ "$status" != 404 ]; then
    printf '%s %s\\n%s\\n' "$version" "$status" "${answer#*$'\\r\\n\\r\\n'}"
    exit 0
  fi
done
echo "none 404"
"""


class Answer(msgspec.Struct, frozen=True):
    exit_code: int
    out: str
    err: str = ""

    @property
    def words(self) -> str:
        return (self.err or self.out).strip()

    @property
    def last_line(self) -> str:
        return self.words.splitlines()[-1] if self.words else "no output"


class Shell(Protocol):
    """Runs a command in slurmctld's pod, or in the pod of a worker."""

    async def run(self, *command: str, within_s: float, pod: str = "") -> Answer: ...


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What is tested. `rest` is where slurmrestd is reached, or why it is not, if there is a RestApi."""

    name: str
    records_jobs: bool = False
    rest: Endpoint | str | None = None
    users: tuple[str, ...] = ()
    partition: str = ""
    job_name: str
    timeout_s: float = 120.0


class Failed(Exception):
    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.message, self.details = message, details


class Skipped(Exception):
    pass


Case = Callable[[Shell, Cluster], Awaitable[str]]
"""Returns what was seen; raises Failed or Skipped."""


async def answers(shell: Shell, cluster: Cluster) -> str:
    said = await _run(shell, cluster, "scontrol", "ping")
    if "is UP" not in said.out:
        raise Failed(f"slurmctld does not report that it is up: {said.words}")
    return said.out.strip().splitlines()[0]


async def nodes(shell: Shell, cluster: Cluster) -> str:
    states = await _nodes(shell, cluster)
    down = sorted(name for name, state in states.items() if state.startswith(("down", "unk", "fail")) or "*" in state)
    if not states:
        raise Failed("Slurm has no nodes; is there a NodeSet, and are its pods ready? (corral status)")
    if down:
        details = "\n".join(f"{name}: {states[name]}" for name in down)
        raise Failed(f"{len(down)} of {len(states)} nodes are down or do not answer: {', '.join(down[:5])}", details)
    aside = sorted(name for name, state in states.items() if state not in USABLE)
    return f"{len(states)} nodes" + (f", not usable now: {', '.join(aside)}" if aside else "")


async def one_node(shell: Shell, cluster: Cluster) -> str:
    said = await _run(shell, cluster, "srun", *_options(cluster), "-N1", "-n1", "hostname")
    ran_on = said.out.split()
    if len(ran_on) != 1:
        raise Failed(f"expected the name of one node, found {said.out.strip()!r}", said.err)
    return f"ran on {ran_on[0]}"


async def all_nodes(shell: Shell, cluster: Cluster) -> str:
    usable = sorted(name for name, state in (await _nodes(shell, cluster)).items() if state in USABLE)
    if not usable:
        raise Failed("no node is usable now")
    count = str(len(usable))
    said = await _run(shell, cluster, "srun", *_options(cluster), "-N", count, "-n", count, "hostname")
    ran_on = sorted(name.partition(".")[0] for name in said.out.split())
    if len(set(ran_on)) != len(usable):
        raise Failed(f"expected {count} different nodes, found {len(set(ran_on))}", said.out + said.err)
    return f"ran on {count} nodes at once"


async def batch_output(shell: Shell, cluster: Cluster) -> str:
    script = "echo from $SLURM_JOB_ID; echo to stderr >&2"
    job = await _submitted(shell, cluster, "--wrap", script, output=f"{FOLDER}/%x-%j.out")
    await _ended(shell, cluster, job)
    host = (await job_records(shell, cluster, job))[0].get("BatchHost", "")
    file = f"{FOLDER}/{cluster.job_name}-{job}.out"
    said = await shell.run("cat", file, within_s=cluster.timeout_s, pod=host)
    await shell.run("rm", "-f", file, within_s=cluster.timeout_s, pod=host)
    if said.out.split("\n")[:2] != [f"from {job}", "to stderr"]:
        raise Failed(f"job {job} ended, but {file} on {host} does not hold its output", said.words)
    return f"job {job} wrote its output on {host}"


async def array(shell: Shell, cluster: Cluster) -> str:
    job = await _submitted(shell, cluster, f"--array=0-{ARRAY_TASKS - 1}", "--wrap", 'test "$SLURM_ARRAY_TASK_ID"')
    await _ended(shell, cluster, job)
    tasks = await job_records(shell, cluster, job)
    done = [task for task in tasks if task.get("JobState") == "COMPLETED" and task.get("ArrayTaskId", "").isdigit()]
    if len(done) != ARRAY_TASKS:
        states = ", ".join(f"{task.get('ArrayTaskId')}: {task.get('JobState')}" for task in tasks)
        raise Failed(f"expected {ARRAY_TASKS} completed tasks of array {job}, found {states}")
    return f"{ARRAY_TASKS} tasks of array {job} completed"


async def accounting(shell: Shell, cluster: Cluster) -> str:
    if not cluster.records_jobs:
        raise Skipped("the Controller has no accountingRef")
    job = await _submitted(shell, cluster, "--wrap", "true")
    await _ended(shell, cluster, job)
    said = await _run(shell, cluster, "bash", "-c", UNTIL_RECORDED, "until-recorded", job, str(RECORDED_WITHIN_S))
    if said.out.strip() != "COMPLETED":
        found = said.out.strip() or "nothing"
        raise Failed(f"job {job} completed, but sacct says {found} after {RECORDED_WITHIN_S} s", said.err)
    return f"job {job} is recorded as COMPLETED"


async def rest(shell: Shell, cluster: Cluster) -> str:
    if cluster.rest is None:
        raise Skipped("there is no RestApi for this Controller")
    if isinstance(cluster.rest, str):
        raise Failed(cluster.rest)
    at, place = cluster.rest, urlsplit(cluster.rest.url)
    arguments = (place.hostname or "", str(place.port), at.ca_pem, at.name)
    said = await shell.run("bash", "-c", ASK_REST, "rest", *arguments, *KNOWN, within_s=cluster.timeout_s)
    if said.exit_code:
        raise Failed(f"slurmrestd at {at.url} cannot be reached: {reason_of(said)}", said.words)
    head, _, body = said.out.partition("\n")
    version, _, status = head.partition(" ")
    if status != "200":
        raise Failed(f"slurmrestd at {at.url} answered {status or 'nothing'}, expected 200", body[:2000])
    if '"pings"' not in body:
        raise Failed(f"slurmrestd at {at.url} answered 200, but without slurmctld's answer to a ping", body[:2000])
    return f"slurmrestd answers in {version}" + (f" over TLS, as {at.name}" if at.ca_pem else "")


def reason_of(said: Answer) -> str:
    """The line by which openssl tells what is wrong with a certificate, else the last one."""
    refused = [line for line in said.words.splitlines() if line.startswith("verify error:")]
    return refused[0] if refused else said.last_line


def as_user(user: str) -> Case:
    async def submits(shell: Shell, cluster: Cluster) -> str:
        known = await shell.run("id", "-u", user, within_s=cluster.timeout_s)
        if known.exit_code:
            raise Failed(f"slurmctld does not know user {user}: jobs of {user} would be held", known.words)
        job = await _submitted(shell, cluster, "--wrap", "id", user=user)
        await _ended(shell, cluster, job)
        owner = (await job_records(shell, cluster, job))[0].get("UserId", "")
        if owner.partition("(")[0] != user:
            raise Failed(f"job {job} ran as {owner}, expected {user}")
        return f"job {job} ran as {owner}"

    return submits


def cases(cluster: Cluster) -> Mapping[str, Case]:
    return {
        "slurmctld answers": answers,
        "nodes are up": nodes,
        "a job on one node": one_node,
        "a job on all nodes": all_nodes,
        "a batch job writes its output": batch_output,
        "an array job": array,
        "a job is recorded": accounting,
        "the REST API answers": rest,
        **{f"a job of {user}": as_user(user) for user in cluster.users},
    }


async def verdict(name: str, case: Case, shell: Shell, cluster: Cluster) -> Verdict:
    """Run one case to its verdict; what goes wrong on the way to the pod is the caller's to handle."""
    began = time.monotonic()
    try:
        outcome, message, details = Outcome.PASSED, await case(shell, cluster), ""
    except Failed as failed:
        outcome, message, details = Outcome.FAILED, failed.message, failed.details
    except Skipped as skipped:
        outcome, message, details = Outcome.SKIPPED, str(skipped), ""
    seconds = round(time.monotonic() - began, 3)
    return Verdict(name=name, outcome=outcome, message=message, details=details, seconds=seconds)


async def clean_up(shell: Shell, cluster: Cluster) -> None:
    """What this test has submitted, by its name; that of others is not touched."""
    await shell.run("scancel", "--quiet", f"--name={cluster.job_name}", within_s=cluster.timeout_s)


_PAIR = re.compile(r"(\S+?)=(\S*)")


async def job_records(shell: Shell, cluster: Cluster, job: str) -> list[dict[str, str]]:
    said = await _run(shell, cluster, "scontrol", "--oneliner", "show", "job", job)
    return [dict(_PAIR.findall(line)) for line in said.out.splitlines() if line.strip()] or [{}]


async def _nodes(shell: Shell, cluster: Cluster) -> dict[str, str]:
    where = ("-p", cluster.partition) if cluster.partition else ()
    said = await _run(shell, cluster, "sinfo", "-h", "-N", *where, "-o", "%N %T")
    return dict(line.split(maxsplit=1) for line in said.out.splitlines() if len(line.split()) == 2)


async def _submitted(shell: Shell, cluster: Cluster, *arguments: str, output: str = "/dev/null", user: str = "") -> str:
    command = ("sbatch", "--parsable", *_options(cluster), f"--output={output}", f"--chdir={FOLDER}", *arguments)
    said = await _run(shell, cluster, *(("bash", "-c", AS_USER, "as-user", user, *command) if user else command))
    return said.out.strip().partition(";")[0]


async def _ended(shell: Shell, cluster: Cluster, job: str) -> None:
    """Wait, in the pod, until the job has ended; it must have completed."""
    quarters = str(int(cluster.timeout_s * 4))
    said = await shell.run("bash", "-c", UNTIL_ENDED, "until-ended", job, quarters, within_s=cluster.timeout_s + 30)
    records = await job_records(shell, cluster, job)
    states = {record.get("JobState", "?") for record in records}
    if said.exit_code or states != {"COMPLETED"}:
        reason = ", ".join(sorted({record.get("Reason", "?") for record in records}))
        shown = "\n".join(str(record) for record in records)
        raise Failed(f"job {job} is {', '.join(sorted(states))} ({reason}), expected COMPLETED", shown)


async def _run(shell: Shell, cluster: Cluster, *command: str) -> Answer:
    said = await shell.run(*command, within_s=cluster.timeout_s)
    if said.exit_code:
        raise Failed(f"{command[0]} ended with exit code {said.exit_code}: {said.last_line}", said.words)
    return said


def _options(cluster: Cluster) -> tuple[str, ...]:
    where = (f"--partition={cluster.partition}",) if cluster.partition else ()
    return (f"--job-name={cluster.job_name}", "--time=5", *where)
