"""What a change takes, and the sentence that says so."""

import pytest

from corral.slurm.config.differences import differences
from corral.slurm.config.effects import EXCEPTIONS, Effect, effect_of
from corral.slurm.config.keys import VERSIONS, find, key_table

OLD = "ClusterName=lab\nMinJobAge=300\nMaxNodeCount=100\nProlog=a.sh\nPartitionName=p Nodes=ALL MaxTime=5\n"


@pytest.mark.parametrize(
    ("new", "effect", "sentence"),
    [
        (OLD, None, "slurm.conf: nothing changes"),
        (
            (
                "# c\nPartitionName=p maxtime=5 Nodes=ALL\nPROLOG=a.sh\nMaxNodeCount=\\\n100\n"
                "MinJobAge=300\nclustername=lab"
            ),
            None,
            "slurm.conf: nothing changes",
        ),
        (
            OLD.replace("300", "5"),
            Effect.RECONFIGURE,
            "slurm.conf: 1 change, applied by a reconfigure; running jobs are not affected",
        ),
        (OLD.replace("MaxTime=5", "MaxTime=6"), Effect.RECONFIGURE, "slurm.conf: 1 change, applied by a reconfigure"),
        (OLD + "PartitionName=q Nodes=ALL\n", Effect.RECONFIGURE, "slurm.conf: 2 changes, applied by a reconfigure"),
        (OLD + "Prolog=b.sh\n", Effect.RECONFIGURE, "slurm.conf: 1 change, applied by a reconfigure"),
        (OLD.replace("Count=100", "Count=200"), Effect.RECONFIGURE, "slurm.conf: 1 change, applied by a reconfigure"),
        (OLD.replace("Count=100", "Count=50"), Effect.DRAIN, "slurm.conf: 1 change; drain all jobs"),
        (
            OLD + "SlurmctldPidFile=/x\n",
            Effect.RESTART_SLURMCTLD,
            "slurm.conf: 1 change; restart slurmctld, because of",
        ),
        (OLD + "SlurmdPidFile=/x\n", Effect.RESTART_SLURMD, "slurm.conf: 1 change; restart slurmd, because of"),
        (
            OLD + "SlurmdPidFile=/x\nSlurmctldPidFile=/x\n",
            Effect.RESTART_ALL,
            "slurm.conf: 2 changes; restart all daemons, because of",
        ),
        (
            OLD + "slurmctldport=1\n",
            Effect.RESTART_ALL,
            "slurm.conf: 1 change; restart all daemons, because of SlurmctldPort: ",
        ),
        (
            OLD.replace("=lab", "=new"),
            Effect.DRAIN,
            "slurm.conf: 1 change; drain all jobs, then restart all daemons, because of ClusterName: the saved state",
        ),
        (
            OLD.partition("Partition")[0],
            Effect.DRAIN,
            "slurm.conf: 3 changes; drain all jobs, then restart all daemons, because of PartitionName=p: jobs of a",
        ),
    ],
    ids=str,
)
def test_a_change_takes(new: str, effect: Effect | None, sentence: str) -> None:
    found = differences("slurm.conf", OLD, new, "26.05")

    assert found.effect is effect
    assert found.sentence.startswith(sentence)


def test_each_change_is_a_sentence() -> None:
    new = OLD.replace("300", "5").replace(" MaxTime=5", "") + "TreeWidth=9\n"

    found = [str(change) for change in differences("slurm.conf", OLD, new, "24.11").changes]

    assert found == [
        "MinJobAge: 300 becomes 5: reconfigure",
        "TreeWidth is new: 9: reconfigure",
        "PartitionName=p MaxTime is removed (was 5): reconfigure",
    ]


def test_any_change_of_slurmdbd_conf_restarts_slurmdbd_and_hides_the_password() -> None:
    found = differences("slurmdbd.conf", "StoragePass=old\n", "StoragePass=sesame\n", "26.05")

    assert found.effect is Effect.RESTART_SLURMDBD
    assert "sesame" not in str(found) + found.sentence


@pytest.mark.parametrize("file", ["gres.conf", "topology.conf", "mpi.conf", "acct_gather.conf", "job_container.conf"])
def test_other_files_take_a_reconfigure(file: str) -> None:
    found = differences(file, "", "Name=gpu Count=1\n", "26.05")

    assert found.effect is Effect.RECONFIGURE


def test_every_exception_is_a_key_that_exists() -> None:
    for file, keys in EXCEPTIONS.items():
        for key in keys:
            assert any(find(key_table(version).files[file].settings, key) for version in VERSIONS), key


def test_the_effect_of_a_key_does_not_depend_on_its_case() -> None:
    assert effect_of("slurm.conf", "CLUSTERNAME")[0] is Effect.DRAIN
    assert effect_of("slurm.conf", "MinJobAge") == (Effect.RECONFIGURE, "")
