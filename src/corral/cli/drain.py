"""`corral drain NODE`: take a Kubernetes node out of service without killing a job; `corral undrain` gives it back.

The node is cordoned and told why and by whom; Corral drains its workers in Slurm with that reason, lets their jobs end,
and moves them. What else runs there is not Corral's: `kubectl drain` evicts it, and finds no worker left to wait for.
"""

import asyncio
import getpass
import time
from collections.abc import Callable

import click

from corral.cli.errors import CHANGES, Failure
from corral.cli.options import Cluster, cluster_options, duration_option
from corral.kinds import names
from corral.kube.client import Client, Precondition, Selector
from corral.kube.errors import KubeError, NotFound
from corral.kube.meta import Resource
from corral.kube.models.core_v1 import Node, Pod
from corral.kube.unstructured import untyped

FIELD_MANAGER = "corral-drain"
LOOK_EVERY_S = 2.0
SHOWN_MAX = 5


@click.command("drain", short_help="Take a Kubernetes node out of service without killing a job")
@click.argument("node")
@click.option("--reason", required=True, help="Why: people find it in `sinfo -R` and on the node.")
@click.option("--wait/--no-wait", default=True, help="Wait until no worker is left on it.", show_default=True)
@duration_option("--timeout", default="24h", help="How long to wait at most: jobs end when they end.")
@cluster_options
def drain_command(node: str, reason: str, wait: bool, timeout: float, cluster: Cluster) -> None:
    """Cordon NODE, so that Slurm gives its workers no new job, and wait until the last of their jobs has ended.

    Exit code: 0 no worker is left (with --no-wait: it is cordoned), 1 not in time, 2 an error.
    """

    async def do() -> bool:
        async with cluster.client() as client:
            await set_cordon(client, node, reason=reason, by=await who_asks(client))
            click.echo(f"node {node} is cordoned: {reason}", err=True)
            return not wait or await emptied(client, node, timeout, lambda line: click.echo(line, err=True))

    if not asyncio.run(do()):
        raise SystemExit(CHANGES)


async def who_asks(client: Client) -> str:
    """As the server knows this person; as this machine does, where it does not tell."""
    question = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False)
    content = {"apiVersion": question.api_version, "kind": question.kind}
    try:
        answer = await client.create(untyped(question)(content=content), field_manager=FIELD_MANAGER)
    except KubeError:
        return getpass.getuser()
    return str(answer.get("status", "userInfo", "username", default="") or getpass.getuser())


async def set_cordon(client: Client, name: str, *, reason: str | None, by: str | None = None) -> None:
    """`reason` None: lift it. Only of the node that was looked at; its other fields are not touched."""
    try:
        node = await client.get(Node, name)
    except NotFound:
        raise Failure(f"there is no Kubernetes node {name}; `kubectl get nodes` lists them") from None
    await client.patch(
        Node,
        name,
        merge={
            "metadata": {"annotations": {names.DRAIN_REASON: reason, names.DRAINED_BY: by}},
            "spec": {"unschedulable": None if reason is None else True},
        },
        precondition=Precondition(uid=node.metadata.uid),
        field_manager=FIELD_MANAGER,
    )


async def workers_on(client: Client, node: str) -> tuple[str, ...]:
    page = await client.list(Pod, Selector(labels=names.NODESET_LABEL, fields=f"spec.nodeName={node}"))
    return tuple(sorted(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in page.items))


async def emptied(client: Client, node: str, within_s: float, tell: Callable[[str], None]) -> bool:
    """Whether no worker was left in time; what is waited for is told when it changes."""
    deadline_s, told = time.monotonic() + within_s, ""
    while left := await workers_on(client, node):
        line = waiting_for(left)
        if line != told:
            tell(line)
            told = line
        if time.monotonic() >= deadline_s:
            return False
        await asyncio.sleep(LOOK_EVERY_S)
    tell(f"no worker is left on node {node}")
    return True


def waiting_for(left: tuple[str, ...]) -> str:
    more = f" and {len(left) - SHOWN_MAX} more" if len(left) > SHOWN_MAX else ""
    return f"waiting for {len(left)} workers: {', '.join(left[:SHOWN_MAX])}{more}"
