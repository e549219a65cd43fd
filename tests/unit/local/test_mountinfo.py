import os
from pathlib import Path

import pytest

from corral.local.mountinfo import Mount, mounts


@pytest.mark.parametrize(
    ("written", "path"),
    [
        pytest.param("/home/jürgen/state".encode(), "/home/jürgen/state", id="a letter beyond ASCII"),
        pytest.param(rb"/with\040blank\011and\134backslash", "/with blank\tand\\backslash", id="escapes"),
        pytest.param(rb"/not\x41\n", r"/not\x41\n", id="only octal numbers are escapes"),
        pytest.param("/no\u00a0break/next\u0085line".encode(), "/no\u00a0break/next\u0085line", id="no other blanks"),
        pytest.param(b"/latin\xe9", os.fsdecode(b"/latin\xe9"), id="a name that is no UTF-8"),
    ],
)
def test_a_mount_point_is_the_path_that_programs_use(written: bytes, path: str) -> None:
    line = b"36 35 98:0 / " + written + b" rw,noatime master:1 - ext4 /dev/root rw\n"

    assert mounts(line) == (Mount(Path(path), "ext4"),)


def test_optional_fields_are_no_kind_of_file_system() -> None:
    text = b"30 23 0:26 / /a rw - tmpfs tmpfs rw\n31 23 0:27 / /b rw shared:2 master:1 - cgroup2 none rw\n"

    assert [mount.kind for mount in mounts(text)] == ["tmpfs", "cgroup2"]
