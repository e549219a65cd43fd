"""Exec plugins: real little programs, asked for credentials."""

import asyncio
import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from corral.kube.credentials import Server
from corral.kube.errors import CredentialsError
from corral.kube.exec_plugin import ExecPlugin, Plugin, Variable, cluster_info
from tests.unit.kube.authority import NOW, Authority

V1 = "client.authentication.k8s.io/v1"
SECRET = "s3cr3t-value"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def credential(version: str = V1, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


class Program:
    """A shell script that answers, and counts how often it was run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answer = folder / "answer"
        self.runs_file = folder / "runs"
        self.clock = Clock()
        self.says(credential(token=SECRET))

    def says(self, answer: str, script: str = "") -> None:
        self.answer.write_text(answer)
        program = self.folder / "plugin"
        program.write_text(f"#!/bin/sh\necho run >> {self.runs_file}\n{script}\ncat {self.answer}\n")
        program.chmod(0o755)

    def runs(self) -> int:
        return len(self.runs_file.read_text().splitlines())

    def source(self, **plugin: Any) -> ExecPlugin:
        given = {"command": "./plugin", "api_version": V1, "interactive_mode": "Never", **plugin}
        return ExecPlugin(
            Plugin(**given),
            origin="config, user ann",
            folder=self.folder,
            cluster=cluster_info(Server(url="https://10.0.0.1", ca=b"pem"), {"audience": "x"}),
            now=self.clock,
        )


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


async def test_its_token_is_used_and_kept(program: Program) -> None:
    source = program.source()

    assert (await source.auth()).token == SECRET
    assert (await source.auth()).token == SECRET
    assert program.runs() == 1


async def test_many_who_wait_for_a_failure_share_it_and_the_next_one_asks_again(program: Program) -> None:
    program.says("", script="exit 3")
    source = program.source()
    told = await asyncio.gather(*(source.auth() for _ in range(10)), return_exceptions=True)

    assert program.runs() == 1
    assert {str(one) for one in told} == {
        "read credentials config, user ann, exec plugin ./plugin: failed with exit code 3"
    }
    program.says(credential(token=SECRET))
    assert (await source.auth()).token == SECRET


async def test_many_who_ask_at_once_run_it_once(program: Program) -> None:
    source = program.source()
    await asyncio.gather(*(source.auth() for _ in range(10)))

    assert program.runs() == 1


async def test_it_is_run_again_when_its_answer_expires(program: Program) -> None:
    program.says(credential(token=SECRET, expirationTimestamp=(NOW + timedelta(minutes=5)).isoformat()))
    source = program.source()
    await source.auth()
    program.clock.now = NOW + timedelta(minutes=4, seconds=59)
    await source.auth()
    assert program.runs() == 1

    program.says(credential(token="next"))
    program.clock.now = NOW + timedelta(minutes=5)
    assert (await source.auth()).token == "next"


async def test_it_is_run_again_after_a_refusal_but_not_for_every_one_who_was_refused(program: Program) -> None:
    source = program.source()
    refused = await source.auth()
    program.says(credential(token="next"))
    source.forget(refused)
    assert (await source.auth()).token == "next"
    source.forget(refused)
    await source.auth()

    assert program.runs() == 2


async def test_it_may_answer_with_a_client_certificate(program: Program) -> None:
    pair = Authority().issue("ann")
    program.says(credential(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode()))
    certificate = (await program.source().auth()).certificate

    assert certificate is not None
    assert certificate.key == pair.key


async def test_it_is_told_of_the_cluster_when_it_wants_to_be(program: Program, tmp_path: Path) -> None:
    told = tmp_path / "told"
    program.says(credential(token=SECRET), f'printf "%s" "$KUBERNETES_EXEC_INFO" > {told}')
    await program.source(provide_cluster_info=True).auth()

    assert json.loads(told.read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://10.0.0.1",
                "config": {"audience": "x"},
                "certificate-authority-data": "cGVt",
            },
        },
    }


async def test_it_gets_its_arguments_and_environment(program: Program, tmp_path: Path) -> None:
    told = tmp_path / "told"
    program.says(credential(token=SECRET), f'echo "$1 $COLOUR" > {told}')
    await program.source(args=("get-token",), env=(Variable("COLOUR", "blue"),)).auth()

    assert told.read_text() == "get-token blue\n"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("not json", "something else than an ExecCredential"),
        ("", "something else than an ExecCredential"),
        (json.dumps({"kind": "Pod", "apiVersion": "v1"}), "expected an answer of .*/v1 ExecCredential, got v1 Pod"),
        (credential("client.authentication.k8s.io/v1beta1", token="t"), "got client.authentication.k8s.io/v1beta1"),
        (credential(), "without a token and without a client certificate"),
        (credential(clientCertificateData="x"), "only one of"),
        (credential(clientCertificateData="x", clientKeyData=SECRET), "not a PEM certificate"),
        (credential(token=SECRET, expirationTimestamp=NOW.isoformat()), "a credential that expired at"),
        (credential(token=SECRET, expirationTimestamp="soon"), "Invalid RFC3339"),
        (credential(token=f"{SECRET}\n"), "a token that holds a line break or another control character"),
        (credential(token=f"{SECRET}\x00"), "a token that holds a line break or another control character"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_said_and_not_shown(program: Program, answer: str, says: str) -> None:
    program.says(answer)

    with pytest.raises(CredentialsError, match=says) as caught:
        await program.source().auth()
    assert "exec plugin ./plugin" in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_a_missing_program_comes_with_the_hint_how_to_install_it(program: Program) -> None:
    with pytest.raises(CredentialsError, match="is not installed, or not executable; run: brew install it"):
        await program.source(command="no-such-plugin", install_hint="run: brew install it").auth()


async def test_a_program_that_fails_is_quoted_without_its_secrets(program: Program) -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"
    script = f'echo "cannot log in with $PASSWORD and {token} password=hunter2" >&2; exit 3'
    program.says("", script)

    with pytest.raises(CredentialsError, match="failed with exit code 3: cannot log in") as caught:
        await program.source(env=(Variable("PASSWORD", SECRET),)).auth()
    assert SECRET not in str(caught.value)
    assert token not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.looptime
async def test_a_program_that_hangs_is_given_up(program: Program) -> None:
    program.says("", "exec tail -f /dev/null")

    with pytest.raises(CredentialsError, match="gave no answer within 60 s"):
        await program.source().auth()


async def test_a_program_is_ended_when_nobody_waits_for_it_any_more(program: Program, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    program.says("", f"echo $$ > {pid}; exec tail -f /dev/null")
    asking = asyncio.create_task(program.source().auth())
    running = int(await asyncio.to_thread(pid.read_text))
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    with pytest.raises(ProcessLookupError):
        os.kill(running, 0)


async def test_a_program_that_must_ask_a_person_is_not_run_without_a_terminal(program: Program) -> None:
    with pytest.raises(CredentialsError, match="there is no terminal"):
        await program.source(interactive_mode="Always").auth()
    assert not program.runs_file.exists()


async def test_a_failed_run_is_not_remembered(program: Program) -> None:
    source = program.source()
    program.says("garbage")
    with pytest.raises(CredentialsError):
        await source.auth()
    program.says(credential(token="better"))

    assert (await source.auth()).token == "better"


async def test_it_shows_no_secret(program: Program) -> None:
    source = program.source(env=(Variable("PASSWORD", SECRET),))
    await source.auth()

    assert SECRET not in repr(source)
