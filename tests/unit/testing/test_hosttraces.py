"""What counts as a change of the host, between two looks at it."""

import pytest

from corral.testing.hosttraces import differences

HOST = frozenset(
    {
        "program 7 containerd 0::/system.slice/containerd.service",
        "process unshare sleep 0::/",
        "link eth0 UP 192.0.2.7/24",
        "route default via 192.0.2.1 dev eth0",
        "rule table inet theirs {",
        "setting kernel/panic = 0",
        "text /etc/hosts 123456789abc",
        "mount /srv",
        "mount /run/user/1000",
        "cgroup /sys/fs/cgroup/user.slice",
        "file /etc/theirs",
        "file /run/theirs.pid",
    }
)


def test_nothing_differs_on_a_host_that_is_as_it_was() -> None:
    assert differences(HOST, HOST) == set()


@pytest.mark.parametrize("line", ["process sleep 0::/corral0-x", "mount /run/x", "cgroup /x", "file /run/x"])
def test_whatever_is_left_behind_counts(line: str) -> None:
    assert differences(HOST, HOST | {line}) == {f"+ {line}"}


@pytest.mark.parametrize("own", ["program", "link", "route", "rule", "setting", "text", "mount /srv", "file /etc"])
def test_what_was_the_hosts_own_and_is_gone_counts(own: str) -> None:
    (line,) = (line for line in HOST if line.startswith(own))
    assert differences(HOST, HOST - {line}) == {f"- {line}"}


def test_what_has_changed_is_there_in_another_way() -> None:
    changed = HOST - {"setting kernel/panic = 0"} | {"setting kernel/panic = 10"}
    assert differences(HOST, changed) == {"- setting kernel/panic = 0", "+ setting kernel/panic = 10"}


def test_a_setting_that_came_with_a_module_of_the_kernel_does_not_count() -> None:
    assert differences(HOST, HOST | {"setting net/netfilter/nf_conntrack_max = 65536"}) == set()


@pytest.mark.parametrize("own", ["process", "mount /run/", "cgroup", "file /run/"])
def test_what_a_host_itself_takes_away_now_and_then_does_not_count(own: str) -> None:
    (line,) = (line for line in HOST if line.startswith(own))
    assert differences(HOST, HOST - {line}) == set()
