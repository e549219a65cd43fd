"""Whether a request that failed is sent again, and after how long. Pure: time and luck are arguments.

A repeat must be harmless. The verbs choose from this table:

| verb                                   | repeats  | because                                                       |
|----------------------------------------|----------|---------------------------------------------------------------|
| get, list, dry runs                    | HARMLESS | nothing changes                                               |
| apply                                  | HARMLESS | the same fields by the same owner give the same object; with  |
|                                        |          | a version the repeat meets Conflict, and the caller looks     |
| merge patch                            | HARMLESS | setting a field twice to one value is setting it once         |
| delete, evict, JSON patch with a guard | HARMLESS | after a lost answer the repeat meets Conflict or NotFound;    |
|                                        |          | the caller observes again and finds it done                   |
| create, act; last row without a guard  | UNSENT   | the first may have been carried out                           |
| watch, logs, exec                      | (never)  | the caller knows where to resume                              |

429 means that the server put the request aside before it looked at it, so any verb may be repeated; except an eviction
that a disruption budget forbids, which is an answer. 503 and timeouts say nothing about whether it was carried out.
"""

import enum

from corral.kube.errors import ApiError, KubeError, ServerError, ServerTimeout, TooManyRequests, Unreachable

ATTEMPTS_MAX = 5
PAUSE_S_FIRST = 0.1
PAUSE_S_MAX = 3.0
RETRY_AFTER_S_MAX = 10.0  # told to wait longer, we say so to the caller, who has better things to do meanwhile


class Repeat(enum.Enum):
    HARMLESS = enum.auto()
    UNSENT = enum.auto()


def pause_s(error: KubeError, repeat: Repeat, *, attempts: int, left_s: float, luck: float) -> float | None:
    """Seconds to wait before the next attempt, or None when this error is the answer. `luck` is from [0, 1)."""
    if attempts >= ATTEMPTS_MAX or not _may_repeat(error, repeat):
        return None
    told_s = error.retry_after_s if isinstance(error, ApiError) else None
    if told_s is not None and told_s > RETRY_AFTER_S_MAX:
        return None
    backoff_s = min(PAUSE_S_MAX, PAUSE_S_FIRST * 2 ** (attempts - 1))
    wait_s = (told_s or 0.0) + backoff_s * (0.5 + luck / 2)  # never sooner than told, never all at once
    return wait_s if wait_s < left_s else None


def _may_repeat(error: KubeError, repeat: Repeat) -> bool:
    match error:
        case TooManyRequests(causes=causes):
            return all(cause.reason != "DisruptionBudget" for cause in causes)
        case Unreachable(sent=sent):
            return repeat is Repeat.HARMLESS or not sent
        case ServerTimeout():
            return repeat is Repeat.HARMLESS
        case ServerError(status=status, retry_after_s=retry_after_s):
            return repeat is Repeat.HARMLESS and (status in (502, 503) or retry_after_s is not None)
    return False
