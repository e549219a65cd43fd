"""An image over another one: its layer comes above, its bill names both, its own change leaves the lower as it is."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import msgspec
import pytest

from images.build import archive_path, bill_path, pack
from images.program import LOCK, lock_digest
from images.recipes import Program, Recipe, corral
from tests.unit.images.conftest import make_root

SITE = "usr/local/lib/python3.13/dist-packages"


@pytest.fixture
def program(recipe: Recipe) -> Recipe:
    return Recipe(
        name="corral/program:1",
        root=recipe.root,
        scripts={"start": b"#!/bin/sh\n"},
        folders={},
        program=Program(python="3.13", sources="1"),
        base=recipe,
    )


def packed(program: Recipe, recipe: Recipe, folder: Path) -> Path:
    pack(make_root(folder / "root"), recipe, folder / "base.tar")
    installed = folder / "program" / SITE / "corral-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: corral\nVersion: 1\n")
    pack(folder / "program", program, folder / "program.tar", below=folder / "base.tar")
    return folder / "program.tar"


def layers_of(archive: Path) -> list[set[str]]:
    """The paths in each layer, whose digests must be those of the configuration."""
    with tarfile.open(archive) as tar:
        (manifest,) = json.loads(tar.extractfile("manifest.json").read())  # type: ignore[union-attr]
        config = json.loads(tar.extractfile(manifest["Config"]).read())  # type: ignore[union-attr]
        contents = [gzip.decompress(tar.extractfile(name).read()) for name in manifest["Layers"]]  # type: ignore[union-attr]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in contents]
    return [set(tarfile.open(fileobj=io.BytesIO(content)).getnames()) for content in contents]


def test_the_program_is_a_layer_of_its_own_above_all_else(program: Recipe, recipe: Recipe, tmp_path: Path) -> None:
    lower, upper = layers_of(packed(program, recipe, tmp_path))
    assert "usr/bin/tini" in lower
    assert f"{SITE}/corral-1.dist-info/METADATA" in upper
    assert "usr/libexec/corral/start" in upper
    assert "usr/bin/tini" not in upper


def test_the_bill_of_materials_has_what_both_layers_hold(program: Recipe, recipe: Recipe, tmp_path: Path) -> None:
    bill = json.loads(bill_path(packed(program, recipe, tmp_path)).read_bytes())
    assert [component["name"] for component in bill["components"]] == ["tini", "corral"]


def test_other_code_of_ours_stands_on_the_same_base() -> None:
    ours = corral()
    assert ours.program is not None
    assert ours.base is not None
    changed = msgspec.structs.replace(ours, program=msgspec.structs.replace(ours.program, sources="other"))
    assert changed.base is not None
    assert archive_path(changed) != archive_path(ours)
    assert archive_path(changed.base) == archive_path(ours.base)


def test_other_packages_are_another_base_and_so_another_image(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("one")
    before = lock_digest(tmp_path)
    (tmp_path / LOCK).write_text("another")
    assert lock_digest(tmp_path) != before
    ours = corral()
    assert ours.base is not None
    assert ours.base.packages is not None
    packages = msgspec.structs.replace(ours.base.packages, lock="other")
    base = msgspec.structs.replace(ours.base, packages=packages)
    assert msgspec.structs.replace(ours, base=base).key != ours.key
