"""The images that a checkout builds: made before a cluster is there, and then imported into its nodes.

An installed package has no recipes: Corral's own image is made from its sources, and they are in a checkout.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from corral.local.errors import LocalError
from corral.local.images import import_archive
from corral.local.progress import Progress
from corral.local.pruning import prune

if TYPE_CHECKING:
    from images.recipes import Recipe

IMPORT = "Images into the nodes"


def recipes_of(names: Sequence[str]) -> tuple[Recipe, ...]:
    """The recipes of these images, in this order."""
    try:
        from images.recipes import recipes
    except ModuleNotFoundError as error:
        raise LocalError(
            "`corral up` builds its images from a checkout of Corral, and this is an installed package: run `make up` "
            "in a checkout, or use --bare (only Kubernetes) or --context NAME (a cluster that you have)"
        ) from error
    known = {recipe.name: recipe for recipe in recipes()}
    return tuple(known[name] for name in names)


def build_all(recipes: Sequence[Recipe], progress: Progress) -> tuple[Path, ...]:
    """The archives. `progress` must plan each recipe's name."""
    from images.build import build

    archives = tuple(build(recipe, progress) for recipe in recipes)
    prune()
    return archives


def load(cluster: str, archives: Sequence[Path], progress: Progress) -> None:
    """Make the images known to every node. `progress` must plan IMPORT."""
    with progress.step(IMPORT) as step:
        imported = 0
        for archive in archives:
            step.say(f"importing {archive.name}")
            imported += import_archive(cluster, archive)
        step.note(f"{imported} of {len(archives)} were new" if imported else "all were there")
