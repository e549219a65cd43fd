"""Structured logs: one constant event a line, variables as pairs, the reconcile id on everything a pass says.

Nothing that an object holds can reach a log: only names, numbers, versions, reasons and sentences are taken. A value of
any other type is replaced by the name of its type, so a Secret passed by mistake is logged as `<Secret>`. Of a bug the
log has the stack, and the message only when the exception is ours: a stranger's message may quote what it choked on.
"""

import itertools
import json
import logging
import secrets
import sys
import traceback
from collections.abc import MutableMapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, TextIO

import msgspec
import structlog

from corral.engine.store import Key
from corral.kube.meta import ObjectRef

LogFormat = Literal["json", "console"]

PLAIN = (str, int, float, bool, type(None), datetime)
NAMES = (Key, ObjectRef)


def configure(*, form: LogFormat = "json", stream: TextIO | None = None) -> None:
    """Once, at the start of a program. A library that uses the engine may configure structlog as it likes."""
    render: structlog.types.Processor = (
        structlog.processors.JSONRenderer(serializer=_json) if form == "json" else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            of_this_pass,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_plain_values,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )


def begin_pass(controller: str, key: Key) -> None:
    """From here on what this task logs bears the controller, the key and an id of this pass."""
    _PASS.set((controller, key, next(_NUMBERS)))


def of_this_pass(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    of = _PASS.get()
    if of is not None:
        controller, key, number = of
        event.update(controller=controller, key=event.get("key", key), reconcile_id=f"{_PROCESS}-{number:x}")
    return event


_PASS: ContextVar[tuple[str, Key, int] | None] = ContextVar("pass", default=None)
_PROCESS = secrets.token_hex(4)
_NUMBERS = itertools.count(1)


def _json(event: object, **_options: object) -> str:
    try:
        return msgspec.json.encode(event).decode()
    except UnicodeEncodeError:  # half a surrogate pair, as in a file's name that is no UTF-8
        return json.dumps(event)


def only_plain_values(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: _plain(value) for name, value in event.items()}


def _plain(value: object) -> object:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, NAMES):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(item, PLAIN + NAMES) for item in value):
        return [_plain(item) for item in value]
    return f"<{type(value).__name__}>"


def described(error: BaseException) -> dict[str, str]:
    """What a log may have of an exception, without the values that it happened to."""
    said = {"error": type(error).__name__, "stack": "".join(traceback.format_tb(error.__traceback__))}
    return {**said, "message": str(error)} if type(error).__module__.startswith("corral.") else said


def logger(**bound: str) -> structlog.stdlib.BoundLogger:
    log: structlog.stdlib.BoundLogger = structlog.get_logger(**bound)
    return log
