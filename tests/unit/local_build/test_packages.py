import subprocess

from corral.local.packages import INSTALL_SCRIPT, missing

TRANSCRIPT = """\
installed\tiproute2\tarping
installed\tiptables\t
config-files\tnftables\t
half-installed\trunc\t
"""


def test_what_dpkg_does_not_call_installed_is_missing() -> None:
    wanted = ("conntrack", "iproute2", "iptables", "nftables", "runc")

    assert missing(wanted, TRANSCRIPT) == ("conntrack", "nftables", "runc")


def test_a_package_that_another_one_provides_is_present() -> None:
    """Docker's containerd.io brings containerd and runc, and cannot be installed beside Debian's."""
    docker = "installed\tcontainerd.io\tcontainerd, runc (= 1.3)\n"

    assert missing(("containerd", "runc"), docker) == ()


def test_of_two_packages_that_exclude_each_other_the_installed_one_will_do() -> None:
    wanted = ("busybox-static|busybox",)

    assert missing(wanted, "installed\tbusybox\t\n") == ()
    assert missing(wanted, "") == ("busybox-static",)


def test_the_script_that_root_runs_is_valid() -> None:
    checked = subprocess.run(["sh", "-n"], input=INSTALL_SCRIPT, capture_output=True, text=True)

    assert (checked.returncode, checked.stderr) == (0, "")
