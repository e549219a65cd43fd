"""`corral crds`: the CustomResourceDefinitions of the kinds, generated from their types."""

import click

from corral.cli.errors import Failure
from corral.cli.options import Kinds, kinds_option
from corral.kube.crd import crd_of, to_yaml


@click.command("crds", short_help="Corral's CRDs, for `kubectl apply`")
@kinds_option
def crds_command(kinds: Kinds) -> None:
    """Print the CustomResourceDefinitions, to be piped into `kubectl apply --server-side -f -`."""
    if not kinds:
        raise Failure("no kinds are loaded; add some with --load FILE")
    click.echo(to_yaml(*(crd_of(entry.kind) for entry in kinds)), nl=False)
