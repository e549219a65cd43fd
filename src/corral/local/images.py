"""Container images without a registry: packed here from files of this machine, and imported into every node.

An image is a docker archive: one layer, a configuration and a manifest. The same files give the same bytes.
"""

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from corral.local.commands import run
from corral.local.errors import LocalError
from corral.local.home import Home, home_of, write
from corral.local.namespaces import enter
from corral.local.node import CONTAINERD_SOCKET, SANDBOX_IMAGE
from corral.local.spec import Node, Spec

TOOLBOX_IMAGE = "corral.local/toolbox:1"
FROM_ARCHIVE = "corral.dev/archive"  # a label: the file that an image was imported from


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """`files` are contents by absolute path, all executable; `links` are targets by absolute path."""

    name: str
    files: Mapping[str, bytes]
    links: Mapping[str, str] = {}
    directories: tuple[str, ...] = ()
    command: tuple[str, ...]


def import_archive(cluster: str, path: Path) -> bool:
    """Import a docker archive into every node of the cluster of that name; False when all had it already.

    An archive of another file name is another one, whatever it calls its images. Tag the image other than `latest`,
    else kubelet wants to pull it.
    """
    home = home_of(cluster)
    spec = home.read_spec()
    if spec is None:
        raise LocalError(f"there is no cluster {cluster}: run `corral up --name {cluster}`")
    file = path.resolve()
    lacking = [node for node in spec.nodes if not _has(home, node, file)]
    for node in lacking:
        _ctr(home, node, "images", "import", str(file))
        for image in tags(file):
            _label(home, node, image, file)
    return bool(lacking)


def tags(archive: Path) -> tuple[str, ...]:
    """The images of an archive, as it calls them."""
    with tarfile.open(archive) as tar:
        manifest = tar.extractfile("manifest.json")
        if manifest is None:
            raise LocalError(f"{archive} is no docker archive: it has no manifest.json")
        return tuple(tag for image in json.load(manifest) for tag in image["RepoTags"])


def _has(home: Home, node: Node, file: Path) -> bool:
    """An import of another archive under the same name takes the label away."""
    return bool(_ctr(home, node, "images", "list", "--quiet", f'labels."{FROM_ARCHIVE}"=={file.name}').split())


def _label(home: Home, node: Node, image: str, file: Path) -> None:
    """containerd puts a host before names that have none."""
    known = _ctr(home, node, "images", "list", "--quiet").split()
    for name in known:
        if name == image or name.endswith(f"/{image}"):
            _ctr(home, node, "images", "label", name, f"{FROM_ARCHIVE}={file.name}")


def ensure(home: Home, spec: Spec, image: Image) -> None:
    """Pack the image and import it where it is not there yet."""
    lacking = [node for node in spec.nodes if image.name not in _ctr(home, node, "images", "list", "--quiet").split()]
    if not lacking:
        return
    file = home.path / "images" / f"{image.name.replace('/', '_').replace(':', '_')}.tar"
    write(file, archive(image))
    for node in lacking:
        _ctr(home, node, "images", "import", str(file))


def sandbox() -> Image:
    """What holds a pod's namespaces open: a program that waits for signals and reaps orphans."""
    return Image(name=SANDBOX_IMAGE, files={"/pause": _program("catatonit").read_bytes()}, command=("/pause", "-P"))


def toolbox() -> Image:
    """A shell for tests: busybox, and beside it bash and getent, because a static busybox cannot resolve names."""
    busybox, bash, getent = (_program(name) for name in ("busybox", "bash", "getent"))
    libraries = {library for program in (busybox, bash, getent) for library in _libraries(program)}
    applets = run([str(busybox), "--list"]).split()
    programs = {"/bin/busybox": busybox, "/bin/bash": bash, "/usr/bin/getent": getent}
    return Image(
        name=TOOLBOX_IMAGE,
        files={path: source.read_bytes() for path, source in {**programs, **{str(p): p for p in libraries}}.items()},
        links={f"/bin/{applet}": "busybox" for applet in applets if applet not in ("busybox", "bash")},
        directories=("/tmp", "/etc", "/var", "/www"),  # noqa: S108 the image's, not ours
        command=("/bin/sleep", "infinity"),
    )


def archive(image: Image) -> bytes:
    layer = _layer(image)
    config = json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Cmd": list(image.command), "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        },
        sort_keys=True,
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [image.name], "Layers": ["layer.tar"]}]).encode()
    return _tar([(_file("manifest.json"), manifest), (_file(config_name), config), (_file("layer.tar"), layer)])


def _layer(image: Image) -> bytes:
    paths = {*image.files, *image.links, *image.directories}
    parents = {str(parent) for path in paths for parent in Path(path).parents}
    entries = [(_directory(path), b"") for path in sorted(parents | set(image.directories)) if path != "/"]
    entries += [(_file(path.lstrip("/"), 0o755), content) for path, content in sorted(image.files.items())]
    entries += [(_link(path, target), b"") for path, target in sorted(image.links.items())]
    return _tar(entries)


def _tar(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _file(name: str, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    return entry


def _directory(path: str) -> tarfile.TarInfo:
    entry = _file(path.lstrip("/"), 0o1777 if path == "/tmp" else 0o755)  # noqa: S108 the image's, not ours
    entry.type = tarfile.DIRTYPE
    return entry


def _link(path: str, target: str) -> tarfile.TarInfo:
    entry = _file(path.lstrip("/"), 0o777)
    entry.type = tarfile.SYMTYPE
    entry.linkname = target
    return entry


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise LocalError(f"{name} is not installed: run `corral local prepare`")
    return Path(found)


def _libraries(program: Path) -> tuple[Path, ...]:
    """The shared libraries of a program, by the paths it looks for them at; none of a static program."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False, timeout=30).stdout
    return tuple(Path(path) for path in sorted(set(re.findall(r"(/\S+) \(0x", listed))))


def _ctr(home: Home, node: Node, *arguments: str) -> str:
    inside = enter(network=home.network(node), mounts=home.mounts(node))
    return run([*inside, "ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *arguments], timeout_s=300.0)
