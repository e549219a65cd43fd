"""`corral test`: real jobs through a Slurm cluster; says what works, and cleans up after itself."""

import asyncio
import secrets
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from corral.cli.errors import CHANGES, Failure
from corral.cli.jobs import Answer, Cluster, cases, clean_up, verdict
from corral.cli.options import Cluster as Kubernetes
from corral.cli.options import Output, cluster_options, duration_option, output_option
from corral.cli.output import say_json
from corral.cli.verdicts import Outcome, Verdict, junit
from corral.kinds import endpoints, names
from corral.kinds.controller.spec import Controller
from corral.kinds.restapi.spec import RestApi
from corral.kube.client import Client, Selector
from corral.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from corral.kube.models.core_v1 import Pod, Secret, Service
from corral.slurm.transport import Endpoint

T = TypeVar("T")
MARKS = {Outcome.PASSED: ("ok", "green"), Outcome.FAILED: ("FAILED", "red"), Outcome.SKIPPED: ("skipped", "yellow")}
DETAIL_LINES_MAX = 10
LATE_EXIT_CODE = 124  # as timeout(1) ends
UNREACHED_EXIT_CODE = 126  # as a shell ends that cannot run a command


@click.command("test", short_help="Run real jobs in a Slurm cluster, and say what works")
@click.argument("controller", metavar="CLUSTER")
@click.option("--user", "users", multiple=True, help="Submit a job as this user too. May be given several times.")
@click.option("--partition", default="", help="Where the jobs go.  [default: the cluster's default partition]")
@duration_option("--timeout", default="2m", help="How long one job may take, waiting included.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path), help="Write the results as JUnit XML.")
@output_option
@cluster_options
def test_command(
    controller: str,
    users: tuple[str, ...],
    partition: str,
    timeout: float,
    junit_file: Path | None,
    output: Output,
    cluster: Kubernetes,
) -> None:
    """Run real jobs through the Slurm cluster of the Controller CLUSTER, and say what works.

    On one node, on all nodes, a batch job with output, an array, the job's record, the REST API, jobs of given users.

    Exit code: 0 all passed or were skipped, 1 some failed, 2 the test could not run.
    """
    verdicts = asyncio.run(_tested(cluster, controller, users, partition, timeout))
    if junit_file is not None:
        _write(junit_file, junit(f"corral.test.{cluster.namespace}.{controller}", verdicts))
    if output == "json":
        say_json("TestResult", {"cluster": controller, "items": msgspec.to_builtins(verdicts)})
    failed = sum(one.outcome is Outcome.FAILED for one in verdicts)
    counts = {outcome: sum(one.outcome is outcome for one in verdicts) for outcome in Outcome}
    click.echo(", ".join(f"{number} {outcome.value}" for outcome, number in counts.items()), err=output == "json")
    if failed:
        raise click.exceptions.Exit(CHANGES)


class PodShell:
    """`kubectl exec` into slurmctld's pod; the pod of a worker has its node's name."""

    def __init__(self, client: Client, namespace: str, pod: str) -> None:
        self._client, self._namespace, self._pod = client, namespace, pod

    async def run(self, *command: str, within_s: float, pod: str = "") -> Answer:
        container = "slurmd" if pod else "slurmctld"
        try:
            done = await self._client.exec(
                pod or self._pod, self._namespace, command, container=container, run_s_max=within_s
            )
        except (Forbidden, Unauthorized):
            raise
        except Unreachable as error:
            return Answer(LATE_EXIT_CODE, "", str(error))
        except KubeError as error:  # the pod or its container is not there now: an answer of the test, not its end
            return Answer(UNREACHED_EXIT_CODE, "", str(error))
        return Answer(done.exit_code, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


async def _tested(
    kubernetes: Kubernetes, name: str, users: tuple[str, ...], partition: str, timeout_s: float
) -> tuple[Verdict, ...]:
    async with kubernetes.client() as client:
        pod, described = await _cluster(client, kubernetes.namespace, name)
        cluster = msgspec.structs.replace(described, users=users, partition=partition, timeout_s=timeout_s)
        shell = PodShell(client, kubernetes.namespace, pod)
        todo = cases(cluster)
        found: list[Verdict] = []
        try:
            for number, (title, case) in enumerate(todo.items(), 1):
                click.echo(f"[{number}/{len(todo)}] {title} ... ", nl=False, err=True)
                found.append(await verdict(title, case, shell, cluster))
                _tell(found[-1])
        finally:
            await clean_up(shell, cluster)
        return tuple(found)


async def _cluster(client: Client, namespace: str, name: str) -> tuple[str, Cluster]:
    """The pod where commands run, and what the manifests say of the cluster."""
    try:
        controller = await client.get(Controller, name, namespace)
    except NotFound:
        known = ", ".join(one.metadata.name for one in (await client.list(Controller, Selector(namespace))).items)
        hint = (
            f"those of this namespace: {known}"
            if known
            else "this namespace has none; choose another namespace with -n"
        )
        raise Failure(f"there is no Controller {namespace}/{name}; {hint}") from None
    if controller.spec.external is not None:
        raise Failure(f"Controller {namespace}/{name} runs elsewhere: there is no pod here to submit jobs from")
    pod = f"{names.controller_name(name)}-0"
    try:
        await client.get(Pod, pod, namespace)
    except NotFound:
        raise Failure(
            f"pod {namespace}/{pod} does not exist yet; to see why: corral explain controller {name}"
        ) from None
    return pod, Cluster(
        name=name,
        records_jobs=controller.spec.accounting_ref is not None,
        rest=await _rest(client, namespace, name),
        job_name=f"corral-test-{secrets.token_hex(4)}",
    )


async def _rest(client: Client, namespace: str, controller: str) -> Endpoint | str | None:
    """Where the first RestApi of the Controller is, or why that is not known."""
    every = (await client.list(RestApi, Selector(namespace))).items
    api = next((api for api in every if api.spec.controller_ref.name == controller), None)
    if api is None:
        return None
    named = api.spec.tls.secret_ref.name if api.spec.tls else ""
    try:
        service = await _found(client.get(Service, names.restapi_name(api.metadata.name), namespace))
        certificate = await _found(client.get(Secret, named, namespace)) if named else None
    except Forbidden as error:
        return f"RestApi {namespace}/{api.metadata.name} was not tested: {error}"
    waits = f"Secret {namespace}/{named} with its certificate is missing" if named and not certificate else "no Service"
    return endpoints.slurmrestd(api, service, certificate) or f"RestApi {namespace}/{api.metadata.name}: {waits}"


async def _found(getting: Awaitable[T]) -> T | None:
    try:
        return await getting
    except NotFound:
        return None


def _tell(one: Verdict) -> None:
    mark, colour = MARKS[one.outcome]
    message = f": {one.message}" if one.message else ""
    click.echo(f"{click.style(mark, fg=colour)} ({one.seconds:.1f} s){message}", err=True)
    for line in one.details.strip().splitlines()[-DETAIL_LINES_MAX:]:
        if line not in one.message:
            click.echo(f"        {line}", err=True)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise Failure(f"cannot write {file}: {error.strerror}") from error
