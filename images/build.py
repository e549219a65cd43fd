"""Make an image: its root folder, its layer, its archive and its bill of materials. What is there already is kept.

The result has the recipe's key in its name, and a link of the plain name (`slurm-26.05.tar`) leads to the newest one.
"""

import os
import tempfile
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from corral.local import roots
from corral.local.paths import cache_dir
from corral.local.progress import Progress, Step
from images.archive import read_layers, write_archive
from images.layer import write_layer
from images.program import program_alone, site, with_packages
from images.recipes import Recipe
from images.sbom import Component, bill, components, debian_packages, python_packages


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
    root = roots.ensure(recipe.root, step)
    below = _below(recipe, step)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as folder,
        _content(root, recipe, Path(folder), step) as content,
    ):
        step.say("packing")
        pack(content, recipe, target, below=below)


def _below(recipe: Recipe, step: Step) -> Path | None:
    """The archive over which this one lays its layer."""
    if recipe.base is None:
        return None
    base = archive_path(recipe.base)
    if base.is_file():
        os.utime(base)
    else:
        make(recipe.base, base, step)
    return base


def _content(root: Path, recipe: Recipe, folder: Path, step: Step) -> AbstractContextManager[Path]:
    """What goes into the layer."""
    if recipe.packages:
        return with_packages(root, recipe.packages.python, folder, step)
    return program_alone(root, recipe.program.python, folder, step) if recipe.program else nullcontext(root)


def pack(content: Path, recipe: Recipe, target: Path, *, below: Path | None = None) -> None:
    """Write the archive and, beside it, the bill of materials. The archive appears last, and complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".packing-") as folder:
        unfinished = Path(folder) / "image.tar"
        lower = read_layers(below, Path(folder)) if below else ()
        write_archive(recipe, (*lower, write_layer(content, recipe, Path(folder) / "layer.tar.gz")), unfinished)
        bill_path(target).write_bytes(materials(content, recipe, below))
        unfinished.replace(target)


def materials(content: Path, recipe: Recipe, below: Path | None) -> bytes:
    python = recipe.packages or recipe.program
    records = sorted(site(content, python.python).glob("*.dist-info/METADATA")) if python else ()
    return bill(
        recipe.name,
        components(bill_path(below).read_bytes()) if below else _debian(content, recipe),
        python_packages(record.read_text(encoding="utf-8") for record in records),
    )


def _debian(root: Path, recipe: Recipe) -> Iterable[Component]:
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    return debian_packages(status, recipe.root.suite)


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
