"""The arithmetic of the figures: medians, ratios, verdicts."""

import pytest

from bench.claims import Claim, Comparison, Finding, Run, bound_text, figure_text, number, spread_text, value


def a_claim(*, bound: float | None = 1.3, strictly: bool = False, compare: Comparison = "ratio") -> Claim:
    return Claim(
        key="k", title="t", unit="x", bound=bound, strictly=strictly, compare=compare,
        measured="m", measured_unit="s", baseline="b",
    )  # fmt: skip


def runs(*pairs: tuple[float, float]) -> tuple[Run, ...]:
    return tuple(Run(measured, baseline) for measured, baseline in pairs)


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        pytest.param("ratio", 1.5, id="times the baseline"),
        pytest.param("difference", 1.0, id="more than the baseline"),
        pytest.param("itself", 3.0, id="without a baseline"),
    ],
)
def test_a_run_is_compared_with_the_baseline_beside_it(compare: Comparison, expected: float) -> None:
    assert value(compare, Run(3.0, 2.0)) == expected


def test_the_figure_is_the_median_of_the_ratios_and_not_the_ratio_of_the_medians() -> None:
    finding = Finding(claim=a_claim(), runs=runs((1, 1), (10, 5), (9, 3)))

    assert finding.figure == 2.0
    assert finding.measured / finding.baseline == 3.0


@pytest.mark.parametrize(
    ("measured", "strictly", "holds"),
    [
        pytest.param(1.3, False, True, id="at the bound, which may be reached"),
        pytest.param(1.3, True, False, id="at the bound, which may not be reached"),
        pytest.param(1.29, True, True, id="below the bound"),
        pytest.param(1.31, False, False, id="above the bound"),
    ],
)
def test_a_bound_is_kept(measured: float, strictly: bool, holds: bool) -> None:
    assert Finding(claim=a_claim(strictly=strictly), runs=runs((measured, 1.0))).holds is holds


def test_a_figure_without_a_bound_misses_none() -> None:
    finding = Finding(claim=a_claim(bound=None), runs=runs((99, 1)))

    assert finding.holds
    assert bound_text(finding.claim) == ""


def test_one_slow_run_of_five_does_not_miss_a_bound() -> None:
    finding = Finding(claim=a_claim(), runs=runs((1, 1), (1.1, 1), (1.2, 1), (1.2, 1), (9, 1)))

    assert finding.holds
    assert (figure_text(finding), spread_text(finding)) == ("1.2 x", "1 to 9")


@pytest.mark.parametrize(
    ("amount", "text"), [(0.0, "0"), (0.0123456, "0.0123"), (1.2345, "1.23"), (25.0, "25"), (12345.6, "12,346")]
)
def test_numbers_read_as_people_write_them(amount: float, text: str) -> None:
    assert number(amount) == text
