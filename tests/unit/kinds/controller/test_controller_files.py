"""The files that slurmctld reads: golden, the same for the same values, and wrong ones told with line and reason."""

from pathlib import Path

import msgspec
import pytest

from corral.kinds.controller.files import Sources, rendered
from corral.kinds.parts import Ref
from tests.unit.kinds.controller.builders import NOW, a_config_map, a_controller, a_nodeset, an_accounting

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("version", ["24.11", "26.05"])
def test_slurm_conf_is_written_like_the_golden_file(version: str) -> None:
    controller = a_controller(
        version=version,
        accounting_ref=Ref(name="acct"),
        prolog_script_refs=(Ref(name="scripts"),),
        prolog_slurmctld_script_refs=(Ref(name="central"),),
        extra_conf="SlurmctldParameters=enable_stepmgr\nMinJobAge=2\n",
    )
    files = rendered(
        Sources(
            controller=controller,
            nodesets=(a_nodeset("gpu", partition=True, config="MaxTime=2-0"), a_nodeset("cpu")),
            accounting=an_accounting(),
            config_maps={
                "scripts": a_config_map("scripts", check_sh="#!/bin/sh\n"),
                "central": a_config_map("central", begin_sh="#!/bin/sh\n"),
            },
        )
    )

    assert files.errors == ()
    assert files.content["slurm.conf"] == (GOLDEN / f"slurm-{version}.conf").read_text()
    assert sorted(files.content) == ["begin.sh", "cgroup.conf", "check.sh", "slurm.conf"]


def test_the_order_of_nodesets_is_no_difference() -> None:
    one, other = a_nodeset("a"), a_nodeset("b", partition=True)
    controller = a_controller()

    assert (
        rendered(Sources(controller=controller, nodesets=(one, other))).digest
        == rendered(Sources(controller=controller, nodesets=(other, one))).digest
    )


def test_a_file_of_the_user_takes_the_place_of_ours() -> None:
    controller = a_controller(config_file_refs=(Ref(name="files"),))
    given = a_config_map("files", cgroup_conf="CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n")
    files = rendered(Sources(controller=controller, config_maps={"files": given}))

    assert files.errors == ()
    assert files.content["cgroup.conf"].startswith("CgroupPlugin=cgroup/v2")


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        pytest.param("MinJobAge=2\nMinJobAg=3", "line 2: MinJobAg is no key", id="misspelt"),
        pytest.param("SlurmctldPort=7000", "line 1: SlurmctldPort is set by Corral", id="ours"),
        pytest.param("PartitionName=p Nodes=nosuch", "nosuch, which is not defined", id="a node that is nowhere"),
        pytest.param("MinJobAge=soon", "line 1: MinJobAge", id="of the wrong type"),
        pytest.param("Include other.conf", "not among the files delivered", id="a file that is not there"),
    ],
)
def test_wrong_lines_are_told_with_their_place_in_the_users_text(extra: str, says: str) -> None:
    files = rendered(Sources(controller=a_controller(extra_conf=extra)))

    assert any(error.startswith("spec.extraConf: ") and says in error for error in files.errors), files.errors


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        pytest.param("slurm_conf", "", "made by Corral", id="a file that is ours"),
        pytest.param("gres_conf", "Nme=gpu", "gres.conf: line 1", id="a file with a mistake"),
    ],
)
def test_wrong_files_are_told_with_their_name(file: str, text: str, says: str) -> None:
    controller = a_controller(config_file_refs=(Ref(name="files"),))
    files = rendered(Sources(controller=controller, config_maps={"files": a_config_map("files", **{file: text})}))

    assert says in " ".join(files.errors)


def test_a_partition_line_that_cannot_be_read_names_its_nodeset() -> None:
    files = rendered(Sources(controller=a_controller(), nodesets=(a_nodeset("gpu", partition=True, config="oops"),)))

    assert "NodeSet gpu, spec.partition.config" in files.errors[0]


@pytest.mark.parametrize(
    ("extra", "line"),
    [
        pytest.param("", "PartitionName=all Nodes=ALL Default=YES", id="nobody says which is the default"),
        pytest.param("PartitionName=x Nodes=ALL Default=YES", "PartitionName=all Nodes=ALL Default=NO", id="they do"),
    ],
)
def test_the_partition_of_all_nodes_is_the_default_unless_another_is(extra: str, line: str) -> None:
    files = rendered(Sources(controller=a_controller(extra_conf=extra)))

    assert files.errors == ()
    assert line in files.content["slurm.conf"].splitlines()


def test_what_workers_bring_is_named_to_slurm_which_would_drop_it_otherwise() -> None:
    gpu = a_nodeset("gpu")
    brings = msgspec.structs.replace(gpu, spec=msgspec.structs.replace(gpu.spec, extra_conf="Gres=gpu:h100:2,shard:8"))
    lines = rendered(Sources(controller=a_controller(), nodesets=(brings,))).content["slurm.conf"].splitlines()
    assert "GresTypes=gpu,shard" in lines
    assert not any("GresTypes" in file for file in rendered(Sources(controller=a_controller())).content.values())


def test_jobs_that_are_to_be_confined_are_tracked_and_limited_by_cgroup_v2() -> None:
    sources = Sources(controller=a_controller(confine_jobs=True), accounting=an_accounting())
    files = rendered(sources)

    assert files.errors == ()
    assert files.content["cgroup.conf"].splitlines()[:2] == ["CgroupPlugin=cgroup/v2", "IgnoreSystemd=yes"]
    for line in ("ProctrackType=proctrack/cgroup", "TaskPlugin=task/cgroup", "JobAcctGatherType=jobacct_gather/cgroup"):
        assert f"{line}\n" in files.content["slurm.conf"]


def test_the_partition_of_a_nodeset_that_is_being_deleted_takes_no_job_any_more() -> None:
    nodeset = a_nodeset(partition=True, config="State=UP MaxTime=10")
    meta = msgspec.structs.replace(nodeset.metadata, deletion_timestamp=NOW)
    going = msgspec.structs.replace(nodeset, metadata=meta)
    text = rendered(Sources(controller=a_controller(), nodesets=(going,))).content["slurm.conf"]
    assert "PartitionName=gpu Nodes=gpu MaxTime=10 State=INACTIVE\n" in text
