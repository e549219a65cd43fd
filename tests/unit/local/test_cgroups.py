from pathlib import Path

import pytest

from corral.local.cgroups import hierarchies
from corral.local.mountinfo import mounts

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = """31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids"""
BESIDE = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"


@pytest.mark.parametrize(
    ("mountinfo", "tracking", "pure"),
    [
        pytest.param(V2, "/sys/fs/cgroup", True, id="v2"),
        pytest.param(V1, "/sys/fs/cgroup/pids", False, id="v1"),
        pytest.param(f"{V1}\n{BESIDE}", "/sys/fs/cgroup/unified", False, id="v2 beside v1"),
    ],
)
def test_the_hierarchy_that_tracks_processes(mountinfo: str, tracking: str, pure: bool) -> None:
    found = hierarchies(mounts(mountinfo.encode()))

    assert found.tracking == Path(tracking)
    assert found.is_pure_v2 is pure
