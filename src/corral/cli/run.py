"""`corral run`: the operator itself, in a pod or on a developer's machine."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import click

from corral.cli import leading
from corral.cli.errors import Failure
from corral.cli.options import Cluster, Kinds, cluster_options, kinds_option
from corral.engine import Address, CannotStart, LeaseAddress, LeaseLost, Metrics, run_until_signal
from corral.engine.controller import AnyController, confined
from corral.engine.logs import LogFormat, configure
from corral.kube import Client, HttpTransport

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@click.command("run", short_help="Run the operator")
@click.option("--lease-namespace", help="Namespace of the leader's Lease.  [default: the pod's, or corral-system]")
@click.option(
    "--only-namespace", metavar="NAMESPACE", help="Watch and change only this namespace; RBAC for it: `corral rights`."
)
@click.option("--no-leader-election", is_flag=True, help="Run without a Lease. Only if no other operator runs.")
@click.option(
    "--health-port", default=8080, show_default=True, help="For /healthz, /readyz, /metrics; 0 takes a free one."
)
@click.option(
    "--log-format", type=click.Choice(["json", "console"]), help="[default: console in a terminal, else json]"
)
@cluster_options
@kinds_option
def run_command(
    lease_namespace: str | None,
    only_namespace: str | None,
    no_leader_election: bool,
    health_port: int,
    log_format: LogFormat | None,
    cluster: Cluster,
    kinds: Kinds,
) -> None:
    """Run the operator, until SIGTERM or Ctrl-C."""
    if not kinds:
        raise Failure("no kinds are loaded; add one with --load FILE (examples/note.py is one)")
    configure(form=log_format or ("console" if sys.stderr.isatty() else "json"))
    lease = None if no_leader_election else leading.address(lease_namespace or only_namespace, _pod_namespace())
    controllers = [entry.build() for entry in kinds]
    if only_namespace is not None:  # kinds of the whole cluster are left to an operator of the whole cluster
        controllers = [confined(each, only_namespace) for each in controllers if each.kind.resource.namespaced]
    try:
        asyncio.run(_run(cluster, controllers, lease, Address(port=health_port)))
    except (CannotStart, LeaseLost) as error:
        raise Failure(str(error)) from error


async def _run(
    cluster: Cluster, controllers: Sequence[AnyController], lease: LeaseAddress | None, health: Address
) -> None:
    credentials = cluster.credentials()
    metrics = Metrics(host=urlsplit(credentials.server.url).netloc)
    async with Client(HttpTransport(credentials, component="operator"), observer=metrics) as client:
        if lease is not None and not _pod_namespace():
            await leading.prepare(
                client, lease, datetime.now(UTC), lambda line: click.echo(f"corral: {line}", err=True)
            )
        await run_until_signal(client, controllers, metrics=metrics, lease=lease, health=health)


def _pod_namespace() -> str:
    return SERVICE_ACCOUNT_NAMESPACE.read_text().strip() if SERVICE_ACCOUNT_NAMESPACE.exists() else ""
