"""Logs of the engine's tests go to pytest's capture as plain lines: a formatted traceback costs more than most tests."""

import pytest
import structlog


@pytest.fixture(autouse=True)
def plain_logs() -> None:
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.KeyValueRenderer()],
        logger_factory=structlog.PrintLoggerFactory(),
    )
