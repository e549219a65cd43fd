"""`corral import`: manifests of other systems, printed as ours."""

from pathlib import Path

import click

from corral.cli.errors import Failure
from corral.cli.loading import documents_in
from corral.cli.output import as_yaml
from corral.kinds.wukong.importing import CannotImport, imported


@click.command("import", short_help="Print manifests of novasphere or KubeVirt as Wukongs")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), required=True, help="The manifests; - for standard input."
)
def import_command(file: Path) -> None:
    """Print what manifests of vm.novasphere.dev, or VirtualMachines of KubeVirt, are as Wukongs. Nothing is changed.

    What is not as it was is told on standard error. For a VirtualMachine, give the manifests of its claims too.
    """
    try:
        found = imported(documents_in(file))
    except CannotImport as error:
        raise Failure(f"{file}: {error}") from error
    for each in found:
        called = f"{each.manifest['kind']} {each.manifest['metadata']['name']}"
        for note in each.notes:
            click.echo(f"{called}: {note}", err=True)
    click.echo(as_yaml(each.manifest for each in found), nl=False)
