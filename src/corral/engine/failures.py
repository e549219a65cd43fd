"""What an error means for an action, an attempt and the object's conditions. Pure: one table, in words for people.

refused   the world is not as we thought, or said "not now"; looking again is the remedy
failed    it went wrong
stalled   a retry cannot help: a person must act. It is tried again all the same, slowly, since that person may.
"""

import msgspec

from corral.engine.reconciler import Problem, ResultState
from corral.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    CredentialsError,
    Forbidden,
    Garbled,
    Invalid,
    KubeError,
    NotFound,
    Refused,
    ServerError,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

STALLED_RETRY_S = 300.0
DEFINITION_RETRY_S = 10.0  # one that is deleted is gone within seconds, and often comes back: an upgrade by hand
DEFINITION_GOES = "not allowed while custom resource definition is terminating"  # the server gives no other sign
CAUSES_SHOWN_MAX = 5


class Failure(msgspec.Struct, frozen=True):
    state: ResultState
    problem: Problem


def failure_of(error: KubeError) -> Failure:
    match error:
        case Conflict() | AlreadyExists():
            return Failure("refused", Problem(reason="Conflict", message=f"{error}; retrying"))
        case Refused():
            return Failure("refused", Problem(reason="MayNotWrite", message=str(error)))
        case NotFound():
            return Failure("refused", Problem(reason="NotFound", message=f"{error}; retrying", alone=True))
        case TooManyRequests():
            return Failure(
                "refused", Problem(reason="TooManyRequests", message=str(error), retry_after_s=error.retry_after_s)
            )
        case Invalid() if any(cause.field == "metadata.uid" for cause in error.causes):
            # An apply that carries the uid of an object that was replaced meanwhile: the server calls it immutable.
            return Failure("refused", Problem(reason="Conflict", message=f"{error}; retrying"))
        case Invalid():
            return _stalled("Invalid", f"{error.subject}: rejected by the API server: {_causes(error)}")
        case Forbidden() if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            return Failure(
                "refused", Problem(reason="NamespaceTerminating", message=str(error), retry_after_s=STALLED_RETRY_S)
            )
        case Forbidden() if DEFINITION_GOES in error.message:
            return Failure(
                "refused",
                Problem(reason="KindTerminating", message=str(error), alone=True, retry_after_s=DEFINITION_RETRY_S),
            )
        case Forbidden():
            return _stalled("Forbidden", str(error))
        case Unauthorized() | CredentialsError():
            return Failure("failed", Problem(reason="Unauthorized", message=str(error)))
        case Unreachable():
            return Failure("failed", Problem(reason="Unreachable", message=str(error)))
        case ServerTimeout() | ServerError():
            return Failure(
                "failed", Problem(reason="ServerError", message=str(error), retry_after_s=error.retry_after_s)
            )
        case Garbled():
            return Failure("failed", Problem(reason="Garbled", message=str(error)))
        case _:
            return Failure("failed", Problem(reason="Error", message=str(error)))


def _stalled(reason: str, message: str) -> Failure:
    """A person must act; that the server refuses this one says nothing about the others."""
    problem = Problem(reason=reason, message=message, stalled=True, alone=True, retry_after_s=STALLED_RETRY_S)
    return Failure("failed", problem)


def _causes(error: ApiError) -> str:
    """By field, as the server gives them; its message repeats them in one long line, so either is enough."""
    if not error.causes:
        return error.message
    shown = "; ".join(f"{cause.field}: {cause.message}" for cause in error.causes[:CAUSES_SHOWN_MAX])
    more = len(error.causes) - CAUSES_SHOWN_MAX
    return shown + (f"; and {more} more" if more > 0 else "")
