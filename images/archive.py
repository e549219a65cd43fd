"""Layers as an archive that docker, podman, skopeo and containerd read: with a configuration and a manifest."""

import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from corral.local.roots import EPOCH
from images.layer import Layer
from images.recipes import Recipe

ENTRYPOINT = ("/usr/bin/tini", "-g", "--")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_archive(recipe: Recipe, layers: Sequence[Layer], target: Path) -> None:
    """`layers` from the lowest to the highest."""
    config = json.dumps(configuration(recipe, layers), sort_keys=True).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    names = [f"layer-{number}.tar.gz" for number in range(len(layers))]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [recipe.name], "Layers": names}]).encode()
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for file_name, content in (("manifest.json", manifest), (config_name, config)):
            tar.addfile(_entry(file_name, len(content)), io.BytesIO(content))
        for name, layer in zip(names, layers, strict=True):
            with layer.file.open("rb") as stream:
                tar.addfile(_entry(name, layer.file.stat().st_size), stream)


def read_layers(archive: Path, folder: Path) -> tuple[Layer, ...]:
    """The layers of an archive that `write_archive` made, as files in the folder."""
    with tarfile.open(archive) as tar:
        (manifest,) = json.loads(_content(tar, "manifest.json"))
        diff_ids = json.loads(_content(tar, manifest["Config"]))["rootfs"]["diff_ids"]
        found = []
        for name, diff_id in zip(manifest["Layers"], diff_ids, strict=True):
            stream = tar.extractfile(name)
            assert stream is not None  # noqa: S101 - we wrote it as a file
            with stream, (folder / f"below-{name}").open("wb") as file:
                shutil.copyfileobj(stream, file)
            found.append(Layer(file=folder / f"below-{name}", diff_id=diff_id))
        return tuple(found)


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    stream = tar.extractfile(name)
    assert stream is not None  # noqa: S101 - we wrote it as a file
    return stream.read()


def configuration(recipe: Recipe, layers: Sequence[Layer]) -> dict[str, object]:
    user = {"User": f"{recipe.uid}:{recipe.uid}"} if recipe.uid else {}
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(ENTRYPOINT), "Env": [PATH, "LC_ALL=C.UTF-8"], **user},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
    }


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size, entry.mtime = 0o644, size, EPOCH
    return entry
