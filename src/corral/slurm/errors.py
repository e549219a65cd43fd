"""What can go wrong when we speak to slurmrestd, and what the caller does about it.

SlurmError
    TokenUnavailable   no token could be had; nothing was sent            report; the issuer's trouble is in the message
    Unreachable        no answer, from slurmrestd or from who is behind   what it would have said is unknown; try later
                       it (`part`): refused, reset, deadline passed
    Unsupported        this API version cannot do it; nothing was sent    run `command` beside slurmctld instead
    Garbled            an answer that cannot be decoded                   our bug or theirs: keep the start of the bytes
    Refusal            it answered, and the answer is no, whatever the HTTP status (often 200)
        NotFound       no such node, job, partition, reservation          often fine: it is gone
        Busy           the node has jobs                                  observe again, wait for them
        WrongState     nothing leads there from the node's state          observe again: it is often done already
        Unauthorized   the token was not accepted                         the key was changed? report; slow retry
        Forbidden      the token's user may not do it                     report
        Invalid        a field or value was not accepted                  report; a repeat cannot help
        ServerError    anything else                                      try again later

Every error names cluster, verb and object; none has a token or a body in it. Nothing of aiohttp, ssl, jwt or msgspec
escapes `corral.slurm`.
"""

from typing import Literal

import msgspec

Part = Literal["slurmrestd", "slurmctld", "slurmdbd"]


class Subject(msgspec.Struct, frozen=True):
    """What a call was about; every error carries one."""

    cluster: str
    verb: str
    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"cluster {self.cluster}: {self.verb} {self.kind}" + (f" {self.name}" if self.name else "")


class Problem(msgspec.Struct, frozen=True):
    """One entry of an answer's `errors`."""

    number: int
    text: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.number})" if self.number else self.text


class SlurmError(Exception):
    def __init__(self, subject: Subject, message: str) -> None:
        super().__init__(f"{subject}: {message}")
        self.subject = subject
        self.message = message


class TokenUnavailable(SlurmError):
    pass


class Unreachable(SlurmError):
    """`sent` is False only when it is certain that no byte of the request left us: then any verb may be repeated."""

    def __init__(self, subject: Subject, message: str, *, sent: bool = True, part: Part = "slurmrestd") -> None:
        super().__init__(subject, message)
        self.sent = sent
        self.part = part


class Unsupported(SlurmError):
    """`command` does the same beside slurmctld, as an argument list; empty when nothing does."""

    def __init__(self, subject: Subject, message: str, *, command: tuple[str, ...]) -> None:
        super().__init__(subject, f"{message}; run: {' '.join(command)}" if command else message)
        self.command = command


class Garbled(SlurmError):
    pass


class Refusal(SlurmError):
    def __init__(self, subject: Subject, message: str, *, status: int, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(subject, message)
        self.status = status
        self.problems = problems


class NotFound(Refusal):
    pass


class Busy(Refusal):
    pass


class WrongState(Refusal):
    pass


class Unauthorized(Refusal):
    pass


class Forbidden(Refusal):
    pass


class Invalid(Refusal):
    pass


class ServerError(Refusal):
    pass
