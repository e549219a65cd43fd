"""A small root folder such as mmdebstrap leaves, and a recipe over it."""

from pathlib import Path

import pytest

from corral.local.roots import Root
from images.recipes import Folder, Recipe

STATUS = """Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-1+b3
Description: tiny init
 Package: not a field

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def make_root(folder: Path) -> Path:
    contents = {
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
        "etc/hostname": "the machine that made it\n",
        "etc/ssh/ssh_host_ed25519_key": "a key\n",
        "etc/ssh/sshd_config": "UsePAM yes\n",
        "usr/bin/tini": "a program\n",
        "var/cache/ldconfig/aux-cache": "differs from day to day\n",
        "var/lib/dpkg/status": STATUS,
        "var/log/dpkg.log": "differs from day to day\n",
    }
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "usr/bin/tini").chmod(0o755)
    (folder / "var/lib/toy").mkdir()
    (folder / "bin").symlink_to("usr/bin")
    (folder / "usr/bin/init").hardlink_to(folder / "usr/bin/tini")
    return folder


@pytest.fixture
def recipe() -> Recipe:
    return Recipe(
        name="corral/toy:1",
        root=Root(name="toy", suite="trixie", packages=("tini",)),
        scripts={"toy-run": b"#!/bin/sh\n"},
        folders={"/run/toy": Folder(owner=64030), "/var/lib/toy": Folder(owner=64030)},
        users=("toy:x:999:999::/nonexistent:/usr/sbin/nologin",),
    )
