"""`corral rollback NODESET`: ask for workers as they were made before."""

import asyncio

import click

from corral.cli.errors import Failure
from corral.cli.options import Cluster, cluster_options
from corral.engine import is_controlled_by
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.rollback import NoSuchRevision, Rollback, rollback
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.client import Client, Precondition, Selector
from corral.kube.errors import NotFound
from corral.kube.models.apps_v1 import ControllerRevision

FIELD_MANAGER = "corral-rollback"


@click.command("rollback", short_help="Ask for a NodeSet's workers as they were made before")
@click.argument("nodeset")
@click.option("--to", default="", metavar="REVISION", help="Its number or digest.  [default: the one before]")
@cluster_options
def rollback_command(nodeset: str, to: str, cluster: Cluster) -> None:
    """Take back what the workers of NODESET are made from: template, slurmd, extraConf and version.

    Workers are replaced as spec.update says, drained first. `kubectl get controllerrevisions` lists the revisions.
    """

    async def do() -> Rollback:
        async with cluster.client() as client:
            return await rolled_back(client, nodeset, cluster.namespace, to)

    for line in told(asyncio.run(do()), nodeset, cluster.namespace):
        click.echo(line, err=True)


def told(done: Rollback, name: str, namespace: str) -> tuple[str, ...]:
    what = f"NodeSet {namespace}/{name}: revision {done.number} ({done.revision})"
    if not done.patch:
        return (f"{what} is what is asked for already",)
    follow = f"kubectl -n {namespace} get nodeset {name} --watch"
    return f"{what} is asked for", f"Workers are replaced as spec.update says, after their jobs. Follow it: {follow}"


async def rolled_back(client: Client, name: str, namespace: str, to: str) -> Rollback:
    """Only of the NodeSet that was looked at: what somebody changes meanwhile is not overwritten."""
    try:
        nodeset = await client.get(NodeSet, name, namespace)
    except NotFound:
        raise Failure(f"there is no NodeSet {namespace}/{name}; `kubectl get nodesets -A` lists them") from None
    of = nodeset.spec.controller_ref.name
    try:
        controller = await client.get(Controller, of, namespace)
    except NotFound:
        raise Failure(f"NodeSet {namespace}/{name}: its Controller {namespace}/{of} does not exist") from None
    page = await client.list(ControllerRevision, Selector(namespace=namespace, labels=names.REVISION_LABEL))
    try:
        decided = rollback(nodeset, controller, [one for one in page.items if is_controlled_by(one, nodeset)], to)
    except NoSuchRevision as error:
        raise Failure(f"NodeSet {namespace}/{name}: {error}") from None
    if decided.patch:
        meta = nodeset.metadata
        await client.patch(
            NodeSet,
            name,
            namespace,
            json=decided.patch,
            precondition=Precondition(uid=meta.uid, resource_version=meta.resource_version),
            field_manager=FIELD_MANAGER,
        )
    return decided
