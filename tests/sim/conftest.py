"""Of the logs nothing: rendering them would cost more than the simulation. How many seeds ran is told at the end."""

import logging

import pytest
import structlog

from corral.engine.logs import of_this_pass

SEEDS_RAN = "seeds that ran"  # a property of a test, which comes from whatever worker ran it


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    quiet()


def quiet() -> None:
    structlog.configure(
        processors=[of_this_pass, structlog.processors.KeyValueRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
        logger_factory=structlog.PrintLoggerFactory(),
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for report in terminalreporter.getreports("passed") if report.when == "call"]
    if ran := sum(int(told) for report in reports for name, told in report.user_properties if name == SEEDS_RAN):
        terminalreporter.write_line(f"simulation of NodeSets: {ran} seeds ran")
