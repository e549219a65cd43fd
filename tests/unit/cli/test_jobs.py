"""`corral test`: what counts as working, against a Slurm that answers from a script."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.cli import jobs
from corral.cli.jobs import Answer, Cluster, cases, clean_up, verdict
from corral.cli.verdicts import Outcome, Verdict, junit
from corral.kube.meta import EMPTY
from corral.slurm.transport import Endpoint
from tests.unit.kube.authority import DAY, NOW, Authority, Pair

AT = Endpoint(url="http://10.0.0.7:6820")
CLUSTER = Cluster(name="demo", records_jobs=True, rest=AT, job_name="corral-test-1")
COMPLETED = "JobId=7 JobName=x UserId=alice(1001) JobState=COMPLETED Reason=None BatchHost=w-0\n"


class ScriptedShell:
    """Answers by the name of the program; `bash` by the name of its script."""

    def __init__(self, answers: Mapping[str, str | Answer]) -> None:
        self._answers: dict[str, str | Answer] = {
            "scontrol": COMPLETED,
            "sinfo": "w-0 idle\nw-1 mixed\n",
            "sbatch": "7;demo\n",
            "until-ended": "",
            "scancel": "",
            "rm": "",
            **answers,
        }
        self.ran: list[tuple[str, tuple[str, ...]]] = []

    async def run(self, *command: str, within_s: float, pod: str = "") -> Answer:
        self.ran.append((pod, command))
        name = command[3] if command[0] == "bash" else command[0]
        said = self._answers[name]
        return said if isinstance(said, Answer) else Answer(0, said)


Answers = Mapping[str, str | Answer]


async def outcome_of(name: str, answers: Answers = EMPTY, cluster: Cluster = CLUSTER) -> tuple[Outcome, str]:
    found = await verdict(name, cases(cluster)[name], ScriptedShell(answers), cluster)
    return found.outcome, found.message


@pytest.mark.parametrize(
    ("name", "answers", "outcome", "says"),
    [
        ("slurmctld answers", {"scontrol": "Slurmctld(primary) at a is UP"}, Outcome.PASSED, "is UP"),
        ("slurmctld answers", {"scontrol": "Slurmctld(primary) at a is DOWN"}, Outcome.FAILED, "is DOWN"),
        ("slurmctld answers", {"scontrol": Answer(1, "", "a\nno answer\n")}, Outcome.FAILED, "exit code 1: no answer"),
        ("nodes are up", {}, Outcome.PASSED, "2 nodes"),
        ("nodes are up", {"sinfo": ""}, Outcome.FAILED, "is there a NodeSet"),
        ("nodes are up", {"sinfo": "w-0 idle\nw-1 down*\n"}, Outcome.FAILED, "1 of 2 nodes are down"),
        ("nodes are up", {"sinfo": "w-0 idle\nw-1 idle*\n"}, Outcome.FAILED, "do not answer: w-1"),
        ("nodes are up", {"sinfo": "w-0 idle\nw-1 drained\n"}, Outcome.PASSED, "not usable now: w-1"),
        ("a job on one node", {"srun": "w-0\n"}, Outcome.PASSED, "ran on w-0"),
        ("a job on one node", {"srun": ""}, Outcome.FAILED, "expected the name of one node"),
        ("a job on all nodes", {"srun": "w-1\nw-0\n"}, Outcome.PASSED, "2 nodes at once"),
        ("a job on all nodes", {"srun": "w-1\nw-1\n"}, Outcome.FAILED, "expected 2 different nodes, found 1"),
        ("a job on all nodes", {"sinfo": "w-0 drained\n"}, Outcome.FAILED, "no node is usable"),
        ("a batch job writes its output", {"cat": "from 7\nto stderr\n"}, Outcome.PASSED, "on w-0"),
        ("a batch job writes its output", {"cat": Answer(1, "", "no such file")}, Outcome.FAILED, "does not hold"),
        ("a batch job writes its output", {"scontrol": "JobState=FAILED"}, Outcome.FAILED, "is FAILED"),
        ("a batch job writes its output", {"until-ended": Answer(1, "")}, Outcome.FAILED, "expected COMPLETED"),
        ("an array job", {"scontrol": "JobState=COMPLETED ArrayTaskId=1\n" * 4}, Outcome.PASSED, "4 tasks"),
        ("an array job", {"scontrol": "JobState=COMPLETED ArrayTaskId=1\n" * 3}, Outcome.FAILED, "expected 4"),
        ("a job is recorded", {"until-recorded": "COMPLETED\n"}, Outcome.PASSED, "job 7"),
        ("a job is recorded", {"until-recorded": "\n"}, Outcome.FAILED, "sacct says nothing after 30 s"),
        ("the REST API answers", {"rest": 'v0.0.45 200\n{"pings": []}'}, Outcome.PASSED, "in v0.0.45"),
        ("the REST API answers", {"rest": "v0.0.45 401\nno"}, Outcome.FAILED, "answered 401, expected 200"),
        ("the REST API answers", {"rest": 'v0.0.45 200\n{"errors": []}'}, Outcome.FAILED, "without slurmctld's answer"),
        ("the REST API answers", {"rest": Answer(1, "", "bash: connect: refused")}, Outcome.FAILED, "connect: refused"),
    ],
)  # fmt: skip
async def test_a_case_ends(name: str, answers: Answers, outcome: Outcome, says: str) -> None:
    found, message = await outcome_of(name, answers)

    assert found is outcome, message
    assert says in message


async def test_what_a_cluster_does_not_have_is_skipped() -> None:
    bare = Cluster(name="demo", job_name="x")

    assert (await outcome_of("a job is recorded", cluster=bare))[0] is Outcome.SKIPPED
    assert (await outcome_of("the REST API answers", cluster=bare))[0] is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("answers", "outcome", "says"),
    [
        ({"id": "1001", "as-user": "7"}, Outcome.PASSED, "ran as alice(1001)"),
        ({"id": Answer(1, "", "no such user")}, Outcome.FAILED, "does not know user alice"),
        (
            {"id": "1", "as-user": "7", "scontrol": "UserId=nobody(99) JobState=COMPLETED"},
            Outcome.FAILED,
            "ran as nobody(99), expected alice",
        ),
    ],
)
async def test_a_job_of_a_user_runs_as_that_user(answers: Answers, outcome: Outcome, says: str) -> None:
    cluster = Cluster(name="demo", users=("alice",), job_name="x")
    found, message = await outcome_of("a job of alice", answers, cluster)

    assert found is outcome, message
    assert says in message


async def test_only_jobs_of_this_test_are_cancelled_and_its_file_is_removed() -> None:
    shell = ScriptedShell({"cat": "from 7\nto stderr\n"})
    await verdict("x", jobs.batch_output, shell, CLUSTER)
    await clean_up(shell, CLUSTER)

    assert ("w-0", ("rm", "-f", "/tmp/corral-test-1-7.out")) in shell.ran
    assert shell.ran[-1] == ("", ("scancel", "--quiet", "--name=corral-test-1"))
    assert "--job-name=corral-test-1" in next(command for _, command in shell.ran if command[0] == "sbatch")


def in_bash(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", script, "script", *arguments]
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=20, check=False)


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("squeue", "ended"),
    [
        ("true", True),
        ("echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", True),
        ("echo 7 RUNNING", False),
        ("echo Unable to contact slurm controller >&2; exit 1", False),
    ],
)
def test_a_job_has_ended_only_when_slurm_says_so(squeue: str, ended: bool, tmp_path: Path) -> None:
    program(tmp_path, "squeue", squeue)
    program(tmp_path, "sleep", "true")

    assert (in_bash(jobs.UNTIL_ENDED, tmp_path, "7", "3").returncode == 0) is ended


def test_a_token_goes_from_scontrol_to_the_command_by_its_environment(tmp_path: Path) -> None:
    program(tmp_path, "scontrol", 'echo "SLURM_JWT=token-of-$2"')
    program(tmp_path, "sbatch", 'echo "$SLURM_JWT" "$@"')

    assert in_bash(jobs.AS_USER, tmp_path, "alice", "sbatch", "--wrap", "a b").stdout == (
        "token-of-username=alice --wrap a b\n"
    )


SERVED_NAME = "demo-restapi.lab"
AUTHORITY = Authority()


class Slurmrestd(BaseHTTPRequestHandler):
    """Knows one version, and repeats the token that it was given."""

    def do_GET(self) -> None:
        known = self.path == "/slurm/v0.0.44/ping/"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(f"pings {self.headers['X-SLURM-USER-TOKEN']} {self.headers['Host']}".encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def slurmrestd(certificate: Pair | None, folder: Path) -> Iterator[int]:
    """Its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slurmrestd)
    if certificate is not None:
        (folder / "served.pem").write_bytes(certificate.certificate + certificate.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "served.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(folder: Path, port: int, authority: bytes) -> subprocess.CompletedProcess[str]:
    program(folder, "scontrol", "echo SLURM_JWT=a-token")
    name = SERVED_NAME if authority else ""
    return in_bash(jobs.ASK_REST, folder, "127.0.0.1", str(port), authority.decode(), name, "v0.0.45", "v0.0.44")


def test_slurmrestd_is_asked_in_the_first_version_that_it_knows(tmp_path: Path) -> None:
    with slurmrestd(None, tmp_path) as port:
        assert asked(tmp_path, port, b"").stdout == "v0.0.44 200\npings a-token 127.0.0.1\n"
    assert asked(tmp_path, port, b"").returncode != 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the pod has openssl, this machine does not")
@pytest.mark.parametrize("trusted", ["its authority", "itself"])
def test_over_tls_the_authority_or_the_very_certificate_of_the_secret_is_trusted(trusted: str, tmp_path: Path) -> None:
    certificate = AUTHORITY.issue("slurmrestd", host=SERVED_NAME)
    with slurmrestd(certificate, tmp_path) as port:
        said = asked(tmp_path, port, AUTHORITY.pem if trusted == "its authority" else certificate.certificate)
    assert said.stdout == f"v0.0.44 200\npings a-token {SERVED_NAME}\n", said.stderr


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the pod has openssl, this machine does not")
@pytest.mark.parametrize(
    ("certificate", "authority", "says"),
    [
        (AUTHORITY.issue("x", host=SERVED_NAME, ends=NOW - DAY / 2), AUTHORITY.pem, "certificate has expired"),
        (AUTHORITY.issue("x", host="another.lab"), AUTHORITY.pem, "hostname mismatch"),
        (AUTHORITY.issue("x", host=SERVED_NAME), Authority("x").pem, "unable to get local issuer certificate"),
    ],
    ids=["expired", "another name", "another authority"],
)
async def test_a_certificate_that_is_not_good_is_a_failure_that_says_why(
    certificate: Pair, authority: bytes, says: str, tmp_path: Path
) -> None:
    with slurmrestd(certificate, tmp_path) as port:
        said = asked(tmp_path, port, authority)
    answer = Answer(said.returncode, said.stdout, said.stderr)
    found, message = await outcome_of("the REST API answers", {"rest": answer})
    assert found is Outcome.FAILED
    assert says in message
    assert "a-token" not in said.stdout + said.stderr


words = st.text(max_size=20)
verdict_values = st.builds(Verdict, name=words, outcome=st.sampled_from(Outcome), message=words, details=words)


@settings(max_examples=50)
@given(st.lists(verdict_values, max_size=3))
def test_junit_is_xml_whatever_was_said(verdicts: list[Verdict]) -> None:
    (suite,) = ElementTree.fromstring(junit("corral.test.lab.demo", verdicts))

    assert len(suite) == len(verdicts)
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
