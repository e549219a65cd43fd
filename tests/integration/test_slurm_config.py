"""The linter's verdict and the real daemons' on the same files, for both versions.

A row says what is added to a good slurm.conf, what slurmctld makes of it (`starts`), and what the linter says. They
agree when the linter has an error exactly where slurmctld does not start. Where they do not, the row says why.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from corral.slurm.config.findings import Severity
from corral.slurm.config.keys import VERSIONS, key_table
from corral.slurm.config.lint import errors, lint
from corral.slurm.config.text import parse
from corral.testing.slurmroots import Sandbox, slurm_root

pytestmark = pytest.mark.slurm

GOOD = """\
ClusterName=lab
SlurmctldHost=ctld
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/var/spool/slurmctld
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
ProctrackType=proctrack/linuxproc
NodeName=n[1-2] CPUs=1
"""
AS_SLURM = ("setpriv", "--reuid=slurm", "--regid=slurm", "--init-groups")
READY = "Running as primary controller"


def starts(version: str, extra: str, **files: str) -> tuple[bool, str]:
    texts = {"slurm.conf": GOOD + extra, "cgroup.conf": "CgroupPlugin=disabled\n", **files}
    contents = {name: text.encode() for name, text in texts.items()} | {"slurm.key": b"k" * 64}
    sandbox = Sandbox(slurm_root(version), contents)
    return sandbox.run_until(READY, *AS_SLURM, "/usr/sbin/slurmctld", "-D", "-i", "-v", within_s=30)


@dataclass(frozen=True)
class Row:
    extra: str
    starts: bool
    looser: str = ""  # why the linter lets pass what the daemon refuses
    stricter: str = ""  # why the linter refuses what the daemon takes
    warns: bool = False


ROWS = [
    Row("", True),
    Row("PartitionName=p Nodes=ALL Default=YES MaxTime=1-0", True),
    Row("partitionname=p nodes=n1 default=yes", True),
    Row("NodeSet=x Feature=f\nPartitionName=p Nodes=x,n2", True),
    Row("MaxJobCount=\\\n50", True),
    Row("MaxJobCount=0x10 # hexadecimal", True),
    Row("MaxJobCount=1k", True),
    Row("MaxJobCount=UNLIMITED", True),
    Row('Prolog="/bin/true"\nProlog=/bin/false', True),
    Row("DisableRootJobs=up", True),
    Row("SlurmctldDebug=9", True),
    Row("TaskPlugin=task/affinity,task/cgroup", True),
    Row("PartitionName=p Nodes=ALL\nPreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG", True),
    Row("PrologFlags=Contain,DeferBatch", True),
    Row("SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory", True),
    Row("NodeName=DEFAULT CPUs=2\nNodeName=n3\nNodeName=DEFAULT CPUs=1\nNodeName=n4", True),
    # refused by both
    Row("MaxJobCuont=5", False),
    Row("NodeName=n3 CPU=1", False),
    Row("NodeName=n3 CPUs=many", False),
    Row("NodeName=n3 RealMemory=1G", False),
    Row("NodeName=n3 State=FOO", False),
    Row("NodeName=n1", False),
    Row("NodeName=n[2-3", False),
    Row("PartitionName=p Nodes=n9", False),
    Row("PartitionName=p Nodes=n1\nPartitionName=p Nodes=n2", False),
    Row("PartitionName=p State=FOO", False),
    Row("PartitionName=p Default=maybe", False),
    Row("PartitionName=p MaxTime=1h", False),
    Row("PartitionName=p Nodes=ALL OverSubscribe=FOO", False),
    Row("MaxJobCount=1.5", False),
    Row("MaxJobCount=-1", False),
    Row("TreeWidth=100000", False),
    Row("TreeWidth=1k", False),
    Row("MaxJobCount=5 b", False),
    Row("MaxJobCount=5 MaxJobId=6", False),
    Row("MaxJobCount", False),
    Row("MaxJobCount=", False),
    Row("Max-Job=1", False),
    Row("DisableRootJobs=maybe", False),
    Row("SlurmctldDebug=foo", False),
    Row("EnforcePartLimits=foo", False),
    Row("PreemptMode=foo", False),
    Row("PrologFlags=foo", False),
    Row("DebugFlags=foo", False),
    Row("SelectTypeParameters=foo", False),
    Row("AccountingStorageEnforce=none", False),
    Row("SelectType=select/foo", False),
    Row("SchedulerType=sched/foo", False),
    Row("TopologyPlugin=topology/foo", False),
    Row("Include nosuch.conf", False),
    # taken by both, with a warning of ours
    Row("MaxJobCount=10\nMaxJobCount=20", True, warns=True),
    Row("NodeName=n3 CPUs=1 CPUs=2", True, warns=True),
    Row("SlurmctldParameters=enable_configles", True, warns=True),
    Row("SchedulerParameters=bf_intervall=30", True, warns=True),
    Row("LaunchParameters=foo", True, warns=True),
    Row("DownNodes=n9 State=DOWN", True, warns=True),
    Row("NodeSet=x Nodes=n9", True, warns=True),
    Row("PartitionName=p Nodes=ALL Alternate=q", True, warns=True),
    Row("CoreSpecPlugin=core_spec/none", True, warns=True),
    # where we differ
    Row("TaskPlugin=task/foo", True, stricter="slurmctld does not load it; every slurmd would refuse to start"),
    Row("MaxJobCount=20\0MaxJobId=5", True, stricter="Slurm reads only what is before the NUL, an editor shows both"),
    Row("MaxJobCount=0", False, looser="zero is a number; that no job may run is beyond types"),
    Row(
        "PrologFlags=X11", False, looser="which plugins go together (not with proctrack/linuxproc) is not in the tables"
    ),
]


def rows() -> Iterator[ParameterSet]:
    for version in VERSIONS:
        for row in ROWS:
            yield pytest.param(version, row, id=f"{version} {row.extra!r}"[:70])


@pytest.mark.parametrize(("version", "row"), list(rows()))
def test_the_linter_says_what_the_daemon_does_with(version: str, row: Row) -> None:
    started, said = starts(version, row.extra + "\n")
    findings = lint("slurm.conf", GOOD + row.extra + "\n", version)
    first = GOOD.count("\n") + 1

    assert started is row.starts, said[-2000:]
    assert bool(errors(findings)) is (bool(row.stricter) or (not row.starts and not row.looser)), findings
    assert any(finding.severity is Severity.WARNING for finding in findings) is row.warns, findings
    assert all(finding.line >= first for finding in findings), findings


@pytest.mark.parametrize("version", VERSIONS)
def test_the_daemon_knows_every_key_that_the_linter_knows(version: str) -> None:
    table = key_table(version).files["slurm.conf"]
    lines = [f"{key}=@@" for key in table.settings]
    lines += [f"{record}=x{number}" for number, record in enumerate(table.records)]
    lines += [f"{record}=y{key} {key}=@@" for record, keys in table.records.items() for key in keys if key != record]

    _, said = starts(version, "\n".join(lines) + "\nNoSuchKey=1\n")

    assert "unrecognized key: NoSuchKey" in said  # it read to the end
    assert said.count("unrecognized key") == 1


def test_a_daemon_is_gone_when_the_call_returns() -> None:
    mark = f"987654.{os.getpid()}"
    sandbox = Sandbox(slurm_root("26.05"), {})

    ready, _ = sandbox.run_until("here", *AS_SLURM, "sh", "-c", f"echo here; exec sleep {mark}")

    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert ready
    assert [command for command in commands if command.startswith(b"sleep") and mark.encode() in command] == []


# Each file, and the daemon that reads it, with a key that is in no manual and one of the wrong type.
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("DbdHost=ctld\nStorageType=accounting_storage/mysql\n", False),
        ("DbdHost=ctld\nDbdHots=ctld\n", True),
        ("DbdHost=ctld\nDbdPort=x\n", True),
        ("DbdHost=ctld\nTrackWCKey=maybe\n", True),
        ("DbdHost=ctld\nDebugLevel=loud\n", True),
    ],
    ids=["good", "misspelt", "no number", "no yes or no", "no level"],
)
def test_slurmdbd_and_the_linter_agree(version: str, text: str, refused: bool) -> None:
    whole = f"SlurmUser=slurm\nAuthType=auth/slurm\nStoragePass=x\n{text}"
    contents = {"slurmdbd.conf": whole.encode(), "slurm.conf": GOOD.encode(), "slurm.key": b"k" * 64}

    _, said = Sandbox(slurm_root(version), contents).run_until(
        "mysql_real_connect failed", *AS_SLURM, "/usr/sbin/slurmdbd", "-D", "-v", within_s=20
    )

    assert ("Could not open/read/parse" in said or "fatal: Invalid" in said or "Invalid Debug" in said) is refused, said
    assert bool(errors(lint("slurmdbd.conf", whole, version))) is refused


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("MaxJobCount=a#b", "a"),
        ("MaxJobCount=a\\#b", "a#b"),
        ('MaxJobCount="a b"', "a b"),
        ('MaxJobCount="a#b"', '"a'),
        ("MaxJobCount=a\\\nb", "ab"),
        ("MaxJobCount=a\\ \nb", "ab"),
        ("maxjobcount = a", "a"),
        ("MaxJobCount==a", "=a"),
        ('MaxJobCount="a"b', '"a"b'),
        ("MaxJobCount=a\\\\b", "a\\b"),
        ("MaxJobCount=a\r", "a"),
    ],
)
def test_a_value_is_read_as_the_real_parser_reads_it(version: str, text: str, value: str) -> None:
    _, said = starts(version, text + "\n")

    assert f"MaxJobCount value ({value}) is not a valid number" in said
    assert [setting.value for line in parse(text).lines for setting in line.settings] == [value]
