"""The rule for the user's extra lines, one test a clause; and golden files."""

from pathlib import Path

import pytest

from corral.slurm.config import plugstack, topology
from corral.slurm.config.lint import lint
from corral.slurm.config.merge import merge, united
from corral.slurm.config.text import Section, UnwritableError, record, setting, write

GOLDEN = Path(__file__).parent / "golden"
OURS = (
    Section(
        "general",
        (
            setting("ClusterName", "hpc_demo"),
            setting("SlurmctldHost", "demo-controller-0(demo-controller-0.demo-controller.hpc)"),
            setting("MaxNodeCount", 1024),
            setting("Prolog", "10-check.sh"),
            setting("SlurmctldParameters", "enable_configless,node_reg_mem_percent=90"),
        ),
    ),
    Section("nodes", (record(NodeSet="gpu", Feature="gpu"), record(PartitionName="gpu", Nodes="gpu", MaxTime="2-0"))),
)


def merged(extra: str, files: frozenset[str] = frozenset()) -> tuple[str, list[str]]:
    result = merge("slurm.conf", OURS, extra, "26.05", files=files)
    return write(result.sections), [str(finding) for finding in result.refused]


def test_without_extra_lines_ours_are_written_as_they_are() -> None:
    assert merged("# nothing\n") == (write(OURS), [])


def test_a_key_of_ours_is_refused_and_says_why() -> None:
    text, refused = merged("\nclustername=other\n")

    assert text == write(OURS)
    assert refused == ["line 2: clustername is set by Corral: set `spec.clusterName` instead"]


def test_any_other_key_is_the_users() -> None:
    text, refused = merged("maxnodecount=5\nMinJobAge=2\n")

    assert "MaxNodeCount=1024" not in text
    assert text.endswith("#\n### EXTRA ###\nmaxnodecount=5\nMinJobAge=2\n")
    assert refused == []


def test_the_users_last_word_counts() -> None:
    text, _ = merged("MinJobAge=2\nMinJobAge=3\n")

    assert text.endswith("### EXTRA ###\nMinJobAge=3\n")


def test_lists_of_options_are_united_and_ours_win() -> None:
    text, _ = merged("slurmctldparameters=enable_stepmgr,Node_Reg_Mem_Percent=50,enable_configless\n")

    assert "SlurmctldParameters=enable_configless,node_reg_mem_percent=90,enable_stepmgr\n" in text
    assert text.lower().count("slurmctldparameters") == 1


def test_an_option_is_in_the_list_once() -> None:
    assert united("a,b=1", "B=2,c,c,") == "a,b=1,c"


def test_a_path_in_an_option_keeps_its_case() -> None:
    assert (
        united("jwt_key=/etc/slurm/jwt.key", "jwks=/Etc/Keys.json") == "jwt_key=/etc/slurm/jwt.key,jwks=/Etc/Keys.json"
    )


def test_records_and_keys_that_repeat_are_added() -> None:
    text, refused = merged("PartitionName=all Nodes=ALL\nProlog=20-more.sh\n")

    assert "Prolog=10-check.sh" in text
    assert text.endswith("PartitionName=all Nodes=ALL\nProlog=20-more.sh\n")
    assert refused == []


def test_a_record_of_ours_is_not_defined_again() -> None:
    text, refused = merged("PartitionName=gpu Nodes=ALL\n")

    assert text == write(OURS)
    assert refused == ["line 1: PartitionName gpu is defined by Corral already: choose another name"]


def test_an_include_must_be_delivered() -> None:
    assert merged("Include more.conf\n")[1] != []
    assert merged("Include more.conf\n", frozenset({"more.conf"}))[0].endswith("### EXTRA ###\nInclude more.conf\n")


def test_a_line_that_cannot_be_read_is_refused() -> None:
    assert merged("MinJobAge 5\n")[1] == ["line 1: cannot be read from 'MinJobAge 5' on: expected Key=Value"]


def test_a_key_of_ours_cannot_hide_behind_another_one() -> None:
    assert merged("MinJobAge=2 ClusterName=other\n") == (
        write(OURS),
        ["line 1: MinJobAge is followed by ClusterName: expected one key on a line"],
    )


@pytest.mark.parametrize("version", ["24.11", "26.05"])
def test_the_result_of_a_merge_has_no_key_twice(version: str) -> None:
    result = merge("slurm.conf", OURS, "MinJobAge=2\nMinJobAge=3\nSlurmctldParameters=enable_stepmgr\n", version)

    assert lint("slurm.conf", write(result.sections), version) == ()


def test_slurm_conf_is_written_like_the_golden_file() -> None:
    text, _ = merged("MinJobAge=2\nSlurmctldParameters=enable_stepmgr\nPartitionName=all Nodes=ALL\n")

    assert text == (GOLDEN / "slurm.conf").read_text()


FILES = {
    "slurmdbd.conf": write(
        [
            Section("general", (setting("DbdHost", "acct"), setting("DbdPort", 6819), setting("SlurmUser", "slurm"))),
            Section("storage", (setting("StorageHost", "db"), setting("StoragePass", "with # and blank"))),
        ]
    ),
    "cgroup.conf": write([setting("CgroupPlugin", "cgroup/v2"), setting("IgnoreSystemd", "yes")]),
    "gres.conf": write([setting("AutoDetect", "off"), record(Name="gpu", Type="h100", File="/dev/nvidia[0-7]")]),
    "topology.conf": write([record(SwitchName="s1", Nodes="n[1-2]"), record(SwitchName="root", Switches="s1")]),
    "acct_gather.conf": write([setting("EnergyIPMIFrequency", 10)]),
    "job_container.conf": write([setting("AutoBasePath", "true"), record(NodeName="n[1-2]", BasePath="/var/tmp")]),
    "mpi.conf": write([setting("PMIxDirectConn", "true")]),
    "plugstack.conf": plugstack.write(
        [plugstack.Plugin("a.so", arguments=("x=1",)), plugstack.Plugin("b.so", False), plugstack.Include("more/*")]
    ),
    "topology.yaml": topology.write(
        [{"topology": "t", "cluster_default": True, "tree": {"switches": [{"switch": "s", "nodes": "n[1-2]"}]}}]
    ),
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_written_like_the_golden_one(file: str) -> None:
    assert FILES[file] == (GOLDEN / file).read_text()
    assert [finding for finding in lint(file, FILES[file], "26.05") if finding.key != "include"] == []


@pytest.mark.parametrize("word", ["a b", "a\nrequired evil.so", "a#b", ""])
def test_a_plugin_cannot_smuggle_a_line(word: str) -> None:
    with pytest.raises(UnwritableError):
        plugstack.write([plugstack.Plugin("a.so", arguments=(word,))])
