"""`corral render`: the objects that a manifest stands for; needs no cluster."""

import asyncio
from pathlib import Path

import click

from corral.cli.loading import Manifest, manifests_in
from corral.cli.options import Kinds, Output, kinds_option, output_option
from corral.cli.output import as_yaml, say_json
from corral.engine.differences import wire
from corral.engine.questions import render
from corral.kube.meta import Object


@click.command("render", short_help="The objects that a manifest becomes; needs no cluster")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), required=True, help="The manifest; - for standard input."
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of objects that name none.")
@output_option
@kinds_option
def render_command(file: Path, namespace: str, output: Output, kinds: Kinds) -> None:
    """Print the objects that a manifest would become, as if nothing else existed. Needs no cluster."""
    objects = [wire(obj) for obj in asyncio.run(rendered(manifests_in(file, kinds, namespace)))]
    if output == "json":
        say_json("ObjectList", {"items": objects})
    else:
        click.echo(as_yaml(objects), nl=False)


async def rendered(manifests: tuple[Manifest, ...]) -> tuple[Object, ...]:
    """What the manifests become together: what one makes, another may have waited for. In the order of the file."""
    made: dict[int, tuple[Object, ...]] = {}
    for _ in range(len(manifests) + 1):  # each round at least one more has what it waited for, or none ever has
        before = {number: len(objects) for number, objects in made.items()}
        for number, manifest in enumerate(manifests):
            others = [other.object for other in manifests if other is not manifest]
            others += [obj for maker, objects in made.items() if maker != number for obj in objects]
            made[number] = await render(manifest.entry.build(), manifest.object, beside=others)
        if before == {number: len(objects) for number, objects in made.items()}:
            break
    return tuple(obj for objects in made.values() for obj in objects)
