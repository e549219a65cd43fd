"""`corral undrain NODE`: give back what `corral drain` took out of service."""

import asyncio

import click

from corral.cli.drain import set_cordon
from corral.cli.options import Cluster, cluster_options


@click.command("undrain", short_help="Give a drained Kubernetes node back")
@click.argument("node")
@cluster_options
def undrain_command(node: str, cluster: Cluster) -> None:
    """Uncordon NODE. Drains that Corral set because of it go with it; somebody else's stay."""

    async def do() -> None:
        async with cluster.client() as client:
            await set_cordon(client, node, reason=None)

    asyncio.run(do())
    click.echo(f"node {node} is given back", err=True)
