"""Which failure is followed by another attempt, and when: a table."""

import pytest

from corral.kube.errors import (
    ApiError,
    Cause,
    Conflict,
    Garbled,
    Invalid,
    KubeError,
    NotFound,
    Refused,
    ServerError,
    ServerTimeout,
    Subject,
    TooManyRequests,
    Unreachable,
)
from corral.kube.retry import ATTEMPTS_MAX, PAUSE_S_MAX, RETRY_AFTER_S_MAX, Repeat, pause_s

ABOUT = Subject("get", "Pod", "lab", "web")


def api(
    cls: type[ApiError], status: int, retry_after_s: float | None = None, causes: tuple[Cause, ...] = ()
) -> ApiError:
    return cls(ABOUT, "no", status=status, retry_after_s=retry_after_s, causes=causes)


def pause(
    error: KubeError, repeat: Repeat, *, attempts: int = 1, left_s: float = 30.0, luck: float = 0.0
) -> float | None:
    return pause_s(error, repeat, attempts=attempts, left_s=left_s, luck=luck)


@pytest.mark.parametrize(
    ("error", "harmless", "unsent"),
    [
        pytest.param(Unreachable(ABOUT, "reset", sent=True), True, False, id="no answer"),
        pytest.param(Unreachable(ABOUT, "refused", sent=False), True, True, id="never sent"),
        pytest.param(api(TooManyRequests, 429), True, True, id="put aside by the server"),
        pytest.param(api(ServerTimeout, 504), True, False, id="server timeout"),
        pytest.param(api(ServerError, 503), True, False, id="unavailable"),
        pytest.param(api(ServerError, 500), False, False, id="internal error"),
        pytest.param(api(ServerError, 500, retry_after_s=1), True, False, id="internal error that says when"),
        pytest.param(api(Conflict, 409), False, False, id="conflict"),
        pytest.param(api(NotFound, 404), False, False, id="not found"),
        pytest.param(api(Invalid, 422), False, False, id="invalid"),
        pytest.param(Garbled(ABOUT, "?"), False, False, id="garbled"),
        pytest.param(Refused(ABOUT, "fence"), False, False, id="fenced off"),
    ],
)
def test_an_error_is_followed_by_another_attempt(error: KubeError, harmless: bool, unsent: bool) -> None:
    assert (pause(error, Repeat.HARMLESS) is not None) == harmless
    assert (pause(error, Repeat.UNSENT) is not None) == unsent


def test_an_eviction_that_a_budget_forbids_is_an_answer() -> None:
    error = api(TooManyRequests, 429, retry_after_s=10, causes=(Cause("", "budget", "DisruptionBudget"),))

    assert pause(error, Repeat.HARMLESS) is None


def test_the_pause_is_never_shorter_than_told() -> None:
    waited = pause(api(TooManyRequests, 429, retry_after_s=3), Repeat.HARMLESS)

    assert waited is not None
    assert waited >= 3


def test_a_pause_longer_than_we_wait_is_left_to_the_caller() -> None:
    assert pause(api(TooManyRequests, 429, retry_after_s=RETRY_AFTER_S_MAX + 1), Repeat.HARMLESS) is None


def test_pauses_double_up_to_a_bound_and_spread() -> None:
    error = Unreachable(ABOUT, "reset")
    lucky = [pause(error, Repeat.HARMLESS, attempts=n, luck=0.0) for n in range(1, ATTEMPTS_MAX)]
    unlucky = [pause(error, Repeat.HARMLESS, attempts=n, luck=0.999) for n in range(1, ATTEMPTS_MAX)]

    assert lucky == [0.05, 0.1, 0.2, 0.4]
    assert all(a is not None and b is not None and a < b <= PAUSE_S_MAX for a, b in zip(lucky, unlucky, strict=True))


def test_attempts_are_bounded() -> None:
    assert pause(Unreachable(ABOUT, "reset"), Repeat.HARMLESS, attempts=ATTEMPTS_MAX) is None


def test_no_pause_reaches_beyond_the_deadline() -> None:
    assert pause(api(TooManyRequests, 429, retry_after_s=3), Repeat.HARMLESS, left_s=3) is None
