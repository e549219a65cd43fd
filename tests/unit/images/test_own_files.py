"""Files and links of our own stand in place of what packages brought, once."""

import gzip
import io
import tarfile
from pathlib import Path

import msgspec

from images.layer import write_layer
from images.recipes import Recipe, slurm


def test_our_file_and_our_link_replace_what_the_packages_brought(root: Path, recipe: Recipe, tmp_path: Path) -> None:
    ours = msgspec.structs.replace(
        recipe, files={"/etc/ssh/sshd_config": b"ours\n"}, links={"/etc/hosts.conf": "/run/hosts.conf"}
    )
    layer = write_layer(root, ours, tmp_path / "layer.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer.file.read_bytes()))) as tar:
        assert tar.getnames().count("etc/ssh/sshd_config") == 1
        replaced = tar.extractfile("etc/ssh/sshd_config")
        assert replaced is not None
        assert replaced.read() == b"ours\n"
        assert tar.getmember("etc/hosts.conf").linkname == "/run/hosts.conf"


def test_the_slurm_image_looks_for_people_where_pods_mount_them() -> None:
    found = slurm("26.05").files["/etc/nsswitch.conf"].decode()

    assert "passwd: files extrausers ldap" in found
    assert "/etc/pam.d/sshd" in slurm("24.11").files
