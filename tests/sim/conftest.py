"""Of the logs nothing: rendering them would cost more than the simulation. How many seeds ran is told at the end."""

import logging

import pytest
import structlog

from corral.engine.logs import of_this_pass

RAN: pytest.StashKey[list[int]] = pytest.StashKey()


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    quiet()


def quiet() -> None:
    structlog.configure(
        processors=[of_this_pass, structlog.processors.KeyValueRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
        logger_factory=structlog.PrintLoggerFactory(),
    )


@pytest.fixture
def seeds_that_ran(pytestconfig: pytest.Config) -> list[int]:
    return pytestconfig.stash.setdefault(RAN, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if ran := config.stash.get(RAN, []):
        terminalreporter.write_line(f"simulation of NodeSets: {len(ran)} seeds ran")
