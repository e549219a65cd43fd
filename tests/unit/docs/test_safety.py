"""Every test that docs/safety.md names is there."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("path", "name"), NAMED.findall((CHECKOUT / "docs/safety.md").read_text()))
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (CHECKOUT / path).read_text(), re.MULTILINE), f"{path} has no {name}"


def test_every_row_names_one() -> None:
    rows = [line for line in (CHECKOUT / "docs/safety.md").read_text().splitlines() if line.startswith("| ")]
    assert [row for row in rows if not NAMED.search(row) and not row.endswith("| here |")] == []
