"""The same files give the same bytes; what packages leave behind and what must not be shared stays out."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from images.build import bill_path, pack
from images.recipes import Recipe
from tests.unit.images.conftest import make_root

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def archive(root: Path, recipe: Recipe, tmp_path: Path) -> tarfile.TarFile:
    pack(root, recipe, tmp_path / "toy.tar")
    return tarfile.open(fileobj=io.BytesIO((tmp_path / "toy.tar").read_bytes()))


@pytest.fixture
def layer(archive: tarfile.TarFile) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(gzip.decompress(content(archive, "layer-0.tar.gz"))))


def content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def test_the_same_files_made_elsewhere_and_later_give_the_same_bytes(recipe: Recipe, tmp_path: Path) -> None:
    first, second = make_root(tmp_path / "first"), make_root(tmp_path / "second")
    os.utime(second / "usr/bin/tini", (1, 1))
    (second / "var/log/dpkg.log").write_text("another day\n")
    pack(first, recipe, tmp_path / "first.tar")
    pack(second, recipe, tmp_path / "second.tar")
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


PACKED_ELSEWHERE = """
import os, sys
from pathlib import Path
from images.build import pack
from images.recipes import mariadb, slurm
from tests.unit.images.conftest import make_root
root = make_root(Path(sys.argv[1]) / "root")
os.umask(int(sys.argv[2], 8))
for recipe in (slurm("24.11"), slurm("26.05"), mariadb("11.8")):
    pack(root, recipe, Path(sys.argv[1]) / f"{recipe.file_name}.tar")
"""


def test_two_people_get_the_same_images_and_bills_to_the_byte(tmp_path: Path) -> None:
    """Other order of sets, time zone, language and mask of new files; the same Debian packages."""
    made = []
    for number, (zone, language) in enumerate([("UTC", "C.UTF-8"), ("Pacific/Chatham", "de_DE.UTF-8")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        settings = {**os.environ, "PYTHONHASHSEED": str(number), "TZ": zone, "LC_ALL": language}
        command = [sys.executable, "-c", PACKED_ELSEWHERE, str(folder), ("022", "077")[number]]
        subprocess.run(command, check=True, env=settings, cwd=CHECKOUT)
        files = (path for path in folder.iterdir() if path.is_file())
        made.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
    assert made[0] == made[1]
    assert len(made[0]) == 6


def test_keys_logs_caches_and_the_hosts_name_stay_out(layer: tarfile.TarFile) -> None:
    names = set(layer.getnames())
    assert not {name for name in names if "ssh_host" in name or "hostname" in name or "aux-cache" in name}
    assert {"etc/ssh/sshd_config", "var/log", "var/cache"} <= names
    assert "var/log/dpkg.log" not in names


def test_scripts_are_executable_and_folders_have_their_owner(layer: tarfile.TarFile) -> None:
    script = layer.getmember("usr/libexec/corral/toy-run")
    assert (script.mode, script.uid) == (0o755, 0)
    for name in ("run/toy", "var/lib/toy"):
        folder = layer.getmember(name)
        assert (folder.isdir(), folder.uid, folder.gid) == (True, 64030, 64030)


def test_a_folder_comes_before_what_is_in_it(layer: tarfile.TarFile) -> None:
    names = layer.getnames()
    for name in names:
        parent = os.path.dirname(name)
        assert not parent or names.index(parent) < names.index(name), name


def test_no_path_appears_twice(layer: tarfile.TarFile) -> None:
    names = layer.getnames()
    assert len(names) == len(set(names))


def test_links_stay_links(layer: tarfile.TarFile) -> None:
    assert layer.getmember("bin").linkname == "usr/bin"
    assert layer.getmember("usr/bin/tini").linkname == "usr/bin/init"


def test_users_are_added_to_those_of_the_packages(layer: tarfile.TarFile) -> None:
    lines = content(layer, "etc/passwd").decode().splitlines()
    assert [line.split(":")[0] for line in lines] == ["root", "toy"]


def test_the_configuration_names_the_digest_of_the_layer_and_the_first_process(archive: tarfile.TarFile) -> None:
    (manifest,) = json.loads(content(archive, "manifest.json"))
    config = content(archive, manifest["Config"])
    layer = gzip.decompress(content(archive, manifest["Layers"][0]))
    assert manifest["RepoTags"] == ["corral/toy:1"]
    assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    assert json.loads(config)["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert json.loads(config)["config"]["Entrypoint"][0] == "/usr/bin/tini"


def test_the_bill_of_materials_has_what_is_installed_and_nothing_else(
    root: Path, recipe: Recipe, tmp_path: Path
) -> None:
    pack(root, recipe, tmp_path / "toy.tar")
    bill = json.loads(bill_path(tmp_path / "toy.tar").read_bytes())
    assert [component["purl"] for component in bill["components"]] == [
        "pkg:deb/debian/tini@0.19.0-1%2Bb3?arch=amd64&distro=trixie"
    ]
