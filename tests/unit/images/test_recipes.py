"""What makes another image has another key; the scripts are what a shell can run."""

import subprocess

import msgspec
import pytest

from images.recipes import Recipe, recipes


def test_every_image_has_another_name_and_file() -> None:
    assert (
        len({recipe.name for recipe in recipes()}) == len({recipe.file_name for recipe in recipes()}) == len(recipes())
    )


@pytest.mark.parametrize(
    "change",
    [
        {"scripts": {"toy-run": b"#!/bin/sh\nexit 1\n"}},
        {"users": ()},
        {"folders": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_content_is_another_archive(recipe: Recipe, change: dict[str, object]) -> None:
    assert msgspec.structs.replace(recipe, **change).file_name != recipe.file_name


def test_another_package_is_another_root_folder_and_another_archive(recipe: Recipe) -> None:
    root = msgspec.structs.replace(recipe.root, packages=("tini", "bash"))
    assert root.folder != recipe.root.folder
    assert msgspec.structs.replace(recipe, root=root).key != recipe.key


def test_a_plain_shell_can_read_every_script() -> None:
    for recipe in recipes():
        for name, script in recipe.scripts.items():
            done = subprocess.run(["sh", "-n"], input=script, capture_output=True, check=False)
            assert done.returncode == 0, f"{recipe.name} {name}: {done.stderr.decode()}"
            assert script.startswith(b"#!/bin/sh\n") or name == "common.sh"
