"""How `make test` shares the cluster tests between workers, each of which has a cluster of its own.

A file is one lane: its tests run one after another in one worker. Files that look at the whole machine, and those
whose processes they would see there, are one lane together. What takes longest begins first: the workers end together.
"""

from typing import Final

MACHINE: Final = "the machine"
OF_THE_MACHINE: Final = (
    "tests/e2e/test_cluster_life.py",
    "tests/e2e/test_up.py",
    "tests/e2e/test_cluster_use.py",
    "tests/e2e/test_cluster_refusals.py",
    "tests/e2e/test_login.py",  # on a fresh machine it installs a package
    "tests/integration/test_informer_real.py",  # it has a cluster of its own
    "tests/integration/test_slurm_config.py",
    "tests/integration/test_slurm_config_files.py",
    "tests/integration/test_slurm_config_hostlist.py",
    "tests/integration/test_slurm_model.py",
    "tests/integration/test_slurm_rest.py",
)
LONGEST_FIRST: Final = (
    *OF_THE_MACHINE,
    "tests/e2e/test_kills.py",
    "tests/e2e/test_guests.py",
    "tests/e2e/test_chaos.py",
    "tests/e2e/test_first_job.py",
    "tests/e2e/test_nodes.py",
    "tests/e2e/test_commands_slurm.py",
    "tests/e2e/test_keys.py",
    "tests/e2e/test_upgrade.py",
    "tests/e2e/test_deletion.py",
    "tests/e2e/test_configuration.py",
)


def lane_of(test: str) -> str:
    file = test.partition("::")[0]
    return MACHINE if file in OF_THE_MACHINE else file


def turn_of(test: str) -> int:
    """Tests with a smaller one begin earlier."""
    file = test.partition("::")[0]
    return LONGEST_FIRST.index(file) if file in LONGEST_FIRST else len(LONGEST_FIRST)
