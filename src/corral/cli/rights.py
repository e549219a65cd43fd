"""`corral rights`: what the operator has to be allowed, for the whole cluster or for one namespace."""

import click

from corral.cli.options import Kinds, kinds_option
from corral.engine.controller import confined
from corral.install.generated import manifests
from corral.install.rbac import namespaced_objects, operator_objects


@click.command("rights", short_help="RBAC that the operator needs, for `kubectl apply`")
@click.option("--only-namespace", metavar="NAMESPACE", help="For `corral run --only-namespace`. [default: the cluster]")
@kinds_option
def rights_command(only_namespace: str | None, kinds: Kinds) -> None:
    """Print roles and bindings for the service account `corral`, derived from what the controllers declare."""
    controllers = [entry.build() for entry in kinds]
    if only_namespace is None:
        click.echo(manifests(operator_objects(controllers)), nl=False)
        return
    inside = (confined(each, only_namespace) for each in controllers if each.kind.resource.namespaced)
    click.echo(manifests(namespaced_objects(inside, only_namespace)), nl=False)
