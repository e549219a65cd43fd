"""Of the engine's logs only errors reach pytest's capture: rendering the rest would cost more than most tests."""

import logging

import pytest
import structlog

from corral.engine.logs import of_this_pass


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    structlog.configure(
        processors=[of_this_pass, structlog.processors.KeyValueRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(),
    )
