"""`corral render`: the objects that a manifest stands for; needs no cluster."""

import asyncio
from pathlib import Path

import click

from corral.cli.loading import manifests_in
from corral.cli.options import Kinds, Output, kinds_option, output_option
from corral.cli.output import as_yaml, say_json
from corral.engine.differences import wire
from corral.engine.questions import render


@click.command("render")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), required=True, help="The manifest; - for standard input."
)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Where objects go that name no namespace."
)
@output_option
@kinds_option
def render_command(file: Path, namespace: str, output: Output, kinds: Kinds) -> None:
    """Print the objects that a manifest would become, as if nothing existed yet. No cluster is asked."""
    objects = [
        wire(obj)
        for found in manifests_in(file, kinds, namespace)
        for obj in asyncio.run(render(found.entry.build(), found.object))
    ]
    if output == "json":
        say_json("ObjectList", {"items": objects})
    else:
        click.echo(as_yaml(objects), nl=False)
