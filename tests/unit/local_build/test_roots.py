import pytest

from corral.local.roots import obstacle


@pytest.mark.parametrize(
    ("is_root", "has_mmdebstrap", "said"),
    [
        pytest.param(True, True, "", id="nothing is in the way"),
        pytest.param(False, True, "only root can do that: run the same command with sudo", id="no root"),
        pytest.param(False, False, "only root can do that: run the same command with sudo", id="root brings the rest"),
        pytest.param(True, False, "mmdebstrap is not installed: apt install mmdebstrap", id="no mmdebstrap"),
    ],
)
def test_what_keeps_a_root_folder_from_being_made_is_told_with_the_way_out(
    is_root: bool, has_mmdebstrap: bool, said: str
) -> None:
    assert obstacle(is_root=is_root, has_mmdebstrap=has_mmdebstrap) == said
