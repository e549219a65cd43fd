"""Make an image: its root folder, its layer, its archive and its bill of materials. What is there already is kept.

The result has the recipe's key in its name, and a link of the plain name (`slurm-26.05.tar`) leads to the newest one.
"""

import os
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from corral.local import roots
from corral.local.paths import cache_dir
from corral.local.progress import Progress, Step
from images.archive import write_archive
from images.layer import write_layer
from images.program import site, with_program
from images.recipes import Recipe
from images.sbom import bill, debian_packages, python_packages


def archive_path(recipe: Recipe) -> Path:
    return cache_dir() / "images" / f"{recipe.file_name}.tar"


def build(recipe: Recipe, progress: Progress) -> Path:
    """The archive's path."""
    target = archive_path(recipe)
    if target.is_file():
        os.utime(target)  # used now: see corral.local.pruning
        progress.cached(recipe.name, _size(target))
    else:
        with progress.step(recipe.name) as step:
            make(recipe, target, step)
            step.note(_size(target))
    _link(target, recipe)
    return target


def make(recipe: Recipe, target: Path, step: Step) -> None:
    base = roots.ensure(recipe.root, step)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as folder,
        _complete(base, recipe, Path(folder), step) as root,
    ):
        step.say("packing")
        pack(root, recipe, target)


def _complete(base: Path, recipe: Recipe, folder: Path, step: Step) -> AbstractContextManager[Path]:
    """The root folder with what does not come from Debian."""
    return with_program(base, recipe.program.python, folder, step) if recipe.program else nullcontext(base)


def pack(root: Path, recipe: Recipe, target: Path) -> None:
    """Write the archive and, beside it, the bill of materials. The archive appears last, and complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".packing-") as folder:
        unfinished = Path(folder) / "image.tar"
        write_archive(recipe, write_layer(root, recipe, Path(folder) / "layer.tar.gz"), unfinished)
        bill_path(target).write_bytes(materials(root, recipe))
        unfinished.replace(target)


def materials(root: Path, recipe: Recipe) -> bytes:
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    records = sorted(site(root, recipe.program.python).glob("*.dist-info/METADATA")) if recipe.program else ()
    return bill(
        recipe.name,
        debian_packages(status, recipe.root.suite),
        python_packages(record.read_text(encoding="utf-8") for record in records),
    )


def bill_path(archive: Path) -> Path:
    return archive.with_suffix(".cdx.json")


def _link(target: Path, recipe: Recipe) -> None:
    plain = recipe.file_name.removesuffix(f"-{recipe.key}")
    for file in (target, bill_path(target)):
        link = file.with_name(plain + file.name.removeprefix(recipe.file_name))
        new = link.with_name(f".{link.name}.{os.getpid()}")
        new.symlink_to(file.name)
        new.replace(link)


def _size(target: Path) -> str:
    return f"{target.stat().st_size / 1e6:.0f} MB"
