"""Make an image: its root folder, its layer, its archive and its bill of materials. What is there already is kept.

The result has the recipe's key in its name, and a link of the plain name (`slurm-26.05.tar`) leads to the newest one.
"""

import os
import shutil
import tempfile
from pathlib import Path

from corral.local import roots
from corral.local.paths import cache_dir
from corral.local.progress import Progress
from images.archive import write_archive
from images.layer import write_layer
from images.recipes import Recipe
from images.sbom import bill


def archive_path(recipe: Recipe) -> Path:
    return cache_dir() / "images" / f"{recipe.file_name}.tar"


def build(recipe: Recipe, progress: Progress) -> Path:
    """The archive's path."""
    target = archive_path(recipe)
    if target.is_file():
        progress.cached(recipe.name, _size(target))
    else:
        with progress.step(recipe.name) as step:
            root = roots.ensure(recipe.root, step)
            step.say("packing")
            pack(root, recipe, target)
            step.note(_size(target))
    _link(target, recipe)
    return target


def pack(root: Path, recipe: Recipe, target: Path) -> None:
    """Write the archive and, beside it, the bill of materials. The archive appears last, and complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".packing-") as folder:
        unfinished = Path(folder) / "image.tar"
        write_archive(recipe.name, write_layer(root, recipe, Path(folder) / "layer.tar.gz"), unfinished)
        status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
        bill_path(target).write_bytes(bill(recipe.name, recipe.root.suite, status))
        unfinished.replace(target)


def bill_path(archive: Path) -> Path:
    return archive.with_suffix(".cdx.json")


def remove_older(recipe: Recipe) -> None:
    """Archives of the same image by an earlier recipe; root folders stay, they are shared."""
    current, plain = archive_path(recipe), recipe.file_name.removesuffix(f"-{recipe.key}")
    for path in current.parent.glob(f"{plain}-*"):
        if not path.name.startswith(recipe.file_name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _link(target: Path, recipe: Recipe) -> None:
    plain = recipe.file_name.removesuffix(f"-{recipe.key}")
    for file in (target, bill_path(target)):
        link = file.with_name(plain + file.name.removeprefix(recipe.file_name))
        new = link.with_name(f".{link.name}.{os.getpid()}")
        new.symlink_to(file.name)
        new.replace(link)


def _size(target: Path) -> str:
    return f"{target.stat().st_size / 1e6:.0f} MB"
