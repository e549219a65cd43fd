"""Of the engine's logs only errors reach pytest's capture: rendering the rest would cost more than most tests."""

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.KeyValueRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(),
    )
