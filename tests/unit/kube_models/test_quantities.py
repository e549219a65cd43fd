from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.kube.values import canonical_quantity, format_quantity, parse_quantity

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e-3", "E6")

numbers = st.from_regex(r"-?[0-9]{1,9}(\.[0-9]{0,6})?", fullmatch=True)
quantities = st.builds("{}{}".format, numbers, st.sampled_from(SUFFIXES))


@given(quantities)
def test_the_canonical_text_means_the_same_amount(quantity: str) -> None:
    assert parse_quantity(canonical_quantity(quantity)) == parse_quantity(quantity)


@given(quantities)
def test_a_canonical_text_is_its_own_canonical_text(quantity: str) -> None:
    once = canonical_quantity(quantity)

    assert canonical_quantity(once) == once


@given(st.integers(min_value=1 - 2**63, max_value=2**63 - 1), st.booleans())
def test_a_whole_amount_survives_being_written_and_read(amount: int, binary: bool) -> None:
    assert parse_quantity(format_quantity(amount, binary=binary)) == amount


@pytest.mark.parametrize(
    ("quantity", "canonical"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        (4, "4"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("100000", "100k"),
        ("123456", "123456"),
        ("1e3", "1e3"),
        ("1000e0", "1e3"),
        ("12E2", "1200"),
        ("0Gi", "0"),
        ("-1500m", "-1500m"),
        ("1.1Ki", "1126400m"),
        (" 2Gi ", "2Gi"),
    ],
)
def test_the_canonical_text_is_what_the_server_writes(quantity: int | str, canonical: str) -> None:
    assert canonical_quantity(quantity) == canonical


def test_an_amount_below_a_billionth_is_rounded_away_from_zero() -> None:
    assert parse_quantity("0.1n") == Decimal("1e-9")
    assert parse_quantity("-0.1n") == Decimal("-1e-9")


def test_a_binary_amount_ends_at_64_bits() -> None:
    assert parse_quantity("9999999999Ei") == 2**63 - 1


@pytest.mark.parametrize("wrong", ["", "Gi", "1 Gi", "1KB", "1e", "1e999999999", "0x10", "1,5", "--1", "1ki"])
def test_what_is_no_quantity_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"expected a quantity like 500m, 2Gi or 4, got"):
        parse_quantity(wrong)
