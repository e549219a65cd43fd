"""`make images`: make the container images, print the paths of their archives, and on request import them.

python -m images                     all of them
python -m images slurm:26.05         only those whose names end so
python -m images --cluster demo      and import them into every node of the local cluster demo
"""

import argparse
import sys

from corral.local import packages
from corral.local.commands import find_administration
from corral.local.errors import LocalError
from corral.local.images import import_archive
from corral.local.progress import Progress
from corral.local.pruning import prune
from images.build import build
from images.recipes import recipes

PACKAGES_STEP = "Debian packages"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m images", description="Make the container images.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only images whose name ends so")
    parser.add_argument("--cluster", default="", help="import them into this local cluster")
    arguments = parser.parse_args()
    chosen = [r for r in recipes() if not arguments.names or r.name.endswith(tuple(arguments.names))]
    if not chosen:
        parser.error(f"no image is called so; there are {', '.join(recipe.name for recipe in recipes())}")
    find_administration()
    try:
        with Progress((PACKAGES_STEP, *(recipe.name for recipe in chosen))) as progress:
            packages.ensure(progress, PACKAGES_STEP, ("mmdebstrap",))
            archives = [build(recipe, progress) for recipe in chosen]
        for recipe, path in zip(chosen, archives, strict=True):
            print(f"{recipe.name}  {path}")
            if arguments.cluster:
                import_archive(arguments.cluster, path)
        prune()
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
