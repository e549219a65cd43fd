"""The other files, read by the daemon that reads them: it knows the keys of our tables, and no others."""

import re

import pytest

from corral.kinds.controller.files import CGROUPS
from corral.slurm.config.keys import VERSIONS, Type, key_table
from corral.slurm.config.lint import errors, lint
from corral.testing.slurmroots import Sandbox, slurm_root

pytestmark = pytest.mark.slurm

BASE = """\
ClusterName=lab
SlurmctldHost=ctld
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/slurm
StateSaveLocation=/var/spool/slurmctld
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdSpoolDir=/run/slurmd
ProctrackType=proctrack/linuxproc
GresTypes=gpu
NodeName=n1 Gres=gpu:1
NodeName=n2
"""
READY = "Running as primary controller"
SLURMCTLD = "exec setpriv --reuid=slurm --regid=slurm --init-groups /usr/sbin/slurmctld -D -i -v"
SLURMD = "chown root: /run/slurm; exec /usr/sbin/slurmd -D -N n1"
CONTAINERS = {"24.11": "JobContainerType=job_container/tmpfs\n", "26.05": "NamespaceType=namespace/tmpfs\n"}


def told(version: str, daemon: str, file: str, text: str, more: str = "") -> tuple[bool, str]:
    files = {"slurm.conf": BASE + more, "cgroup.conf": "CgroupPlugin=disabled\n"} | {file: text}
    contents = {name: text.encode() for name, text in files.items()} | {"slurm.key": b"k" * 64}
    return Sandbox(slurm_root(version), contents).run_until(READY, "sh", "-c", daemon, within_s=20)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("file", "daemon", "more", "record"),
    [
        ("cgroup.conf", SLURMCTLD, "", ""),
        ("topology.conf", SLURMCTLD, "TopologyPlugin=topology/tree\n", "SwitchName"),
        ("topology.conf", SLURMCTLD, "TopologyPlugin=topology/block\n", "BlockName"),
        ("job_container.conf", SLURMD, "PrologFlags=Contain\n", ""),
    ],
    ids=["cgroup", "tree", "block", "job_container"],
)
def test_the_daemon_knows_the_keys_of(version: str, file: str, daemon: str, more: str, record: str) -> None:
    table = key_table(version).files[file]
    keys = table.records[record] if record else table.settings
    start = f"{record}=gpu " if record else ""
    lines = [f"{start}{key}=@@" for key in keys if key != record]

    _, said = told(
        version, daemon, file, "\n".join([*lines, "NoSuchKey=1\n"]), more + CONTAINERS[version] * ("Contain" in more)
    )

    assert re.findall(r"unrecognized key: (\w+)", said) == ["NoSuchKey"], said[-2000:]
    yes_no = set(re.findall(r'"@@" is not a valid option for "(\w+)"', said))
    assert {key for key in keys if keys[key].type is Type.YES_NO} <= yes_no


@pytest.mark.parametrize("version", VERSIONS)
def test_slurmctld_takes_what_confines_jobs_though_it_has_no_cgroups_itself(version: str) -> None:
    more = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\n"
    runs, said = told(version, SLURMCTLD, "cgroup.conf", CGROUPS, more)
    assert runs, said[-2000:]


# slurmd ends at the first value that makes no sense, so these do.
GRES = """\
NodeName=n1 Name=gpu Type=a Cores=0 Links=-1 File=/dev/zero Flags=nvidia_gpu_env AutoDetect=off
NodeName=n2 Name=gpu Count=1 Flags=CountOnly
NodeName=n3 Name=gpu MultipleFiles=/dev/zero
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_daemon_knows_the_keys_of_gres_conf(version: str) -> None:
    _, said = told(version, SLURMD, "gres.conf", GRES + "NoSuchKey=1\n")

    assert all(f"{key}=" in GRES for key in key_table(version).files["gres.conf"].records["NodeName"])
    assert re.findall(r"unrecognized key: (\w+)", said) == ["NoSuchKey"], said[-2000:]
    assert errors(lint("gres.conf", GRES, version)) == ()


GOOD_TREE = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=root Switches=s1\n"
GOOD_YAML = """\
- topology: t
  cluster_default: true
  tree:
    switches:
      - switch: s1
        nodes: n[1-2]
"""


@pytest.mark.parametrize(
    ("version", "file", "text", "good"),
    [
        ("24.11", "topology.conf", GOOD_TREE, True),
        ("26.05", "topology.conf", GOOD_TREE, True),
        ("24.11", "topology.conf", GOOD_TREE.replace("Nodes", "Noeds"), False),
        ("26.05", "topology.conf", GOOD_TREE.replace("n[1-2]", "n[1-"), False),
        ("26.05", "topology.yaml", GOOD_YAML, True),
        ("26.05", "topology.yaml", GOOD_YAML.replace("switches", "swithces"), False),
        ("26.05", "topology.yaml", GOOD_YAML.replace("- topology: t", "- topology: ["), False),
        ("24.11", "cgroup.conf", "CgroupPlugin=disabled\nIgnoreSystemd=perhaps\n", False),
        ("26.05", "cgroup.conf", "CgroupPlugin=disabled\nConstrainCores=yes\n", True),
    ],
)
def test_the_daemon_and_the_linter_agree_on(version: str, file: str, text: str, good: bool) -> None:
    more = "TopologyPlugin=topology/tree\n" if file == "topology.conf" else ""

    started, said = told(version, SLURMCTLD, file, text, more)

    assert started is good, said[-2000:]
    assert (not errors(lint(file, text, version))) is good
