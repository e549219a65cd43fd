"""What an answer means: the errors inside it first, then its content. Pure: bytes in, values or errors out.

HTTP status and content are both looked at: slurmrestd puts errors into an HTTP 200, and 24.11 answers 500 to what is
only a wrong name. Whoever gets an answer from here has one without errors.
"""

from typing import TypeVar

import msgspec

from corral.slurm.errors import (
    Busy,
    Forbidden,
    Garbled,
    Invalid,
    NotFound,
    Part,
    Problem,
    Refusal,
    ServerError,
    SlurmError,
    Subject,
    Unauthorized,
    Unreachable,
    WrongState,
)
from corral.slurm.transport import Response


class WireProblem(msgspec.Struct):
    description: str | None = ""
    error_number: int | None = 0
    error: str | None = ""
    source: str | None = ""


class WireSlurm(msgspec.Struct):
    release: str | None = ""
    cluster: str | None = ""


class WireMeta(msgspec.Struct):
    slurm: WireSlurm | None = None


class Envelope(msgspec.Struct, kw_only=True):
    """What every answer has."""

    meta: WireMeta | None = None
    errors: list[WireProblem] | None = None


E = TypeVar("E", bound=Envelope)

# By Slurm's own numbers; what is in no row goes by the HTTP status.
_BY_NUMBER: dict[int, type[Refusal]] = {
    1007: Unauthorized,  # protocol authentication
    2002: Forbidden,  # access denied
    2010: Forbidden,  # user id
    2016: Busy,
    2017: NotFound,  # job
    2018: NotFound,  # node
    2028: WrongState,
    2180: WrongState,
    **dict.fromkeys(range(9000, 9300), Invalid),  # slurmrestd itself, and its reader of our bodies
}
_PARTS: dict[int, Part] = {
    **dict.fromkeys((1001, 1002, 1003, 1004, 1800, 1801, 1802, 1803, 1804, 1811, 5004), "slurmctld"),
    7000: "slurmdbd",
}
_BY_STATUS: dict[int, type[Refusal]] = {401: Unauthorized, 403: Forbidden, 404: NotFound, 511: Unauthorized}
_BEGINNING_CHARS = 80


class NoSuchPath(SlurmError):
    """404 from the server's own routing: it is not the version that we negotiated with."""


def decoded(response: Response, shape: type[E], subject: Subject) -> E:
    """The answer, when it has no errors in it."""
    try:
        answer = msgspec.json.decode(response.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if response.status >= 400:
            raise _refusal(response.status, (), subject) from None
        raise Garbled(subject, f"HTTP {response.status}, {len(response.body)} bytes: {_safe(error)}") from None
    problems = tuple(_problem(wire) for wire in answer.errors or ())
    if problems or response.status >= 400:
        raise _refusal(response.status, problems, subject)
    return answer


def _refusal(status: int, problems: tuple[Problem, ...], subject: Subject) -> SlurmError:
    said = "; ".join(str(problem) for problem in problems) or f"HTTP {status}"
    for problem in problems:
        if part := _PARTS.get(problem.number):
            return Unreachable(subject, f"{part} does not answer slurmrestd: {said}", part=part)
    if status == 404 and not problems:
        return NoSuchPath(subject, "slurmrestd does not know the path")
    for problem in reversed(problems):  # the last is slurmctld's; those before it are slurmrestd's on the way
        if kind := _BY_NUMBER.get(problem.number):
            return kind(subject, said, status=status, problems=problems)
    if problems and status == 200 and subject.name and all(problem.number == 0 for problem in problems):
        return NotFound(subject, said, status=status, problems=problems)
    kind = _BY_STATUS.get(status, Invalid if 400 <= status < 500 else ServerError)
    return kind(subject, said, status=status, problems=problems)


def _problem(wire: WireProblem) -> Problem:
    number = wire.error_number or 0
    texts = (wire.description, wire.error if number else "")
    return Problem(number, ": ".join(text for text in texts if text) or "no reason given", wire.source or "")


def _safe(error: Exception) -> str:
    """msgspec says expected, got and path, and quotes nothing; anything else might."""
    return str(error)[:_BEGINNING_CHARS] if isinstance(error, msgspec.DecodeError) else type(error).__name__
