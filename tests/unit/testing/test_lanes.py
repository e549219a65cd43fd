"""Which tests share a worker, and which begin first."""

from pathlib import Path

import pytest

from corral.testing.cluster import running_cluster
from tests.lanes import LONGEST_FIRST, OF_THE_MACHINE, lane_of, turn_of

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("file", LONGEST_FIRST)
def test_every_file_that_is_named_is_there(file: str) -> None:
    assert (CHECKOUT / file).is_file()


def test_whatever_makes_processes_in_namespaces_is_of_the_machine() -> None:
    makers = ("corral.testing.slurmpods", "corral.testing.slurmroots", "corral.testing.hosttraces")
    files = [*CHECKOUT.glob("tests/integration/test_*.py"), *CHECKOUT.glob("tests/e2e/test_*.py")]
    found = {str(file.relative_to(CHECKOUT)) for file in files if any(maker in file.read_text() for maker in makers)}
    assert found <= set(OF_THE_MACHINE)


def test_tests_of_a_file_share_a_lane_and_so_do_all_files_of_the_machine() -> None:
    assert lane_of("tests/e2e/test_login.py::test_a[x]") == lane_of("tests/e2e/test_login.py::test_b")
    assert len({lane_of(f"{file}::test_a") for file in OF_THE_MACHINE}) == 1
    assert lane_of("tests/e2e/test_login.py::test_a") != lane_of("tests/e2e/test_keys.py::test_a")


def test_long_files_begin_before_those_nobody_has_measured() -> None:
    tests = ["tests/e2e/test_plugin.py::test_a", "tests/e2e/test_chaos.py::test_a", "tests/e2e/test_kills.py::test_a"]
    assert sorted(tests, key=turn_of) == [*reversed(tests[1:]), tests[0]]


def test_workers_do_not_share_somebodys_cluster() -> None:
    environment = {"CORRAL_TEST_KUBECONFIG": "/their/config", "PYTEST_XDIST_WORKER": "gw1"}
    with pytest.raises(AssertionError, match="which workers cannot share: use -n 0"), running_cluster(environment):
        pass
