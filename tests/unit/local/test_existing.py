import pytest

from corral.local.existing import is_new_enough


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1.33.0", True), ("v1.36.3", True), ("v2.0.1", True), ("v1.32.9", False), ("v1.33.2+k3s1", True), ("?", False)],
)
def test_versions_from_1_33_on_are_new_enough(version: str, expected: bool) -> None:
    assert is_new_enough(version) is expected
