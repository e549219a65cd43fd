"""What the linter says, word for word where a person reads it."""

import pytest

from corral.slurm.config.findings import Severity
from corral.slurm.config.keys import VERSIONS, UnknownVersionError, key_table
from corral.slurm.config.lint import Names, errors, lint, names_of

HEAD = "ClusterName=lab\nSlurmctldHost=ctld\n"


def says(text: str, version: str = "26.05", file: str = "slurm.conf", known: Names | None = None) -> list[str]:
    return [str(finding) for finding in lint(file, text, version, known=known, whole=False)]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("MaxJobCuont=5", "line 1: MaxJobCuont is no key in slurm.conf of Slurm 26.05: did you mean MaxJobCount?"),
        ("Partition=p", "line 1: Partition is no key in slurm.conf of Slurm 26.05: did you mean PartitionName?"),
        ("NodeName=a CPU=1", "line 1: CPU is no key of a NodeName line of Slurm 26.05: did you mean CPUs?"),
        (
            "NodeName=a MaxJobCount=1",
            "line 1: MaxJobCount stands on the line of a NodeName: expected a line of its own",
        ),
        ("MaxJobId=1 MaxJobCount=2", "line 1: MaxJobCount stands on the line of MaxJobId: expected a line of its own"),
        ("MaxJobCount=few", "line 1: MaxJobCount is few: expected a whole number"),
        ("TreeWidth=1k", "line 1: TreeWidth is 1k: expected a whole number"),
        ("TreeWidth=70000", "line 1: TreeWidth is 70000: expected at most 65535"),
        ("DisableRootJobs=maybe", "line 1: DisableRootJobs is maybe: expected yes or no"),
        ("\n\nSlurmctldDebug=debgu2", "line 3: SlurmctldDebug is debgu2: did you mean debug2?"),
        ("PrologFlags=Contian", "line 1: PrologFlags is Contian: did you mean Contain?"),
        (
            "SelectType=select/cons_res",
            "line 1: SelectType is select/cons_res: did you mean select/cons_tres? (Slurm 26.05 as Debian builds it)",
        ),
        ("MaxJobCount=1\nMaxJobCount=2", "line 2: MaxJobCount was set in line 1 already: Slurm takes the last"),
        ("NodeName=a CPUs=1 cpus=2", "line 1: cpus is twice on this line: Slurm takes the last"),
        ("NodeName=a[1-3]\nNodeName=a2", "line 2: NodeName a2 is defined twice"),
        ("PartitionName=p\nPartitionName=p", "line 2: PartitionName p is defined twice"),
        (
            "NodeName=gpu1\nPartitionName=p Nodes=gpu2",
            "line 2: Nodes names the node gpu2, which is not defined: did you mean gpu1?",
        ),
        ("PartitionName=p Nodes=a[1-", "line 1: Nodes hostlist 'a[1-': the bracket at character 2 has no partner"),
        ("PartitionName=p Alternate=q", "line 1: Alternate names the partition q, which is not defined"),
        ("CoreSpecPlugin=x", "line 1: CoreSpecPlugin is defunct: Slurm ignores it; take it out"),
        (
            "SlurmctldParameters=enable_configles",
            (
                "line 1: SlurmctldParameters has no option enable_configles: "
                "did you mean enable_configless? Slurm ignores it silently"
            ),
        ),
        ("Include nodes.conf", "line 1: Include names 'nodes.conf', which is not among the files delivered"),
        ("Key", "line 1: cannot be read from 'Key' on: expected Key=Value"),
        ("MaxJobCount=1\0", "line 1: has the control character '\\x00': Slurm reads another text here"),
    ],
)
def test_a_mistake_is_reported_with_line_and_reason(text: str, finding: str) -> None:
    assert says(text) == [finding]


def test_a_key_of_the_other_version_is_told_apart_from_a_misspelt_one() -> None:
    assert says("MetricsType=metrics/openmetrics", "24.11") == [
        "line 1: MetricsType is a key of Slurm 26.05; 24.11 does not have it"
    ]
    assert says("MetricsType=metrics/openmetrics") == []


def test_a_whole_file_needs_a_cluster_and_a_controller() -> None:
    assert [finding.key for finding in lint("slurm.conf", "", "26.05")] == ["ClusterName", "SlurmctldHost"]
    assert lint("slurm.conf", HEAD, "26.05") == ()


def test_lines_to_be_added_may_name_what_the_rest_defines() -> None:
    known = names_of("NodeName=a[1-2]\nNodeSet=gpu Feature=gpu\nPartitionName=all Nodes=ALL\n")

    assert says("PartitionName=p Nodes=a1,gpu Alternate=all", known=known) == []
    assert says("PartitionName=all Nodes=a1", known=known) == ["line 1: PartitionName all is defined twice"]


def test_a_password_is_never_repeated() -> None:
    text = "StoragePass=open sesame\nStoragePass=sesame\nStoragePass=sesame\n"

    findings = says(text, file="slurmdbd.conf")

    assert len(findings) == 3
    assert "sesame" not in "".join(findings)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("file", "good", "bad", "key"),
    [
        ("slurmdbd.conf", "DbdHost=db\nTrackWCKey=yes\n", "DbdHots=db\n", "DbdHots"),
        ("cgroup.conf", "CgroupPlugin=cgroup/v2\nConstrainCores=yes\n", "ConstrainCores=perhaps\n", "ConstrainCores"),
        ("cgroup.conf", "CgroupPlugin=disabled\n", "CgroupPlugin=cgroup/v3\n", "CgroupPlugin"),
        (
            "gres.conf",
            "AutoDetect=off\nNodeName=n1 Name=gpu File=/dev/zero\nName=gpu Count=2\n",
            "Name=gpu Cuont=1\n",
            "Cuont",
        ),
        ("topology.conf", "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Switches=s1\n", "SwitchName=s Node=n\n", "Node"),
        ("topology.conf", "BlockName=b Nodes=n1\nBlockSizes=2,4\n", "BlokcSizes=2\n", "BlokcSizes"),
        ("acct_gather.conf", "EnergyIPMIFrequency=10\n", "EnergyIPMIFrequency=often\n", "EnergyIPMIFrequency"),
        ("job_container.conf", "BasePath=/x\nNodeName=n1 BasePath=/y\n", "BasePaht=/x\n", "BasePaht"),
        (
            "job_container.conf",
            "AutoBasePath=true\nBasePath=/x Dirs=/tmp,/var/tmp\n",
            "BasePath=/x Dris=/tmp\n",
            "Dris",
        ),
        ("mpi.conf", "PMIxTimeout=10\nPMIxDirectConn=true\n", "PMIxDirectConn=perhaps\n", "PMIxDirectConn"),
        ("plugstack.conf", "required a.so x=1\n# c\noptional /b.so\n", "requierd a.so\n", "requierd"),
    ],
)
def test_every_file_is_checked(version: str, file: str, good: str, bad: str, key: str) -> None:
    assert lint(file, good, version) == ()
    assert [(finding.line, finding.key) for finding in errors(lint(file, bad, version))] == [(1, key)]


TOPOLOGY = """\
- topology: tree1
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: leaf[0-1]
      - switch: leaf0
        nodes: n[1-2]
- topology: flat1
  cluster_default: false
  flat: true
"""


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("", "", ""),
        ("children:", "childern:", "line 6: childern is no key of a switch: did you mean children?"),
        ("flat1", "tree1", "line 9: topology tree1 is defined twice"),
        ("  flat: true\n", "", "line 9: expected exactly one of tree, block, flat, ring, torus3d, got none"),
        ("n[1-2]", "'n[2-1]'", "line 8: nodes hostlist 'n[2-1]': range 2-1 goes down"),
        ("false", "true", "cluster_default is true more than once: expected one default"),
        ("- topology: tree1", "x", "line 2: is no YAML"),
    ],
    ids=["good", "misspelt", "twice", "no kind", "hostlist", "defaults", "no yaml"],
)
def test_topology_yaml_is_checked(old: str, new: str, finding: str) -> None:
    findings = says(TOPOLOGY.replace(old, new), file="topology.yaml")

    assert [text[: len(finding)] for text in findings] == ([finding] if finding else [])


def test_a_file_that_this_version_does_not_read_is_an_error() -> None:
    assert "reads no file named topology.yaml" in says(TOPOLOGY, "24.11", "topology.yaml")[0]
    assert "reads no file named slrum.conf" in says("", file="slrum.conf")[0]


def test_what_slurm_would_accept_is_only_a_warning() -> None:
    findings = lint("slurm.conf", HEAD + "MaxJobCount=1\nMaxJobCount=2\n", "24.11")

    assert [finding.severity for finding in findings] == [Severity.WARNING]
    assert errors(findings) == ()


def test_a_version_without_a_table_is_named() -> None:
    with pytest.raises(UnknownVersionError, match=r"Slurm 23\.02: expected one of 24\.11, 26\.05"):
        key_table("23.02")
