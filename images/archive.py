"""A layer as an archive that docker, podman, skopeo and containerd read: one layer, a configuration and a manifest."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from corral.local.roots import EPOCH
from images.layer import Layer
from images.recipes import Recipe

ENTRYPOINT = ("/usr/bin/tini", "-g", "--")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_archive(recipe: Recipe, layer: Layer, target: Path) -> None:
    config = json.dumps(configuration(recipe, layer), sort_keys=True).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = "layer.tar.gz"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [recipe.name], "Layers": [layer_name]}]).encode()
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for file_name, content in (("manifest.json", manifest), (config_name, config)):
            tar.addfile(_entry(file_name, len(content)), io.BytesIO(content))
        with layer.file.open("rb") as stream:
            tar.addfile(_entry(layer_name, layer.file.stat().st_size), stream)


def configuration(recipe: Recipe, layer: Layer) -> dict[str, object]:
    user = {"User": f"{recipe.uid}:{recipe.uid}"} if recipe.uid else {}
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(ENTRYPOINT), "Env": [PATH, "LC_ALL=C.UTF-8"], **user},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
    }


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size, entry.mtime = 0o644, size, EPOCH
    return entry
